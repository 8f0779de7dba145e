"""What every designer shares: array aliases and functions, tolerances with their reasons, and the repair of answers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sfumato.tolerances import UNIT

# --- tolerances that several solvers share, each with its reason; what a search may try and how often stands with it --


SEALING = 1e-8  # nats left for the sealing of weights into integers, and what columns may miss of 1 before it
MARGIN = 1e-10  # nats below ε at which a repair aims where the level is searched for: the search is good to 1e-11
SUMMED = 1e-14  # the same where the level is a closed form: only sums in another order may differ
GHOST = 1e-7  # an output never sent with more than this probability is the dust of a solver [errata 002]
DUST = 1e-12  # of a mixture, a price or a column: below it a number stands for zero
TIDY = 1e-11  # of a posterior: digits that HiGHS has
SOLVED = 1e-10  # accuracy asked of Clarabel where its point is nearly the answer
REPAIRED = 1e-9  # the same, of HiGHS too, where mending or weak duality takes what is missing
EMPTY = 1e-9  # mass given to what never occurs, so that its conditional is free but its logarithm is not


# --- array aliases and the functions of arrays that every designer shares ---------------------------------------------


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def xlogx(x: float | Floats) -> Floats:
    """φ(x) = x log x with φ(0) = 0, elementwise; negative rounding dust counts as 0."""
    return np.where(x > 0.0, x, 0.0) * np.log(np.where(x > 0.0, x, 1.0))


def information(q: Floats, p: Floats) -> float:
    """I(X;Y) in nats for a channel Q[y, x] and the law p of x."""
    return float((xlogx(q) @ p).sum() - xlogx(q @ p).sum())


def most_told(epsilon: float) -> float:
    """κ − 1 − log κ, κ = ε/(1 − e^{−ε}): the most that a channel with ratios up to e^ε carries, whatever comes in."""
    kappa = epsilon / -math.expm1(-epsilon) if epsilon > 0.0 else 1.0
    return max(0.0, kappa - 1.0 - math.log(kappa))


def canonical(p: Floats) -> tuple[Ints, Ints]:
    """Rows and columns by their shares, ties by what is in them and where: labels do not change this order."""

    def by(table: Floats) -> Ints:
        keys = np.sort(table, axis=1).round(15)
        return np.lexsort((*table.T[::-1], *keys.T, -table.sum(1).round(15)))

    rows, columns = by(np.sort(p, axis=1)), by(np.sort(p.T, axis=1))
    columns = columns[by(p[rows].T[columns])]
    return rows[by(p[rows][:, columns])], columns


def room(x: Floats, dx: Floats, keep: float) -> float:
    """The largest step ≤ 1 along dx that goes at most the fraction `keep` of the way to the boundary of x ≥ 0."""
    fall = -float((dx / x).min())
    return min(1.0, keep / fall) if fall > 0 else 1.0


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


# --- whole answers made private (rows: `cone.repaired`): as much of a constant law as that takes, and no more ---------
# A law that ignores its input lies strictly inside every promise with ε > 0, and levels fall on the way to it. The
# share is known where the promise is linear in a row (`lifted`), else found by trial (`least_share`).


FACTOR = 4.0  # between the shares that are tried first
NARROWINGS = 4  # of that factor afterwards: the share is then the least to a tenth, and it is small


def goal(epsilon: float, margin: float = MARGIN) -> float:
    """The level to aim at: a margin below ε, or half of a smaller ε."""
    return epsilon - min(margin, 0.5 * epsilon)


def mixed(q: Floats, add: Floats) -> Floats:
    """Q[y, x] with add[y] of a constant law in every row, columns summing to 1 again."""
    q = (q + add[:, None]) / (1.0 + add.sum())
    return np.asarray(q / q.sum(axis=0))


def lifted(q: Floats, excess: Callable[[Floats], Floats], rise: float) -> Floats | None:
    """Q[y, x] with every row lifted just enough that excess(Q)[y] ≤ 0, or None if it did not come to that.

    The excess of a row is the greatest of linear functions of it that fall by `rise` when 1 is added to every entry:
    for R1·Q(y|s1,·) ≤ e R2·Q(y|s2,·) that is e − 1. So m ≥ excess/rise pays for row y, and no row pays for another.
    Where rounding or a bound of the excess leaves a row just outside, twice as much is paid for what is missing. At a
    rise of 0 (ε = 0) nothing can be paid.
    """
    factor = 1.0
    while factor * UNIT < 1.0:
        over = excess(q)
        if not (over > 0.0).any():
            return q
        if rise <= 0.0:
            break
        need = np.where(over > 0.0, np.maximum(factor * over / rise, UNIT * q.max(axis=1)), 0.0)
        q, factor = mixed(q, need), factor * 2
    return None


def least_share(fits: Callable[[float], bool], first: float = UNIT) -> float:
    """The least share of a constant law with fits(share), to a tenth: 0 if nothing is missing, 1 if no less helps."""
    if fits(0.0):
        return 0.0
    low, high = 0.0, first
    while high < 1.0 and not fits(high):
        low, high = high, min(FACTOR * high, 1.0)
    for _ in range(NARROWINGS if low > 0.0 else 0):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def blended(q: Floats, safe: Floats, fits: Callable[[Floats], bool], first: float = UNIT) -> Floats:
    """(1 − η) Q + η R with the least share η that fits, for a law R of outputs, or R[y, x]."""
    safe = safe.reshape(len(q), -1)

    def blend(share: float) -> Floats:
        both = (1.0 - share) * q + share * safe
        return np.asarray(both / both.sum(axis=0))

    return blend(least_share(lambda share: fits(blend(share)), first))
