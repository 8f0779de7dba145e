"""Levels over balls {P : D_α(P̂‖P) ≤ B}: any dual point is a proof, which floats suggest and decimals check.

κ = (α−1)/α, E = |e^{κB} − 1| (B at α = 1); the χ² ball of radius r is α = 2, E = √(1+r) − 1. With x = P̂(s) ± e for a
share e of E (+ for κ > 0), a row v and any τ ≥ max v: P(y|s) ≤ τ − (N/x)^{1/κ}, N = Σ_u P̂(s,u)(τ−v_u)^κ, and so below.
For a pair P(y|s₁) ≤ λP(y|s₂) over the whole ball as soon as μ ≤ λm + Φ(λ), where Φ, the least of both gains over all
shares, is ((N₁^{1/(1+κ)} + (λ^κN₂)^{1/(1+κ)})^{1+κ} / X)^{1/κ} with X = P̂₁ + P̂₂ ± E for α ≥ ½ (max(N₁, N₂/λ) at ½);
for α < ½ gains are concave in the share, so that an interval of shares is proved at its ends. (docs/robust.md)
P̂ counts in whole numbers here, so that N, x and E are n times what they are above.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from sfumato_kernel.documents import Beyond, Document, Unproved
from sfumato_kernel.exact import (
    DOWN,
    ONE,
    UP,
    ZERO,
    chi_square_below,
    exp,
    log,
    minus,
    near,
    other,
    power,
    raised,
    root,
    scaled,
    solved,
)
from sfumato_kernel.laws import NEARLY, Masses, Part, Ratio, Row, Table


@dataclass(frozen=True, slots=True)
class Looks:
    """What is looked at before the verifier gives up."""

    steps: int = 200_000  # values looked at before the verifier gives up, some seconds
    pair: int = 100  # steps that a pair takes for each of its values; looks at intervals of shares in all
    intervals: int = 20_000


LOOKS = Looks()
NEAR_ONE = Fraction(1, 2**14)  # orders nearer to 1 are proved over the next lower order that is not: a larger ball
ABOVE = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-5, 1e-3)  # above what floats find, at which a proof is tried
SHARE_HALVINGS = 18  # of an interval of shares, for α < ½
TINY = 1e-300  # of a share of the budget, and of a gain
FARTHER = 40.0  # ln of how far a share may grow with τ at the edge
Groups = list[tuple[int, int]]  # (value, mass) of a row given a secret
Cells = list[tuple[float, float]]  # (distance from the greatest or least value in some unit, mass)


class DualPoint(NamedTuple):
    """A dual point of one side, and ln N, rounded to where it proves less (Σ P̂ ln gap at α = 1)."""

    point: Decimal
    norm: Decimal


class Ball:
    """The ball around a table of counts; `spent` is E·n, from above."""

    def __init__(self, table: Table, within: Document) -> None:
        n, radius = Decimal(sum(sum(own.values()) for own in table)), Decimal(within["radius"])
        self.table, self.alpha = table, Fraction(within.get("alpha") or 2)
        if 0 < abs(self.alpha - 1) < NEAR_ONE:
            self.alpha = Fraction(1) if self.alpha > 1 else 1 - NEAR_ONE
        self.kappa = (self.alpha - 1) / self.alpha
        self.way = DOWN if self.kappa >= 0 else UP  # of what makes a gain smaller
        if within["kind"] == "chi-square-ball":
            spent = UP.subtract(root(UP.add(ONE, radius), UP), ONE)
        elif self.kappa:
            far = exp(scaled(radius, self.kappa, other(self.way)), other(self.way))
            spent = UP.subtract(far, ONE) if self.kappa > 0 else UP.subtract(ONE, far)
        else:
            spent = radius
        self.spent, self.intervals = UP.multiply(spent, n), 0
        self.logs: dict[Fraction, Decimal] = {}
        self.edge = -75.0 * min(9.0, max(1.0, float(self.alpha)))  # ln of the least distance of τ from max v

    # What floats suggest.

    def stretch(self, cells: Cells, at: float) -> tuple[float, float, float]:
        """(e, gain, x) of the share for which τ = max v + t, ln t = `at`, is best: gain = Σ P̂ gap^κ / Σ P̂ gap^{κ−1}.

        Where a value without mass is the greatest, τ = max v is best for all larger shares too: below the least ln t
        the share grows on with τ at rest, so that one variable runs through all of them.
        """
        k, t, beyond = float(self.kappa), math.exp(max(at, self.edge)), max(self.edge - at, 0.0)
        gaps, mass = [d + t for d, _ in cells], sum(m for _, m in cells)
        unit = max(gaps) if k > 0 else min(gaps)
        each = [m * (gap / unit) ** k for gap, (_, m) in zip(gaps, cells, strict=True)]
        gain = sum(each) / sum(y / gap for y, gap in zip(each, gaps, strict=True))
        if k:
            x = sum(each) * (unit / gain) ** k * math.exp(math.copysign(beyond, k))
            return abs(x - mass), max(gain * math.exp(-beyond / abs(k)), TINY), x
        e = sum(m * math.log(gap / gain) for gap, (_, m) in zip(gaps, cells, strict=True))
        return e + mass * beyond, max(gain * math.exp(-beyond), TINY), mass

    def solved(self, f: Callable[[float], float], start: float = 0.0) -> float:
        return solved(f, self.edge - FARTHER, 60.0, start)

    def reach(self, groups: Groups, sign: int, e: float) -> tuple[float, float]:
        """How far beyond max v the best τ for a share e lies, and the bound of P(y|s) that it gives."""
        (cells, unit), edge = _cells(groups, sign), max(sign * v for v, _ in groups)
        if not cells or not e:
            return 0.0, float(sign * edge)
        at = self.solved(lambda at: math.log(max(self.stretch(cells, at)[0], TINY) / e))
        return math.exp(at) * unit, sign * (edge + min(0.0, math.exp(at) - self.stretch(cells, at)[1]) * unit)

    def split(self, first: Groups, second: Groups, ratio: float) -> tuple[float, float, float]:
        """(μ − max v₁, min v₂ − m, P(y|s₁)/P(y|s₂)) at the split of the budget that is worst for a ratio λ: there
        gain₁/x₁ = λ·gain₂/x₂, and the shares are all of it."""
        total, unit = float(self.spent), max(_cells(first, 1)[1], _cells(second, -1)[1])
        one, two = _cells(first, 1, unit)[0], _cells(second, -1, unit)[0]
        if not one or not two or not total:  # a secret that was not seen may have any conditional
            return self.reach(first, 1, total)[0], self.reach(second, -1, total)[0], math.inf
        b = 0.0

        def left(a: float) -> float:
            nonlocal b
            e, gain, x = self.stretch(one, a)

            def short(w: float) -> float:
                _, own, y = self.stretch(two, w)
                return math.log(gain / x / ratio / own * y)

            b = self.solved(short, b)
            return math.log(max(e + self.stretch(two, b)[0], TINY) / total)

        a = self.solved(left)
        left(a)
        top = max(v for v, _ in first) + min(0.0, math.exp(a) - self.stretch(one, a)[1]) * unit
        low = min(v for v, _ in second) - min(0.0, math.exp(b) - self.stretch(two, b)[1]) * unit
        return math.exp(a) * unit, math.exp(b) * unit, top / low if low > 0 else math.inf

    # What decimals prove.

    def dual(self, groups: Groups, sign: int, distance: float) -> DualPoint:
        point = UP.add(Decimal(max(sign * v for v, _ in groups)), Decimal(max(distance, 0.0)))
        total = ZERO
        for v, m in groups:
            if m:
                gap = DOWN.subtract(point, Decimal(sign * v))
                own = power(gap, self.kappa, self.way) if self.kappa else log(gap, DOWN)
                total = self.way.add(total, self.way.multiply(Decimal(m), own))
        norm = log(total, self.way) if self.kappa and total.is_finite() else total
        return DualPoint(point if sign > 0 else minus(point), norm)

    def gain(self, norm: Decimal, mass: int, spent: Decimal) -> Decimal:
        """At or below (N/x)^{1/κ} for x = mass ± spent."""
        x = other(self.way).add(Decimal(mass), spent if self.kappa > 0 else minus(spent))
        if norm.is_infinite() or x <= 0:
            return ZERO
        return exp(scaled(self.way.subtract(norm, log(x, other(self.way))), 1 / self.kappa, DOWN), DOWN)

    def both(self, one: DualPoint, two: DualPoint, first: int, second: int, ratio: Fraction) -> Decimal:
        """At or below Φ(λ), for α ≥ ½."""
        way, lift = self.way, self.logs.get(ratio) or self.logs.setdefault(ratio, log(ratio, DOWN))
        if not self.kappa:
            total, whole = DOWN.subtract(DOWN.add(one.norm, two.norm), self.spent), Decimal(first + second)
            for w in (first, second):
                total = DOWN.subtract(total, UP.multiply(Decimal(w), log(w, UP))) if w else total
            total = DOWN.add(total, DOWN.multiply(Decimal(second), lift))
            return DOWN.multiply(whole, exp(DOWN.divide(total, whole), DOWN)) if whole and total.is_finite() else ZERO
        ends = one.norm, way.add(two.norm, scaled(lift, self.kappa, way))
        most, least, rest = max(ends), min(ends), 1 + self.kappa
        if rest and not (most.is_infinite() or least.is_infinite()):
            apart = scaled(other(way).subtract(most, least), 1 / rest, other(way))
            most = way.add(most, scaled(log(way.add(ONE, exp(minus(apart), way)), way), rest, way))
        return self.gain(most, first + second, self.spent)

    def alone(self, groups: Groups, sign: int, distance: float) -> Decimal:
        """A bound of the greatest (sign 1) or least (−1) mean of a row given one secret, with all of the budget."""
        mass, edge = sum(m for _, m in groups), Decimal(max(sign * v for v, _ in groups))
        dual = self.dual(groups, sign, distance)
        if self.kappa:
            gain = self.gain(dual.norm, mass, self.spent)
        elif mass and dual.norm.is_finite():
            gain = exp(DOWN.divide(DOWN.subtract(dual.norm, self.spent), Decimal(mass)), DOWN)
        else:
            gain = ZERO
        far = min(edge, UP.subtract(dual.point if sign > 0 else minus(dual.point), gain))
        return far if sign > 0 else minus(far)

    def pair(self, first: Groups, second: Groups, floor: Fraction) -> Ratio:
        """A ratio, at least `floor`, that is proved to bound P(y|s₁)/P(y|s₂) over the ball; None if none is found."""
        sizes = sum(m for _, m in first), sum(m for _, m in second)
        if self.kappa < -1:
            return self._in_intervals(first, second, sizes, floor)

        def holds(z: Fraction) -> bool:
            up, down, _ = self.split(first, second, float(z))
            one, two = self.dual(first, 1, up), self.dual(second, -1, down)
            return DOWN.add(_times(z, two.point), self.both(one, two, *sizes, z)) >= one.point

        if holds(floor):
            return floor
        ratio, before = float(floor), 0.0
        while before < ratio < math.inf:  # Dinkelbach: what is attained at the worst split for a ratio is a better one
            before, ratio = ratio * (1 + 1e-14), self.split(first, second, ratio)[2]
        tried = [Fraction(ratio * (1 + step)) for step in ABOVE if math.isfinite(ratio)]
        return next((z for z in tried if z > floor and holds(z)), None)

    def _in_intervals(self, first: Groups, second: Groups, sizes: tuple[int, int], floor: Fraction) -> Ratio:
        """For α < ½: shares of the budget in intervals, halved until each is proved at both of its ends."""
        most = min(self.spent, Decimal(sizes[0]))
        least = max(ZERO, DOWN.subtract(self.spent, Decimal(sizes[1])))
        known: dict[tuple[Decimal, Decimal], tuple[DualPoint, DualPoint]] = {}

        def holds(z: Fraction, left: Decimal = least, right: Decimal = most, depth: int = 0) -> bool:
            self.intervals += 1
            if self.intervals > LOOKS.intervals:
                raise Beyond(f"more than {LOOKS.intervals:,} intervals of the budget")
            if (left, right) not in known:
                middle = (float(left) + float(right)) / 2
                ends = self.reach(first, 1, middle)[0], self.reach(second, -1, float(self.spent) - middle)[0]
                known[left, right] = self.dual(first, 1, ends[0]), self.dual(second, -1, ends[1])
            one, two = known[left, right]
            if all(self._at_share(one, two, sizes, z, e) for e in (left, right)):
                return True
            half = DOWN.divide(DOWN.add(left, right), Decimal(2))
            return depth < SHARE_HALVINGS and holds(z, left, half, depth + 1) and holds(z, half, right, depth + 1)

        return raised(floor, holds) if least < most else None

    def _at_share(self, one: DualPoint, two: DualPoint, sizes: tuple[int, int], ratio: Fraction, e: Decimal) -> bool:
        gains = self.gain(one.norm, sizes[0], e), self.gain(two.norm, sizes[1], UP.subtract(self.spent, e))
        own = DOWN.add(_times(ratio, two.point), _times(ratio, gains[1]))
        return DOWN.add(own, gains[0]) >= one.point


def _cells(groups: Groups, sign: int, unit: int = 0) -> tuple[Cells, int]:
    """The values that have mass by their distance from the edge, in the unit given, or in that of their own width."""
    edge = max(sign * v for v, _ in groups)
    unit = unit or edge - min(sign * v for v, _ in groups) or 1
    return [(float(Fraction(edge - sign * v, unit)), float(m)) for v, m in groups if m], unit


def _times(ratio: Fraction, x: Decimal) -> Decimal:
    """At or below ratio·x."""
    return DOWN.multiply(near(ratio, DOWN if x >= 0 else UP), x)


def over_ball(rows: list[Row], ball: Ball, floor: Fraction) -> Ratio:
    """A bound, at least `floor`, of max P(y|s) / P(y|s') over the ball: close to the least if it exceeds the floor."""
    ratio, steps, secrets = floor, 0, len(ball.table)
    for row in rows:
        lows, tops = ([pick(row.of(s).values) for s in range(secrets)] for pick in (min, max))
        if max(tops) <= ratio * min(lows):
            continue
        groups = [row.of(s).grouped(own) for s, own in enumerate(ball.table)]
        reaches: dict[tuple[int, int], tuple[float, float]] = {}
        for s, t in itertools.permutations(range(secrets), 2):
            if tops[s] <= ratio * lows[t]:
                continue
            for at, sign in ((s, 1), (t, -1)):
                if (at, sign) not in reaches:
                    reaches[at, sign] = ball.reach(groups[at], sign, float(ball.spent))
                    steps += len(groups[at])
            (up, most), (down, least) = reaches[s, 1], reaches[t, -1]
            if most <= ratio * least and ball.alone(groups[s], 1, up) <= _times(ratio, ball.alone(groups[t], -1, down)):
                continue
            steps += LOOKS.pair * (len(groups[s]) + len(groups[t]))
            if steps > LOOKS.steps:
                raise Beyond("too many pairs of secrets need a proof of their own")
            found = ball.pair(groups[s], groups[t], ratio)
            if found is None and not lows[t]:
                return None
            # What any distribution allows is a bound too; the other pairs still have to hold under it.
            ratio = max(ratio, Fraction(tops[s], lows[t])) if found is None else found
    return ratio


def extremes(ball: Ball, useful: int) -> list[tuple[list[Fraction], list[Fraction]]]:
    """For every pair of secrets the greatest P(u|s) and the least P(u|s') over the ball, for `over_sets`."""
    ones = [Part(0, {u: 1}, useful) for u in range(useful)]

    def end(own: Masses, one: Part, sign: int) -> Fraction:
        groups = one.grouped(own)
        return Fraction(ball.alone(groups, sign, ball.reach(groups, sign, float(ball.spent))[0]))

    most, least = ([[end(own, one, sign) for one in ones] for own in ball.table] for sign in (1, -1))
    return [(most[s], least[t]) for s, t in itertools.permutations(range(len(ball.table)), 2)]


def check_radius(kind: str, confidence: float | None, calibration: str | None, radius: float, alpha: float | None,
                 cells: int, counts: list[list[int]] | None) -> None:
    """Whether a ball is large enough for the confidence it is said to have; only counts can tell.

    With k = |X| − 1 and t = n·radius, a χ² ball is if P(χ²_k ≤ t) ≥ confidence, or, if it is said to be exact, by
    Markov if t(1 − confidence) ≥ k; a Rényi ball of order α ≤ 1 if t ≥ k and e^{−t}(et/k)^k ≤ 1 − confidence.
    """
    if confidence is None or not 0 < confidence < 1 or counts is None:
        raise Unproved("a confidence is stated that cannot be recomputed: it needs the counts behind the ball")
    sure, k, n, how = Fraction(confidence), cells - 1, sum(map(sum, counts)), calibration or "asymptotic"
    t = n * Fraction(radius) * (1 + NEARLY)
    if k > 1_000_000:
        raise Beyond("too many cells for a confidence")
    match kind, how:
        case "chi-square-ball", "exact":
            enough = t * (1 - sure) >= k
        case "chi-square-ball", "asymptotic" | "bootstrap":  # no less than that; what it adds nobody can recompute
            x = near(min(t, Fraction(k + 40 * math.isqrt(k) + 2000)) / 2, UP)  # far beyond the mean t is not followed
            enough = bool(x) and chi_square_below(k, x) >= near(sure, UP)
        case "renyi-ball", "asymptotic":
            enough = alpha is not None and alpha <= 1 and t >= k and (k == 0 or UP.add(
                UP.multiply(Decimal(k), log(t / k, UP)), near(k - t, UP)) <= minus(log(1 / (1 - sure), UP)))
        case _:
            raise Unproved(f"a confidence is stated with a calibration that cannot be recomputed ({how[:40]!r})")
    if k and not enough:
        raise Unproved(f"the claim says {confidence} confidence, but its radius of {radius:.6g} is too small for "
                       f"that at n = {n}")
