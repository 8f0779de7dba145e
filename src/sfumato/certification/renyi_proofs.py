"""Proved pairs over a Rényi ball of any order: the dual of `uncertainty.power_tilting` with outward rounding.

For a pair, P(y|s₁) ≤ λP(y|s₂) for all P in the ball as soon as μ ≤ λm + Φ(λ), where Φ is the least of
N₁^{1/κ}x₁^{−1/κ} + λN₂^{1/κ}x₂^{−1/κ} over x₁ + x₂ = X = P̂₁ + P̂₂ + κT(B), N = ΣP̂ g^κ. For κ > −1 that is
Φ = ((N₁^{1/(1+κ)} + λ^{κ/(1+κ)}N₂^{1/(1+κ)})^{1+κ} / X)^{1/κ}; for α = 2 it is the dual of `ChiSquareBounds`.
At α = ½ it is X·min(1/N₁, λ/N₂).
For α < ½ Φ is attained at the ends and says little: there, curves in b' are compared on a grid of splits, whose worst
cells are cut again.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from sfumato.alphabet import Bools, Floats
from sfumato.certification.ball import BallBounds, Side, digits_for
from sfumato.certification.outward import down, down_any, exp_range, log_near, raised, up
from sfumato.certification.over_sets import ATOMS_AT_ONCE, outer_quotient
from sfumato.joint import Joint
from sfumato.tolerances import HALVINGS, UNIT

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

    def pairs(self, first: Side, second: Side) -> Floats:
        if self.alpha < 0.5:
            return self._pairs_on_a_grid(first, second)
        found = self.suggested(first, second)
        edge = second.v[0].min(-1)
        mu, reach = np.maximum(found.mu, first.v[1].max(-1)), np.maximum(edge - found.m, 0)
        gaps1 = down(np.maximum(mu[:, None] - first.v[1], 0))

        def holds(ratio: Floats) -> tuple[Bools, Floats]:
            m = edge - (self._balanced(first, gaps1, second, edge, reach, found.ratio, ratio) if self.sharp else reach)
            gaps2 = down(np.maximum(second.v[0] - m[:, None], 0))
            least = self._split(first, gaps1, second, gaps2, ratio)
            own = np.where(m >= 0, down(ratio * np.maximum(m, 0)), -up(ratio * np.maximum(-m, 0)))
            return down_any(own + least) >= mu, ratio

        return raised(found.ratio, holds)

    @property
    def sharp(self) -> bool:
        """Whether Φ is nearly the least of two terms, so that the dual points must move with the ratio."""
        return self.kappa < -0.5

    def _balanced(
        self, first: Side, gaps: Floats, second: Side, edge: Floats, reach: Floats, found: Floats, ratio: Floats
    ) -> Floats:
        """How far below the least value m should lie at a ratio above the one found, a suggestion: N₁ and λ^κN₂ keep
        their quotient, which is 1 at α = ½, where Φ = X·min(1/N₁, λ/N₂)."""
        weights, k = second.p[1], self.kappa

        def norm(at: Floats) -> Floats:
            terms = np.where(weights > 0, weights * (second.v[0] - edge[:, None] + at[:, None]) ** k, 0.0)
            return np.asarray(np.log(terms.sum(-1)))

        with np.errstate(all="ignore"):
            goal = norm(reach) - k * np.log(ratio / found)
            if self.alpha == 0.5:
                goal = np.log(self.norm(first, gaps)) - k * np.log(ratio)
            moved = reach
            for _ in range(HALVINGS):
                moved = moved * np.exp((norm(moved) - goal) / -k)
        return np.where(np.isfinite(moved) & (moved > 0), moved, reach)

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
                terms = np.where(p != 0, p * logs, 0.0)
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
