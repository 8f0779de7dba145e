"""Proved levels over the χ² ball: any dual point bounds the worst case; layouts too large to compare row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.outward import dot_down, down, down_any, float_range, up, up_any
from sfumato.certification.rationals import Attained
from sfumato.joint import Joint
from sfumato.mechanism import Atoms
from sfumato.tolerances import ALIKE, LEAST
from sfumato.uncertainty.chi_square import balanced, greatest_mean, spread_of, worst_pairs
from sfumato.uncertainty.sets import Pairs, best_pairs

if TYPE_CHECKING:
    from sfumato.alphabet import Index
    from sfumato.mechanism.law import Weights

# --- any dual point bounds the worst case, so a good one and outward rounding are a proof -----------------------------
# For a row with values v₁ given s₁ and v₂ given s₂, and any μ ≥ max v₁, m ≤ min v₂ [002, Thm 3, rearranged]: P(y|s₁) ≤
# z³·P(y|s₂) for all P in the ball as soon as C²μ ≤ C²m z³ + (l₁^{2/3} + z·l₂^{2/3})³, with l₁ = Σ P̂(s₁,u)√(μ − v₁),
# l₂ = Σ P̂(s₂,u)√(v₂ − m), C = √(1+B) − 1 + P̂(s₁) + P̂(s₂). Cells with P̂ = 0 take part through μ and m alone: the
# ball may put mass on them. Good dual points come from the float search in `uncertainty`; whatever it returns, the
# bound computed from it here is valid.


ROOT_STEPS = 12
CLOSE_SHARES, COARSE_SHARES = 512, 64  # of the slack at which curves are compared; fewer where nothing depends on it
Range = tuple[Floats, Floats]  # below and above


@dataclass(frozen=True, slots=True, eq=False)
class ProvedBall:
    """The ball's data as floats below and above the exact rationals."""

    p: Range  # P̂(s, u)
    ps: Range  # P̂(s)
    slack: tuple[float, float]  # √(1+B) − 1
    rest: Range  # P̂(s) − P̂(s, u)
    steps: int = CLOSE_SHARES  # shares of the slack at which atoms are compared

    @classmethod
    def around(cls, joint: Joint, radius: float, steps: int = CLOSE_SHARES) -> ProvedBall:
        p, ps, rest = enclosed(joint)
        root = np.sqrt(down_any(1 + radius)), np.sqrt(up_any(1 + radius))
        slack = max(0.0, float(down_any(down_any(root[0]) - 1))), float(up_any(up_any(root[1]) - 1))
        return cls(p, ps, (slack if radius > 0 else (0.0, 0.0)), rest, steps)

    def alone(self, side: Side, *, greatest: bool) -> Floats:
        return mean_bound(side, self.slack[1], greatest=greatest)

    def pairs(self, first: Side, second: Side) -> Floats:
        return best_pair_bound(first, second, self.slack)

    def masses(self) -> tuple[Floats, Floats]:
        """Proved bounds of the least and greatest P(u|s) over the ball, from [000, Lemma 1] with outward rounding.

        With t = P̂_s + b the least is 2p²/(t(X + √·))-like in the joint's own scale: L = 2q²/(X + √·), q = p/P̂_s,
        C = (1 + b/P̂_s)², X = C + 2q − 1, √· = √((C − 1)(C − (2q − 1)²)); the greatest is 1 minus that of the rest.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            q_low = np.minimum(down(self.p[0] / self.ps[1][:, None]), 1.0)
            q_high = np.minimum(up(self.p[1] / self.ps[0][:, None]), 1.0)
            ratio = up(self.slack[1] / self.ps[0])[:, None]
            c = up(up(1 + ratio) ** 2)

        def least(low: Floats, high: Floats) -> Floats:
            # L grows with q and falls with C: the lower end of q and the upper end of C bound it from below.
            x = up_any(up_any(c + 2 * low) - 1)
            inner = up(up(c - 1) * up(np.maximum(c - down((2 * low - 1) ** 2 * (1 - 2.0**-50)), 0)))
            out = down(down(2 * down(low * low)) / up(x + up(np.sqrt(inner))))
            return np.where(np.isfinite(c) & (self.ps[1][:, None] > 0), np.nan_to_num(out, nan=0.0), 0.0)

        return least(q_low, q_high), np.minimum(up(1 - least(down(np.maximum(1 - q_high, 0)), 1 - q_low)), 1.0)

    def atoms(self, c: Atoms) -> Attained:
        return over_atoms(c, self, self.steps)


def enclosed(joint: Joint) -> tuple[Range, Range, Range]:
    """P̂(s, u), P̂(s) and P̂(s) − P̂(s, u) as floats below and above the exact rationals."""
    exact, total = joint.weights()
    sums = exact.sum(1)
    return shares(exact, total), shares(sums, total), shares(sums[:, None] - exact, total)


def shares(weights: Weights, total: int) -> Range:
    """weights / total, below and above; zeros stay zeros."""
    (low, high), (below, above) = float_range(total), float_range(weights)
    return down(below / high), np.where(weights == 0, 0.0, up(above / low))


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


def mean_bound(side: Side, slack: float, *, greatest: bool) -> Floats:
    """A proved bound of the greatest (or least) Σ_u P(u|s)·v over the ball for one secret alone.

    μ − (Σ P̂√(μ − v))² / (P̂_s + b)² bounds it from above, m + (Σ P̂√(v − m))² / (P̂_s + b)² from below.
    """
    sign, v = (1.0, side.v[1]) if greatest else (-1.0, -side.v[0])  # the least is the greatest of −v
    edge = v.max(-1)
    tau = np.maximum(greatest_mean(v, side.q, spread_of(slack, side.ps[1])).tau, edge)
    gain = down(down(_length(side.p[0], tau[:, None] - v) / up(side.ps[1] + slack)) ** 2)
    return np.asarray(sign * np.minimum(up_any(tau - gain), edge))


def _length(p: Floats, gaps: Floats) -> Floats:
    """Σ p√gap, from below."""
    return dot_down(p, down(np.sqrt(down(np.maximum(gaps, 0)))))


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


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """A dual point of each row for one secret, with the length that goes with it to the power 2/3, rounded down."""
    point: Floats  # μ ≥ max v, or m ≤ min v
    length: Floats
    ps: tuple[Floats, Floats]

    @classmethod
    def above(cls, side: Side, mu: Floats) -> Dual:
        mu = np.maximum(mu, side.v[1].max(-1))
        return cls(mu, two_thirds_down(_length(side.p[0], mu[:, None] - side.v[1])), side.ps)

    @classmethod
    def below(cls, side: Side, m: Floats) -> Dual:
        m = np.minimum(m, side.v[0].min(-1))
        return cls(m, two_thirds_down(_length(side.p[0], side.v[0] - m[:, None])), side.ps)

    @classmethod
    def suggested(cls, side: Side, slack: float, *, greatest: bool) -> Dual:
        """The dual point that is best for one share of the slack; valid for every share."""
        sign = 1.0 if greatest else -1.0
        tau = sign * greatest_mean(sign * side.v[1 if greatest else 0], side.q, spread_of(slack, side.ps[1])).tau
        return cls.above(side, tau) if greatest else cls.below(side, tau)

    def at(self, i: Index) -> Dual:
        return Dual(self.point[i], self.length[i], (self.ps[0][i], self.ps[1][i]))


def pair_bound(
    first: Side, second: Side, mu: Floats, m: Floats, ratio: Floats, slack: tuple[float, float]
) -> Floats:
    """Proved upper bounds z³ of P(y|s₁) / P(y|s₂) over the ball from dual points (μ, m); `ratio` is where to look."""
    return joined(Dual.above(first, mu), Dual.below(second, m), ratio, slack)


def joined(first: Dual, second: Dual, ratio: Floats, slack: tuple[float, float]) -> Floats:
    """The proved bound z³ of two dual points together."""
    mu, m, a, b = first.point, second.point, first.length, second.length
    room = (down(down(slack[0] + first.ps[0]) + second.ps[0]), up(up(slack[1] + first.ps[1]) + second.ps[1]))
    square = down(room[0] * room[0]), up(room[1] * room[1])
    gain, loss = down(square[0] * np.maximum(m, 0)), up(square[1] * np.maximum(-m, 0))
    need = up(square[1] * np.maximum(mu, 0))
    z = _root(need, gain - loss, a, b, np.cbrt(ratio))
    proved = np.full(z.shape, np.inf)
    for step in (4e-15, 1e-13, 1e-11, 1e-9, 1e-6):
        with np.errstate(over="ignore", invalid="ignore"):
            far = z * (1 + step)
            cube_low, cube_high = down(down(far * far) * far), up(up(far * far) * far)
            line = down(a + down(b * far))
            holds = up(need + up(loss * cube_high)) <= down(down(gain * cube_low) + down(down(line * line) * line))
        holds &= np.isfinite(cube_high)
        proved = np.where(holds & np.isinf(proved), cube_high, proved)
        if holds.all():
            break
    return proved


def _root(need: Floats, gain: Floats, a: Floats, b: Floats, start: Floats) -> Floats:
    """The z near `start` with need = gain·z³ + (a + bz)³, by Newton in floats (a suggestion; pair_bound checks it)."""
    z = start
    with np.errstate(all="ignore"):
        for _ in range(ROOT_STEPS):
            line, square = a + b * z, z * z
            step = (gain * square * z + line * line * line - need) / (3 * (gain * square + b * (line * line)))
            z = z - step
            if np.nanmax(np.abs(step), initial=0.0) <= 1e-15:
                break
    return np.where(np.isfinite(z) & (z > 0), z, start)


def best_pair_bound(first: Side, second: Side, slack: tuple[float, float]) -> Floats:
    """Proved bounds for pairs, from the dual points of the worst split that floats find, as they are and balanced."""
    found = worst_pairs(first.v[1], first.q, first.ps[1], second.v[0], second.q, second.ps[1], slack[1])
    proved = pair_bound(first, second, found.mu, found.m, found.ratio, slack)
    i = np.flatnonzero(proved > found.ratio * (1 + ALIKE))  # these get a second dual point
    if i.size:
        few = Pairs(found.ratio[i], found.first[i], found.second[i], found.mu[i], found.m[i])
        one, two = (Side(*((x[0][i], x[1][i]) for x in (s.p, s.ps, s.v))) for s in (first, second))
        mu, m = balanced(few, one.v[1], one.p[1], two.v[0], two.p[1])
        proved[i] = np.minimum(proved[i], pair_bound(one, two, mu, m, few.ratio, slack))
    return proved


# --- proved levels over the χ² ball for layouts with too many rows to compare one by one ------------------------------
# Any dual point of an atom bounds its mean for *every* share b' of the slack at once: m + (Σ P̂√(v − m))² / (P̂_s +
# b')² from below and μ − (Σ P̂√(μ − v))² / (P̂_s + b')² from above. Floats suggest one for every b' of a grid. Values
# of an atom that are nearly the same count as the outermost of them, so that an atom of few levels costs little. With
# the greatest upper and the least lower curve of every secret, M_s(b') and m_s(b'), the level is at most the maximum
# over s₁ ≠ s₂ and k of M_{s₁}(b_{k+1}) / m_{s₂}(b − b_k) for any grid 0 = b_0 < … < b_K = b, because both are
# monotone.


DUAL_NODES = 33  # shares of the slack at which floats look for a dual point; those between are interpolated
ATOMS_AT_ONCE = 512  # atoms at a time
VALUES_ALIKE = 1e-7  # values closer than this, relative to the greatest, are taken as one


def over_atoms(c: Atoms, ball: ProvedBall, grid_size: int = CLOSE_SHARES) -> Attained:
    """A proved bound of the worst ratio between any two atoms of different secrets."""
    b = ball.slack[1]

    def both(side: Side, spent: Floats, left: Floats) -> tuple[Floats, Floats]:
        side = levels(side)
        return curves(side, spent, b, greatest=True), curves(side, left, b, greatest=False)

    return by_curves(c, ball.p, ball.ps, split_grid(b, grid_size), both)


def split_grid(total: float, count: int) -> tuple[Floats, Floats]:
    """Shares of a budget for one side, dense at both ends, and for each what the one before leaves for the other."""
    grid = total * np.sin(np.linspace(0, np.pi / 2, count + 1)) ** 2
    grid[-1] = total
    return grid[1:], np.minimum(up(np.maximum(total - grid[:-1], 0)), up(total))


def by_curves(
    c: Atoms, p: Range, ps: Range, split: tuple[Floats, Floats],
    both: Callable[[Side, Floats, Floats], tuple[Floats, Floats]],
) -> Attained:
    """The bound from `both` curves of each atom, of the greatest and of the least mean at each share."""
    shape = len(ps[0]), len(split[0])
    top, low = np.zeros(shape), np.full(shape, np.inf)
    for start in range(0, len(c.secret), ATOMS_AT_ONCE):
        part = slice(start, start + ATOMS_AT_ONCE)
        s = c.secret[part]
        side = Side((p[0][s], p[1][s]), (ps[0][s], ps[1][s]), float_range(c.heights[part]))
        most, least = both(side, *split)
        np.maximum.at(top, s, most)
        np.minimum.at(low, s, least)
    ratios = up(best_pairs(top, low))
    k = int(np.argmax(ratios))
    where = {"first": int(np.argmax(top[:, k])), "second": int(np.argmin(low[:, k]))}
    return Attained(max(1.0, float(ratios[k])) if not np.isnan(ratios[k]) else np.inf, where)


def levels(side: Side) -> Side:
    """The same atoms with values that are nearly alike as one cell: their masses together, their outermost values."""
    order = np.argsort(side.v[0], axis=1)
    low, high = (np.take_along_axis(x, order, 1) for x in side.v)
    p = [np.take_along_axis(x, order, 1) for x in side.p]
    jump = np.diff(low, axis=1) > VALUES_ALIKE * high.max(1, keepdims=True)
    group = np.concatenate([np.zeros((len(low), 1), np.int64), np.cumsum(jump, 1)], 1)
    count = int(group.max()) + 1
    if count > low.shape[1] // 2:
        return side
    rows = np.arange(len(low))
    # A level that an atom does not have repeats its greatest value and has no mass.
    v_low = np.repeat(low[:, -1:], count, 1)
    v_high = np.repeat(high[:, :1], count, 1)
    mass = np.zeros((2, len(low), count))
    for k in range(low.shape[1]):
        g = group[:, k]
        v_low[rows, g] = np.minimum(v_low[rows, g], low[:, k])
        v_high[rows, g] = np.maximum(v_high[rows, g], high[:, k])
        mass[0][rows, g] = down(mass[0][rows, g] + p[0][:, k])
        mass[1][rows, g] = up(mass[1][rows, g] + p[1][:, k])
    return Side((mass[0], mass[1]), side.ps, (v_low, v_high))


def curves(side: Side, budgets: Floats, slack: float, *, greatest: bool) -> Floats:
    """Proved bounds [atom, budget] of the greatest (or least) mean of each atom at each share of the slack."""
    sign, edge = (1.0, side.v[1].max(-1)) if greatest else (-1.0, side.v[0].min(-1))
    values = side.v[1] if greatest else side.v[0]
    tau = edge[:, None] + sign * suggested(sign * values, side, budgets, slack)
    room = up(side.ps[1][:, None] + budgets)
    length = np.zeros(tau.shape)
    for k in range(values.shape[1]):
        gaps = np.maximum(sign * (tau - values[:, k, None]), 0)
        length = down(length + down(side.p[0][:, k, None] * down(np.sqrt(down(gaps)))))
    gain = down(down(length * length) / up(room * room))
    if greatest:
        return np.asarray(np.minimum(edge[:, None], up_any(tau - gain)))
    return np.asarray(np.maximum(edge[:, None], down_any(tau + gain)))


def suggested(v: Floats, side: Side, budgets: Floats, slack: float) -> Floats:
    """How far beyond the greatest v a good dual point lies, for every budget, in floats (whatever it is, it is valid).

    Its logarithm is nearly linear in that of the budget, so a few budgets are enough to interpolate from.
    """
    q, mass = side.q, side.ps[1]
    nodes = np.geomspace(1e-6, 1.0, DUAL_NODES)
    width = v.max(-1) - v.min(-1)
    logs = np.empty((len(v), DUAL_NODES))
    near: Floats | None = None
    for i, share in enumerate(nodes[::-1]):
        near = greatest_mean(v, q, spread_of(share * slack, mass), near, 1e-6).gap
        logs[:, DUAL_NODES - 1 - i] = near
        near = near + 0.5 * np.log(nodes[1] / nodes[0])
    at = np.clip(np.log(np.maximum(budgets / slack, LEAST)), np.log(nodes[0]), 0.0)
    weight = np.stack([np.interp(at, np.log(nodes), row) for row in np.eye(DUAL_NODES)])
    return np.asarray(np.where(width > 0, width, 0.0)[:, None] * np.exp(logs @ weight))
