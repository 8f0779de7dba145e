"""Proved levels over a Rényi ball of any order: the dual of `uncertainty.power_tilting` with outward rounding.

With κ = (α − 1)/α and a share b' of the budget T(B), every dual point τ bounds the mean of a row given s:
R·v ≤ τ − ((Σ_u P̂(s,u)(τ − v)^κ) / (P̂_s + κb'))^{1/κ}, and likewise from below; at α = 1 what is subtracted is the
geometric mean times e^{−b'/P̂_s}.
For a pair, P(y|s₁) ≤ λP(y|s₂) for all P in the ball as soon as μ ≤ λm + Φ(λ), where Φ is the least of
N₁^{1/κ}x₁^{−1/κ} + λN₂^{1/κ}x₂^{−1/κ} over x₁ + x₂ = X = P̂₁ + P̂₂ + κT(B), N = ΣP̂ g^κ. For κ > −1 that is
Φ = ((N₁^{1/(1+κ)} + λ^{κ/(1+κ)}N₂^{1/(1+κ)})^{1+κ} / X)^{1/κ}; for α = 2 it is the dual of `certification.ball`.
At α = ½ it is X·min(1/N₁, λ/N₂).
For α < ½ Φ is attained at the ends and says little: there, curves in b' are compared on a grid of splits, whose worst
cells are cut again. D_α grows with α, so the ball of order α' < α with the same radius contains that of order α:
orders that differ from 1 by less than EXPLODING, where exponents explode, are proved over the next lower order that
does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification.ball import ATOMS_AT_ONCE, Side, by_curves, enclosed, split_grid
from sfumato.certification.outward import down, down_any, exp_range, log_near, power, up, up_any
from sfumato.certification.rationals import Attained
from sfumato.joint import Joint
from sfumato.mechanism import Atoms
from sfumato.tolerances import UNIT
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean, worst_pairs

EXPLODING = 2.0**-14  # of an order from 1
RATIO_STEPS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6, 1e-4)  # how far above the ratio found a proof is tried
DUALS = 9
SHARP = 0.5  # of −κ
BALANCING = 40  # steps towards a quotient of two norms, each at least halving what is left of it
UNITS = 8 * UNIT  # rounding of a few operations, relative


@dataclass(frozen=True, slots=True)
class Splits:
    """Cells of splits that are compared for α < ½."""

    first: int = 128  # compared for α < ½ at first, and between atoms
    atoms: int = 1024
    cuts: int = 4  # how often a cell of splits is cut again, and into how many parts
    parts: int = 8


SPLITS = Splits()


@dataclass(frozen=True, slots=True, eq=False)
class RenyiBounds:
    """The ball's data as floats below and above the exact values."""

    p: tuple[Floats, Floats]
    ps: tuple[Floats, Floats]
    rest: tuple[Floats, Floats]
    alpha: float
    budget: float  # T(B), for suggestions
    spent: tuple[float, float]  # |κ|·T(B) = |e^{κB} − 1|, or B at α = 1

    @classmethod
    def around(cls, joint: Joint, alpha: float, radius: float) -> RenyiBounds:
        if 0 < abs(alpha - 1) < EXPLODING:
            alpha = 1.0 if alpha > 1 else 1 - EXPLODING
        with localcontext() as context:
            context.prec = 60
            order, b = Decimal(alpha), Decimal(radius)
            k = (order - 1) / order
            exact = b if alpha == 1 else abs((k * b).exp() - 1)
        spent = float(down_any(float(exact))), float(up_any(float(exact)))
        return cls(*enclosed(joint), alpha, float(exact / abs(k)) if k else radius, spent)

    @property
    def kappa(self) -> float:
        return (self.alpha - 1) / self.alpha

    def alone(self, side: Side, *, greatest: bool) -> Floats:
        """With all of the budget for one secret."""
        tau, gaps, edge = self._dual(side, self.budget, greatest)
        gain = self._gain(side, gaps, np.full((1,), self.spent[1]))[:, 0]
        if greatest:
            return np.asarray(np.minimum(up_any(tau - gain), edge))
        return np.asarray(np.maximum(down_any(tau + gain), edge))

    def _dual(self, side: Side, share: float | Floats, greatest: bool) -> tuple[Floats, Floats, Floats]:
        """A dual point τ for each row, |τ − v| from below, and the trivial bound."""
        sign, v = (1.0, side.v[1]) if greatest else (-1.0, side.v[0])
        edge = v.max(-1) if greatest else v.min(-1)
        tau = sign * greatest_mean(sign * v, side.q, divergence_at(share, side.ps[1], self.alpha), self.alpha).tau
        tau = np.where(np.isfinite(tau), tau, edge)
        tau = np.maximum(tau, edge) if greatest else np.minimum(tau, edge)
        return tau, down(np.maximum(sign * (tau[:, None] - v), 0)), edge

    def _norm(self, side: Side, gaps: Floats) -> Floats:
        """N = Σ P̂ g^κ, below for κ > 0 and above for κ < 0: the side on which it proves less."""
        end = 0 if self.kappa > 0 else 1
        terms = power(gaps, self.kappa)[end]
        weights = side.p[end]
        with np.errstate(invalid="ignore", over="ignore"):
            products = np.where(weights > 0, weights * terms, 0.0)
        total = np.zeros(len(weights))
        for k in range(weights.shape[1]):
            total = down(total + down(products[:, k])) if end == 0 else np.where(
                products[:, k] > 0, up(total + up(products[:, k])), total)
        return total

    def _gain(self, side: Side, gaps: Floats, spent: Floats) -> Floats:
        """Lower bounds [row, share] of Σ R|τ − v| for shares |κ|b' (or b') of the budget."""
        k = self.kappa
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if k == 0:
                return self._gain_at_one(side, gaps, spent)
            norm = self._norm(side, gaps)[:, None]
            if k > 0:
                base = down(norm / up(side.ps[1][:, None] + spent))
                return power(np.nan_to_num(base, nan=0.0), 1 / k)[0]
            room = np.maximum(down_any(side.ps[0][:, None] - spent), 0)
            base = np.where(norm > 0, down(room / norm), 0.0)
            return power(np.nan_to_num(base, nan=0.0), -1 / k)[0]

    def _gain_at_one(self, side: Side, gaps: Floats, spent: Floats) -> Floats:
        """exp(Σ q log g − b'/P̂_s), with log g relative to the greatest gap so that every term is ≤ 0."""
        top = gaps.max(-1)
        logs, errors = log_near(np.minimum(down(gaps / np.where(top > 0, top, 1.0)[:, None]), 1.0))
        shares = np.where(side.p[1] > 0, up(side.p[1] / side.ps[0][:, None]), 0.0)
        terms = np.where(shares > 0, shares * (errors - logs), 0.0)
        total = terms.sum(-1) * (1 + (terms.shape[1] + 8) * 2.0**-50)  # of −Σ q log g, from above
        low = exp_range(-up(up(total)[:, None] + up(spent / side.ps[0][:, None])))[0]
        return np.where((side.ps[0] > 0)[:, None], down(np.nan_to_num(low, nan=0.0) * top[:, None]), 0.0)

    def pairs(self, first: Side, second: Side) -> Floats:
        if self.alpha < 0.5:
            return self._pairs_on_a_grid(first, second)
        found = worst_pairs(
            first.v[1], first.q, first.ps[1], second.v[0], second.q, second.ps[1], self.budget, self.alpha
        )
        edge = second.v[0].min(-1)
        mu, reach = np.maximum(found.mu, first.v[1].max(-1)), np.maximum(edge - found.m, 0)
        gaps1 = down(np.maximum(mu[:, None] - first.v[1], 0))
        proved = np.full(mu.shape, np.inf)
        for step in RATIO_STEPS:
            ratio = found.ratio * (1 + step)
            m = edge - (self._balanced(first, gaps1, second, edge, reach, found.ratio, step) if self.sharp else reach)
            gaps2 = down(np.maximum(second.v[0] - m[:, None], 0))
            with np.errstate(invalid="ignore", over="ignore"):
                least = self._split(first, gaps1, second, gaps2, ratio)
                own = np.where(m >= 0, down(ratio * np.maximum(m, 0)), -up(ratio * np.maximum(-m, 0)))
                holds = np.isfinite(ratio) & (down_any(own + least) >= mu)
            proved = np.where(holds & np.isinf(proved), ratio, proved)
            if holds.all():
                break
        return proved

    @property
    def sharp(self) -> bool:
        """Whether Φ is nearly the least of two terms, so that the dual points must move with the ratio."""
        return self.kappa < -SHARP

    def _balanced(
        self, first: Side, gaps: Floats, second: Side, edge: Floats, reach: Floats, ratio: Floats, step: float
    ) -> Floats:
        """How far below the least value m should lie at ratio·(1 + step), a suggestion: N₁ and λ^κN₂ keep their
        quotient, which is 1 at α = ½, where Φ = X·min(1/N₁, λ/N₂)."""
        weights, k = second.p[1], self.kappa

        def norm(at: Floats) -> Floats:
            terms = np.where(weights > 0, weights * (second.v[0] - edge[:, None] + at[:, None]) ** k, 0.0)
            return np.asarray(np.log(terms.sum(-1)))

        with np.errstate(all="ignore"):
            goal = norm(reach) - k * math.log1p(step)
            if self.alpha == 0.5:
                goal = np.log(self._norm(first, gaps)) - k * np.log(ratio * (1 + step))
            moved = reach
            for _ in range(BALANCING):
                moved = moved * np.exp((norm(moved) - goal) / -k)
        return np.where(np.isfinite(moved) & (moved > 0), moved, reach)

    def _split(self, first: Side, gaps1: Floats, second: Side, gaps2: Floats, ratio: Floats) -> Floats:
        """A lower bound of Φ(λ) = exp((L − log X)/κ), L = max(A, B) + (1+κ)·log(1 + e^{−|A−B|/(1+κ)}), A = log N₁,
        B = log N₂ + κ log λ: in logarithms, because 1/(1+κ) explodes near α = ½ and 1/κ near α = 1."""
        k = self.kappa
        if k == 0:
            return self._split_at_one(first, gaps1, second, gaps2, ratio)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            norms = self._norm(first, gaps1), self._norm(second, gaps2)
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
        found = worst_pairs(
            first.v[1], first.q, first.ps[1], second.v[0], second.q, second.ps[1], self.budget, self.alpha
        ).ratio
        goal, total, out = float(found.max()) * (1 + RATIO_STEPS[-2]), self.spent[1], []
        for start in range(0, len(first.v[0]), ATOMS_AT_ONCE):
            one, two = (_part(side, slice(start, start + ATOMS_AT_ONCE)) for side in (first, second))
            spent, left = split_grid(total, SPLITS.first)
            bounds = _quotient(self.curves(one, spent, greatest=True), self.curves(two, left, greatest=False))
            row, cell = np.nonzero(bounds > goal)
            proved = np.where(bounds > goal, 0.0, bounds).max(1)
            low, high, value = np.append(0.0, spent)[cell], spent[cell], bounds[row, cell]
            for _ in range(SPLITS.cuts):
                goal = max(goal, float(proved.max()))
                live = np.flatnonzero(value > goal)
                np.maximum.at(proved, np.delete(row, live), np.delete(value, live))
                row, before = np.repeat(row[live], SPLITS.parts), np.repeat(value[live], SPLITS.parts)
                ends = np.linspace(low[live], high[live], SPLITS.parts + 1, axis=1)
                low, high = ends[:, :-1].ravel(), ends[:, 1:].ravel()
                value = np.minimum(before, self._cells(_part(one, row), _part(two, row), low, high))
                np.maximum.at(proved, row[value == before], value[value == before])  # what a cut did not better
            np.maximum.at(proved, row, value)
            out.append(proved)
        return np.concatenate(out)

    def _cells(self, one: Side, two: Side, low: Floats, high: Floats) -> Floats:
        """The ratio of each row where the first side spends between `low` and `high`, dual points from the middle."""
        if not len(low):
            return low
        part, means = (low + high) / 2 / self.spent[1] * self.budget, []
        left = np.minimum(up(np.maximum(self.spent[1] - low, 0)), up(self.spent[1]))
        for side, share, spent, greatest in ((one, part, high, True), (two, self.budget - part, left, False)):
            tau, gaps, edge = self._dual(side, share, greatest)
            gain = self._gain(side, gaps, spent[:, None])[:, 0]
            means.append(np.minimum(up_any(tau - gain), edge) if greatest else np.maximum(down_any(tau + gain), edge))
        return _quotient(*means)

    def curves(self, side: Side, spent: Floats, *, greatest: bool) -> Floats:
        """Proved bounds [row, share] of the greatest (or least) mean of each row at each share of the budget."""
        best = np.repeat((side.v[1].max(-1) if greatest else side.v[0].min(-1))[:, None], len(spent), 1)
        for share in np.linspace(0, 1, DUALS) ** 2:
            tau, gaps, _ = self._dual(side, max(share, 1e-6) * self.budget, greatest)
            gain = self._gain(side, gaps, spent)
            best = np.minimum(best, up_any(tau[:, None] - gain)) if greatest else np.maximum(
                best, down_any(tau[:, None] + gain))
        return best

    def masses(self) -> tuple[Floats, Floats]:
        """Least and greatest P(u|s), as means of a row that is 1 on u and 0 elsewhere: two cells."""
        s, u = self.p[0].shape
        cells = [np.stack([self.p[e].ravel(), self.rest[e].ravel()], -1) for e in (0, 1)]
        v = np.broadcast_to([1.0, 0.0], (s * u, 2))
        side = Side((cells[0], cells[1]), (np.repeat(self.ps[0], u), np.repeat(self.ps[1], u)), (v, v))
        low, high = (self.alone(side, greatest=g).reshape(s, u) for g in (False, True))
        return np.clip(low, 0, 1), np.clip(high, 0, 1)

    def atoms(self, c: Atoms) -> Attained:
        def both(side: Side, spent: Floats, left: Floats) -> tuple[Floats, Floats]:
            return self.curves(side, spent, greatest=True), self.curves(side, left, greatest=False)

        return by_curves(c, self.p, self.ps, split_grid(self.spent[1], SPLITS.atoms), both)


def _quotient(top: Floats, low: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(up(top / low), nan=1.0, posinf=np.inf)


def _part(side: Side, at: slice | Ints) -> Side:
    return Side(*((x[0][at], x[1][at]) for x in (side.p, side.ps, side.v)))
