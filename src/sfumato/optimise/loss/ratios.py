"""Means over a χ² ball: worst ratios of two, for all outputs and pairs, and the greatest of one with a dual bound.

The slack b = √(1+B) − 1 is the same for every pair [002, Thm 3], so the extremes of R·Q(y|s,·) on a grid of shares of
it are computed once per (y, s); the pairs that stand out get `uncertainty.tilting.worst_pairs`, the one exact search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.optimise.arrays import Floats, Ints
from sfumato.uncertainty.chi_square import greatest_mean, spread_of, worst_pairs
from sfumato.uncertainty.sets import quotient

GRID = 8
NEAR = 0.05  # a grid of eight understates a ratio by a few hundredths at most; pairs so close to the best are searched
FEW = 200  # pairs up to which all are searched: a grid would cost more
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


@dataclass(frozen=True, slots=True)
class SplitGrid:
    """The best split of every pair on the grid: its ratio, and where a parabola through its neighbours peaks."""

    ratio: Floats  # [y, s1, s2], 0 on s1 = s2
    angle: Floats  # the share of s1 is sin²
    excess: Floats  # [y]: greatest N − e·M, when e was given


def on_grid(ball: PairBall, q: Floats, e: float = 1.0) -> SplitGrid:
    """Ratios of all pairs at GRID splits; q[y, s, u]."""
    angle = (np.arange(GRID) + 0.5) * (0.5 * np.pi / GRID)
    shape = (*q.shape[:2], GRID)
    wide = np.broadcast_to(q[:, :, None, :], (*shape, q.shape[2]))
    centre = np.broadcast_to(ball.centre[None, :, None, :], wide.shape)
    mass = np.broadcast_to(ball.marginal[None, :, None], shape)
    top = greatest_mean(wide, centre, spread_of(ball.slack * np.sin(angle) ** 2, mass)).value
    bottom = -greatest_mean(-wide, centre, spread_of(ball.slack * np.cos(angle) ** 2, mass)).value
    ratios = quotient(top[:, :, None, :], np.maximum(bottom, 0.0)[:, None, :, :])
    same = np.eye(q.shape[1], dtype=bool)[None, :, :]
    gap = np.where(same[..., None], -np.inf, top[:, :, None, :] - e * bottom[:, None, :, :])
    split = ratios.argmax(axis=3)
    best = np.take_along_axis(ratios, split[..., None], axis=3)[..., 0]
    return SplitGrid(np.where(same, 0.0, best), _peak(ratios, split), np.asarray(gap.max(axis=(1, 2, 3))))


def _peak(ratios: Floats, split: Ints) -> Floats:
    """The angle where a parabola through three neighbouring points peaks; the point itself at the ends."""
    inner = np.clip(split, 1, GRID - 2)
    left, middle, right = (np.take_along_axis(ratios, (inner + i)[..., None], axis=3)[..., 0] for i in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        bend = left - 2.0 * middle + right
        shift = np.where(bend < 0.0, 0.5 * (left - right) / bend, 0.0)
    shift = np.where(np.isfinite(shift) & (inner == split), np.clip(shift, -1.0, 1.0), 0.0)
    return np.asarray((split + 0.5 + shift) * (0.5 * np.pi / GRID))


def at_angle(ball: PairBall, q: Floats, y: Ints, s1: Ints, s2: Ints, angle: Floats) -> WorstPairs:
    """Members of F at given splits: hardly worse than the exact ones when the angle is good."""
    sides = []
    for s, share, sign in ((s1, np.sin(angle) ** 2, 1.0), (s2, np.cos(angle) ** 2, -1.0)):
        sides.append(greatest_mean(sign * q[y, s], ball.centre[s], spread_of(ball.slack * share, ball.marginal[s])))
    return WorstPairs(y, s1, s2, quotient(sides[0].value, -sides[1].value), sides[0].r, sides[1].r)


def exactly_at(ball: PairBall, q: Floats, y: Ints, s1: Ints, s2: Ints) -> WorstPairs:
    """The exact worst case of the listed pairs; at radius zero the ratio at P̂, where empty secrets say nothing."""
    if ball.radius <= 0.0:
        r1, r2 = ball.conditional[s1], ball.conditional[s2]
        ratio = quotient(np.einsum("ku,ku->k", r1, q[y, s1]), np.einsum("ku,ku->k", r2, q[y, s2]))
        empty = (ball.marginal[s1] <= 0.0) | (ball.marginal[s2] <= 0.0)
        return WorstPairs(y, s1, s2, np.where(empty, 1.0, ratio), r1, r2)
    mass, centre = ball.marginal, ball.centre
    found = worst_pairs(q[y, s1], centre[s1], mass[s1], q[y, s2], centre[s2], mass[s2], ball.slack)
    return WorstPairs(y, s1, s2, found.ratio, found.first, found.second)


def all_pairs(ys: int, ss: int) -> PairIndex:
    """Every output with every ordered pair of different secrets."""
    y, s1, s2 = (x.ravel() for x in np.indices((ys, ss, ss)))
    keep = s1 != s2
    return y[keep], s1[keep], s2[keep]


def worst_per_output(ball: PairBall, q: Floats) -> Floats:
    """Greatest ratio of each output over pairs of secrets and F; an output never sent counts as 1."""
    ys, ss, _ = q.shape
    found = np.ones(ys)
    if ss < 2:
        return found
    y, s1, s2 = all_pairs(ys, ss)
    sent = q.max(axis=(1, 2))[y] > 0.0
    y, s1, s2 = y[sent], s1[sent], s2[sent]
    if ball.radius > 0.0 and len(y) > FEW:
        rough = on_grid(ball, q).ratio
        y, s1, s2 = np.nonzero(rough >= rough.max(axis=(1, 2), keepdims=True) * (1.0 - NEAR))
        y, s1, s2 = (x[s1 != s2] for x in (y, s1, s2))
    np.maximum.at(found, y, exactly_at(ball, q, y, s1, s2).ratio)
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
