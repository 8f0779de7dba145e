"""Means over a χ² ball: worst ratios of two, for all outputs and pairs, and the greatest of one with a dual bound.

The slack b = √(1+B) − 1 is the same for every pair [002, Thm 3]; `uncertainty.tilting.worst_pairs` searches all of them
at once, in about the time that a grid of eight splits of it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.optimise.arrays import Floats, Ints
from sfumato.uncertainty.stated import quotient
from sfumato.uncertainty.tilting import greatest_mean, worst_pairs

SUM_ROUNDING = 2.0**-48  # relative room for the rounding of a sum of a few thousand products

PairIndex = tuple[Ints, Ints, Ints]  # y, s1, s2


@dataclass(frozen=True, eq=False)
class PairBall:
    """The χ² ball F around p[s, u] with radius B, as privacy constraints see it."""

    p: Floats
    radius: float

    @cached_property
    def slack(self) -> float:
        """b = √(B+1) − 1, written without cancellation."""
        return float(self.radius / (np.sqrt(self.radius + 1.0) + 1.0))

    @cached_property
    def marginal(self) -> Floats:
        """P̂_s."""
        return np.asarray(self.p.sum(axis=1), dtype=np.float64)

    @cached_property
    def conditional(self) -> Floats:
        """P̂_{u|s}; rows of empty secrets are zero."""
        total = self.marginal[:, None]
        return np.divide(self.p, total, out=np.zeros_like(self.p), where=total > 0.0)

    @cached_property
    def centre(self) -> Floats:
        """P̂_{u|s} for searches: uniform for empty secrets, whose conditional is free anyway."""
        empty = self.marginal[:, None] <= 0.0
        return np.where(empty, 1.0 / self.p.shape[1], self.conditional)


@dataclass(frozen=True, slots=True)
class WorstPairs:
    """Greatest R1·Q(y|s1,·) / R2·Q(y|s2,·) of the listed pairs, with the members of F that attain it."""

    y: Ints
    s1: Ints
    s2: Ints
    ratio: Floats
    r1: Floats  # [k, u]
    r2: Floats  # [k, u]

    def __getitem__(self, which: Ints) -> WorstPairs:
        of_pairs = self.y[which], self.s1[which], self.s2[which]
        return WorstPairs(*of_pairs, self.ratio[which], self.r1[which], self.r2[which])

    def excess(self, q: Floats, e: float) -> Floats:
        """Per output the greatest N − e·M of these pairs, at least 0; q[y, s, u]."""
        found, side = np.zeros(len(q)), "ku,ku->k"
        over = np.einsum(side, self.r1, q[self.y, self.s1]) - e * np.einsum(side, self.r2, q[self.y, self.s2])
        np.maximum.at(found, self.y, over)
        return found


def exactly_at(ball: PairBall, q: Floats, y: Ints, s1: Ints, s2: Ints) -> WorstPairs:
    """The exact worst case of the listed pairs; at radius zero the ratio at P̂, for secrets that occur."""
    if ball.radius <= 0.0:
        r1, r2 = ball.conditional[s1], ball.conditional[s2]
        ratio = quotient(np.einsum("ku,ku->k", r1, q[y, s1]), np.einsum("ku,ku->k", r2, q[y, s2]))
        return WorstPairs(y, s1, s2, ratio, r1, r2)
    mass, centre = ball.marginal, ball.centre
    found = worst_pairs(q[y, s1], centre[s1], mass[s1], q[y, s2], centre[s2], mass[s2], ball.slack)
    return WorstPairs(y, s1, s2, found.ratio, found.first, found.second)


def all_pairs(ys: int, ss: int) -> PairIndex:
    """Every output with every ordered pair of different secrets."""
    y, s1, s2 = (x.ravel() for x in np.indices((ys, ss, ss)))
    keep = s1 != s2
    return y[keep], s1[keep], s2[keep]


def all_worst(ball: PairBall, q: Floats) -> WorstPairs:
    """The worst case of every pair of secrets, for every output that is sent; at radius zero of secrets that occur."""
    y, s1, s2 = all_pairs(*q.shape[:2])
    seen = (ball.marginal > 0.0) | (ball.radius > 0.0)
    keep = (q.max(axis=(1, 2))[y] > 0.0) & seen[s1] & seen[s2]
    return exactly_at(ball, q, y[keep], s1[keep], s2[keep])


def worst_per_output(ball: PairBall, q: Floats) -> Floats:
    """Greatest ratio of each output over pairs of secrets and F; an output never sent counts as 1."""
    found, worst = np.ones(len(q)), all_worst(ball, q)
    np.maximum.at(found, worst.y, worst.ratio)
    return found


def support(c: Floats, p: Floats, radius: float) -> tuple[float, Floats]:
    """max ⟨c, P⟩ over {P : Σ p²/P ≤ 1 + B} from above, by duality, and a P that attains it up to rounding.

    max = min_{μ ≥ max c} μ − (Σ p √(μ − c))²/(B + 1) [002, Thm 2, simplified]: any μ bounds it from above.
    """
    flat, centre = c.ravel(), p.ravel()
    if radius <= 0.0:
        return float(flat @ centre), p.copy()
    best = greatest_mean(flat[None, :], centre[None, :], np.array([1.0 + radius]))
    mu = max(float(best.tau[0]), float(flat.max()))
    dual = mu - float(centre @ np.sqrt(mu - flat)) ** 2 / (1.0 + radius)
    upper = min(dual + SUM_ROUNDING * max(abs(mu), float(np.abs(flat).max())), float(flat.max()))
    return max(upper, float(best.value[0])), best.r[0].reshape(p.shape)
