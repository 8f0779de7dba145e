"""Levels over balls {P : D_α(P̂‖P) ≤ B}: any dual point is a proof, which floats suggest and decimals check.

κ = (α−1)/α, E = |e^{κB} − 1| (B at α = 1); the χ² ball of radius r is α = 2, E = √(1+r) − 1. With x = P̂(s) ± e for a
share e of E (+ for κ > 0), a row v and any τ ≥ max v: P(y|s) ≤ τ − (N/x)^{1/κ}, N = Σ_u P̂(s,u)(τ−v_u)^κ, and so below.
For a pair P(y|s₁) ≤ λP(y|s₂) over the whole ball as soon as μ ≤ λm + Φ(λ), where Φ, the least of both gains over all
shares, is ((N₁^{1/(1+κ)} + (λ^κN₂)^{1/(1+κ)})^{1+κ} / X)^{1/κ} with X = P̂₁ + P̂₂ ± E for α ≥ ½ (max(N₁, N₂/λ) at ½);
for α < ½ gains are concave in the share, so that an interval of shares is proved at its ends. (docs/robust.md)
P̂ counts in whole numbers here, so that N, x and E are n times what they are above.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from sfumato_kernel.exact import Table, raised
from sfumato_kernel.laws import Part, Ratio, Row
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, INFINITE, ONE, UP, ZERO, exp, log, minus, near, power, root, scaled

STEPS_IN_ALL = 200_000  # values looked at before the verifier gives up, some seconds
PAIR, INTERVALS = 100, 2_000  # steps that a pair takes for each of its values; intervals of shares in one pair
NEAR_ONE = Fraction(1, 2**14)  # orders nearer to 1 are proved over the next lower order that is not: a larger ball
STEPS = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-5, 1e-3)  # above what floats find, at which a proof is tried
HALVINGS = 18  # of an interval of shares, for α < ½
Groups = list[tuple[int, int]]  # (value, mass) of a row given a secret


@dataclass(frozen=True)
class Dual:
    """A dual point of one side, and ln N, rounded to where it proves less (Σ P̂ ln gap at α = 1)."""

    point: Decimal
    norm: Decimal


@dataclass(frozen=True)
class Ball:
    """The ball around counts."""

    counts: Table
    alpha: Fraction
    spent: Decimal  # E·n, from above

    @classmethod
    def chi_square(cls, counts: Table, radius: float) -> Ball:
        slack = UP.subtract(root(UP.add(ONE, Decimal(radius)), UP), ONE)
        return cls(counts, Fraction(2), UP.multiply(slack, Decimal(sum(map(sum, counts)))))

    @classmethod
    def renyi(cls, counts: Table, alpha: float, radius: float) -> Ball:
        order = Fraction(alpha)
        if 0 < abs(order - 1) < NEAR_ONE:
            order = Fraction(1) if order > 1 else 1 - NEAR_ONE
        kappa, n = (order - 1) / order, Decimal(sum(map(sum, counts)))
        if kappa == 0:
            return cls(counts, order, UP.multiply(Decimal(radius), n))
        far = exp(scaled(Decimal(radius), kappa, UP if kappa > 0 else DOWN), UP if kappa > 0 else DOWN)
        return cls(counts, order, UP.multiply(UP.subtract(far, ONE) if kappa > 0 else UP.subtract(ONE, far), n))

    @cached_property
    def kappa(self) -> Fraction:
        return (self.alpha - 1) / self.alpha

    @cached_property
    def sizes(self) -> list[int]:
        return [sum(row) for row in self.counts]

    def groups(self, part: Part, s: int) -> Groups:
        return part.grouped(self.counts[s], self.sizes[s])

    # What floats suggest.

    def suggested(self, groups: Groups, sign: int, x: float, shift: float) -> tuple[float, float, float]:
        """(t, gain, width): the best τ = max v + t·width for x (and e/P̂ = shift at α = 1), by Newton on ln t."""
        k, edge = float(self.kappa), max(sign * v for v, _ in groups)
        width = max(edge - sign * v for v, _ in groups)
        if not width or x <= 0:
            return 0.0, 0.0, float(width)
        cells = [(float(Fraction(edge - sign * v, width)), float(m)) for v, m in groups if m]
        low, high = -75.0 * min(9.0, max(1.0, float(self.alpha))), 60.0  # of ln t, within what floats hold
        at, gain = 0.0, 0.0
        for _ in range(60):
            t = math.exp(at)
            logs = [math.log(d + t) for d, _ in cells]
            most = max(k * g for g in logs)
            a = [m * math.exp(k * g - most) for g, (_, m) in zip(logs, cells, strict=True)]
            b = [y / (d + t) for y, (d, _) in zip(a, cells, strict=True)]
            n, m1, m2 = sum(a), sum(b), sum(y / (d + t) for y, (d, _) in zip(b, cells, strict=True))
            if k:
                gain = (math.log(n) + most - math.log(x)) / k
            else:
                gain = sum(m * g for g, (_, m) in zip(logs, cells, strict=True)) / x - shift
            off = gain + math.log(m1 / n)
            low, high = (at, high) if off > 0 else (low, at)
            slope = (1 - k) * t * (m1 / n - m2 / m1)
            step = at - off / slope if slope < 0 else (low + high) / 2
            before, at = at, step if low < step < high else (low + high) / 2
            if abs(at - before) < 1e-12 * max(1.0, abs(at)) or high - low < 1e-12:
                break
        return math.exp(at), math.exp(gain), float(width)

    def _side(self, groups: Groups, sign: int, e: float) -> tuple[float, float, float, float]:
        """(t·width, value, gain, x) of one side with share e."""
        mass = float(sum(m for _, m in groups))
        k = self.kappa
        x = mass + e if k > 0 else mass - e if k < 0 else mass
        t, gain, width = self.suggested(groups, sign, x, e / mass if mass and not k else 0.0)
        edge = float(max(sign * v for v, _ in groups))
        return t * width, sign * (edge + (t - gain) * width), gain * width, max(x, 1e-300)

    def worst_split(self, first: Groups, second: Groups, goal: float = 0.0) -> tuple[float, float, float]:
        """(ratio, μ − max v, min v − m) at the split of the budget that is worst, or worst for the ratio `goal`, by the
        secant on its log-odds."""
        total = float(self.spent)
        low, high, w = -36.0, 36.0, 0.0
        ends: dict[str, float] = {}
        flat = [all(v == pick(x for x, _ in g) for v, m in g if m) for g, pick in ((first, max), (second, min))]
        for turn in range(80):
            w = high if flat[1] else low if flat[0] else w
            one = self._side(first, 1, total / (1 + math.exp(-w)))
            two = self._side(second, -1, total / (1 + math.exp(w)))
            ratio = goal or (one[1] / two[1] if two[1] > 0 else math.inf)
            if any(flat) or abs(w) >= 36 or not math.isfinite(ratio) or not (one[2] and two[2]):
                break
            lean = math.log(one[2] / one[3]) - math.log(two[2] / two[3]) - math.log(max(ratio, 1e-300))
            low, high = (w, high) if lean > 0 else (low, w)
            ends["low" if lean > 0 else "high"] = lean
            if abs(lean) < 1e-13 or high - low < 1e-13:
                break
            if len(ends) == 2 and turn % 4:
                w = low + (high - low) * ends["low"] / (ends["low"] - ends["high"])
            else:
                w = (low + high) / 2
        if flat[0] and two[2]:  # a flat side spends nothing; its dual point is where both sides cost the same
            return ratio, ratio * two[2] / two[3] * one[3], two[0]
        return ratio, one[0], one[2] / max(ratio, 1e-300) / one[3] * two[3] if flat[1] else two[0]

    # What decimals prove.

    def dual(self, groups: Groups, sign: int, distance: float) -> Dual:
        way = DOWN if self.kappa >= 0 else UP
        edge = max(sign * v for v, _ in groups)
        point = UP.add(Decimal(edge), Decimal(max(distance, 0.0)))
        gaps = [(DOWN.subtract(point, Decimal(sign * v)), m) for v, m in groups if m]
        total = ZERO
        for gap, m in gaps:
            part = power(gap, self.kappa, way) if self.kappa else log(gap, DOWN)
            total = way.add(total, way.multiply(Decimal(m), part) if m else ZERO)
        return Dual(point if sign > 0 else minus(point), log(total, way) if self.kappa and total != INFINITE else total)

    def gain(self, dual: Dual, x: Decimal) -> Decimal:
        """At or below (N/x)^{1/κ}, for x from above (κ > 0) or below (κ < 0)."""
        if dual.norm.is_infinite() or x <= 0:
            return ZERO
        way = DOWN if self.kappa > 0 else UP
        return exp(scaled(way.subtract(dual.norm, log(x, UP if self.kappa > 0 else DOWN)), 1 / self.kappa, DOWN), DOWN)

    def both(self, one: Dual, two: Dual, first: int, second: int, ratio: Fraction) -> Decimal:
        """At or below Φ(λ), for α ≥ ½."""
        if self.kappa == 0:
            return self._both_at_one(one, two, first, second, ratio)
        way = DOWN if self.kappa > 0 else UP
        other = UP if self.kappa > 0 else DOWN
        room = other.add(Decimal(first + second), self.spent if self.kappa > 0 else minus(self.spent))
        a = one.norm
        b = way.add(two.norm, scaled(log(ratio, DOWN), self.kappa, way))
        if room <= 0 or max(a, b) == INFINITE:
            return ZERO
        most, least, rest = max(a, b), min(a, b), 1 + self.kappa
        if rest and not least.is_infinite():
            apart = scaled(other.subtract(most, least), 1 / rest, other)
            most = way.add(most, scaled(log(way.add(ONE, exp(minus(apart), way)), way), rest, way))
        return ZERO if most.is_infinite() else self.gain(Dual(ZERO, most), room)

    def _both_at_one(self, one: Dual, two: Dual, first: int, second: int, ratio: Fraction) -> Decimal:
        if one.norm.is_infinite() or two.norm.is_infinite() or not first + second:
            return ZERO
        total = DOWN.subtract(DOWN.add(one.norm, two.norm), self.spent)
        for w in (first, second):
            if w:
                total = DOWN.subtract(total, UP.multiply(Decimal(w), log(w, UP)))
        total = DOWN.add(total, DOWN.multiply(Decimal(second), log(ratio, DOWN)))
        whole = Decimal(first + second)
        return DOWN.multiply(whole, exp(DOWN.divide(total, whole), DOWN))

    def alone(self, groups: Groups, sign: int) -> Decimal:
        """A bound of the greatest (sign 1) or least (−1) mean of a row given one secret, with all of the budget."""
        mass = sum(m for _, m in groups)
        edge = Decimal(max(sign * v for v, _ in groups))
        distance = self._side(groups, sign, float(self.spent))[0]
        dual = self.dual(groups, sign, distance)
        if self.kappa == 0:
            if not mass or dual.norm.is_infinite():
                return edge if sign > 0 else minus(edge)
            gain = exp(DOWN.divide(DOWN.subtract(dual.norm, self.spent), Decimal(mass)), DOWN)
        elif self.kappa > 0:
            gain = self.gain(dual, UP.add(Decimal(mass), self.spent))
        else:
            gain = self.gain(dual, DOWN.subtract(Decimal(mass), self.spent))
        far = min(edge, UP.subtract(dual.point if sign > 0 else minus(dual.point), gain))
        return far if sign > 0 else minus(far)

    def pair(self, first: Groups, second: Groups, floor: Fraction) -> Ratio:
        """A ratio, at least `floor`, that is proved to bound P(y|s₁)/P(y|s₂) over the ball; None if none is found."""
        sizes = sum(m for _, m in first), sum(m for _, m in second)
        if self.kappa < -1:
            return self._in_intervals(first, second, sizes, floor)

        def holds(z: Fraction) -> bool:
            _, up, down = self.worst_split(first, second, float(z))
            one, two = self.dual(first, 1, up), self.dual(second, -1, down)
            own = DOWN.multiply(near(z, DOWN if two.point >= 0 else UP), two.point)
            return DOWN.add(own, self.both(one, two, *sizes, z)) >= one.point

        if holds(floor):
            return floor
        ratio = self.worst_split(first, second)[0]
        tried = [Fraction(ratio * (1 + step)) for step in STEPS if math.isfinite(ratio)]
        return next((z for z in tried if z > floor and holds(z)), None)

    def _in_intervals(self, first: Groups, second: Groups, sizes: tuple[int, int], floor: Fraction) -> Ratio:
        """For α < ½: shares of the budget in intervals, halved until each is proved at both of its ends."""
        most = min(self.spent, Decimal(sizes[0]))
        least = max(ZERO, DOWN.subtract(self.spent, Decimal(sizes[1])))
        known: dict[tuple[Decimal, Decimal], tuple[Dual, Dual]] = {}

        def holds(z: Fraction, left: Decimal = least, right: Decimal = most, depth: int = 0) -> bool:
            if (left, right) not in known:
                if len(known) > INTERVALS:
                    raise Beyond(f"more than {INTERVALS:,} intervals of the budget")
                middle = (float(left) + float(right)) / 2
                ends = self._side(first, 1, middle)[0], self._side(second, -1, float(self.spent) - middle)[0]
                known[left, right] = self.dual(first, 1, ends[0]), self.dual(second, -1, ends[1])
            one, two = known[left, right]
            if all(self._at_share(one, two, sizes, z, e) for e in (left, right)):
                return True
            half = DOWN.divide(DOWN.add(left, right), Decimal(2))
            return depth < HALVINGS and holds(z, left, half, depth + 1) and holds(z, half, right, depth + 1)

        return raised(floor, holds) if least < most else None

    def _at_share(self, one: Dual, two: Dual, sizes: tuple[int, int], ratio: Fraction, e: Decimal) -> bool:
        rest = UP.subtract(self.spent, e)
        gains = [self.gain(d, DOWN.subtract(Decimal(w), spent))
                 for d, w, spent in ((one, sizes[0], e), (two, sizes[1], rest))]
        own = DOWN.multiply(near(ratio, DOWN if two.point >= 0 else UP), two.point)
        return DOWN.add(DOWN.add(own, DOWN.multiply(near(ratio, DOWN), gains[1])), gains[0]) >= one.point


def over_ball(rows: list[Row], ball: Ball, floor: Fraction) -> Ratio:
    """A bound, at least `floor`, of max P(y|s) / P(y|s') over the ball: close to the least if it exceeds the floor."""
    ratio, steps, secrets = floor, 0, len(ball.sizes)
    for row in rows:
        ends = [(min(p.values), max(p.values)) for p in row.parts] * (secrets if len(row.parts) == 1 else 1)
        if max(h for _, h in ends) <= ratio * min(low for low, _ in ends):
            continue
        groups = [ball.groups(row.of(s), s) for s in range(secrets)]
        bounds: dict[tuple[int, int], Decimal] = {}
        for s, t in itertools.permutations(range(secrets), 2):
            if ends[s][1] <= ratio * ends[t][0]:
                continue
            for key in ((s, 1), (t, -1)):
                if key not in bounds:
                    bounds[key] = ball.alone(groups[key[0]], key[1])
                    steps += len(groups[key[0]])
            if bounds[s, 1] <= DOWN.multiply(near(ratio, DOWN), bounds[t, -1]):
                continue
            steps += PAIR * (len(groups[s]) + len(groups[t]))
            if steps > STEPS_IN_ALL:
                raise Beyond("too many pairs of secrets need a proof of their own")
            found = ball.pair(groups[s], groups[t], ratio)
            if found is None and not ends[t][0]:
                return None
            # What any distribution allows is a bound too; the other pairs still have to hold under it.
            ratio = max(ratio, Fraction(ends[s][1], ends[t][0])) if found is None else found
    return ratio


def over_sets(ball: Ball, high: int | Fraction, low: int | Fraction, floor: Fraction) -> Ratio:
    """The rows that are `high` on a set and `low` off it, for every set: λ holds for a pair once
    (high − low)·min{1, Σ_u (max P(u|s) − λ·min P(u|s'))₊} ≤ (λ − 1)·low."""
    k = len(ball.counts[0])
    one = [Part(0, {u: 1}, k) for u in range(k)]
    if k == 1 or high == low:
        return floor
    if not low:
        return None
    most, least = ([[Fraction(ball.alone(ball.groups(p, s), sign)) for p in one] for s in range(len(ball.sizes))]
                   for sign in (1, -1))
    ratio: Ratio = floor
    for s, t in itertools.permutations(range(len(ball.sizes)), 2):

        def holds(z: Fraction, s: int = s, t: int = t) -> bool:
            gain = min(Fraction(1), sum((max(Fraction(0), a - z * b) for a, b in zip(most[s], least[t], strict=True)),
                                        Fraction(0)))
            return (high - low) * gain <= (z - 1) * low

        ratio = None if ratio is None else raised(ratio, holds)
    return ratio if ratio is None else max(floor, min(ratio, Fraction(high) / Fraction(low)))
