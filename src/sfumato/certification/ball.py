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
from sfumato.joint import Joint
from sfumato.mechanism.law import Weights
from sfumato.tolerances import ALIKE, HALVINGS, LEAST
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean, kappa, worst_pairs
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.tilting import inner

DUALS, CURVE_SHARES = 33, 1024  # shares of the budget with a dual point of their own, and those of a curve


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


def split_grid(total: float, count: int) -> tuple[Floats, Floats]:
    """Shares of a budget for one side, dense at both ends, and for each what the one before leaves for the other."""
    grid = total * np.sin(np.linspace(0, np.pi / 2, count + 1)) ** 2
    grid[-1] = total
    return grid[1:], np.minimum(up(np.maximum(total - grid[:-1], 0)), up(total))


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
        return self.means(side, self.budget, np.full(1, self.spent[1]), greatest)[:, 0]

    def curves(self, side: Side) -> Range:
        spent, left = split_grid(self.spent[1], CURVE_SHARES)
        return self.curve(side, spent, greatest=True), self.curve(side, left, greatest=False)

    def curve(self, side: Side, spent: Floats, *, greatest: bool) -> Floats:
        """Proved bounds [row, share] of the greatest (or least) mean of each row at each share of the budget."""
        place = np.rint(DUALS * np.sqrt(np.minimum(spent / self.spent[1], 1.0)))
        out = np.empty((len(side.ps[0]), len(spent)))
        for k in np.unique(place):
            dual = self.budget * max((k / DUALS) ** 2, 1e-6)
            out[:, place == k] = self.means(side, dual, spent[place == k], greatest)
        return out

    def means(self, side: Side, share: float | Floats, spent: Floats, greatest: bool) -> Floats:
        """Bounds at shares |κ|b' (or b') of the budget, [row, share], from the dual point best for one share."""
        v, limit = side.v[1 if greatest else 0], divergence_at(share, side.ps[1], self.alpha)
        sign = 1.0 if greatest else -1.0
        tau, gaps = gaps_to(side, sign * greatest_mean(sign * v, side.q, limit, self.alpha).tau, greatest=greatest)
        gain = self._gain(side, gaps, spent)
        if greatest:
            return np.asarray(np.minimum(up_any(tau[:, None] - gain), v.max(-1, keepdims=True)))
        return np.asarray(np.maximum(down_any(tau[:, None] + gain), v.min(-1, keepdims=True)))

    def suggested(self, first: Side, second: Side) -> Pairs:
        """The worst pairs in floats, with good dual points."""
        values = first.v[1], first.q, first.ps[1], second.v[0], second.q, second.ps[1]
        return worst_pairs(*values, self.budget, self.alpha)

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
        """Bounds of x^r for r = κ or 1/|κ|; at order 2, exactly, a root and a square."""
        if self.alpha != 2:
            return power(x, r)
        near = np.sqrt(x) if r < 1 else x * x
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

    def pairs(self, first: Side, second: Side) -> Floats:
        """From the dual points of the worst split that floats find, as they are and balanced."""
        found = self.suggested(first, second)
        proved = self._joined(first, second, found.mu, found.m, found.ratio)
        i = np.flatnonzero(proved > found.ratio * (1 + ALIKE))  # these get a second dual point
        if i.size:
            few, one, two = Pairs(*(x[i] for x in found.arrays)), first.at(i), second.at(i)
            proved[i] = np.minimum(proved[i], self._joined(one, two, *balanced(few, one, two), few.ratio))
        return proved

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
    """The z near `start` with need = gain·z³ + (a + bz)³, by Newton in floats (a suggestion; pair_bound checks it)."""
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
