"""Maximal (α, β)-leakage of exact channels, bounded in nats with every power rounded outward.

Where the definition asks for a supremum over priors any laws q on outputs are a proof [004, (84)]:
L ≤ max_{x'} max_x 1/(α−1) · log Σ_y Q_x^α q^{1−α/β} Q_x'^{α/β−α} for β < α < ∞, and max_x Σ_y Q_x log Q_x/q at
α = β = 1. Floats suggest q; nothing about them is believed.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sfumato_kernel.exact import Table
from sfumato_kernel.laws import Law
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, INFINITE, UP, ZERO, exp, log, near, scaled

CELLS = 90_000  # outputs × inputs², each a power of 30 digits
TURNS, WORK = 4_000, 5_000_000  # steps of a search; times outputs × inputs², of all searches
Channel = list[list[Fraction]]  # [y][x]
Logs = list[list[Decimal]]
Term = tuple[Decimal, Fraction]


def channel(law: Law, table: Table | None) -> Channel:
    """Q(y|x), or P(y|s) through the design distribution for the secrets that occur."""
    rows, whole = law.listed, 1 << law.bits
    if len(rows) * (law.inputs if table is None else len(table)) ** 2 > CELLS:
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
    for _ in range(min(TURNS, 100 + WORK // (len(q) * size**2))):
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
