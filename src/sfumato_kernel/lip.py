"""LIP over the χ² ball: weak duality for every P(s) = π, in intervals of π that rationals prove.

For a row r of a law that reads U alone, b = 1 + B, z = e^ε and any μ₁ ≥ max r, μ₂ ≤ min r [docs/funnel.md]:
P(y|s) ≤ zP(y) if (θ² + z)(A₁θ + √z·A₂)² ≥ b[(μ₁ − zμ₂)θ² − z(z−1)μ₂], θ² = (1−πz)/π, A₁ over s and A₂ over the others;
P(y) ≤ zP(y|s) if (1 + φ²)(A₁ + φA₂)² ≥ b[μ₁(1 + φ² − z) − zφ²μ₂], φ² = (z−π)/π, A₁ over the others and A₂ over s, with
A₁ = Σ P̂√(μ₁−r), A₂ = Σ P̂√(r−μ₂). Each is a quartic in θ or φ, and ≥ 0 on an interval
if its Bernstein coefficients are.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sfumato_kernel.exact import Table
from sfumato_kernel.laws import Law
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, UP, ZERO, near, root

DEEPEST = 26  # halvings of an interval
PATIENCE = 3  # halvings before an interval that fails at its very middle ends the proof
PIECES = 1_000  # intervals in all
Cells = list[tuple[int, int]]  # (value, count)
BINOMIAL = [[math.comb(n, i) for i in range(n + 1)] for n in range(5)]


def lip_over_ball(law: Law, counts: Table, radius: float, z: Fraction, both: bool = True) -> bool:
    """Whether z is proved to bound P(y|s)/P(y) over the ball, and its inverse too; for a law that reads U alone."""
    if law.rows > 1:
        raise Beyond("P(y|s)/P(y) over a ball for a law that reads the secret")
    if not law.listable:
        return False
    n, b, spent = sum(map(sum, counts)), 1 + Fraction(radius), 0
    columns = [sum(column) for column in zip(*counts, strict=True)]
    for row in law.listed:
        part = row.parts[0]
        if max(part.values) <= z * min(part.values):
            continue
        for own in counts:
            mine = part.grouped(own, sum(own))
            rest = part.grouped([c - o for c, o in zip(columns, own, strict=True)], n - sum(own))
            for above in (True, False) if both else (True,):
                ends = _range(Fraction(sum(own), n), b, z, above)
                left = [] if ends is None else [(*ends, 0)]
                while left:
                    low, high, depth = left.pop()
                    spent += 1
                    if spent > PIECES:
                        raise Beyond(f"more than {PIECES:,} intervals of P(s)")
                    done = _piece(mine if above else rest, rest if above else mine, n, b, z, above, low, high)
                    if done:
                        continue
                    if depth == DEEPEST or (done is None and depth >= PATIENCE):
                        return False
                    middle = _middle(low, high)
                    left += [(low, middle, depth + 1), (middle, high, depth + 1)]
    return True


def _middle(low: Fraction, high: Fraction | None) -> Fraction:
    if high is None:
        return 4 * max(low, Fraction(1))
    if high < 4 * low + Fraction(1, 10**9):
        return (low + high) / 2
    return Fraction(math.sqrt(max(float(low), float(high) / 1000) * float(high)))


def _range(share: Fraction, b: Fraction, z: Fraction, above: bool) -> tuple[Fraction, Fraction | None] | None:
    """θ or φ from outside, over all π with P̂²/π + (1−P̂)²/(1−π) ≤ b; None if there is nothing to prove."""
    h = b - 1 + 2 * share
    far = Fraction(root(near(h * h - 4 * b * share * share, UP), UP))
    least, most = 2 * share * share / (h + far) if share else Fraction(0), min(Fraction(1), (h + far) / (2 * b))
    if above:
        most = min(most, 1 / z)
        if least >= most:
            return None

    def square(pi: Fraction) -> Fraction:
        return (1 - pi * z) / pi if above else (z - pi) / pi

    low = Fraction(root(near(max(Fraction(0), square(most)), DOWN), DOWN))
    return low, Fraction(root(near(square(least), UP), UP)) if least else None


def _piece(first: Cells, second: Cells, n: int, b: Fraction, z: Fraction, above: bool, low: Fraction,
           high: Fraction | None) -> bool | None:
    """Whether good multipliers at the middle of an interval prove all of it; None if they fail even there."""
    at = float(2 * max(low, Fraction(1)) if high is None else (low + high) / 2)
    up, down = _suggested(first, second, n, float(b), float(z), at, above)
    mu = max(v for v, _ in first) + Fraction(up)
    m = min(v for v, _ in second) - Fraction(down)
    a1, a2 = _length(first, mu, n, 1), _length(second, m, n, -1)
    if above:
        a2 *= Fraction(root(near(z, DOWN), DOWN))
        quartic = [z * a2**2 + b * z * (z - 1) * m, 2 * z * a1 * a2, a2**2 + z * a1**2 - b * (mu - z * m),
                   2 * a1 * a2, a1**2]
    else:
        quartic = [a1**2 + b * mu * (z - 1), 2 * a1 * a2, a1**2 + a2**2 - b * (mu - z * m), 2 * a1 * a2, a2**2]
    if sum(c * Fraction(at) ** i for i, c in enumerate(quartic)) < 0:
        return None
    if high is None:
        if not low:
            return all(c >= 0 for c in quartic)
        quartic, low, high = quartic[::-1], Fraction(0), 1 / low
    width = high - low
    moved = [width**i * sum(BINOMIAL[k][i] * quartic[k] * low ** (k - i) for k in range(i, 5)) for i in range(5)]
    return all(sum(Fraction(BINOMIAL[j][i], BINOMIAL[4][i]) * moved[i] for i in range(j + 1)) >= 0 for j in range(5))


def _length(cells: Cells, point: Fraction, n: int, sign: int) -> Fraction:
    """At or below Σ P̂√|point − v|."""
    total = ZERO
    for v, mass in cells:
        total = DOWN.add(total, DOWN.multiply(Decimal(mass), root(near(sign * (point - v), DOWN), DOWN)))
    return Fraction(total) / n


def _suggested(first: Cells, second: Cells, n: int, b: float, z: float, at: float, above: bool) -> tuple[float, float]:
    """(μ₁ − max r, min r − μ₂) where F(c₁A₁ + c₂A₂)² − b(k₁μ₁ − k₂μ₂) is greatest: with G = c₁A₁ + c₂A₂ its derivatives
    vanish at Σ P̂/√gap = b·k/(F·G·c) on each side, so G is found by halving."""
    square = at * at
    f, c, k = ((square + z, (at, math.sqrt(z)), (square, z * square + z * (z - 1))) if above else
               (1 + square, (1.0, at), (1 + square - z, z * square)))
    top, bottom = max(v for v, _ in first), min(v for v, _ in first)
    width = float(top - bottom)
    both = (first, top), (second, bottom)
    sides = [[(abs(v - edge) / width, m / n) for v, m in cells if m] for cells, edge in both]
    low, high, gaps = -40.0, 40.0, [0.0, 0.0]
    for _ in range(50):
        g = math.exp((low + high) / 2)
        gaps = [_gap(cells, b * ki / (f * g * ci)) if ci and ki > 0 else 0.0
                for cells, ci, ki in zip(sides, c, k, strict=True)]
        found = sum(ci * sum(m * math.sqrt(d + t) for d, m in cells)
                    for cells, ci, t in zip(sides, c, gaps, strict=True))
        low, high = ((low + high) / 2, high) if found > g else (low, (low + high) / 2)
    return gaps[0] * width, gaps[1] * width


def _gap(cells: list[tuple[float, float]], goal: float) -> float:
    """t ≥ 0 with Σ m/√(d + t) = goal."""
    low, high, at = -75.0, 80.0, 0.0
    if not cells:
        return 0.0
    for _ in range(60):
        t = math.exp(at)
        total = sum(m / math.sqrt(d + t) for d, m in cells)
        slope = t / 2 * sum(m / (d + t) ** 1.5 for d, m in cells)
        low, high = (at, high) if total > goal else (low, at)
        step = at + math.log(total / goal) * total / slope if slope > 0 else (low + high) / 2
        before, at = at, step if low < step < high else (low + high) / 2
        if abs(at - before) < 1e-11:
            break
    return math.exp(at)
