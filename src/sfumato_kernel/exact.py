"""Levels that rationals decide: for any distribution, at one distribution, over mixtures, over sets of inputs; and the
only inexact arithmetic of the kernel, decimals rounded to the safe side, for logarithms and powers.

Each function returns the worst ratio e^level as a rational (None: infinite); only I(S;Y) needs logarithms.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sfumato_kernel.documents import Beyond
from sfumato_kernel.laws import ExactLaw, Ratio, Row, Table, quotient, worse


@dataclass(frozen=True, slots=True)
class Effort:
    """What a proof may take."""

    values: int = 2_000_000  # values looked at before a proof is given up: some seconds
    digits: int = 30
    close: float = 1e-10  # of a suggestion, whose error counts only squared


EFFORT = Effort()


def within(work: int, what: str) -> None:
    if work > EFFORT.values:
        raise Beyond(f"too many {what} to compare")


def everywhere(law: ExactLaw, apart: bool = True) -> Ratio:
    """max Q(y|s,u) / Q(y|s',u') over y, u, u' and all s ≠ s', which every distribution obeys and some attain
    [000, Prop. 3]; over s = s' too, which is about the whole record, if secrets are not told `apart`."""
    if law.kind == "unary":
        return quotient(*law.odds) if law.inputs > 1 else Fraction(1)
    if not law.listable:
        return power_product((everywhere(part, apart), times) for part, _, times in law.releases)
    ratio: Ratio = Fraction(1)
    for row in law.listed:
        tops, lows = ([pick(part.values) for part in row.parts] for pick in (max, min))
        if len(tops) == 1 or not apart:
            ratio = worse(ratio, quotient(max(tops), min(lows)))
            continue
        pairs = itertools.product(heapq.nlargest(2, range(len(tops)), key=tops.__getitem__),
                                  heapq.nsmallest(2, range(len(lows)), key=lows.__getitem__))
        for s, t in pairs:
            ratio = worse(ratio, quotient(tops[s], lows[t])) if s != t else ratio
    return ratio


def power_product(factors: Iterable[tuple[Ratio, int]]) -> Ratio:
    """At or above Π ratio^times, by squares that are rounded up to 2^-256; ∞ beyond 2^1000."""
    total = Fraction(1)
    for ratio, times in factors:
        while times and ratio is not None and ratio < 2**1000:
            total = Fraction(math.ceil(total * ratio * 2**256), 2**256) if times % 2 else total
            ratio, times = Fraction(math.ceil(ratio * ratio * 2**256), 2**256), times // 2
        if times or total > 2**1000:
            return None
    return total


def at_distribution(law: ExactLaw, table: Table, notion: str) -> Ratio:
    """max P(y|s) / P(y|s') (rldp), of P(y|s) / P(y) (pml), and of its inverse (lip), for secrets that occur."""
    sizes = [sum(own.values()) for own in table]
    seen, total = [s for s, n in enumerate(sizes) if n], sum(sizes)
    within(len(law.listed) * len(seen), "outputs")
    ratio: Ratio = Fraction(1)
    for row in law.listed:
        means = [(row.of(s).mean(table[s], sizes[s]), sizes[s]) for s in seen]
        whole = sum(mean for mean, _ in means), total
        top, low = (pick(means, key=lambda p: Fraction(*p)) for pick in (max, min))
        for (a, m), (b, n) in {"rldp": [(top, low)], "pml": [(top, whole)]}.get(notion, [(top, whole), (whole, low)]):
            ratio = worse(ratio, quotient(a * n, b * m))
    return ratio


def with_side_channels(law: ExactLaw, table: Table) -> Ratio:
    """SRLIP: LIP given x^J, for every value of every set J of useful columns but all of them [001, Def. 3]."""
    digits = list(itertools.product(*map(range, law.sizes)))
    known = [j for r in range(len(law.sizes)) for j in itertools.combinations(range(len(law.sizes)), r)]
    within(len(law.listed) * len(known) * len(table) * law.useful, "outputs and sets of columns")
    ratio: Ratio = Fraction(1)
    for j in known:
        given: dict[tuple[int, ...], Table] = {}
        for s, own in enumerate(table):
            for u, n in own.items():
                given.setdefault(tuple(digits[u][i] for i in j), [{} for _ in table])[s][u] = n
        for inside in given.values():
            ratio = worse(ratio, at_distribution(law, inside, "lip"))
    return ratio


def information(law: ExactLaw, table: Table) -> Fraction:
    """At or above I(S;Y) = Σ P(s,y) log P(s,y) / (P(s) P(y)), in nats."""
    sizes = [sum(own.values()) for own in table]
    total, out = sum(sizes), ZERO
    within(10 * len(law.listed) * len(table), "pairs of secret and output")
    for row in law.listed:
        means = [row.of(s).mean(own, n) for s, (own, n) in enumerate(zip(table, sizes, strict=True))]
        whole = sum(means)
        for mean, n in zip(means, sizes, strict=True):
            if mean and mean * total != whole * n:
                gain = log(Fraction(mean * total, whole * n), UP)
                share = Fraction(mean * row.factor, total << law.bits)
                out = UP.add(out, UP.multiply(near(share, UP if gain > 0 else DOWN), gain))
    return max(Fraction(0), Fraction(out))


def over_mixtures(rows: list[Row], vertices: list[Table], floor: Fraction) -> Ratio:
    """A bound, at least `floor`, of max P(y|s) / P(y|s') over all mixtures of the vertices: the worst one lies between
    two of them, where λ·D(s)N(s') − N(s)D(s') is a quadratic whose Bernstein coefficients tell whether it is ≥ 0."""
    sizes = [[sum(own.values()) for own in v] for v in vertices]
    possible = [s for s in range(len(vertices[0])) if any(n[s] for n in sizes)]
    within(2 * len(rows) * len(vertices) ** 2 * len(possible) ** 2, "outputs, vertices and secrets")
    pairs = list(itertools.combinations_with_replacement(range(len(vertices)), 2))
    ratio: Ratio = floor
    for row in rows:
        ends = {s: [(row.of(s).mean(v[s], n[s]), n[s]) for v, n in zip(vertices, sizes, strict=True)] for s in possible}
        for s, t in itertools.permutations(possible, 2):
            if ratio is not None and max(row.of(s).values) > ratio * min(row.of(t).values):
                for i, j in pairs:
                    ratio = ratio and _along(_ends(ends[s], i, j), _ends(ends[t], i, j), ratio)
    return ratio


def _ends(points: list[tuple[int, int]], i: int, j: int) -> tuple[int, int, int, int]:
    """(N, D) at both ends; an end where the secret is absent takes the other's, whose conditional it has inside."""
    first, second = points[i], points[j]
    return (*(first if first[1] else second), *(second if second[1] else first))


def _along(one: tuple[int, int, int, int], two: tuple[int, int, int, int], ratio: Fraction) -> Ratio:
    """The ratio, raised until it holds along the whole segment."""
    (n1, d1, m1, e1), (n2, d2, m2, e2) = one, two

    def holds(z: Fraction) -> bool:
        b0, b2 = z * d1 * n2 - n1 * d2, z * e1 * m2 - m1 * e2
        b1 = z * (d1 * m2 + e1 * n2) - (n1 * e2 + m1 * d2)
        return b0 >= 0 and b2 >= 0 and (b1 >= 0 or b1 * b1 <= 4 * b0 * b2)

    return raised(ratio, holds) if d1 and d2 else ratio


def over_sets(pairs: Iterable[tuple[Sequence[Fraction], Sequence[Fraction]]], high: int | Fraction, low: int | Fraction,
              floor: Fraction) -> Ratio:
    """The rows that are `high` on a set H and `low` off it, for every H: λ bounds (low + d·p(H)) / (low + d·q(H)), with
    d = high − low, once d·min{1, Σ (p − λq)₊} ≤ (λ − 1)·low. p and q may also be bounds, from above and below."""
    ratio: Ratio = floor
    for p, q in pairs:
        def holds(z: Fraction, p: Sequence[Fraction] = p, q: Sequence[Fraction] = q) -> bool:
            gain = sum((max(Fraction(0), a - z * b) for a, b in zip(p, q, strict=True)), Fraction(0))
            return (high - low) * min(Fraction(1), gain) <= (z - 1) * low
        ratio = ratio and raised(ratio, holds)
    return ratio


def laws_given(table: Table, rows: int, useful: int, notion: str) -> list[tuple[list[Fraction], list[Fraction]]]:
    """The pairs of laws of inputs that a notion compares at a distribution, for `over_sets`."""
    sizes = [sum(own.values()) for own in table]
    within(20 * len(sizes) ** 2 * rows * useful, "pairs of secrets")
    laws, mean = [], [Fraction(0)] * (rows * useful)
    for s, own in enumerate(table):
        if sizes[s]:
            laws.append([Fraction(0)] * (rows * useful))
            for u, n in own.items():
                laws[-1][u + s * useful * (rows > 1)] = Fraction(n, sizes[s])
                mean[u + s * useful * (rows > 1)] += Fraction(n, sum(sizes))
    if notion == "rldp":
        return list(itertools.permutations(laws, 2))
    return [pair for own in laws for pair in ((own, mean), (mean, own))[:1 if notion == "pml" else 2]]


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


# --- outward rounding: decimals at or below, or at or above, the true value. The only inexact arithmetic here ---------
# +, −, × and ÷ are rounded down or up as asked (the decimal module does so exactly); √, ln and exp are correctly
# rounded to the nearest, so that the next decimal below or above is on the right side.


DOWN = Context(prec=EFFORT.digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
UP = Context(prec=EFFORT.digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
ZERO, ONE, INFINITE = Decimal(0), Decimal(1), Decimal("Infinity")
ROOT_OF_PI = Decimal("1.772453850905516027298167483341145182")  # or a little less
Number = int | float | Fraction | Decimal


def near(x: Number, way: Context) -> Decimal:
    """A decimal at or beyond x."""
    if isinstance(x, Fraction):
        return way.divide(Decimal(x.numerator), Decimal(x.denominator))
    return way.plus(Decimal(x))


def beyond(x: Decimal, way: Context) -> Decimal:
    """One decimal further, for a result that was rounded to the nearest."""
    return way.next_minus(x) if way is DOWN else way.next_plus(x)


def minus(x: Decimal) -> Decimal:
    """−x with every digit; the operator would round to the digits of a context that is not ours."""
    return x.copy_negate()


def other(way: Context) -> Context:
    return UP if way is DOWN else DOWN


def root(x: Number, way: Context) -> Decimal:
    end = near(x, way)
    return max(ZERO, beyond(way.sqrt(end), way)) if end else ZERO


def log(x: Number, way: Context) -> Decimal:
    """ln x, for x ≥ 0; −∞ at 0."""
    end = near(x, way)
    return beyond(way.ln(end), way) if end > 0 else minus(INFINITE)


def exp(x: Decimal, way: Context) -> Decimal:
    return max(ZERO, beyond(way.exp(x), way))


def scaled(x: Decimal, r: Fraction, way: Context) -> Decimal:
    """r·x, beyond it on the side asked for; x is already on the side that matters."""
    if x.is_infinite():
        return x if r > 0 else minus(x)
    return way.divide(way.multiply(x, Decimal(r.numerator)), Decimal(r.denominator))


def power(x: Decimal, r: Fraction, way: Context) -> Decimal:
    """x^r for x ≥ 0: e^{r·ln x}, a root where r = ½; 0^r is 0 for r > 0 and ∞ for r < 0."""
    if r == Fraction(1, 2):
        return root(x, way)
    if not x or x == INFINITE:
        return ZERO if bool(x) == (r < 0) else INFINITE
    return exp(scaled(log(x, way if r > 0 else other(way)), r, way), way)


def exp_below(epsilon: float) -> Fraction:
    """A rational at or below e^ε, and at most 2^1001: no ratio beyond 2^1000 is proved."""
    return Fraction(max(ONE, exp(Decimal(min(epsilon, 693.8)), DOWN)))


def level(ratio: Fraction | None) -> float:
    """ln of a ratio for people, rounded up; ∞ for None."""
    return float("inf") if ratio is None else 0.0 if ratio <= 1 else float(log(ratio, UP)) * (1 + 1e-15)


def chi_square_below(free: int, x: Decimal) -> Decimal:
    """At or below P(χ² of `free` degrees ≤ 2x) = x^a e^{−x}/Γ(a+1) · (1 + x/(a+1)·(1 + x/(a+2)·(…))), a = free/2."""
    a = at = Fraction(free, 2)
    below = ROOT_OF_PI if free % 2 else ONE
    while at > 0:  # Γ(a+1) = a(a−1)… · (1 or Γ(½) = √π)
        below, at = UP.multiply(below, near(at, UP)), at - 1
    total, term, k = ONE, ONE, 0
    while k < x or term > DOWN.multiply(total, Decimal("1e-30")):
        k += 1
        term = DOWN.divide(DOWN.multiply(term, x), near(a + k, UP))
        total = DOWN.add(total, term)
    front = DOWN.multiply(power(x, a, DOWN), exp(minus(x), DOWN))
    return DOWN.divide(DOWN.multiply(front, total), below)


def solved(f: Callable[[float], float], low: float, high: float, start: float = 0.0) -> float:
    """Where a decreasing f crosses zero, or the nearer end, by secants inside an interval. Floats only suggest."""
    before, at = start, min(start + 0.5, high)
    kept, value = f(before), f(at)
    for turn in range(100):
        low, high = (max(low, at), high) if value > 0 else (low, min(high, at))
        if not value or abs(at - before) < EFFORT.close or high - low < EFFORT.close:
            break
        step = at - value * (at - before) / (value - kept) if value != kept and turn % 7 < 6 else low
        before, at = at, step if low < step < high else (low + high) / 2
        kept, value = value, f(at)
    return at
