"""The most informative channel under a limit on maximal leakage, and under local differential privacy.

I(X;Y) is convex in Q and a sum over outputs of a function homogeneous in the row, so an optimum mixes extreme rows:

    maximal leakage   rows with max_x v_x = 1: subsets H, v = 1_H, worth P(H) log 1/P(H), total weight Σθ ≤ e^ℓ
    ε-LDP             rows in {1, e^ε}^X: subsets again, worth Σ p_x v_x log(v_x / p·v)

Either is a linear programme over subsets; both limits together are not of this form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import Floats
from sfumato.optimise.cover import best_cover
from sfumato.optimise.funnel.posteriors import as_matrix, conditional_gain, information
from sfumato.optimise.linear import INFINITY
from sfumato.optimise.repair import blended

MOST_INPUTS = 16  # 2^16 columns: beyond it a pricing step would be needed


@dataclass(frozen=True, slots=True, eq=False)
class MostInformation:
    """A channel within the level, I(X;Y) there, and a proved upper bound for every channel within the level."""

    channel: Floats
    value: float
    bound: float
    level: float


Level = Callable[[Floats], float]  # of a channel


def under_maximal_leakage(p: Floats, limit: float, level: Level) -> MostInformation:
    """max I(X;Y) subject to log Σ_y max_x Q(y|x) ≤ limit.

    Rows are θ·v with max v = 1, so v ∈ [0, 1]^X, a cube whose vertices are the indicators of subsets.
    """
    rows = _subsets(p.size)
    return _mixture(p, rows, limit, level, np.ones(len(rows)), float(np.exp(limit)))


def under_ldp(p: Floats, epsilon: float, level: Level) -> MostInformation:
    """max I(X;Y) over ε-LDP channels: a mixture of two-level rows."""
    return _mixture(p, 1 + _subsets(p.size) * np.expm1(epsilon), epsilon, level)


def _subsets(size: int) -> Floats:
    """Indicators of all nonempty subsets, a row each; the last is the whole set, a constant row."""
    if size > MOST_INPUTS:
        raise InputError(f"subsets are listed up to {MOST_INPUTS} inputs, got {size}.")
    numbers = np.arange(1, 2**size)
    return ((numbers[:, None] >> np.arange(size)) & 1).astype(np.float64)


def _mixture(
    p: Floats, rows: Floats, limit: float, level: Level, weight: Floats | None = None, most: float = INFINITY
) -> MostInformation:
    """The best mixture of rows that sums to 1 with Σ θ·weight ≤ most; rounding is paid by a touch of the law of Y."""
    size = rows.sum(axis=1)
    points = rows / size[:, None]
    spends = None if weight is None else weight / size
    cover = best_cover(np.ones(p.size), points, conditional_gain(p[None, :])(points), spends, most)
    channel = as_matrix(cover)
    channel = blended(channel, channel @ p, lambda q: level(q) <= limit)
    return MostInformation(channel, information(channel, p), cover.bound, level(channel))
