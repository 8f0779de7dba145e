"""Proved means over a Rényi ball of any order, with outward rounding; and proved pairs over the χ² ball.

With κ = (α − 1)/α and a share b' of the budget T(B), every dual point τ bounds the mean of a row given s:
R·v ≤ τ − ((Σ_u P̂(s,u)(τ − v)^κ) / (P̂_s + κb'))^{1/κ}, and likewise from below; at α = 1 what is subtracted is the
geometric mean times e^{−b'/P̂_s}. Cells with P̂ = 0 take part through τ alone: the ball may put mass on them. Good dual
points come from the float search in `uncertainty`; whatever it returns, the bound computed from it here is valid, and
for every share of the budget at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Self

import numpy as np

from sfumato.alphabet import Bools, Floats, Ints
from sfumato.certification.layouts import worst_atoms
from sfumato.certification.outward import (
    EXACT_DIGITS,
    dot_down,
    dot_up,
    down,
    down_any,
    exp_range,
    float_range,
    log_near,
    power,
    raised,
    up,
    up_any,
)
from sfumato.certification.over_sets import Range, SetBounds, part
from sfumato.certification.rationals import Attained
from sfumato.joint import Joint
from sfumato.mechanism import Atoms
from sfumato.mechanism.law import Weights
from sfumato.tolerances import ALIKE, HALVINGS, LEAST
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean, kappa, worst_pairs
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.tilting import SPLIT, inner

ROUGH_SPLIT = 0.3  # of the steps to a worst split, at which most pairs are known to be less than the worst


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One secret's part of many rows: P̂ of its cells, P̂ of the secret, and the values, each below and above."""

    p: Range  # [i, k]
    ps: Range  # [i]
    v: Range  # [i, k]

    @property
    def q(self) -> Floats:
        """P̂(u|s) in floats, for suggestions only; uniform for an empty secret."""
        mass = self.p[1].sum(-1, keepdims=True)
        even = np.full(self.p[1].shape, 1 / self.p[1].shape[-1])
        return np.asarray(np.divide(self.p[1], mass, out=even, where=mass > 0))

    def at(self, some: Ints | slice) -> Side:
        return Side(part(self.p, some), part(self.ps, some), part(self.v, some))


def shares(weights: Weights, total: int) -> Range:
    """weights / total, below and above; zeros stay zeros."""
    (low, high), (below, above) = float_range(total), float_range(weights)
    return down(below / high), np.where(weights == 0, 0.0, up(above / low))


@contextmanager
def digits_for(radius: float) -> Iterator[None]:
    """Decimals that lose nothing of 1 + radius."""
    with localcontext() as context:
        context.prec = EXACT_DIGITS + max(0, -Decimal(radius).adjusted())
        yield


@dataclass(frozen=True, slots=True, eq=False)
class BallBounds(SetBounds[Side]):
    """A ball's data as floats below and above the exact values."""

    p: Range  # P̂(s, u)
    ps: Range  # P̂(s)
    rest: Range  # P̂(s) − P̂(s, u)
    alpha: float
    spent: tuple[float, float]  # |κ|·T(B) = |e^{κB} − 1|, or B at α = 1

    @classmethod
    def of(cls, joint: Joint, alpha: float, spent: Decimal) -> Self:
        exact, total = joint.weights()
        sums = exact.sum(1)
        cells = shares(exact, total), shares(sums, total), shares(sums[:, None] - exact, total)
        return cls(*cells, alpha, (max(0.0, float(down_any(float(spent)))), float(up_any(float(spent)))))

    @property
    def shape(self) -> tuple[int, int]:
        s, u = self.p[0].shape
        return s, u

    @property
    def kappa(self) -> float:
        return kappa(self.alpha)

    @property
    def budget(self) -> float:
        """T(B), for suggestions."""
        return self.spent[1] / (abs(self.kappa) or 1.0)

    def side(self, s: Ints, v: Range) -> Side:
        return Side(part(self.p, s), part(self.ps, s), v)

    def spike(self, s: Ints, u: Ints, peak: Range, base: Range) -> Side:
        """Two cells: u and the rest."""
        low, high = (np.column_stack([p[s, u], rest[s, u]]) for p, rest in zip(self.p, self.rest, strict=True))
        v_low, v_high = (np.column_stack(x) for x in zip(peak, base, strict=True))
        return Side((low, high), part(self.ps, s), (v_low, v_high))

    def alone(self, side: Side, *, greatest: bool) -> Floats:
        """With all of the budget for one secret."""
        sign = 1.0 if greatest else -1.0
        tau, gaps = self._dual(side, self.spent[1], greatest=greatest)
        far = up_any(sign * tau - self._gain(side, gaps, np.full((1, 1), self.spent[1]))[:, 0])
        return np.asarray(sign * np.minimum(far, edge_of(side, greatest=greatest)))

    def atoms(self, c: Atoms, found: float) -> Attained:
        return worst_atoms(self, c, found)

    def lines(self, side: Side, low: Floats, high: Floats, *, greatest: bool) -> Floats:
        """For each row a cell of splits, of which the first side has between `low` and `high`: bounds of its greatest
        mean (or least, as the second side) at either end and in the middle. Those at the ends are ends of a line that
        bounds all splits between, tangent to what one dual point proves, or for α < ½, where that is convex, a chord.
        """
        sign, total = 1.0 if greatest else -1.0, self.spent[1]
        if not greatest:  # what is left to it; a little more moves its least mean to the safe side
            low, high = (np.minimum(up(np.maximum(total - x, 0)), up(total)) for x in (high, low))
        middle = (low + high) / 2
        tau, gaps = self._dual(side, middle, greatest=greatest)
        if self.kappa < -1:
            gain = self._gain(side, gaps, np.stack([low, high, middle], 1)).T
        else:
            gain = self._tangent(side, self._gain(side, gaps, middle[:, None])[:, 0], low, high, middle)
        far, edge = up_any(sign * tau - gain), edge_of(side, greatest=greatest)
        far[2], far[:2] = np.minimum(far[2], edge), np.where(far[1] > edge, edge, far[:2])
        return np.asarray(sign * (far if greatest else far[[1, 0, 2]]))

    def _tangent(self, side: Side, gain: Floats, low: Floats, high: Floats, middle: Floats) -> Floats:
        """The gain is convex in the share, and one more of it costs 1/x of the gain, x = P̂_s + κb': a tangent at both
        ends, −∞ where it is negative, and the gain itself."""
        k, slip = self.kappa, 2.0**-48  # more than rounding and what κ may be off
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most = (np.maximum(x + np.sign(k) * middle, 0) * (abs(k) or 1.0) for x in side.ps)
            rise, fall = (middle - low) / most * (1 - slip), (high - middle) / least * (1 + slip)
            first, last = down(down(gain * (1 + rise))), np.where(fall < 1, down(down(gain * (1 - fall))), -np.inf)
        return np.where(gain > 0, np.stack([first, last, gain]), 0.0)

    def _dual(self, side: Side, spent: float | Floats, *, greatest: bool) -> tuple[Floats, Floats]:
        """The dual point that is best for a share |κ|b' (or b') of the budget, and |τ − v| from below."""
        v, sign = side.v[1 if greatest else 0], 1.0 if greatest else -1.0
        limit = divergence_at(np.asarray(spent) / (abs(self.kappa) or 1.0), side.ps[1], self.alpha)
        return gaps_to(side, sign * greatest_mean(sign * v, side.q, limit, self.alpha).tau, greatest=greatest)

    def suggested(self, first: Side, second: Side, close: float = SPLIT.close) -> Pairs:
        """The worst pairs in floats, with good dual points."""
        values = first.v[1], first.q, first.ps[1], second.v[0], second.q, second.ps[1]
        return worst_pairs(*values, self.budget, self.alpha, close)

    def norm(self, side: Side, gaps: Floats) -> Floats:
        """N = Σ P̂ g^κ, below for κ > 0 and above for κ < 0: the side on which it proves less."""
        low, high = self._power(gaps, self.kappa)
        return dot_down(side.p[0], low) if self.kappa > 0 else dot_up(side.p[1], high)

    def _gain(self, side: Side, gaps: Floats, spent: Floats) -> Floats:
        """Lower bounds [row, share] of Σ R|τ − v| for shares |κ|b' (or b') of the budget."""
        k = self.kappa
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if k == 0:
                return self._gain_at_one(side, gaps, spent)
            norm = self.norm(side, gaps)[:, None]
            if k > 0:
                base = down(norm / up(side.ps[1][:, None] + spent))
            else:
                room = np.maximum(down_any(side.ps[0][:, None] - spent), 0)
                base = np.where(norm > 0, down(room / norm), 0.0)
            return self._power(np.nan_to_num(base, nan=0.0), 1 / abs(k))[0]

    def _power(self, x: Floats, r: float) -> Range:
        """Bounds of x^r for r = κ or 1/|κ|; at order 2, exactly, a root and a square, at order ½ a fraction."""
        if self.alpha not in (0.5, 2):
            return power(x, r)
        if self.alpha == 2:
            near = np.sqrt(x) if r < 1 else x * x
        else:
            with np.errstate(divide="ignore", over="ignore"):
                near = np.asarray(1 / x if r < 0 else x)
        return down(near), up(near)

    def _gain_at_one(self, side: Side, gaps: Floats, spent: Floats) -> Floats:
        """exp(Σ q log g − b'/P̂_s), with log g relative to the greatest gap so that every term is ≤ 0."""
        top = gaps.max(-1)
        logs, errors = log_near(np.minimum(down(gaps / np.where(top > 0, top, 1.0)[:, None]), 1.0))
        shares = np.where(side.p[1] > 0, up(side.p[1] / side.ps[0][:, None]), 0.0)
        terms = np.where(shares > 0, shares * (errors - logs), 0.0)
        total = terms.sum(-1) * (1 + (terms.shape[1] + 8) * 2.0**-50)  # of −Σ q log g, from above
        low = exp_range(-up(up(total)[:, None] + up(spent / side.ps[0][:, None])))[0]
        return np.where((side.ps[0] > 0)[:, None], down(np.nan_to_num(low, nan=0.0) * top[:, None]), 0.0)


def edge_of(side: Side, *, greatest: bool) -> Floats:
    """The greatest value, or minus the least."""
    return np.asarray(side.v[1].max(-1) if greatest else -side.v[0].min(-1))


def gaps_to(side: Side, tau: Floats, *, greatest: bool) -> tuple[Floats, Floats]:
    """Dual points, moved to where they are some, and |τ − v| from below."""
    v = side.v[1 if greatest else 0]
    edge = v.max(-1) if greatest else v.min(-1)
    tau = np.where(np.isfinite(tau), tau, edge)
    tau = np.maximum(tau, edge) if greatest else np.minimum(tau, edge)
    return tau, down(np.maximum((tau[:, None] - v) * (1.0 if greatest else -1.0), 0))


# --- pairs over the χ² ball -------------------------------------------------------------------------------------------
# For a row with values v₁ given s₁ and v₂ given s₂, and any μ ≥ max v₁, m ≤ min v₂ [002, Thm 3, rearranged]: P(y|s₁) ≤
# z³·P(y|s₂) for all P in the ball as soon as C²μ ≤ C²m z³ + (l₁^{2/3} + z·l₂^{2/3})³, with l₁ = Σ P̂(s₁,u)√(μ − v₁),
# l₂ = Σ P̂(s₂,u)√(v₂ − m), C = √(1+B) − 1 + P̂(s₁) + P̂(s₂).


class ChiSquareBounds(BallBounds):
    """The ball Σ P̂²/P ≤ 1 + B, of order 2."""

    __slots__ = ()

    @classmethod
    def around(cls, joint: Joint, radius: float) -> ChiSquareBounds:
        with digits_for(radius):
            return cls.of(joint, 2.0, (1 + Decimal(radius)).sqrt() - 1)

    def pairs(self, first: Side, second: Side, enough: float = 1.0) -> Floats:
        """From the dual points of a split that is roughly the worst, and where that is not `enough` of the worst."""
        proved = self._from(first, second, self.suggested(first, second, ROUGH_SPLIT))
        if (i := np.flatnonzero(proved > enough)).size:
            one, two = first.at(i), second.at(i)
            proved[i] = np.minimum(proved[i], self._closely(one, two, self.suggested(one, two)))
        return proved

    def _closely(self, first: Side, second: Side, found: Pairs) -> Floats:
        """From the dual points of the worst split that floats find, as they are and balanced."""
        proved = self._from(first, second, found)
        i = np.flatnonzero(proved > found.ratio * (1 + ALIKE))  # these get a second dual point
        if i.size:
            few, one, two = Pairs(*(x[i] for x in found.arrays)), first.at(i), second.at(i)
            proved[i] = np.minimum(proved[i], self._joined(one, two, *balanced(few, one, two), few.ratio))
        return proved

    def _from(self, first: Side, second: Side, found: Pairs) -> Floats:
        return self._joined(first, second, found.mu, found.m, found.ratio)

    def _joined(self, first: Side, second: Side, mu: Floats, m: Floats, ratio: Floats) -> Floats:
        """The proved bounds z³ of dual points (μ, m); `ratio` is where to look."""
        (mu, above), (m, below) = gaps_to(first, mu, greatest=True), gaps_to(second, m, greatest=False)
        a, b = two_thirds_down(self.norm(first, above)), two_thirds_down(self.norm(second, below))
        low = down(down(self.spent[0] + first.ps[0]) + second.ps[0])
        high = up(up(self.spent[1] + first.ps[1]) + second.ps[1])
        square = down(low * low), up(high * high)
        gain, loss = down(square[0] * np.maximum(m, 0)), up(square[1] * np.maximum(-m, 0))
        need = up(square[1] * np.maximum(mu, 0))
        z = _root(need, gain - loss, a, b, np.cbrt(ratio))

        def holds(far: Floats) -> tuple[Bools, Floats]:
            low, high = down(down(far * far) * far), up(up(far * far) * far)
            line = down(a + down(b * far))
            return up(need + up(loss * high)) <= down(down(gain * low) + down(down(line * line) * line)), high

        return raised(z, holds)


def two_thirds_down(length: Floats) -> Floats:
    """A lower bound of length^{2/3}: a float whose cube, rounded up, does not exceed the square, rounded down."""
    guess = np.cbrt(length * length) * (1 - 1e-15)
    square = down(length * length)
    for _ in range(8):
        over = up(up(guess * guess) * guess) > square
        if not over.any():
            return guess
        guess = np.where(over, guess * (1 - 1e-14), guess)
    return np.where(up(up(guess * guess) * guess) > square, 0.0, guess)


def _root(need: Floats, gain: Floats, a: Floats, b: Floats, start: Floats) -> Floats:
    """The z near `start` with need = gain·z³ + (a + bz)³, by Newton in floats (a suggestion)."""
    z = start
    with np.errstate(all="ignore"):
        for _ in range(HALVINGS):
            line, square = a + b * z, z * z
            step = (gain * square * z + line * line * line - need) / (3 * (gain * square + b * (line * line)))
            z = z - step
            if np.nanmax(np.abs(step), initial=0.0) <= 1e-15:
                break
    return np.where(np.isfinite(z) & (z > 0), z, start)


def balanced(found: Pairs, first: Side, second: Side) -> tuple[Floats, Floats]:
    """(μ, m) with l₁²/h₁³ = ratio·l₂²/h₂³, the condition under which the dual point of a pair is tight.

    Inside the split it holds already. At an end one side has no use for slack (a secret that always has one value,
    say): its multiplier is not determined by its own ball, may lie anywhere beyond its values, and is set to match the
    other.
    """
    p1, p2, v1, v2 = first.p[1], second.p[1], first.v[1], -second.v[0]
    h1, h2 = (np.sqrt(np.divide(p * p, r, out=np.zeros_like(p), where=r > 0).sum(-1))
              for p, r in ((p1, found.first), (p2, found.second)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.sqrt(found.ratio * (h1 / h2) ** 3)
        wanted = scale * _length(p2, v2, -found.m), _length(p1, v1, found.mu) / scale
    idle = h1 - p1.sum(-1) < h2 - p2.sum(-1)  # the first side has less of the slack
    mu, m = found.mu.copy(), found.m.copy()
    for want, of, p, v, sign, out in ((wanted[0], idle, p1, v1, 1.0, mu), (wanted[1], ~idle, p2, v2, -1.0, m)):
        i = np.flatnonzero(of & (want > 0) & np.isfinite(want) & (p.sum(-1) > 0))
        out[i] = sign * _reaching(p[i], v[i], want[i])
    return mu, m


def _length(p: Floats, v: Floats, tau: Floats) -> Floats:
    return inner(p, np.sqrt(np.maximum(tau[:, None] - v, 0.0)))


def _reaching(p: Floats, v: Floats, want: Floats) -> Floats:
    """τ with Σ p√(τ − v) = want, or a little more."""
    low, high = v.max(-1), v.max(-1) + (want / np.maximum(p.sum(-1), LEAST)) ** 2
    for _ in range(HALVINGS if len(want) else 0):
        middle = (low + high) / 2
        over = _length(p, v, middle) > want
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray(high)
