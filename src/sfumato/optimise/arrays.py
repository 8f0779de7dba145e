"""Array aliases, functions of arrays that every designer shares, and tolerances with their reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.tolerances import LEAST

# ----------------------------------------------------------------------------------------------------------------------
# Tolerances that several solvers share, each with its reason; what a search may try and how often stands with it.


SEALING = 1e-8  # nats left for the sealing of weights into integers, and what columns may miss of 1 before it
MARGIN = 1e-10  # nats below ε at which a repair aims where the level is searched for: the search is good to 1e-11
SUMMED = 1e-14  # the same where the level is a closed form: only sums in another order may differ
GHOST = 1e-7  # an output never sent with more than this probability is the dust of a solver [errata 002]
DUST = 1e-12  # of a mixture, a price or a column: below it a number stands for zero
TIDY = 1e-11  # of a posterior: digits that HiGHS has
SOLVED = 1e-10  # accuracy asked of Clarabel where its point is nearly the answer
REPAIRED = 1e-9  # the same, of HiGHS too, where mending or weak duality takes what is missing
EMPTY = 1e-9  # mass given to what never occurs, so that its conditional is free but its logarithm is not
TINY = LEAST  # in place of zero, under a logarithm or a division


# --- array aliases and the functions of arrays that every designer shares ---------------------------------------------


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def xlogx(x: Floats) -> Floats:
    """φ(x) = x log x with φ(0) = 0, elementwise; negative rounding dust counts as 0."""
    safe = np.where(x > 0.0, x, 1.0)
    return np.where(x > 0.0, x, 0.0) * np.log(safe)


def entropy(p: Floats) -> float:
    """H(p) = −Σ p log p in nats."""
    return -float(xlogx(p).sum())


def greatest_gap(high: Floats, low: Floats, factor: Any) -> Floats:
    """For each column max over i ≠ j of high[i] − factor·low[j]: the worst pair of secrets for each useful value.

    A factor of shape (…, 1) gives the gaps of many factors at once, (…, columns).
    """
    i, j = np.argmax(high, 0), np.argmin(low, 0)
    at = np.arange(high.shape[1])
    direct = high[i, at] - factor * low[j, at]
    top, bottom = high.copy(), low.copy()
    top[i, at], bottom[j, at] = -np.inf, np.inf
    crossed = np.maximum(top.max(0) - factor * low[j, at], high[i, at] - factor * bottom.min(0))
    return np.asarray(np.where(i == j, crossed, direct))


def canonical(p: Floats) -> tuple[Ints, Ints]:
    """Rows and columns by their shares, ties by what is in them and where: labels do not change this order."""

    def by(table: Floats) -> Ints:
        keys = np.sort(table, axis=1).round(15)
        return np.lexsort((*table.T[::-1], *keys.T, -table.sum(1).round(15)))

    rows, columns = by(np.sort(p, axis=1)), by(np.sort(p.T, axis=1))
    columns = columns[by(p[rows].T[columns])]
    return rows[by(p[rows][:, columns])], columns


# --- logarithms that know −∞ ------------------------------------------------------------------------------------------


def log_or_minus_infinity(values: Floats) -> Floats:
    """log v, with log 0 = −∞ and no warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def log_sum_exp(values: Floats, axis: int = -1) -> Floats:
    """log Σ exp(v) along an axis; −∞ for empty mass, +∞ if any entry is."""
    top = values.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.exp(values - safe).sum(axis=axis))
    return np.asarray(total + np.squeeze(safe, axis=axis), dtype=np.float64)
