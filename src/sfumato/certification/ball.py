"""Proved levels over the χ² ball: any dual point bounds the worst case, so a good one and outward rounding are a proof.

For a row with values v₁ given s₁ and v₂ given s₂, and any μ ≥ max v₁, m ≤ min v₂ [002, Thm 3, rearranged]:
P(y|s₁) ≤ z³·P(y|s₂) for all P in the ball as soon as C²μ ≤ C²m z³ + (l₁^{2/3} + z·l₂^{2/3})³, with
l₁ = Σ P̂(s₁,u)√(μ − v₁), l₂ = Σ P̂(s₂,u)√(v₂ − m), C = √(1+B) − 1 + P̂(s₁) + P̂(s₂).
Cells with P̂ = 0 take part through μ and m alone: the ball may put mass on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.outward import dot_down, down, down_any, float_range, up, up_any
from sfumato.joint import Joint

SPLITS = 17  # shares of the slack tried for each pair
HALVINGS = 28  # of the search for a multiplier: an error matters to the bound in second order, to validity not at all
REFINEMENTS = 20
NEWTON = 12
CLIMBS = 60  # the steps that lead to a root from the left; few are needed unless it is nearly double


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """The ball's data as floats below and above the exact rationals."""

    p: tuple[Floats, Floats]  # P̂(s, u)
    ps: tuple[Floats, Floats]  # P̂(s)
    slack: tuple[float, float]  # √(1+B) − 1

    @classmethod
    def around(cls, joint: Joint, radius: float) -> Ball:
        exact, total = joint.weights()
        low, high = float_range(total)
        cells, secrets = float_range(exact), float_range(exact.sum(1))
        zero, empty = exact == 0, exact.sum(1) == 0
        p = (down(cells[0] / high), np.where(zero, 0.0, up(cells[1] / low)))
        ps = (down(secrets[0] / high), np.where(empty, 0.0, up(secrets[1] / low)))
        root = np.sqrt(down_any(1 + radius)), np.sqrt(up_any(1 + radius))
        slack = max(0.0, float(down_any(down_any(root[0]) - 1))), float(up_any(up_any(root[1]) - 1))
        return cls(p, ps, (slack if radius > 0 else (0.0, 0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One secret's part of many rows: P̂ of its cells, P̂ of the secret, and the values, each below and above."""

    p: tuple[Floats, Floats]  # [i, k]
    ps: tuple[Floats, Floats]  # [i]
    v: tuple[Floats, Floats]  # [i, k]

    def __getitem__(self, at: Any) -> Side:
        return Side(*((x[0][at], x[1][at]) for x in (self.p, self.ps, self.v)))


def multiplier(side: Side, share: Any, *, greatest: bool) -> Floats:
    """A good μ ≥ max v (or m ≤ min v) when this secret may spend `share` of the slack; any value there is valid."""
    sign = 1.0 if greatest else -1.0
    v = sign * (side.v[1] if greatest else side.v[0])
    top = v.max(-1)
    depth = top[:, None] - v
    width = np.maximum(depth.max(-1), 1e-300)
    mass = np.maximum(side.ps[1], 1e-300)
    q = side.p[1] / mass[:, None]
    c = (1 + np.minimum(share / mass, 1e8)) ** 2
    low, high = np.full(top.shape, -60.0), np.log1p(2 / np.maximum(c**2 - 1, 1e-18))
    for _ in range(HALVINGS):
        mid = (low + high) / 2
        root = np.sqrt(depth / width[:, None] + np.exp(mid)[:, None])
        steep = (q * root).sum(-1) * (q / root).sum(-1) > c
        low, high = np.where(steep, mid, low), np.where(steep, high, mid)
    gap = np.where(side.ps[1] > 0, width * np.exp(high), 0.0)
    return sign * np.where(depth.max(-1) > 0, up(top + gap) if greatest else top + gap + 4e-16 * np.abs(top), top)


def mean_bound(side: Side, slack: float, *, greatest: bool) -> Floats:
    """A proved bound of the greatest (or least) Σ_u P(u|s)·v over the ball for one secret alone.

    μ − (Σ P̂√(μ − v))² / (P̂_s + b)² bounds it from above, m + (Σ P̂√(v − m))² / (P̂_s + b)² from below.
    """
    tau = multiplier(side, slack, greatest=greatest)
    room = up(side.ps[1] + slack)
    if greatest:
        tau = np.maximum(tau, side.v[1].max(-1))
        lengths = dot_down(side.p[0], down(np.sqrt(down(np.maximum(tau[:, None] - side.v[1], 0)))))
        return np.asarray(np.minimum(up_any(tau - down(down(lengths / room) ** 2)), side.v[1].max(-1)))
    tau = np.minimum(tau, side.v[0].min(-1))
    lengths = dot_down(side.p[0], down(np.sqrt(down(np.maximum(side.v[0] - tau[:, None], 0)))))
    return np.asarray(np.maximum(down_any(tau + down(down(lengths / room) ** 2)), side.v[0].min(-1)))


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


def pair_bound(first: Side, second: Side, mu: Floats, m: Floats, slack: tuple[float, float]) -> Floats:
    """Proved upper bounds z³ of P(y|s₁) / P(y|s₂) over the ball from the dual points (μ, m)."""
    mu, m = np.maximum(mu, first.v[1].max(-1)), np.minimum(m, second.v[0].min(-1))
    a = two_thirds_down(dot_down(first.p[0], down(np.sqrt(down(np.maximum(mu[:, None] - first.v[1], 0))))))
    b = two_thirds_down(dot_down(second.p[0], down(np.sqrt(down(np.maximum(second.v[0] - m[:, None], 0))))))
    room = (down(down(slack[0] + first.ps[0]) + second.ps[0]), up(up(slack[1] + first.ps[1]) + second.ps[1]))
    square = down(room[0] * room[0]), up(room[1] * room[1])
    gain, loss = down(square[0] * np.maximum(m, 0)), up(square[1] * np.maximum(-m, 0))
    need = up(square[1] * np.maximum(mu, 0))
    z = _root(need, gain - loss, a, b)
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


def _root(need: Floats, gain: Floats, a: Floats, b: Floats) -> Floats:
    """The z with need = gain·z³ + (a + bz)³ in floats (a suggestion; pair_bound checks it).

    With gain ≥ 0 the right side is convex and Newton descends from any z beyond the root.
    """

    def value(z: Floats) -> Floats:
        return gain * z**3 + (a + b * z) ** 3

    lead = np.maximum(gain + b**3, 1e-300)
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.cbrt(need / lead)
        for _ in range(NEWTON):
            z = z - (value(z) - need) / np.maximum(3 * gain * z**2 + 3 * b * (a + b * z) ** 2, 1e-300)
        z = np.nan_to_num(z, nan=np.inf)
    return z if (gain >= 0).all() else np.where(gain >= 0, z, _least_root(need, np.maximum(-gain, 0), a, b))


def _least_root(need: Floats, loss: Floats, a: Floats, b: Floats) -> Floats:
    """The least z with a + bz = (need + loss·z³)^{1/3}: concave less convex, so Newton climbs to it from 0."""
    z = np.zeros(need.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(CLIMBS):
            h = np.cbrt(need + loss * z**3)
            short, slope = h - a - b * z, b - loss * (z / h) ** 2
            z = np.where(short > 0, np.where(slope > 0, z + short / slope, np.inf), z)
    return np.nan_to_num(z, nan=np.inf)


def best_pair_bound(first: Side, second: Side, slack: tuple[float, float], *, refine: bool) -> Floats:
    """The least proved bound over how the slack is shared; refined by golden section where asked."""

    def bound(t: Floats) -> Floats:
        mu = multiplier(first, t * slack[1], greatest=True)
        m = multiplier(second, (1 - t) * slack[1], greatest=False)
        return pair_bound(first, second, mu, m, slack)

    grid = np.sin(np.linspace(0, np.pi / 2, SPLITS)) ** 2
    values = np.stack([bound(np.full(len(first.ps[0]), t)) for t in grid])
    best, at = values.min(0), values.argmin(0)
    if not refine:
        return np.asarray(best)
    low, high = grid[np.maximum(at - 1, 0)], grid[np.minimum(at + 1, SPLITS - 1)]
    for _ in range(REFINEMENTS):
        left, right = high - 0.618034 * (high - low), low + 0.618034 * (high - low)
        a, c = bound(left), bound(right)
        best = np.minimum(best, np.minimum(a, c))
        low, high = np.where(a > c, left, low), np.where(a > c, high, right)
    return np.asarray(best)
