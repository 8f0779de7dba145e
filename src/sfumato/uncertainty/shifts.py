"""How far an output moves beliefs about a secret over the χ² ball: the worst P(y|s)/P(y) and its inverse, from inside.

P(y|s)/P(y) = 1/(π + (1−π) w/u) with π = P(s), u = E[r|s], w = E[r|¬s], r = Q(y|·). The cells of all other secrets are
one law: P is in F iff h₁/π + h₂/(1−π) ≤ 1 + B with h₁ = Σ P̂(s,x)²/P(x|s), h₂ = Σ P̂(s',x)²/P(s',x|¬s) over s' ≠ s. A row
that reads X alone is the same for all s', which merge: for given P(x|¬s) the cheapest split among them is proportional
to P̂ (Cauchy–Schwarz). With √h₁ = P̂_s + α and √h₂ = 1 − P̂_s + β that leaves α, β ≥ 0 with α + β ≤ √(1+B) − 1; u and w
are then extreme means, and π is an end of an interval.

The multipliers of both means and π are found together by Newton's method (`tilting.Tilt`). The ratio need not have
one summit alone, so that a coarse grid of (α, β) is asked as well; where it knows better, or Newton's method does not
settle, grids are narrowed until they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.tolerances import ALIKE, BLOCK, LEAST, SLIP
from sfumato.uncertainty.balls import ChiSquareBall
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean
from sfumato.uncertainty.tilting import NEWTON, Depths, Tilt, newton

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Bools, Ints

AROUND = np.linspace(-1.0, 1.0, 3)
HALFWAY = 0.5  # of the way of P(s) to 0 or 1, in one step


@dataclass(frozen=True, slots=True)
class Search:
    """A grid of shares of the slack, dense at both ends, and how often it is narrowed."""

    nodes: int
    zooms: int
    close: float  # of a step of Newton's method
    checks: bool = True  # whether a coarse grid is asked for another summit

    def first(self, nodes: int | None = None) -> tuple[Floats, Floats]:
        grid = np.sin(np.linspace(0, np.pi / 2, nodes or self.nodes)) ** 2
        a, b = (x.ravel() for x in np.meshgrid(grid, grid, indexing="ij"))
        inside = a + b <= 1 + SLIP
        return a[inside], b[inside]


EXACT = Search(17, 24, NEWTON.close)
CLOSE = Search(9, 15, 1e-6)  # to about 1e-8 of a ratio: the objective is flat at its top
ROUGH = Search(7, 6, 1e-3, checks=False)  # any P it finds is in the ball, which is enough for a cut


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """For each case the greatest P(y|s)/P(y) (above) or P(y)/P(y|s) (below) reached, and the P that reaches it."""

    ratio: Floats
    given: Floats  # [i, x]: P(x|s)
    rest: Floats  # [i, cell]: the law given ¬s, over X or over the cells of the other secrets in order
    share: Floats  # P(s)


def worst_shifts(ball: ChiSquareBall, rows: Floats, s: Ints, above: Bools, search: Search = EXACT) -> Shifts:
    """The worst distribution in the ball for each case i: row[i] over x or (s, x), secret s[i], above or below."""
    numbers = len(search.first()[0]) * ball.joint.p.size
    step = max(1, BLOCK // numbers)
    parts = [
        _searched(_sides(ball, rows[i : i + step], s[i : i + step], above[i : i + step], search.close), ball, search)
        for i in range(0, max(len(rows), 1), step)
    ]
    return Shifts(*(np.concatenate([getattr(x, n) for x in parts]) for n in ("ratio", "given", "rest", "share")))


def others(table: Array, s: Ints) -> Array:
    """[i, cell]: for each case the cells of the secrets other than s[i]; table is [s, x] or one for each case."""
    count, secrets = len(s), table.shape[-2]
    away = np.arange(secrets - 1) + (np.arange(secrets - 1) >= np.asarray(s)[:, None])  # [i, s'], s' ≠ s
    picked = table[away] if table.ndim == 2 else table[np.arange(count)[:, None], away]
    return np.asarray(picked.reshape(count, (secrets - 1) * table.shape[-1]))


def _sides(ball: ChiSquareBall, rows: Floats, s: Ints, above: Bools, close: float) -> _Sides:
    p = ball.joint.p
    b = 1 + ball.radius
    if rows.ndim == 2:
        return _Sides(rows, p[s], rows, np.maximum(p.sum(0) - p[s], 0.0), above, b, close)
    own = rows[np.arange(len(rows)), s]
    return _Sides(own, p[s], others(rows, s), others(p, s), above, b, close)


def _searched(sides: _Sides, ball: ChiSquareBall, search: Search) -> Shifts:
    found, settled = _by_newton(sides, ball.radius, search.close)
    if search.checks and settled.any():
        a, b = (np.broadcast_to(x, (int(settled.sum()), len(x))) for x in search.first(5))
        known = sides.at(settled).ratio(ball.slack * a, ball.slack * b)[0].max(1)
        settled[settled] = known <= found.ratio[settled] * (1 + ALIKE)
    if len(left := np.flatnonzero(~settled)):
        slow = _by_grids(sides.at(left), ball.slack, search)
        for name in ("ratio", "given", "rest", "share"):
            getattr(found, name)[left] = getattr(slow, name)
    return found


def _by_newton(sides: _Sides, radius: float, close: float) -> tuple[Shifts, Bools]:
    """Multipliers y₁, y₂ and π at which nothing is gained by any of them, and where that was found.

    M = π + (1−π)w/u is least (above) or greatest (below) on h₁/π + h₂/(1−π) = 1 + B, h = P̂²C. With σ = ±1, u' = σ·
    width₁·C₁'/B₁² and w' = −σ·width₂·C₂'/B₂² both means ask for the same multiplier λ of that equation,
    π(1−π)·w·width₁/(uB₁P̂_s)² = (1−π)²·width₂/(u(B₂(1−P̂_s))²), and π for σ(1 − w/u) = λ(h₁/π² − h₂/(1−π)²).
    """
    sign = np.where(sides.above, 1.0, -1.0)
    P1, P2 = sides.mine.sum(1), sides.others.sum(1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one = Depths.of(sign[:, None] * sides.own, sides.mine / P1[:, None])
        two = Depths.of(-sign[:, None] * sides.away, sides.others / P2[:, None])
        P1, P2 = P1 / (P1 + P2), P2 / (P1 + P2)
        u, w = (np.abs(x.top - x.width * x.mean) for x in (one, two))
        far = np.stack([P2 * w / u * x.width * np.sqrt(x.variance) / m for x, m in ((one, u), (two, w))])
        size = np.sqrt(radius / (far[0] ** 2 / P1 + far[1] ** 2 / P2 + (1 - w / u) ** 2 * P1 * P2))
        y1, y2 = one.first((size * far[0] / P1) ** 2), two.first((size * far[1] / P2) ** 2)
        pi = np.clip(P1 * (1 - sign * size * (1 - w / u) * P2), 0.05 * P1, 1 - 0.05 * P2)
        even = np.log((1 - pi) * two.width * u * P1**2 / (pi * one.width * w * P2**2))  # λ alike: y₁ − y₂
        alone = np.log(u * P2**2 / ((1 - pi) ** 2 * two.width * size))  # λ ≈ 1/size, where π alone can move
        y2 = np.where(two.flat, np.where(one.flat, alone, y1 - even), y2)
        y1 = np.where(one.flat, y2 + even, y1)
        usual = np.isfinite(y1 + y2 + pi) & one.tilts & two.tilts & (radius > 0) & (P1 > 0) & (P2 > 0)

        def step(live: Ints, at: Floats) -> Floats:
            tilts = one.tilt(at[0], live), two.tilt(at[1], live)
            found = _shift_step(*tilts, one, two, live, sign[live], P1[live], P2[live], at[2], radius)
            found[2] = np.clip(found[2], -HALFWAY * at[2], HALFWAY * (1 - at[2]))
            return found

        state = np.stack([y1, y2, pi])
        settled = newton(step, state, np.flatnonzero(usual), close * np.array([[1.0], [1.0], [HALFWAY]]))
        y1, y2, pi = (np.where(settled, x, y) for x, y in zip(state, (0.0, 0.0, P1), strict=True))
        t1, t2 = one.tilt(y1, slice(None)), two.tilt(y2, slice(None))
        u, w = sign * (one.top - one.width * t1.drop), -sign * (two.top - two.width * t2.drop)
        spent = (P1 - pi) ** 2 / (pi * (1 - pi)) + P1**2 * t1.excess / pi + P2**2 * t2.excess / (1 - pi)
        constant = one.flat & two.flat & (u == w) & (u > 0)  # the same whatever P is
        settled = (settled & (np.abs(spent - radius) <= close * radius)) | constant
        t = np.clip(radius / np.maximum(spent, LEAST), 0.0, 1.0)  # Σ P̂²/P − 1 is convex: P̂ + t(P − P̂) is in the ball
        share = P1 + t * (pi - P1)
        u0, w0 = sign * (one.top - one.width * one.mean), -sign * (two.top - two.width * two.mean)
        u, w = _towards(P1, u0, pi, u, t, share), _towards(P2, w0, 1 - pi, w, t, 1 - share)
        first = _towards(P1[:, None], one.q, pi[:, None], t1.law, t[:, None], share[:, None])
        rest = _towards(P2[:, None], two.q, 1 - pi[:, None], t2.law, t[:, None], 1 - share[:, None])
        mixed = share + (1 - share) * w / u
    return Shifts(np.where(sides.above, 1 / mixed, mixed), first, rest, share), settled


def _towards(P: Floats, q: Floats, pi: Floats, law: Floats, t: Floats, share: Floats) -> Floats:
    """The conditional of P̂ + t(P − P̂), or its mean, from those of both."""
    return np.asarray((P * q + t * (pi * law - P * q)) / share)


def _shift_step(
    t1: Tilt, t2: Tilt, one: Depths, two: Depths, at: Ints, sign: Floats, P1: Floats, P2: Floats, pi: Floats,
    radius: float,
) -> Floats:
    """One step in (y₁, y₂, π), a column for each case."""
    rest = 1 - pi
    u, w = sign * (one.top[at] - one.width[at] * t1.drop), -sign * (two.top[at] - two.width[at] * t2.drop)
    grown1, grown2 = t1.grown, t2.grown
    u1, w2 = sign * one.width[at] * grown1 / t1.B**2 / u, -sign * two.width[at] * grown2 / t2.B**2 / w  # of logs
    b1, b2, rho = t1.x * t1.D / t1.B, t2.x * t2.D / t2.B, w / u
    lam = rest**2 * two.width[at] / (u * (t2.B * P2) ** 2)
    h1, h2 = P1**2 * (1 + t1.excess), P2**2 * (1 + t2.excess)
    g1, g2 = P1**2 * grown1, P2**2 * grown2
    K = (P1 - pi) / (pi * rest) * (P1 / pi + P2 / rest) + P1**2 * t1.excess / pi**2 - P2**2 * t2.excess / rest**2
    N = (P1 - pi) ** 2 / (pi * rest) + P1**2 * t1.excess / pi + P2**2 * t2.excess / rest
    own = pi * w * one.width[at] / (u * (t1.B * P1) ** 2)
    off = np.stack([np.log(N / radius), np.log(own * rest / (lam * u)), lam * K - sign * (1 - rho)], 1)
    slopes = np.stack([
        np.stack([g1 / (pi * N), g2 / (rest * N), -K / N], 1),
        np.stack([b1 - u1, w2 - b2, 1 / pi + 1 / rest], 1),
        np.stack([lam * (g1 / pi**2 - K * u1) - sign * rho * u1, lam * (K * b2 - g2 / rest**2) + sign * rho * w2,
                  -2 * lam * (K / rest + h1 / pi**3 + h2 / rest**3)], 1),
    ], 1)
    good = np.flatnonzero(np.isfinite(slopes).all((1, 2)) & np.isfinite(off).all(1))
    good = good[np.linalg.det(slopes[good]) != 0]
    out = np.full(off.shape, np.nan)
    out[good] = -np.linalg.solve(slopes[good], off[good][..., None])[..., 0]
    return out.T


def _by_grids(sides: _Sides, slack: float, search: Search) -> Shifts:
    a, b = search.first()
    count = len(sides.own)
    centre_a, centre_b = np.zeros(count), np.zeros(count)
    reach = np.full(count, 1.7 / search.nodes)
    trial_a, trial_b = np.broadcast_to(a, (count, len(a))), np.broadcast_to(b, (count, len(b)))
    best, lines = np.full(count, -np.inf), np.arange(count)
    for _ in range(search.zooms):
        ratio = sides.ratio(slack * trial_a, slack * trial_b)[0]
        at = np.argmax(ratio, axis=1)
        here = ratio[lines, at]
        better = here > best
        centre_a = np.where(better, trial_a[lines, at], centre_a)
        centre_b = np.where(better, trial_b[lines, at], centre_b)
        best = np.maximum(best, here)
        reach = np.where(better, reach, reach * 0.45)
        step_a, step_b = (x.ravel() for x in np.meshgrid(AROUND, AROUND, indexing="ij"))
        trial_a = np.clip(centre_a[:, None] + reach[:, None] * step_a, 0, 1)
        trial_b = np.minimum(np.clip(centre_b[:, None] + reach[:, None] * step_b, 0, 1), 1 - trial_a)
    ratio, given, rest, share = sides.ratio(slack * centre_a[:, None], slack * centre_b[:, None])
    return Shifts(ratio[:, 0], given[:, 0], rest[:, 0], share[:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The two conditional laws of each case, and the ratio they make with the best P(s)."""

    own: Floats  # values of the row given s
    mine: Floats  # P̂(s, x)
    away: Floats  # values of the row given ¬s
    others: Floats  # P̂ there
    above: Bools
    b: float
    close: float

    def at(self, some: Ints | Bools) -> _Sides:
        """The same of some cases."""
        own, mine, away, rest = (x[some] for x in (self.own, self.mine, self.away, self.others))
        return _Sides(own, mine, away, rest, self.above[some], self.b, self.close)

    def ratio(self, alpha: Floats, beta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        sign = np.where(self.above, 1.0, -1.0)[:, None, None]
        own, given = self._extreme(sign * self.own[:, None], self.mine, alpha)
        other, rest = self._extreme(-sign * self.away[:, None], self.others, beta)
        u, w = np.einsum("itx,ix->it", given, self.own), np.einsum("itx,ix->it", rest, self.away)
        middle = self.b + own - other
        root = np.sqrt(np.maximum(middle**2 - 4 * self.b * own, 0.0))
        towards = (w < u) == self.above[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(towards, 2 * own / (middle + root), (middle + root) / (2 * self.b))
            mixed = share + (1 - share) * (w / u)
            ratio = np.where(self.above[:, None], 1 / mixed, mixed)
        return np.nan_to_num(ratio, nan=1.0, posinf=np.inf), given, rest, share

    def _extreme(self, v: Floats, weights: Floats, spent: Floats) -> tuple[Floats, Floats]:
        """h = (mass + spent)² and the law of greatest mean that it allows; an empty side is free at h = 0."""
        mass = weights.sum(1)[:, None]
        q = np.divide(weights, mass, out=np.full(weights.shape, 1 / weights.shape[1]), where=mass > 0)
        limit = np.where(mass > 0, divergence_at(2 * spent, mass, 2.0), np.inf)
        shape = (*spent.shape, v.shape[-1])
        r = greatest_mean(np.broadcast_to(v, shape), np.broadcast_to(q[:, None], shape), limit, 2.0, self.close).r
        return np.where(mass > 0, (mass + spent) ** 2, 0.0), r
