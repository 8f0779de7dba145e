"""What an output tells of a secret: maximal (α, β)-leakage, every power rounded outward, and LIP over the χ² ball."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sfumato_kernel.documents import Beyond
from sfumato_kernel.exact import DOWN, INFINITE, UP, ZERO, exp, log, near, root, scaled, solved
from sfumato_kernel.laws import ExactLaw, Table

# --- maximal (α, β)-leakage of exact channels, bounded in nats with every power rounded outward -----------------------
# Where the definition asks for a supremum over priors any laws q on outputs are a proof [004, (84)]:
# L ≤ max_{x'} max_x 1/(α−1) · log Σ_y Q_x^α q^{1−α/β} Q_x'^{α/β−α} for β < α < ∞, and max_x Σ_y Q_x log Q_x/q at
# α = β = 1. Floats suggest q; nothing about them is believed.


MOST_POWERS = 90_000  # outputs × inputs², each a power of 30 digits
SEARCH_TURNS, SEARCH_WORK = 4_000, 5_000_000  # steps of a search; times outputs × inputs², of all searches
Channel = list[list[Fraction]]  # [y][x]
Logs = list[list[Decimal]]
Term = tuple[Decimal, Fraction]


def channel(law: ExactLaw, table: Table | None) -> Channel:
    """Q(y|x), or P(y|s) through the design distribution for the secrets that occur."""
    rows, whole = law.listed, 1 << law.bits
    if len(rows) * (law.inputs if table is None else len(table)) ** 2 > MOST_POWERS:
        raise Beyond("too many inputs and outputs for a proof of leakage")
    if table is None:
        return [[Fraction(row.factor * row.of(s).at(u), whole) for s in range(law.rows) for u in range(law.useful)]
                for row in rows]
    seen = [(s, own, sum(own.values())) for s, own in enumerate(table) if own]
    means = [[Fraction(row.factor * row.of(s).mean(own, n), whole * n) for s, own, n in seen] for row in rows]
    return [row for row in means if any(row)]


def leakage(q: Channel, alpha: float, beta: float) -> Fraction | None:
    """At or above L_{α,β} in nats; None: infinite."""
    if all(len(set(row)) == 1 for row in q):
        return Fraction(0)
    if beta == 1 and math.isinf(alpha):
        return Fraction(log(sum((max(row) for row in q), Fraction(0)), UP))
    if beta > 1 and (alpha == 1 or any(not v for row in q for v in row)):
        return None
    a, b = (Fraction(x) if math.isfinite(x) else Fraction(0) for x in (alpha, beta))
    if math.isinf(beta):
        worst = Fraction(log(max(max(row) / min(row) for row in q), UP))
        return worst if math.isinf(alpha) else worst * a / (a - 1)
    tops, lows = ([[log(v, way) for v in row] for row in q] for way in (UP, DOWN))
    inputs, outputs = range(len(q[0])), range(len(q))
    if math.isinf(alpha):
        return max(_log_sum([[(max(tops[y]), b), (lows[y][x], 1 - b)] for y in outputs]) / b for x in inputs)
    if beta >= alpha and beta > 1:
        sums = [_log_sum([[(tops[y][x], b), (lows[y][z], 1 - b)] for y in outputs])
                for x in inputs for z in inputs if x != z]
        return max(Fraction(0), *sums) * a / ((a - 1) * b)
    if alpha == 1:
        return _capacity(q, tops)
    best, d = Fraction(0), a - a / b
    for z in inputs if d else range(1):
        law = [log(v, DOWN) for v in _suggested(q, float(a), float(b), z)]
        for x in inputs:
            terms = [[(tops[y][x], a), (lows[y][z], -d), (law[y], 1 - a / b)] for y in outputs]
            best = max(best, _log_sum(terms) / (a - 1))
    return best


def _log_sum(terms: list[list[Term]]) -> Fraction:
    """At or above log Σ e^{Σ r·log}: logs from above where r > 0, from below where r < 0; e^{−∞} counts as nothing."""
    total = ZERO
    for (first, r), *rest in terms:
        if first != -INFINITE:
            exponent = scaled(first, r, UP)
            for x, t in rest:
                exponent = UP.add(exponent, scaled(x, t, UP)) if t else exponent
            total = UP.add(total, exp(exponent, UP))
    return Fraction(log(total, UP))


def _capacity(q: Channel, tops: Logs) -> Fraction:
    rows = [[float(v) for v in row] for row in q]

    def look(p: list[float]) -> tuple[float, list[float], list[float]]:
        law = [sum(map(float.__mul__, p, row)) for row in rows]
        known = [sum(row[x] * math.log(row[x] / m) for row, m in zip(rows, law, strict=True) if row[x])
                 for x in range(len(p))]
        mean = sum(map(float.__mul__, p, known))
        return mean, [math.exp(k - mean) for k in known], law

    law = [log(v, DOWN) for v in _climbed(q, 1.0, look)]
    best = ZERO
    for x in range(len(q[0])):
        total = ZERO
        for row, top, own in zip(q, tops, law, strict=True):
            if row[x]:
                gain = UP.subtract(top[x], own)
                total = UP.add(total, UP.multiply(near(row[x], UP if gain > 0 else DOWN), gain))
        best = max(best, total)
    return Fraction(best)


def _suggested(q: Channel, a: float, b: float, z: int) -> list[Fraction]:
    """A good law on outputs: q ∝ (Σ_x p_x c_xy)^{β/α}, c = Q_x^α Q_z^{α/β−α}."""
    theta, d = b / a, a - a / b
    c = [[float(v) ** a * (float(row[z]) ** -d if d else 1.0) for v in row] for row in q]

    def look(p: list[float]) -> tuple[float, list[float], list[float]]:
        sums = [sum(map(float.__mul__, p, row)) for row in c]
        mean = sum(s**theta for s in sums)
        gains = [sum(row[x] * s ** (theta - 1) for row, s in zip(c, sums, strict=True) if s) / mean
                 for x in range(len(p))]
        return mean, gains, [s**theta for s in sums]

    return _climbed(q, 1 / (1 - theta), look)


def _climbed(q: Channel, step: float, look: Callable[[list[float]], tuple[float, list[float], list[float]]]
             ) -> list[Fraction]:
    """The law on outputs at a prior that is nearly the best: multiplicative steps p·gain^step that grow while the value
    does; at the best prior no gain exceeds 1."""
    size = len(q[0])
    p = kept = [1 / size] * size
    best, value = (math.inf, [1.0]), 0.0
    for _ in range(min(SEARCH_TURNS, 100 + SEARCH_WORK // (len(q) * size**2))):
        found, gains, law = look(p)
        if found < value * (1 - 1e-15):
            p, step, value = kept, max(1.0, step / 4), 0.0
            continue
        best = min(best, (max(gains), law))
        if best[0] < 1 + 1e-14:
            break
        kept, value, step = p, found, 1.2 * step
        p = [w * (g / max(gains)) ** step for w, g in zip(p, gains, strict=True)]
        whole = sum(p)
        p = [max(w / whole, 1e-300) for w in p]
    exact = [Fraction(max(w, 1e-30)) for w in best[1]]
    total = sum(exact)
    return [w / total for w in exact]


# --- LIP over the χ² ball: weak duality for every P(s) = π, in intervals of π that rationals prove --------------------
# For a row r of a law that reads U alone, b = 1 + B, z = e^ε and any μ₁ ≥ max r, μ₂ ≤ min r [docs/funnel.md]:
# P(y|s) ≤ zP(y) if (θ² + z)(A₁θ + √z·A₂)² ≥ b[(μ₁ − zμ₂)θ² − z(z−1)μ₂] with
#   θ² = (1−πz)/π, A₁ over s and A₂ over the others;
# P(y) ≤ zP(y|s) if (1 + φ²)(A₁ + φA₂)² ≥ b[μ₁(1 + φ² − z) − zφ²μ₂] with
#   φ² = (z−π)/π, A₁ over the others and A₂ over s;
# A₁ = Σ P̂√(μ₁−r), A₂ = Σ P̂√(r−μ₂). Each is a quartic in θ or φ, and ≥ 0 on an interval
# if its Bernstein coefficients are.


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of P(s) that are looked at."""

    deepest: int = 26  # halvings of an interval
    patience: int = 3  # halvings before an interval that fails at its very middle ends the proof
    most: int = 1_000  # intervals in all


INTERVALS = Intervals()
Cells = list[tuple[int, int]]  # (value, count)


def lip_over_ball(law: ExactLaw, table: Table, radius: float, z: Fraction, both: bool = True) -> bool:
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
                    if spent > INTERVALS.most:
                        raise Beyond(f"more than {INTERVALS.most:,} intervals of P(s)")
                    done = _piece(*((mine, rest) if above else (rest, mine)), n, b, z, above, low, high)
                    if not done and (depth == INTERVALS.deepest or (done is None and depth >= INTERVALS.patience)):
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
    up, down = _suggested_duals(first, second, n, float(b), float(z), at, above)
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


def _suggested_duals(
    first: Cells, second: Cells, n: int, b: float, z: float, at: float, above: bool
) -> tuple[float, float]:
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
