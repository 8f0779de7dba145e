"""Levels that rationals decide: about the input, for any distribution, at one distribution, over mixtures.

Each function returns the worst ratio e^level as a rational (None: infinite); only I(S;Y) needs logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from sfumato_kernel.laws import Law, Ratio, Row, quotient, worse
from sfumato_kernel.reading import Beyond
from sfumato_kernel.rounding import DOWN, UP, ZERO, log, near

WORK = 20_000_000  # steps after which a proof is given up: some ten seconds
Table = list[list[int]]  # P̂(s, u) as whole numbers over their sum


def about_input(law: Law) -> Ratio:
    """max Q(y|x) / Q(y|x') over y, x, x'."""
    if law.kind == "unary":
        return quotient(*law.odds) if law.inputs > 1 else Fraction(1)
    if law.kind == "product" and not law.listable:
        return power_product((about_input(part), times) for part, _, times in law.releases)
    ratio: Ratio = Fraction(1)
    for row in law.listed:
        values = [v for part in row.parts for v in part.values]
        ratio = worse(ratio, quotient(max(values), min(values)))
    return ratio


def about_anything(law: Law, secrets: int) -> Ratio:
    """max Q(y|s,u) / Q(y|s',u') over y, u, u' and s ≠ s': the worst over every distribution [000, Prop. 3]."""
    if law.kind == "unary":
        return quotient(*law.odds) if law.inputs > 1 else Fraction(1)
    if law.kind == "product" and not law.listable:
        return power_product((about_anything(part, secrets), times) for part, _, times in law.releases)
    ratio: Ratio = Fraction(1)
    for row in law.listed:
        ends = [(max(part.values), min(part.values)) for part in row.parts]
        ends = ends * secrets if len(ends) == 1 else ends
        tops = sorted(range(secrets), key=lambda s: -ends[s][0])[:2]
        lows = sorted(range(secrets), key=lambda s: ends[s][1])[:2]
        for s, t in itertools.product(tops, lows):
            if s != t:
                ratio = worse(ratio, quotient(ends[s][0], ends[t][1]))
    return ratio


def power_product(factors: Iterator[tuple[Ratio, int]]) -> Ratio:
    """Π ratio^times; ∞ beyond 2^1000."""
    total = Fraction(1)
    for ratio, times in factors:
        if ratio is None or times * math.log2(ratio) > 1000:
            return None
        total *= ratio**times
        if total > 2**1000:
            return None
    return total


def at_distribution(law: Law, counts: Table, notion: str) -> Ratio:
    """max P(y|s) / P(y|s') (rldp), of P(y|s) / P(y) (pml), and of its inverse (lip), for secrets that occur."""
    if law.kind == "unary":
        return sets_at_distribution(law.odds, law.rows, counts, notion)
    sizes = [sum(row) for row in counts]
    seen, total = [s for s, n in enumerate(sizes) if n], sum(sizes)
    if len(law.listed) * len(seen) > WORK // 10:
        raise Beyond("too many outputs to compare")
    ratio: Ratio = Fraction(1)
    for row in law.listed:
        sums = {s: row.of(s).mean(counts[s], sizes[s]) for s in seen}
        pairs = [(sums[s], sizes[s]) for s in seen]
        top, low = (pick(pairs, key=lambda p: Fraction(*p)) for pick in (max, min))
        if notion == "rldp":
            ratio = worse(ratio, quotient(top[0] * low[1], top[1] * low[0]))
        else:
            whole = sum(sums.values())
            ratio = worse(ratio, quotient(top[0] * total, top[1] * whole))
            if notion != "pml":  # the upper half of lip
                ratio = worse(ratio, quotient(whole * low[1], total * low[0]))
    return ratio


def sets_at_distribution(odds: tuple[Any, Any], rows: int, counts: Table, notion: str) -> Ratio:
    """All sets of inputs at once: the greatest (low + d·p(H)) / (low + d·q(H)) over H for each pair of laws p, q."""
    sizes, k = [sum(row) for row in counts], len(counts[0])
    seen, total = [s for s, n in enumerate(sizes) if n], sum(sizes)
    if len(seen) ** 2 * rows * k > WORK // 100:
        raise Beyond("too many pairs of secrets to compare")
    laws = {}
    for s in seen:
        own = [Fraction(n, sizes[s]) for n in counts[s]]
        laws[s] = own if rows == 1 else [Fraction(0)] * (s * k) + own + [Fraction(0)] * ((rows - 1 - s) * k)
    shares = [Fraction(sizes[s], total) for s in seen]
    mean = [sum((w * p for w, p in zip(shares, ps, strict=True)), Fraction(0))
            for ps in zip(*laws.values(), strict=True)]
    pairs = itertools.permutations(laws.values(), 2) if notion == "rldp" else (
        pair for own in laws.values() for pair in ((own, mean), (mean, own))[: 1 if notion == "pml" else 2])
    ratio: Ratio = Fraction(1)
    for first, second in pairs:
        ratio = worse(ratio, _worst_set(first, second, *odds))
    return ratio


def _worst_set(first: Sequence[Fraction], second: Sequence[Fraction], high: Any, low: Any) -> Ratio:
    """Dinkelbach: λ is the maximum once (high − low)·Σ(p − λq)₊ ≤ (λ − 1)·low; {p > λq} attains a better one."""
    ratio = Fraction(1)
    while True:
        chosen = [(p, q) for p, q in zip(first, second, strict=True) if p > ratio * q]
        top, bottom = (low + (high - low) * sum(side) for side in zip(*chosen, strict=True)) if chosen else (1, 1)
        better = None if not bottom and top else Fraction(top) / bottom if bottom else Fraction(1)
        if better is None or better <= ratio:
            return ratio if better is not None else None
        ratio = better


def with_side_channels(law: Law, counts: Table) -> Ratio:
    """SRLIP: max of P(y|s,x^J) / P(y|x^J) and its inverse, over y, s, and every value of every set J of useful columns.

    J of all columns is left out for a law that reads U alone: it tells nothing more then [001, Def. 3].
    """
    codes = list(itertools.product(*(range(k) for k in law.sizes)))
    ratio: Ratio = Fraction(1)
    channels = [j for r in range(len(law.sizes)) for j in itertools.combinations(range(len(law.sizes)), r)]
    if len(law.listed) * len(channels) * len(counts) * law.useful > WORK // 10:
        raise Beyond("too many outputs and sets of columns to compare")
    for known in channels:
        cells: dict[tuple[int, ...], list[int]] = {}
        for u, code in enumerate(codes):
            cells.setdefault(tuple(code[j] for j in known), []).append(u)
        for inside in cells.values():
            sizes = [sum(row[u] for u in inside) for row in counts]
            for row in law.listed:
                ratio = worse(ratio, _within(row, counts, inside, sizes))
    return ratio


def _within(row: Row, counts: Table, inside: list[int], sizes: list[int]) -> Ratio:
    sums = [sum(row.of(s).at(u) * own[u] for u in inside) if n else 0
            for s, (own, n) in enumerate(zip(counts, sizes, strict=True))]
    whole, total, ratio = sum(sums), sum(sizes), Fraction(1)
    for part, n in zip(sums, sizes, strict=True):
        if n and whole:
            found = worse(quotient(part * total, whole * n), quotient(whole * n, part * total))
            if found is None:
                return None
            ratio = max(ratio, found)
    return ratio


def information(law: Law, counts: Table) -> Fraction:
    """At or above I(S;Y) = Σ P(s,y) log P(s,y) / (P(s) P(y)), in nats."""
    sizes = [sum(row) for row in counts]
    total, out = sum(sizes), ZERO
    if len(law.listed) * len(counts) > WORK // 100:
        raise Beyond("too many pairs of secret and output")
    for row in law.listed:
        parts = [row.of(s).mean(counts[s], n) for s, n in enumerate(sizes)]
        whole = sum(parts)
        for part, n in zip(parts, sizes, strict=True):
            if part and part * total != whole * n:
                gain = log(Fraction(part * total, whole * n), UP)
                share = Fraction(part * row.factor, total << law.bits)
                out = UP.add(out, UP.multiply(near(share, UP if gain > 0 else DOWN), gain))
    return max(Fraction(0), Fraction(out))


def over_mixtures(rows: list[Row], secrets: int, vertices: list[Table], floor: Fraction) -> Ratio:
    """A bound, at least `floor`, of max P(y|s) / P(y|s') over all mixtures of the vertices: the worst one lies between
    two of them, where λ·D(s)N(s') − N(s)D(s') is a quadratic whose Bernstein coefficients tell whether it is ≥ 0."""
    masses = [[sum(row) for row in v] for v in vertices]
    possible = [s for s in range(secrets) if any(m[s] for m in masses)]
    if len(rows) * len(vertices) ** 2 * len(possible) ** 2 > WORK // 20:
        raise Beyond("too many outputs, vertices and secrets to compare")
    ratio: Ratio = floor
    for row in rows:
        sums = [[row.of(s).mean(v[s], m[s]) for s in range(secrets)] for v, m in zip(vertices, masses, strict=True)]
        for s, t in itertools.permutations(possible, 2):
            values = row.of(s).values, row.of(t).values
            if ratio is None or max(values[0]) <= ratio * min(values[1]):
                continue
            for i, j in itertools.combinations_with_replacement(range(len(vertices)), 2):
                ends = [_ends(sums, masses, i, j, x) for x in (s, t)]
                ratio = None if ratio is None else _along(ends[0], ends[1], ratio)
    return ratio


def _ends(sums: Table, masses: Table, i: int, j: int, s: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(N, D) at both ends; an end where the secret is absent takes the other's, whose conditional it has inside."""
    first, second = (sums[i][s], masses[i][s]), (sums[j][s], masses[j][s])
    return (first if first[1] else second), (second if second[1] else first)


def _along(one: tuple[tuple[int, int], tuple[int, int]], two: tuple[tuple[int, int], tuple[int, int]],
           ratio: Fraction) -> Ratio:
    """The ratio, raised until it holds along the whole segment."""
    (n1, d1), (m1, e1) = one
    (n2, d2), (m2, e2) = two
    if not (d1 and e1 and d2 and e2):
        return ratio

    def holds(z: Fraction) -> bool:
        b0, b2 = z * d1 * n2 - n1 * d2, z * e1 * m2 - m1 * e2
        b1 = z * (d1 * m2 + e1 * n2) - (n1 * e2 + m1 * d2)
        return b0 >= 0 and b2 >= 0 and (b1 >= 0 or b1 * b1 <= 4 * b0 * b2)

    return raised(ratio, holds)


def raised(ratio: Fraction, holds: Callable[[Fraction], bool]) -> Ratio:
    """The ratio if it holds, else one that does, within a factor of about 1 + 2^-45 of the least; None beyond 2^60."""
    if holds(ratio):
        return ratio
    low, high = ratio, 2 * ratio
    while not holds(high):
        if high > 2**60:
            return None
        low, high = high, 2 * high
    while high - low > low / 2**45:
        middle = Fraction(round((low + high) / 2 * 2**80), 2**80)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
