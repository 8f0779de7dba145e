"""One repair for every search: as much of a constant law as makes a nearly private answer private, and no more.

A law that ignores its input tells nothing, so it lies strictly inside every promise with ε > 0, and levels fall on the
way to it. Where the promise is linear in a row the share is known in closed form (`lifted`); where only the level can
be asked for it is found by trial (`least_share`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.optimise.arrays import MARGIN, Floats
from sfumato.tolerances import UNIT

FACTOR = 4.0  # between the shares that are tried first
HALVINGS = 4  # of that factor afterwards: the share is then the least to a tenth, and it is small


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
    for _ in range(HALVINGS if low > 0.0 else 0):
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
