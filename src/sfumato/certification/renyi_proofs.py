"""Proved pairs over a Rényi ball of any order: the dual of `uncertainty.power_tilting` with outward rounding.

For a pair, P(y|s₁) ≤ λP(y|s₂) for all P in the ball as soon as μ ≤ λm + Φ(λ), where Φ is the least of
N₁^{1/κ}x₁^{−1/κ} + λN₂^{1/κ}x₂^{−1/κ} over x₁ + x₂ = X = P̂₁ + P̂₂ + κT(B), N = ΣP̂ g^κ. For κ > −1 that is
Φ = ((N₁^{1/(1+κ)} + λ^{κ/(1+κ)}N₂^{1/(1+κ)})^{1+κ} / X)^{1/κ}; for α = 2 it is the dual of `ChiSquareBounds`.
At α = ½ it is X·min(1/N₁, λ/N₂).
For α < ½ Φ is attained at the ends and says little: there, curves in b' are compared on a grid of splits, whose worst
cells are cut again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.ball import ROUGH_SPLIT, BallBounds, Side, digits_for
from sfumato.certification.outward import down, down_any, exp_range, log_near, raised, up
from sfumato.certification.over_sets import ATOMS_AT_ONCE, outer_quotient
from sfumato.joint import Joint
from sfumato.tolerances import ALIKE, LEAST, UNIT
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.tilting import NEWTON

EXPLODING = 2.0**-14  # of an order from 1
UNITS = 8 * UNIT  # rounding of a few operations, relative


@dataclass(frozen=True, slots=True)
class Splits:
    """Cells of splits that are compared for α < ½."""

    first: int = 128  # compared for α < ½ at first
    cuts: int = 4  # how often a cell of splits is cut again, and into how many parts
    parts: int = 8
    close: float = 1e-6  # above the worst pair found, relative: cells that say no more are not cut


SPLITS = Splits()
ABOVE = (1e-11, ALIKE, 1e-6)  # what floats find, relative: where pairs are looked at anew
UNPROVED = 1e100  # ratios from here on are not
MOVED = (1, 0, 1), (0, 1, 0)  # of both points: which is moved, beside the other one
NEAREST_POINT, FARTHEST_POINT = -60.0, 40.0  # log of a dual point's distance from the values, in units of their width
SECTIONS, FEW_SECTIONS = 80, 32  # golden ones of that range: its end is then known to 1e-15, or as pairs with room need


def summit(f: Callable[[Floats], Floats], low: Floats, high: Floats, sections: int) -> Floats:
    """Where functions with one hill each are greatest, by golden sections; where they are level these go up."""
    golden = (5**0.5 - 1) / 2
    x, y = high - golden * (high - low), low + golden * (high - low)
    left, right = f(x), f(y)
    for _ in range(sections):
        over = left > right
        low, high = np.where(over, low, x), np.where(over, y, high)
        new = np.where(over, high - golden * (high - low), low + golden * (high - low))
        found = f(new)
        x, y = np.where(over, new, y), np.where(over, x, new)
        left, right = np.where(over, found, right), np.where(over, left, found)
    return np.where(left > right, x, y)


def _joined(one: Floats, two: Floats, first: Floats, second: Floats, room: Floats, k: float) -> Floats:
    """Φ(λ) in floats, from log N₁ and log λ^κN₂, or at order 1 from sums of logarithms."""
    if not k:
        own = sum(np.where(x > 0, x * np.log(np.maximum(x, LEAST)), 0.0) for x in (first, second))
        return (first + second) * np.exp((one + two - own - room + first + second) / (first + second))
    rest = 1 + k
    both = rest * np.logaddexp(one / rest, two / rest) if rest > 0 else np.maximum(one, two)
    return np.where(room > 0, np.exp((both - np.log(np.maximum(room, LEAST))) / k), 0.0)


class RenyiBounds(BallBounds):
    """The ball D_α(P̂‖P) ≤ B.

    D_α grows with α, so the ball of order α' < α with the same radius contains that of order α: orders that differ from
    1 by less than EXPLODING, where exponents explode, are proved over the next lower order that does not.
    """

    __slots__ = ()

    @classmethod
    def around(cls, joint: Joint, alpha: float, radius: float) -> RenyiBounds:
        if 0 < abs(alpha - 1) < EXPLODING:
            alpha = 1.0 if alpha > 1 else 1 - EXPLODING
        with digits_for(radius):
            order, b = Decimal(alpha), Decimal(radius)
            return cls.of(joint, alpha, b if alpha == 1 else abs(((order - 1) / order * b).exp() - 1))

    def pairs(self, first: Side, second: Side, enough: float = 1.0) -> Floats:
        """Most pairs are not the worst, and a few steps towards their worst split say where that is `enough`."""
        if self.alpha < 0.5:
            return self._pairs_on_a_grid(first, second)
        proved = np.full(len(first.ps[0]), np.inf)
        goal = np.full(proved.shape, enough)
        points = self._from(first, second, self.suggested(first, second, ROUGH_SPLIT), goal, proved)
        self._move(first, second, points, goal, proved, FEW_SECTIONS, (1,))
        if (i := np.flatnonzero(np.isinf(proved))).size:
            proved[i] = self._closely(first.at(i), second.at(i), enough)
        return proved

    def _closely(self, first: Side, second: Side, enough: float) -> Floats:
        """From the dual points of the worst split that floats find, and where these prove less than floats find for the
        worst of all pairs, from points moved in turn: at an end of the split, or beside values without mass, a side's
        own ball does not say where its point proves most, and near α = ½ that moves with the ratio."""
        found = self.suggested(first, second, NEWTON.close)
        finite = found.ratio < UNPROVED
        goal = np.where(finite, found.ratio.max(initial=enough, where=finite), np.inf)
        proved = np.full(goal.shape, np.inf)
        mu, m = self._from(first, second, found, goal, proved)
        self._move(first, second, (mu, m), goal, proved, FEW_SECTIONS)
        if (i := np.flatnonzero(np.isinf(proved))).size:
            one, two, near = first.at(i), second.at(i), np.where(finite, goal, found.ratio)[i]
            proved[i] = raised(near, lambda z: (self._left(one, two, mu[i], m[i], z) >= 0, z))
        for step in ABOVE:
            self._move(first, second, (mu, m), goal * (1 + step), proved, SECTIONS)
        return proved

    def _from(self, first: Side, second: Side, found: Pairs, goal: Floats, proved: Floats) -> tuple[Floats, Floats]:
        """Prove these goals, where they can be, from the points of a suggestion; the points."""
        mu = np.maximum(np.nan_to_num(found.mu), first.v[1].max(-1))
        m = np.minimum(np.nan_to_num(found.m), second.v[0].min(-1))
        with np.errstate(over="ignore", invalid="ignore"):  # a goal may be infinite
            proved[:] = np.where(self._left(first, second, mu, m, goal) >= 0, goal, proved)
        return mu, m

    def _move(
        self, first: Side, second: Side, start: tuple[Floats, Floats], ratio: Floats, proved: Floats, sections: int,
        *turns: tuple[int, ...],
    ) -> None:
        """Prove ratios that are below what is `proved`, where they can be, from points that are moved in turn."""
        for movers in turns or MOVED:
            points = [x.copy() for x in start]
            for mover in movers:
                i = np.flatnonzero(proved > ratio)
                if not i.size:
                    return
                one, two, few = first.at(i), second.at(i), [x[i] for x in points]
                few[mover] = points[mover][i] = self._moved(one, two, few, ratio[i], mover, sections)
                proved[i] = np.where(self._left(one, two, few[0], few[1], ratio[i]) >= 0, ratio[i], proved[i])

    def _left(self, first: Side, second: Side, mu: Floats, m: Floats, ratio: Floats) -> Floats:
        """At or below λm + Φ(λ) − μ for μ ≥ max v₁, m ≤ min v₂: where it is not negative, the ratio λ is proved."""
        gaps1, gaps2 = down(np.maximum(mu[:, None] - first.v[1], 0)), down(np.maximum(second.v[0] - m[:, None], 0))
        own = np.where(m >= 0, down(ratio * np.maximum(m, 0)), -up(ratio * np.maximum(-m, 0)))
        return np.asarray(down_any(own + self._split(first, gaps1, second, gaps2, ratio)) - mu)

    def _moved(
        self, first: Side, second: Side, points: list[Floats], ratio: Floats, mover: int, sections: int
    ) -> Floats:
        """One of μ and m (a suggestion) where most is left beside the other one: λm + Φ(λ) − μ is concave in it, and
        its greatest is found by golden sections of the logarithm of its distance from the values."""
        values, k = (first.v[1], -second.v[0]), self.kappa
        sides, ends = (first, second), [x.max(-1) for x in values]
        unit = np.maximum(np.maximum(np.ptp(values[0], -1), np.ptp(values[1], -1)), UNIT * ends[0])
        tilt, room = np.log(ratio), first.ps[1] + second.ps[1] + math.copysign(self.spent[1], k)

        def norm(j: int, point: Floats) -> Floats:
            gaps = np.maximum(point[:, None] - values[j], LEAST)
            terms = np.where(sides[j].p[1] > 0, sides[j].p[1] * (gaps**k if k else np.log(gaps)), 0.0).sum(-1)
            return np.asarray((np.log(terms) if k else terms) + j * tilt * (k or sides[j].ps[1]))

        def left(y: Floats) -> Floats:
            point = ends[mover] + unit * np.exp(y)
            both = _joined(norm(mover, point), beside, first.ps[1], second.ps[1], room, k)
            return np.asarray(both - (ratio if mover else 1.0) * point)

        with np.errstate(all="ignore"):
            beside = norm(1 - mover, points[0] if mover else -points[1])
            low, high = np.full(len(ratio), NEAREST_POINT), np.full(len(ratio), FARTHEST_POINT)
            far = ends[mover] + unit * np.exp(summit(left, low, high, sections))
        return np.asarray(-far if mover else far)

    def _split(self, first: Side, gaps1: Floats, second: Side, gaps2: Floats, ratio: Floats) -> Floats:
        """A lower bound of Φ(λ) = exp((L − log X)/κ), L = max(A, B) + (1+κ)·log(1 + e^{−|A−B|/(1+κ)}), A = log N₁,
        B = log N₂ + κ log λ: in logarithms, because 1/(1+κ) explodes near α = ½ and 1/κ near α = 1."""
        k = self.kappa
        if k == 0:
            return self._split_at_one(first, gaps1, second, gaps2, ratio)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            norms = self.norm(first, gaps1), self.norm(second, gaps2)
            if k > 0:
                room = up(up(first.ps[1] + second.ps[1]) + self.spent[1])
            else:
                room = np.maximum(down_any(down(first.ps[0] + second.ps[0]) - self.spent[1]), 0)
            (a, slip_a), (b, slip_b), (x, slip_x), (tilt, slip_t) = map(log_near, (*norms, room, ratio))
            b = b + k * tilt
            most, least, rest = np.maximum(a, b), np.minimum(a, b), (2 * self.alpha - 1) / self.alpha
            apart = np.where(np.isfinite(least), most - least, np.inf)
            share = exp_range(-apart / rest)[0 if k > 0 else 1] if rest > 0 else np.zeros(most.shape)
            extra, slip = (rest * y for y in log_near(1 + share))
            # Each logarithm is off by at most its slip, and L by no more than A, B and a few units of their size.
            error = slip + slip_a + slip_b + slip_x + abs(k) * slip_t
            error += UNITS * (np.abs(most) + np.abs(x) + np.abs(tilt) + 1)
            error = np.where(np.isfinite(error), error, UNITS * (np.abs(np.where(np.isfinite(most), most, 0)) + 1) * 4)
            power_of = (most + extra - x) / k - (error + UNITS * np.abs(most + extra - x)) / abs(k)
            sure = np.isfinite(most) & np.isfinite(x)
            return np.where(sure, exp_range(np.where(sure, power_of, 0.0))[0], 0.0)

    def _split_at_one(self, first: Side, gaps1: Floats, second: Side, gaps2: Floats, ratio: Floats) -> Floats:
        """Φ = W·exp((Σ p₁ log g₁ + Σ p₂ log g₂ − P̂₁ log P̂₁ − P̂₂ log P̂₂ + P̂₂ log λ − B) / W), W = P̂₁ + P̂₂.

        Signs vary, so the sum is taken once and its error is bounded by 2^-40 of the sum of magnitudes.
        """
        total = np.full(ratio.shape, -self.spent[1])
        size = np.abs(total)
        for side, gaps in ((first, gaps1), (second, gaps2)):
            for p, x in ((side.p[1], gaps), (-side.ps[1][:, None], side.ps[1][:, None])):
                logs, _ = log_near(x)
                terms = p * np.where(p != 0, logs, 0.0)
                total, size = total + terms.sum(-1), size + (np.abs(p) + np.abs(terms)).sum(-1)
        terms = np.where(second.ps[1] > 0, second.ps[1] * log_near(ratio)[0], 0.0)
        total, size = total + terms, size + second.ps[1] + np.abs(terms)
        weight = first.ps[1] + second.ps[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            low = exp_range(total / weight, 2.0**-40 * size / weight)[0]
        return np.where(np.isfinite(size) & (weight > 0), down(np.nan_to_num(low) * weight * (1 - 2.0**-48)), 0.0)

    def _pairs_on_a_grid(self, first: Side, second: Side) -> Floats:
        """Curves compared on a grid of splits; cells that say more than the worst pair found are cut again, each with
        dual points of its own, until that is all they say."""
        found = self.suggested(first, second).ratio
        goal, total, out = float(found.max()) * (1 + SPLITS.close), self.spent[1], []
        for start in range(0, len(first.v[0]), ATOMS_AT_ONCE):
            one, two = (side.at(slice(start, start + ATOMS_AT_ONCE)) for side in (first, second))
            edges = total * np.sin(np.linspace(0, np.pi / 2, SPLITS.first + 1)) ** 2
            edges[-1] = total
            row, cell = (x.ravel() for x in np.indices((len(one.ps[0]), SPLITS.first)))
            low, high, proved = edges[cell], edges[cell + 1], np.zeros(len(one.ps[0]))
            value = self._cells(one.at(row), two.at(row), low, high)
            for _ in range(SPLITS.cuts):
                goal = max(goal, float(proved.max()))
                live = np.flatnonzero(value > goal)
                np.maximum.at(proved, np.delete(row, live), np.delete(value, live))
                row, before = np.repeat(row[live], SPLITS.parts), np.repeat(value[live], SPLITS.parts)
                ends = np.linspace(low[live], high[live], SPLITS.parts + 1, axis=1)
                low, high = ends[:, :-1].ravel(), ends[:, 1:].ravel()
                value = np.minimum(before, self._cells(one.at(row), two.at(row), low, high))
                np.maximum.at(proved, row[value == before], value[value == before])  # what a cut did not better
            np.maximum.at(proved, row, value)
            out.append(proved)
        return np.concatenate(out)

    def _cells(self, one: Side, two: Side, low: Floats, high: Floats) -> Floats:
        """The ratio of each row where the first side spends between `low` and `high`, proved at both ends."""
        top, least = self.lines(one, low, high, greatest=True), self.lines(two, low, high, greatest=False)
        return np.asarray(outer_quotient(top[:2], least[:2]).max(0))
