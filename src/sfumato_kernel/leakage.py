"""Maximal (α, β)-leakage of exact channels, bounded in nats with every power rounded outward.

Where the definition asks for a supremum over priors (β < α < ∞) any laws q on outputs are a proof [004, (84)]:
L ≤ max_{x'} max_x 1/(α−1) · log Σ_y Q_x^α q^{1−α/β} Q_x'^{α/β−α}. Floats suggest q; nothing about them is believed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sfumato_kernel.exact import Table
from sfumato_kernel.laws import Law
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, INFINITE, UP, ZERO, exp, log, near, scaled

CELLS = 3_000  # of a channel, with a third index over its inputs
TURNS = 4_000
Channel = list[list[Fraction]]  # [y][x]


def channel(law: Law, counts: Table | None) -> Channel:
    """Q(y|x), or P(y|s) through the design distribution for the secrets that occur."""
    rows, whole = law.listed, 1 << law.bits
    columns = law.inputs if counts is None else len(counts)
    if len(rows) * columns**2 > 30 * CELLS:
        raise Beyond("too many inputs and outputs for a proof of leakage")
    if counts is None:
        return [[Fraction(row.factor * row.of(s).at(u), whole) for s in range(law.rows) for u in range(law.useful)]
                for row in rows]
    seen = [(s, sum(own)) for s, own in enumerate(counts) if any(own)]
    means = [[Fraction(row.factor * row.of(s).mean(counts[s], n), whole * n) for s, n in seen] for row in rows]
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
    tops = [[log(v, UP) for v in row] for row in q]
    lows = [[log(v, DOWN) for v in row] for row in q]
    inputs = range(len(q[0]))
    if math.isinf(alpha):
        return max(_log_sum([(max(t), b, lo[x], 1 - b) for t, lo in zip(tops, lows, strict=True)]) / b for x in inputs)
    if beta >= alpha and beta > 1:
        sums = [_log_sum([(t[x], b, lo[z], 1 - b) for t, lo in zip(tops, lows, strict=True)])
                for x in inputs for z in inputs if x != z]
        return max(Fraction(0), *sums) * a / ((a - 1) * b)
    return _capacity(q, tops) if alpha == 1 else _by_laws(q, tops, lows, a, b)


def _log_sum(terms: list[tuple[Decimal, Fraction, Decimal, Fraction]]) -> Fraction:
    """At or above log Σ e^{r·top + t·low}, r ≥ 0 ≥ t."""
    total = ZERO
    for top, r, low, t in terms:
        if top != -INFINITE:
            total = UP.add(total, exp(UP.add(scaled(top, r, UP), scaled(low, t, UP) if t else ZERO), UP))
    return Fraction(log(total, UP))


def _by_laws(q: Channel, tops: list[list[Decimal]], lows: list[list[Decimal]], a: Fraction, b: Fraction) -> Fraction:
    d, best = a - a / b, Fraction(0)
    for z in range(len(q[0])) if d else range(1):
        law = [log(v, DOWN) for v in _suggested(q, float(a), float(b), z)]
        for x in range(len(q[0])):
            terms = [(t[x], a, scaled(lo[z], -d, UP) if d else ZERO, own)
                     for t, lo, own in zip(tops, lows, law, strict=True)]
            total = ZERO
            for top, power, reference, own in terms:
                if top != -INFINITE:
                    total = UP.add(total, exp(UP.add(UP.add(scaled(top, power, UP), reference),
                                                     scaled(own, 1 - a / b, UP)), UP))
            best = max(best, Fraction(log(total, UP)) / (a - 1))
    return best


def _suggested(q: Channel, a: float, b: float, z: int) -> list[Fraction]:
    """A good law on outputs: q ∝ (Σ_x p_x c_xy)^{β/α}, c = Q_x^α Q_z^{α/β−α}, p by multiplicative steps."""
    theta, d = b / a, a - a / b
    c = [[float(v) ** a * (float(row[z]) ** -d if d else 1.0) for v in row] for row in q]
    inputs = range(len(q[0]))
    p, step, value = [1 / len(q[0])] * len(q[0]), 1 / (1 - theta), 0.0
    kept, best, sums = p, (math.inf, p), [sum(row) / len(row) for row in c]
    for _ in range(TURNS):
        sums = [sum(map(float.__mul__, p, row)) for row in c]
        mean = sum(s**theta for s in sums)
        if mean < value * (1 - 1e-15):
            p, step, value = kept, max(1.0, step / 4), 0.0
            continue
        gains = [sum(row[x] * s ** (theta - 1) for row, s in zip(c, sums, strict=True) if s) / mean for x in inputs]
        best = min(best, (max(gains), p))
        if best[0] < 1 + 1e-14:
            break
        kept, value, step = p, mean, 1.2 * step
        p = [w * g**step for w, g in zip(p, gains, strict=True)]
        total = sum(p)
        p = [max(w / total, 1e-300) for w in p]
    return _law([sum(map(float.__mul__, best[1], row)) ** theta for row in c])


def _law(weights: list[float]) -> list[Fraction]:
    exact = [Fraction(max(w, 1e-30)) for w in weights]
    total = sum(exact)
    return [w / total for w in exact]


def _capacity(q: Channel, tops: list[list[Decimal]]) -> Fraction:
    """max_x Σ_y Q log Q/q for a law q bounds the capacity; q by Blahut and Arimoto."""
    inputs, rows = range(len(q[0])), [[float(v) for v in row] for row in q]
    p = [1 / len(q[0])] * len(q[0])
    best, kept, value, step = (math.inf, p), p, 0.0, 1.0
    for _ in range(TURNS):
        law = [sum(map(float.__mul__, p, row)) for row in rows]
        gains = [sum(row[x] * math.log(row[x] / m) for row, m in zip(rows, law, strict=True) if row[x]) for x in inputs]
        mean = sum(map(float.__mul__, p, gains))
        if mean < value * (1 - 1e-15):
            p, step, value = kept, max(1.0, step / 4), 0.0
            continue
        best = min(best, (max(gains), p))
        if max(gains) - mean < 1e-15:
            break
        kept, value, step = p, mean, 1.2 * step
        p = [w * math.exp(step * (g - max(gains))) for w, g in zip(p, gains, strict=True)]
        total = sum(p)
        p = [max(w / total, 1e-300) for w in p]
    exact = [log(v, DOWN) for v in _law([sum(map(float.__mul__, best[1], row)) for row in rows])]
    most = Fraction(0)
    for x in inputs:
        total_up = ZERO
        for row, top, own in zip(q, tops, exact, strict=True):
            if row[x]:
                gain = UP.subtract(top[x], own)
                total_up = UP.add(total_up, UP.multiply(near(row[x], UP if gain > 0 else DOWN), gain))
        most = max(most, Fraction(total_up))
    return most
