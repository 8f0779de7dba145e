"""LIP over the χ² ball: weak duality for every P(s) = π, in intervals of π that rationals prove.

For a row r of a law that reads U alone, b = 1 + B, z = e^ε and any μ₁ ≥ max r, μ₂ ≤ min r [docs/funnel.md]:
P(y|s) ≤ zP(y) if (θ² + z)(A₁θ + √z·A₂)² ≥ b[(μ₁ − zμ₂)θ² − z(z−1)μ₂], θ² = (1−πz)/π, A₁ over s and A₂ over the others;
P(y) ≤ zP(y|s) if (1 + φ²)(A₁ + φA₂)² ≥ b[μ₁(1 + φ² − z) − zφ²μ₂], φ² = (z−π)/π, A₁ over the others and A₂ over s, with
A₁ = Σ P̂√(μ₁−r), A₂ = Σ P̂√(r−μ₂). Each is a quartic in θ or φ, and ≥ 0 on an interval
if its Bernstein coefficients are.
"""

import math
from decimal import Decimal
from fractions import Fraction

from sfumato_kernel.exact import Table
from sfumato_kernel.laws import Law
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, UP, ZERO, root, solved

DEEPEST = 26  # halvings of an interval
PATIENCE = 3  # halvings before an interval that fails at its very middle ends the proof
PIECES = 1_000  # intervals in all
Cells = list[tuple[int, int]]  # (value, count)


def lip_over_ball(law: Law, table: Table, radius: float, z: Fraction, both: bool = True) -> bool:
    """Whether z is proved to bound P(y|s)/P(y) over the ball, and its inverse too; for a law that reads U alone."""
    if law.rows > 1:
        raise Beyond("P(y|s)/P(y) over a ball for a law that reads the secret")
    if not law.listable:
        return False
    sizes, b, spent = [sum(own.values()) for own in table], 1 + Fraction(radius), 0
    n = sum(sizes)
    for part in (row.parts[0] for row in law.listed):
        groups = [part.grouped(own) for own in table] if max(part.values) > z * min(part.values) else []
        for s, mine in enumerate(groups):
            rest = [(v, sum(g[i][1] for g in groups) - m) for i, (v, m) in enumerate(mine)]
            for above in (True, False)[:1 + both]:
                left = [(low, high, 0) for low, high in _range(Fraction(sizes[s], n), b, z, above)]
                while left:
                    low, high, depth = left.pop()
                    spent += 1
                    if spent > PIECES:
                        raise Beyond(f"more than {PIECES:,} intervals of P(s)")
                    done = _piece(*((mine, rest) if above else (rest, mine)), n, b, z, above, low, high)
                    if not done and (depth == DEEPEST or (done is None and depth >= PATIENCE)):
                        return False
                    middle = _middle(low, high)
                    left += [] if done else [(low, middle, depth + 1), (middle, high, depth + 1)]
    return True


def _middle(low: Fraction, high: Fraction | None) -> Fraction:
    if high is None:
        return 4 * max(low, Fraction(1))
    near = high < 4 * low + Fraction(1, 10**9)
    return (low + high) / 2 if near else Fraction(math.sqrt(max(float(low), float(high) / 1000) * float(high)))


def _range(share: Fraction, b: Fraction, z: Fraction, above: bool) -> list[tuple[Fraction, Fraction | None]]:
    """θ or φ from outside, over all π with P̂²/π + (1−P̂)²/(1−π) ≤ b; nothing if there is nothing to prove."""
    h = b - 1 + 2 * share
    far = Fraction(root(h * h - 4 * b * share * share, UP))
    least, most = 2 * share * share / (h + far) if share else Fraction(0), min(Fraction(1), (h + far) / (2 * b))
    most = min(most, 1 / z) if above else most
    if above and least >= most:
        return []
    squares = [(1 - pi * z if above else z - pi) / pi if pi else None for pi in (most, least)]
    low = Fraction(root(max(Fraction(0), squares[0] or Fraction(0)), DOWN))
    return [(low, None if squares[1] is None else Fraction(root(squares[1], UP)))]


def _piece(first: Cells, second: Cells, n: int, b: Fraction, z: Fraction, above: bool, low: Fraction,
           high: Fraction | None) -> bool | None:
    """Whether good multipliers at the middle of an interval prove all of it; None if they fail even there."""
    at = float(2 * max(low, Fraction(1)) if high is None else (low + high) / 2)
    up, down = _suggested(first, second, n, float(b), float(z), at, above)
    mu, m = max(v for v, _ in first) + Fraction(up), min(v for v, _ in second) - Fraction(down)
    a1, a2 = _length(first, mu, n, 1), _length(second, m, n, -1)
    if above:
        a2 *= Fraction(root(z, DOWN))
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
    moved = [sum(math.comb(k, i) * quartic[k] * low ** (k - i) for k in range(i, 5)) * (high - low) ** i
             for i in range(5)]
    return all(sum(Fraction(math.comb(j, i), math.comb(4, i)) * moved[i] for i in range(j + 1)) >= 0 for j in range(5))


def _length(cells: Cells, point: Fraction, n: int, sign: int) -> Fraction:
    """At or below Σ P̂√|point − v|."""
    total = ZERO
    for v, mass in cells:
        total = DOWN.add(total, DOWN.multiply(Decimal(mass), root(sign * (point - v), DOWN)))
    return Fraction(total) / n


def _suggested(first: Cells, second: Cells, n: int, b: float, z: float, at: float, above: bool) -> tuple[float, float]:
    """(μ₁ − max r, min r − μ₂) where F(c₁A₁ + c₂A₂)² − b(k₁μ₁ − k₂μ₂) is greatest: with G = c₁A₁ + c₂A₂ its derivatives
    vanish at Σ P̂/√gap = b·k/(F·G·c) on each side, which leaves G to be found."""
    square = at * at
    f, c, k = ((square + z, (at, math.sqrt(z)), (square, z * square + z * (z - 1))) if above else
               (1 + square, (1.0, at), (1 + square - z, z * square)))
    top, bottom = max(v for v, _ in first), min(v for v, _ in first)
    width = float(top - bottom)
    both = (first, top), (second, bottom)
    sides = [[(abs(v - edge) / width, m / n) for v, m in cells if m] for cells, edge in both]

    def gaps(g: float) -> list[float]:
        """t ≥ 0 with Σ m/√(d + t) = goal, on each side."""
        goals = [b * ki / (f * math.exp(g) * ci) if ci and cells else 0.0
                 for cells, ci, ki in zip(sides, c, k, strict=True)]
        return [math.exp(solved(lambda at, cells=cells, goal=goal:  # type: ignore[misc]
                                math.log(sum(m / math.sqrt(d + math.exp(at)) for d, m in cells) / goal), -75.0, 80.0))
                if goal > 0 else 0.0 for cells, goal in zip(sides, goals, strict=True)]

    def rest(g: float) -> float:
        found = sum(ci * sum(m * math.sqrt(d + t) for d, m in cells)
                    for cells, ci, t in zip(sides, c, gaps(g), strict=True))
        return math.log(found) - g if found > 0 else -1.0

    up, down = gaps(solved(rest, -40.0, 40.0))
    return up * width, down * width
