"""Beliefs proved over the χ² ball (LIP, and PML as its upper half): weak duality, a cover of all P(s) by intervals,
and rationals for every inequality.

Fix y and s, r = Q(y|·), π = P(s), b = 1 + B, z = e^ε. For any μ₁ and μ₂ [derivation: docs/funnel.md]:

    P(y|s)/P(y) ≤ z  if  (θ² + z)(A₁θ + √z A₂)² − b[(μ₁ − zμ₂)θ² − z(z−1)μ₂] ≥ 0,       θ² = (1−πz)/π,
    P(y|s)/P(y) ≥ 1/z  if  (1 + φ²)(A₁ + φA₂)² − b[μ₁(1 + φ² − z) − zφ²μ₂] ≥ 0,          φ² = (z−π)/π,

with A₁ = Σ P̂√(μ₁ − r), A₂ = Σ P̂√(r − μ₂), one over the cells of s and one over those of the others (above: A₁ of s,
below: A₂ of s), μ₁ ≥ r and μ₂ ≤ r on those cells. A row that reads X alone is the same for all secrets: others merge.
Both are quartics in one variable that runs through an interval as π runs through P̂_s²/π + (1−P̂_s)²/(1−π) ≤ b. The
interval is halved until on each piece some (μ₁, μ₂) makes the five Bernstein coefficients ≥ 0. Floats choose pieces
and multipliers; A is rounded down; the coefficients are whole numbers. An empty secret has no least π: its last piece
is unbounded, and the quartic is reversed there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.ball import ChiSquareBounds, Side, shares
from sfumato.certification.outward import dot_down, down, rows_range, up
from sfumato.certification.over_sets import Range
from sfumato.certification.rationals import Attained
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism, Rows
from sfumato.tolerances import ALIKE, BLOCK, HALVINGS, LEAST, SLIP
from sfumato.uncertainty.shifts import others
from sfumato.uncertainty.tilting import NEWTON, Depths, inner, newton

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts, Bools, Ints
    from sfumato.mechanism.law import Weights


Number = TypeVar("Number", int, Floats)  # whole, or floats for many at once


@dataclass(frozen=True, slots=True)
class Pieces:
    """When a proof piece by piece is given up."""

    halvings: int = 26  # halvings of a piece before the proof is given up
    most: int = 50_000  # pieces in all before the proof is given up
    first: int = 3  # before a piece that fails at its very middle ends the proof: its multipliers are good by then


PIECES = Pieces()


GREATEST_RATIO = 2.0**512  # of e^ε: beyond, floats cannot hold what the proof takes roots of


def shifts_over_ball(
    mechanism: Mechanism, joint: Joint, radius: float, target: float, fallback: Attained, notion: str = "lip"
) -> Attained:
    """A ratio just below `target` if it bounds P(y|s)/P(y), for LIP its inverse too, over the ball, or the fallback."""
    contrasts = mechanism.law.contrasts()
    listed = len(contrasts) == 1 and isinstance(contrasts[0], Rows) and joint.secret.size > 1
    if not listed or not 1 < target <= GREATEST_RATIO:
        return fallback
    z = Fraction(target * (1 - 2.0**-49))
    values = np.asarray(contrasts[0].values, object)  # type: ignore[union-attr]  # rows, as was seen
    values = values[[bool(row.max()) for row in values]]
    halves = (True,) if notion == "pml" else (True, False)
    proved = all(_covered(_open_cases(values, joint, radius, z, above), joint, radius, z) for above in halves)
    return Attained(z, {}) if proved else fallback


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """The values of rows on one side, each number below and above, with the mass there rounded down."""

    r: tuple[Floats, Floats]  # [i, cell]
    p: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """Rows scaled to largest weight 1 with their secret: the side that μ₁ bounds, and the side that μ₂ bounds."""

    first: Half
    second: Half
    s: Ints
    above: bool


def _open_cases(values: Weights, joint: Joint, radius: float, z: Fraction, above: bool) -> Cases:
    """The (y, s) that what one secret alone allows does not settle."""
    ball = ChiSquareBounds.around(joint, radius)
    y, (c, k) = len(values), joint.shape
    low, high = rows_range(values.reshape(y, -1))
    scale = 2.0 ** np.floor(np.log2(high.max(1, keepdims=True)))  # a power of two: exact
    r = (low / scale).reshape(y, -1, k), (high / scale).reshape(y, -1, k)
    exact, total = joint.weights()
    weights = exact if r[0].shape[1] == c else exact.sum(0, keepdims=True)

    def spread(x: Range, shape: tuple[int, ...], end: tuple[int, ...]) -> Range:
        return np.broadcast_to(x[0], shape).reshape(end), np.broadcast_to(x[1], shape).reshape(end)

    whole, cells = (y, c, k), (-1, k)
    own, mass, one = spread(r, whole, cells), shares(weights.ravel(), total), np.ones(y)
    side = Side(spread(ball.p, whole, cells), spread(ball.ps, (y, c), (-1,)), own)
    flat = (y, mass[0].size)
    everyone = Side(spread(mass, flat, flat), (one, up(one)), spread(r, r[0].shape, flat))
    given = ball.alone(side, greatest=above).reshape(y, c)
    overall = ball.alone(everyone, greatest=not above)[:, None]
    top, bottom = (given, overall) if above else (overall, given)
    at_y, at_s = np.nonzero(up(top) > down(float(down(float(z))) * bottom))
    mine = Half((own[0].reshape(y, c, k)[at_y, at_s], own[1].reshape(y, c, k)[at_y, at_s]), ball.p[0][at_s])
    rest = _rest((r[0][at_y], r[1][at_y]), exact, total, at_s)
    return Cases(mine, rest, at_s, True) if above else Cases(rest, mine, at_s, False)


def _rest(r: tuple[Floats, Floats], exact: BigInts, total: int, s: Ints) -> Half:
    """The secrets other than s: one after the other, or merged where rows do not tell them apart."""
    if r[0].shape[1] == 1:
        return Half((r[0][:, 0], r[1][:, 0]), shares(exact.sum(0) - exact, total)[0][s])
    return Half((others(r[0], s), others(r[1], s)), others(shares(exact, total)[0], s))


def _covered(cases: Cases, joint: Joint, radius: float, z: Fraction) -> bool:
    """Whether every open case is proved over its whole range of P(s)."""
    exact, total = joint.weights()
    sizes = exact.sum(1)
    known = {s: _range(Fraction(int(sizes[s]), total), radius, z, cases.above) for s in set(cases.s.tolist())}
    ends = [known[s] for s in cases.s.tolist()]
    case = np.array([i for i, e in enumerate(ends) if e is not None], np.int64)
    left = np.array([e[0] for e in ends if e is not None], float)
    right = np.array([e[1] for e in ends if e is not None], float)
    spent = 0
    for turn in range(PIECES.halvings):
        if len(case) == 0:
            return True
        spent += len(case)
        if spent > PIECES.most:
            return False
        proved, hopeless = _proved(cases, case, left, right, radius, z)
        if hopeless and turn >= PIECES.first:
            return False
        case, left, right = case[~proved], left[~proved], right[~proved]
        middle = _middle(left, right)
        case, left, right = np.tile(case, 2), np.concatenate([left, middle]), np.concatenate([middle, right])
    return False


def _middle(left: Floats, right: Floats) -> Floats:
    """Where pieces are cut: a long one at its geometric mean."""
    with np.errstate(invalid="ignore"):
        mean = np.where(right < 4 * left + 1e-9, (left + right) / 2, np.sqrt(np.maximum(left, 1e-3 * right) * right))
    return np.where(np.isinf(right), 4 * np.maximum(left, 1.0), np.clip(mean, left, right))


def _range(share: Fraction, radius: float, z: Fraction, above: bool) -> tuple[float, float] | None:
    """Floats that enclose θ (above) or φ (below) over all P(s) in the ball; None if there is nothing to prove.

    P̂²/π + (1−P̂)²/(1−π) is convex with minimum 1 at P̂, so a π where it exceeds b lies outside the ball's range.
    """
    b = 1 + Fraction(radius)
    own = float(share)
    middle = radius + 2 * own
    root = math.sqrt(max(0.0, middle**2 - 4 * (1 + radius) * own**2))
    least = _outside(share, b, 2 * own**2 / (middle + root), -1) if share else Fraction(0)
    most = _outside(share, b, (middle + root) / (2 * (1 + radius)), 1) if share < 1 else Fraction(1)
    if above:
        most = min(most, 1 / z)
        if least >= most:
            return None

    def square(pi: Fraction) -> Fraction:
        return (1 - pi * z) / pi if above else (z - pi) / pi

    return _root(square(most), -1), (_root(square(least), 1) if least else math.inf)


def _outside(share: Fraction, b: Fraction, near: float, direction: int) -> Fraction:
    """A rational at or beyond an end of {π : P̂²/π + (1−P̂)²/(1−π) ≤ b}."""
    step = 2.0**-50
    while True:
        pi = Fraction(near * (1 + direction * step) + direction * step * SLIP)
        if pi <= 0 or pi >= 1:
            return Fraction(0) if pi <= 0 else Fraction(1)
        if (pi < share) == (direction < 0) and share**2 / pi + (1 - share) ** 2 / (1 - pi) >= b:
            return pi
        step *= 4


def _root(x: Fraction, direction: int) -> float:
    """A float at or beyond √x, away from the other end."""
    near = math.sqrt(max(0.0, float(x)))
    while (Fraction(near) ** 2 - x) * direction < 0:
        near = near * (1 + direction * 2.0**-51) + direction * LEAST
        if near <= 0:
            return 0.0
    return near


def _proved(cases: Cases, case: Ints, left: Floats, right: Floats, radius: float, z: Fraction) -> tuple[Bools, bool]:
    """For each piece whether the best multipliers at its middle prove all of it; whether one fails at its middle."""
    point = np.where(np.isinf(right), 2 * np.maximum(left, 1.0), (left + right) / 2)
    first, second = cases.first, cases.second
    step = max(1, BLOCK // (16 * (first.p.shape[1] + second.p.shape[1])))
    parts = [
        _multipliers(cases, case[i : i + step], point[i : i + step], 1 + radius, float(z))
        for i in range(0, len(case), step)
    ]
    mu, m = (np.concatenate([part[j] for part in parts]) for j in (0, 1))
    high, low = first.r[1][case], second.r[0][case]
    mu, m = np.maximum(mu, high.max(1)), np.minimum(m, low.min(1))
    a1 = dot_down(first.p[case], down(np.sqrt(down(np.maximum(mu[:, None] - high, 0)))))
    a2 = dot_down(second.p[case], down(np.sqrt(down(np.maximum(low - m[:, None], 0)))))
    root = Fraction(float(down(down(np.sqrt(float(down(float(z))))))))  # a lower bound of √z
    known = 1 + Fraction(radius), z, root
    quartic = _above if cases.above else _below
    rough = np.stack(np.broadcast_arrays(*quartic(a1, a2, mu, m, [np.array(float(x)) for x in known], np.ones(()))))
    powers = point ** np.arange(5)[:, None]
    hopeless = (rough * powers).sum(0) < -SLIP * (np.abs(rough) * powers).sum(0)  # floats suffice to give up
    out = np.zeros(len(case), bool)
    for i in np.flatnonzero(~hopeless):
        (one, two, above, below, *rest), unit = _whole((*(Fraction(float(x[i])) for x in (a1, a2, mu, m)), *known))
        out[i] = _not_negative(quartic(one, two, above, below, rest, unit), float(left[i]), float(right[i]))
    return out, bool(hopeless.any())


def _whole(numbers: tuple[Fraction, ...]) -> tuple[list[int], int]:
    """Numbers as whole numbers of one unit: a power of two where they are floats."""
    unit = math.lcm(*(x.denominator for x in numbers))
    return [x.numerator * (unit // x.denominator) for x in numbers], unit


def _above(a1: Number, a2: Number, mu: Number, m: Number, known: Sequence[Number], one: Number) -> list[Number]:
    """Coefficients of (θ²+z)(A₁θ+√zA₂)² − b[(μ₁−zμ₂)θ² − z(z−1)μ₂], from the constant up, in floats or, times one⁵, in
    whole numbers of a unit; known are b, z and √z."""
    b, z, root = known
    a2 = root * a2
    cross = 2 * a1 * a2
    return [z * a2**2 + b * z * (z - one) * m * one, z * cross * one,
            (a2**2 + z * a1**2 * one) * one - b * (mu * one - z * m) * one**2, cross * one**2, a1**2 * one**3]


def _below(a1: Number, a2: Number, mu: Number, m: Number, known: Sequence[Number], one: Number) -> list[Number]:
    """Coefficients of (1+φ²)(A₁+φA₂)² − b[μ₁(1+φ²−z) − zφ²μ₂], from the constant up, in the same way, times one⁴."""
    b, z, _ = known
    cross = 2 * a1 * a2 * one**2
    return [a1**2 * one**2 + b * mu * (z - one) * one, cross,
            (a1**2 + a2**2) * one**2 - b * (mu * one - z * m) * one, cross, a2**2 * one**2]


def _not_negative(quartic: list[int], left: float, right: float) -> bool:
    """Whether all Bernstein coefficients on [left, right] are ≥ 0, which proves that the quartic is; exact.

    The ends are floats too: times a power of two, and times 12 for the binomials, everything is a whole number.
    """
    if math.isinf(right):
        if left <= 0:
            return all(c >= 0 for c in quartic)
        quartic, left, right = quartic[::-1], 0.0, float(np.nextafter(1 / left, np.inf))
    (start, end), unit = _whole((Fraction(left), Fraction(right)))
    moved = [
        (end - start) ** i * sum(math.comb(n, i) * quartic[n] * start ** (n - i) * unit ** (4 - n) for n in range(i, 5))
        for i in range(5)
    ]
    return all(sum(math.comb(j, i) * (12 // math.comb(4, i)) * moved[i] for i in range(j + 1)) >= 0 for j in range(5))


def _multipliers(cases: Cases, case: Ints, point: Floats, b: float, z: float) -> tuple[Floats, Floats]:
    """Good μ₁ and μ₂ at one θ or φ each: a suggestion, by Newton's method where that settles, else by halving."""
    mu, m, settled = _by_newton(cases, case, point, b, z)
    if len(left := np.flatnonzero(~settled)):
        mu[left], m[left] = _by_halving(cases, case[left], point[left], b, z)
    return mu, m


def _by_newton(
    cases: Cases, case: Ints, point: Floats, b: float, z: float
) -> tuple[Floats, Floats, Bools]:
    """The quartic is concave in (μ₁, μ₂), a square of a sum of roots less a line. Where both of its slopes vanish, with
    A = Σ q√(μ − r), B = Σ q/√(μ − r) of laws q, masses P and shares π₁, π₂ of the two sides (`tilting.Tilt`):

        P₁²A₁B₁/π₁ + P₂²A₂B₂/π₂ = b,   B₁/B₂ = κP₂/P₁,   κ = θπ/√z(1−π) above, (1−π)/πφ below.
    """
    t, weights = point, (cases.first.p[case], cases.second.p[case])
    pi = 1 / (t * t + z) if cases.above else z / (1 + t * t)
    mass, share = np.stack([x.sum(1) for x in weights]), np.stack([pi, 1 - pi] if cases.above else [1 - pi, pi])
    values = cases.first.r[1][case], -cases.second.r[0][case]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = t * pi / (math.sqrt(z) * (1 - pi)) if cases.above else (1 - pi) / (pi * t)
        kappa = np.log(kappa * mass[1] / mass[0])
        sides = [Depths.of(v, w / m[:, None]) for v, w, m in zip(values, weights, mass, strict=True)]
        top, width, variance = (np.stack([getattr(x, name) for x in sides]) for name in ("top", "width", "variance"))
        bend = mass * mass / share
        room = b - bend.sum(0)
        # for x far from all depths B ≈ 1/√(width·x) and C − 1 ≈ variance/4x², so that the first equation gives both
        lean = np.exp(-2 * kappa) * width[1] / width[0]  # x₁/x₂
        spread = (bend[0] * variance[0] / lean**2 + bend[1] * variance[1]) / (4 * room)
        y = 0.5 * np.log(np.stack([spread * lean**2, spread]))
        usual = np.isfinite(y).all(0) & sides[0].tilts & sides[1].tilts & (room > ALIKE * (b - 1))
        y = np.where(usual, y, 0.0)
        step = partial(_step, sides, bend, room, kappa)
        settled = newton(step, y, np.flatnonzero(usual), NEWTON.close)
        tau = top + width * np.exp(y)
    return tau[0], -tau[1], settled


def _step(sides: list[Depths], bend: Floats, room: Floats, kappa: Floats, live: Ints, at: Floats) -> Floats:
    """One step of Newton's method in both multipliers."""
    found = [side.tilt(x, live) for side, x in zip(sides, at, strict=True)]
    width = np.stack([side.width[live] for side in sides])
    spent = bend[:, live] * np.stack([x.excess for x in found])
    turn, total = np.stack([-x.x * x.D / (2 * x.B) for x in found]), spent.sum(0)
    height = np.stack([np.log(x.B) for x in found]) - 0.5 * np.log(width)
    slope = spent * np.stack([x.steep for x in found]) / total
    off, apart = np.log(total / room[live]), height[0] - height[1] - kappa[live]
    det = -slope[0] * turn[1] - slope[1] * turn[0]
    return np.asarray(np.stack([slope[1] * apart + turn[1] * off, turn[0] * off - slope[0] * apart]) / det)


FARTHEST = 14.0  # log of a multiplier's distance, in widths: near θ = 0 the best one is at infinity, for one θ only


def _by_halving(cases: Cases, case: Ints, point: Floats, b: float, z: float) -> tuple[Floats, Floats]:
    """The same, slowly and always: the quartic is F(c₁A₁ + c₂A₂)² − b(k₁μ₁ − k₂μ₂), A of the masses themselves, and its
    slopes vanish where Σ P̂/√|μ − r| = bk/(F·G·c) on each side, G = c₁A₁ + c₂A₂, which leaves G to be found."""
    high, low, square = cases.first.r[1][case], cases.second.r[0][case], point * point
    top, bottom, one = high.max(1), low.min(1), np.ones(len(case))
    width = np.maximum(np.maximum(top, low.max(1)) - np.minimum(bottom, high.min(1)), LEAST)
    f, c, k = (square + z, (point, math.sqrt(z) * one), (square, z * square + z * (z - 1))) if cases.above else (
        1 + square, (one, point), (1 + square - z, z * square))
    sides = [((top[:, None] - high) / width[:, None], cases.first.p[case]),
             ((low - bottom[:, None]) / width[:, None], cases.second.p[case])]

    def reach(g: Floats) -> list[Floats]:
        goals = [b * ki / (f * np.exp(g) * ci) for ci, ki in zip(c, k, strict=True)]
        return [np.exp(np.minimum(_halved(partial(short, d, p, goal), len(case)), FARTHEST))
                for (d, p), goal in zip(sides, goals, strict=True)]

    def short(d: Floats, p: Floats, goal: Floats, y: Floats) -> Bools:
        return np.asarray(inner(p, 1 / np.sqrt(d + np.exp(y)[:, None])) > goal)

    def more(g: Floats) -> Bools:
        found = sum(ci * inner(p, np.sqrt(d + x[:, None])) for ci, (d, p), x in zip(c, sides, reach(g), strict=True))
        return np.asarray(found > np.exp(g))

    with np.errstate(all="ignore"):
        up_, down_ = reach(_halved(more, len(case)))
    return top + width * up_, bottom - width * down_


def _halved(more: Callable[[Floats], Bools], count: int) -> Floats:
    """Where `more` turns from true to false, in logarithms, to eight digits: their error counts only squared."""
    low, high = np.full(count, NEWTON.least_gap), np.full(count, -NEWTON.least_gap)
    for _ in range(HALVINGS // 2 + 4):
        middle = (low + high) / 2
        over = more(middle)
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return low
