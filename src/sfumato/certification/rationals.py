"""Exact levels for sets with exact worst cases: the input itself, one known distribution, or any distribution.

Ratios are compared as rationals. Floats only choose which outputs can hold the maximum: sums of products of
numbers that are not negative lose at most (|U| + 8) half-units of relative precision, and every output within that
of the best float is evaluated exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Alphabet
from sfumato.joint import Joint
from sfumato.mechanism import Atoms, Factor, Mechanism, Product, Rows, Spikes, Subsets
from sfumato.mechanism.subset_laws import best_subset
from sfumato.tolerances import SLIP, UNIT
from sfumato.uncertainty.sets import quotient

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts, Bools, Floats, Ints
    from sfumato.mechanism.law import Weight, Weights

LARGEST_BITS = 1000  # bits of a ratio that is told from an infinite one
HUGE = Fraction(2) ** LARGEST_BITS
CANDIDATES = 4096  # outputs evaluated exactly; more ties than this are bounded by floats rounded outward


def ratio_of(top: Weight, bottom: Weight) -> Fraction | float:
    """top / bottom as a rational; 0/0 counts as 1, x/0 as ∞."""
    return _fraction_ratio(Fraction(int(top)), Fraction(int(bottom)))


def about_input(mechanism: Mechanism) -> Attained:
    """max Q(y|x) / Q(y|x')."""
    top, bottom, y = mechanism.law.input_extremes()
    return Attained(ratio_of(top, bottom), {} if y < 0 else {"output": y})


def about_anything(mechanism: Mechanism) -> Attained:
    """max over y, s₁ ≠ s₂, u, u' of Q(y|s₁,u) / Q(y|s₂,u') [000, Prop. 3].

    For several releases it is at most the product of the ratios of each: every factor is bounded by its own worst
    u and u'. That is used where their joint outputs are too many to list.
    """
    if isinstance(mechanism.law, Product) and not mechanism.law.listed:
        return Attained(power_product((about_anything(alone(mechanism, p)), p.times) for p in mechanism.law.parts), {})
    best = Attained(Fraction(1), {})
    secrets, k = mechanism.secret.size, mechanism.useful.size
    if secrets < 2:
        return best
    for contrast in mechanism.law.contrasts():
        match contrast:
            case Rows():
                best = best.or_worse(_rows_anything(contrast.values, secrets))
            case Spikes() as c:
                best = best.or_worse(_spikes_anything(c, secrets, k))
            case Atoms():
                best = best.or_worse(_atoms_anything(contrast, secrets))
            case Subsets():
                best = best.or_worse(Attained(ratio_of(contrast.high, contrast.low), {}))
    return best


def alone(mechanism: Mechanism, part: Factor) -> Mechanism:
    """One release among several as a mechanism of its own, for the columns it reads."""
    useful = Alphabet(tuple(mechanism.useful.columns[c] for c in part.columns))
    reads = "both" if part.law.rows == mechanism.secret.size else "useful"
    return Mechanism(part.law, mechanism.secret, useful, reads)


def power_product(factors: Iterable[tuple[Attained, int]]) -> Fraction | float:
    """Π ratio^times, exactly while it is finite and at most e^693; ∞ beyond."""
    total = Fraction(1)
    for found, times in factors:
        if found.ratio == math.inf or times * math.log2(found.ratio) > LARGEST_BITS:
            return math.inf
        total *= Fraction(found.ratio) ** times
        if total > 1 << LARGEST_BITS:
            return math.inf
    return total


def _rows_anything(values: Weights, secrets: int) -> Attained:
    high, low = values.max(-1), values.min(-1)  # [y, s]
    if high.shape[1] == 1:
        high, low = np.repeat(high, secrets, 1), np.repeat(low, secrets, 1)
    best = Attained(Fraction(1), {})
    i, j = np.argmax(high, 1), np.argmin(low, 1)
    rough = float_ratios(high.max(1), low.min(1))
    for y in np.argsort(-rough, kind="stable"):
        if rough[y] * (1 + SLIP) < best.ratio:
            break
        if i[y] != j[y]:
            where = {"output": int(y), "first": int(i[y]), "second": int(j[y])}
            found = Attained(ratio_of(high[y, i[y]], low[y, j[y]]), where)
        else:
            found = _best_pair(list(high[y]), list(low[y]), {"output": int(y)})
        best = best.or_worse(found)
    return best


def float_ratios(top: Floats, bottom: Floats) -> Floats:
    """top / bottom in floats, nearly; integers of any size."""
    if top.dtype != object:
        return quotient(top, bottom)
    ratios = (ratio_of(a, b) for a, b in zip(top, bottom, strict=True))
    return np.array([x if x == math.inf else min(x, HUGE) for x in ratios], float)


def _spikes_anything(c: Spikes, secrets: int, k: int) -> Attained:
    plain = not any(np.ndim(x) for x in (c.base_first, c.peak_first, c.base_second, c.peak_second))
    shape = (2, 1) if plain else (secrets, k)  # where all secrets and values are alike, two and one tell everything
    first = [c.base_first, c.peak_first] if k > 1 else [c.peak_first]
    second = [c.base_second, c.peak_second] if k > 1 else [c.peak_second]
    top = np.maximum.reduce([np.broadcast_to(np.asarray(x, object), shape) for x in first])
    low = np.minimum.reduce([np.broadcast_to(np.asarray(x, object), shape) for x in second])
    best = Attained(Fraction(1), {})
    for u in range(shape[1]):
        best = best.or_worse(_best_pair(list(top[:, u]), list(low[:, u]), {} if plain else {"useful": u}))
    return best


def _atoms_anything(c: Atoms, secrets: int) -> Attained:
    high, low = np.zeros(secrets, np.int64), np.full(secrets, np.iinfo(np.int64).max)
    np.maximum.at(high, c.secret, c.heights.max(1))
    np.minimum.at(low, c.secret, c.heights.min(1))
    return _best_pair(list(high), list(low), {})


def _best_pair(top: list[Fraction], low: list[Fraction], where: dict[str, int]) -> Attained:
    """The greatest top[i] / low[j] over i ≠ j, from the two largest and the two smallest."""
    by_top = sorted(range(len(top)), key=lambda i: -top[i])[:2]
    by_low = sorted(range(len(low)), key=lambda i: low[i])[:2]
    best = Attained(Fraction(0), where)
    for i, j in itertools.product(by_top, by_low):
        if i != j:
            best = best.or_worse(Attained(ratio_of(top[i], low[j]), {**where, "first": i, "second": j}))
    return best


def about_secret(mechanism: Mechanism, joint: Joint, notion: str) -> Attained:
    """max P(y|s₁) / P(y|s₂) ('rldp') or max of P(y|s) / P(y) ('pml') and its inverse ('lip') at one joint."""
    law, (exact, _) = mechanism.law, joint.weights()
    if law.meaning == "subset":
        return _unary_about_secret(mechanism, exact, notion)
    return worst_output(law.secret_laws(joint.useful_given_secret, joint.p_secret), law.row, exact, notion)


def worst_output(
    laws: tuple[Floats, Floats, Floats, Ints], row: Callable[[int], Weights], exact: BigInts, notion: str,
    found: float = 1.0,
) -> Attained:
    """The same from the `secret_laws` in floats and the rows of a law at a table of exact weights, if above `found`."""
    top, bottom, mean, outputs = laws
    rough = quotient(top, bottom if notion == "rldp" else mean)
    rough = np.maximum(rough, quotient(mean, bottom)) if notion == "lip" else rough
    slip = 1 + (exact.shape[0] + exact.shape[1] + 16) * 4 * UNIT
    near, best = np.flatnonzero(rough * slip >= rough.max()), Attained(Fraction(1), {})
    if rough.max() * slip < found:
        return best
    for i in near[:CANDIDATES]:
        best = best.or_worse(_one_output(row(int(outputs[i])), exact, int(outputs[i]), notion))
    if len(near) > CANDIDATES and math.isfinite(rough.max()):
        best = best.or_worse(Attained(Fraction(float(rough.max() * slip)), {"output": int(outputs[near[0]])}))
    return best


def _one_output(weights: Weights, exact: BigInts, y: int, notion: str) -> Attained:
    """The exact worst ratio of one output."""
    row, sizes = weights.astype(object), exact.sum(1)
    seen = [s for s in range(len(exact)) if sizes[s]]
    laws = {s: Fraction(int((row[min(s, len(row) - 1)] * exact[s]).sum()), int(sizes[s])) for s in seen}
    high, low = max(seen, key=lambda s: laws[s]), min(seen, key=lambda s: laws[s])
    if notion == "rldp":
        return Attained(_fraction_ratio(laws[high], laws[low]), {"output": y, "first": high, "second": low})
    mean = sum((laws[s] * int(sizes[s]) for s in seen), Fraction(0)) / int(exact.sum())
    best = Attained(_fraction_ratio(laws[high], mean), {"output": y, "first": high})
    below = _fraction_ratio(mean, laws[low]) if notion == "lip" else Fraction(1)
    return best.or_worse(Attained(below, {"output": y, "second": low}))


def _fraction_ratio(top: Fraction, bottom: Fraction) -> Fraction | float:
    if bottom == 0:
        return Fraction(1) if top == 0 else math.inf
    return top / bottom


def _unary_about_secret(mechanism: Mechanism, exact: BigInts, notion: str) -> Attained:
    """All 2^|X| subsets at once: λ is the greatest ratio of (s₁, s₂) iff d·Σ(p₁ − λp₂)₊ ≤ (λ − 1)·low, and it is
    attained by the set {p₁ > λp₂}. Floats say of most pairs that the worst λ so far is enough, rationals of the rest.
    """
    c = mechanism.law.contrasts()[0]
    ends = (c.peak_first, c.base_second) if isinstance(c, Spikes) else (c.high, c.low)  # type: ignore[union-attr]
    high, low = map(int, ends)
    apart, sizes, total = mechanism.law.rows > 1, exact.sum(1), exact.sum()  # apart: secrets have inputs of their own
    seen, best = [s for s in range(len(exact)) if sizes[s]], Attained(Fraction(1), {})
    laws = np.array(exact[seen] / sizes[seen, None], float)
    for s, law in zip(seen, laws, strict=True):
        own, others = np.flatnonzero(exact[s]), [t for t in seen if t != s]
        a = exact[s][own], sizes[s]
        if notion == "rldp" and apart:  # all others are alike: none has an input of this one
            pairs = [(t, a, (np.zeros_like(a[0]), sizes[t])) for t in others[:1]]
        elif notion == "rldp":
            unsure = itertools.compress(seen, _above(law, laws, low, high, best.ratio))
            pairs = [(t, a, (exact[t][own], sizes[t])) for t in unsure if t != s]
        else:
            mine = np.zeros_like(exact)
            mine[s] = exact[s]
            every, mean = (exact.ravel(), a[0]) if apart else (exact.sum(0), exact[:, own].sum(0))
            pairs = [(s, a, (mean, total)), (s, (every, total), (mine.ravel() if apart else exact[s], sizes[s]))]
        for t, first, second in pairs[: 1 if notion == "pml" else None]:
            found = _subset_ratio(first, second, low, high, best.ratio)
            best = best.or_worse(Attained(found, {"first": s, "second": t}))
    return best


Counts = tuple["BigInts", int]  # a law as whole numbers, and of how many they are shares


def _above(law: Floats, others: Floats, low: int, high: int, found: Fraction | float) -> Bools:
    """Where the ratio that is found may not be enough; else floats are sure, whose sums lose less than `slip`."""
    if isinstance(found, float) or found >= HUGE or high >= HUGE * low:
        return np.ones(len(others), dtype=np.bool_)
    ratio, most, slip = float(found), high / low, (len(law) + 16) * UNIT
    gain = np.maximum(law - ratio * others, 0.0).sum(1) + slip * (1 + ratio)
    return np.asarray((most - 1) * gain > (ratio - 1) * (1 - slip) - slip * (most + ratio))


def _subset_ratio(first: Counts, second: Counts, low: int, high: int, found: Fraction | float) -> Fraction | float:
    """The greatest (low + d·p₁(H)) / (low + d·p₂(H)) over sets H, exactly, by Dinkelbach's iteration, or what was found
    already where that is as much."""
    (a, A), (b, B), d = (first[0].tolist(), int(first[1])), (second[0].tolist(), int(second[1])), high - low
    ratio = found
    for turn in range(200):
        if isinstance(ratio, float):
            return ratio
        top, bottom = ratio.numerator, ratio.denominator
        better = [(x, y) for x, y in zip(a, b, strict=True) if x * B * bottom > top * A * y]
        x, y = (sum(side) for side in zip(*better, strict=True)) if better else (0, 0)
        if d * (B * bottom * x - top * A * y) <= (top - bottom) * low * A * B:
            return ratio
        if not turn:  # from there on it is a few steps
            inside = best_subset(np.array(a, float) / A, np.array(b, float) / B, float(low), float(high))
            x, y = (sum(side[0][inside].tolist()) for side in (first, second))
        ratio = max(ratio, _fraction_ratio(Fraction(low * A + d * x, A), Fraction(low * B + d * y, B)))
    raise ArithmeticError("Dinkelbach's iteration did not settle")


@dataclass(frozen=True, slots=True)
class Attained:
    """An upper bound of the worst ratio, with the output and the secrets behind it (as codes)."""

    ratio: Fraction | float
    where: dict[str, int]

    def or_worse(self, other: Attained) -> Attained:
        return other if other.ratio > self.ratio else self
