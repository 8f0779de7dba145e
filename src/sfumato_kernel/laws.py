"""Laws: from the numbers of a file to the exact rows Q(y|·), whatever the kind.

A row is a factor and, for every secret the law tells apart, a part: a base value, and the useful values where it is
another one. Q(y|s,u)·2^bits = factor · part_s(u). Ratios within a row do not depend on the factor.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from sfumato_kernel.documents import GREATEST, Beyond, Document, bad

WRITTEN_OUT = 1_000_000  # weights that are written out
PRODUCT_CELLS = 400_000  # joint outputs × inputs that one more release may make before like ones are merged
PRODUCT_BITS = 960  # of a joint weight: beyond it a weight times a count is no float
UNARY_SETS = 12  # inputs up to which the sets of a unary law are listed
ALIAS_BITS = 48  # of a threshold in the sampler of a table, which shares 64 with the partner of its bucket
MOST_BLOCKS = 20_000
PRIMES = (2, 3, 5, 7, 11, 13)
Ratio = Fraction | None  # None: infinite
Masses = dict[int, int]  # of useful values given a secret, in whole numbers, without those that are 0
Table = list[Masses]  # P̂(s, u) in whole numbers, in proportion
NEARLY = Fraction(1, 10**9)  # of a sum, or of a radius: as much as the floats that it was computed with may be off
SMALLEST = 1e-150  # of a probability that is not 0: products of two of them must not vanish
Expansion = tuple[int, Iterable[int], Iterator["Row"]]  # of a law: |Y|, what the weights of inputs sum to, its rows


class Part(NamedTuple):
    """The weights of one output for one secret: `base`, but for the useful values in `peaks`."""

    base: int
    peaks: dict[int, int]
    size: int  # |U|

    @property
    def values(self) -> list[int]:
        return [*self.peaks.values(), *([self.base] if len(self.peaks) < self.size else [])]

    def grouped(self, masses: Masses) -> list[tuple[int, int]]:
        """(value, mass) for the masses of useful values, with values of no mass too."""
        found = dict.fromkeys(self.values, 0)
        rest = sum(masses.values())
        for u in self.peaks.keys() & masses.keys():
            found[self.peaks[u]] += masses[u]
            rest -= masses[u]
        if rest:
            found[self.base] += rest
        return list(found.items())

    def mean(self, masses: Masses, total: int) -> int:
        """Σ_u masses[u]·value(u), where `total` is Σ_u masses[u]."""
        return self.base * total + sum(
            (self.peaks[u] - self.base) * masses[u] for u in self.peaks.keys() & masses.keys())

    def at(self, u: int) -> int:
        return self.peaks.get(u, self.base)


class Row(NamedTuple):
    factor: int
    parts: tuple[Part, ...]

    def of(self, s: int) -> Part:
        return self.parts[s if len(self.parts) > 1 else 0]


@dataclass(frozen=True)
class ExactLaw:
    """The numbers of a law with the shape they are for; `rows` is |S|, or 1 if it reads U alone."""

    kind: str
    numbers: Document
    rows: int
    sizes: tuple[int, ...]  # of the useful columns
    useful = cached_property(lambda self: math.prod(self.sizes))
    inputs = cached_property(lambda self: self.rows * self.useful)

    @cached_property
    def bits(self) -> int:
        """Q(y|x) is a whole number over 2^bits."""
        if self.kind == "product":
            return sum(part.bits * times for part, _, times in self.releases)
        return int(self.numbers["bits"]) * (self.inputs if self.kind == "unary" else 1)

    @cached_property
    def odds(self) -> tuple[int, int]:
        """(high, low) of a unary law: a row on and off its set, up to a factor."""
        on, off, total = self.numbers["on"], self.numbers["off"], 1 << self.numbers["bits"]
        return on * (total - off), off * (total - on)

    @cached_property
    def releases(self) -> list[tuple["ExactLaw", tuple[int, ...], int]]:
        """Of a product: each law, the columns it reads and how often it is released."""
        out = []
        for part in self.numbers["parts"]:
            columns = tuple(part["columns"])
            if any(c >= len(self.sizes) for c in columns) or len(set(columns)) < len(columns):
                bad("a part of the product reads a column that the file does not have, or one twice")
            rows, sizes = self.rows if part["reads"] == "both" else 1, tuple(self.sizes[c] for c in columns)
            out.append((checked(part["law"], rows, sizes), columns, part["times"] or 1))
        return out

    @cached_property
    def outputs(self) -> int:
        return _KINDS[self.kind](self)[0]

    @cached_property
    def listable(self) -> bool:
        if self.kind == "unary":
            return bool(self.inputs <= UNARY_SETS)
        return self.kind != "product" or self.joint is not None

    @cached_property
    def listed(self) -> list[Row]:
        """Every row that occurs, in order; rows that no input tells from others may be left out."""
        if not self.listable:
            raise Beyond(f"the outputs of this {self.kind} law are too many to list")
        found, cells = [], self.outputs
        for row in _KINDS[self.kind](self)[2]:
            if cells > WRITTEN_OUT:
                raise Beyond(f"this {self.kind} law has more than {WRITTEN_OUT:,} weights to compare")
            cells += sum(len(p.peaks) for p in row.parts)
            if any(any(p.values) for p in row.parts):
                found.append(row)
        return found

    @cached_property
    def joint(self) -> dict[tuple[int, ...], int] | None:
        """The distinct rows of a product without their common factors, with the factors that like ones add up to."""
        if self.bits > PRODUCT_BITS or self.inputs > PRODUCT_CELLS:
            return None
        seen = {(1,) * self.inputs: 1}
        digits = list(itertools.product(*map(range, self.sizes)))
        for law, columns, times in self.releases:
            if not law.listable or (law.kind != "unary" and law.outputs * self.inputs > PRODUCT_CELLS):
                return None
            codes = [sum(d[c] * math.prod(law.sizes[i + 1:]) for i, c in enumerate(columns)) for d in digits]
            own = [(row.factor, [row.of(s).at(u) for s in range(self.rows) for u in codes]) for row in law.listed]
            for _ in range(times):
                if len(seen) * len(own) * self.inputs > PRODUCT_CELLS:
                    return None
                found: dict[tuple[int, ...], int] = {}
                for (first, mass), (factor, second) in itertools.product(seen.items(), own):
                    both = list(map(int.__mul__, first, second))
                    common = math.gcd(*both) or 1
                    key = tuple(w // common for w in both)
                    found[key] = found.get(key, 0) + mass * factor * common
                seen = found
        return seen

    def subset(self, chosen: dict[int, int]) -> "ExactLaw":
        """Some of the releases of a product, each so many times; one alone that reads every column is that law."""
        (first, times), *rest = chosen.items()
        if not rest and times == 1 and self.releases[first][1] == tuple(range(len(self.sizes))):
            return self.releases[first][0]
        parts = [{**self.numbers["parts"][j], "times": times} for j, times in chosen.items()]
        return replace(self, numbers={"parts": parts}, rows=max(self.releases[j][0].rows for j in chosen))

    def dense(self, weights: Any, factor: int = 1) -> Row:
        k = self.useful
        return Row(factor, tuple(Part(0, dict(enumerate(weights[i:i + k])), k) for i in range(0, self.inputs, k)))

    def own(self, s: int, mine: Part, rest: Part) -> Row:
        """A row for one secret that is the same for all others."""
        return Row(1, tuple(mine if t == s else rest for t in range(self.rows)))


def checked(numbers: Document, rows: int, sizes: tuple[int, ...]) -> ExactLaw:
    """The law, if every input has weights that sum to exactly 2^bits and that the sampler can draw."""
    law = ExactLaw(numbers["kind"], numbers, rows, sizes)
    if law.inputs > GREATEST:
        bad("there are too many inputs")
    if law.kind == "product":
        _ = law.releases
    elif any(total != 1 << numbers["bits"] for total in _KINDS[law.kind](law)[1]):
        bad(f"the weights of the {law.kind} law do not sum to 2^{numbers['bits']} for every input")
    return law


def _table(law: ExactLaw) -> Expansion:
    weights, bits = law.numbers["weights"], law.numbers["bits"]
    buckets = (len(weights) - 1).bit_length()
    if len(weights) > 65536 or not buckets <= bits <= buckets + ALIAS_BITS:
        bad(f"a table of {len(weights)} outputs is drawn with {buckets} to {min(62, buckets + ALIAS_BITS)} bits")
    if any(len(w) != law.inputs for w in weights):
        bad(f"the table is not for {law.inputs} inputs")
    if len(weights) != {"useful": law.useful, "cell": law.inputs}.get(law.numbers["meaning"], len(weights)):
        bad("the outputs of the table are not what its meaning says")
    return (len(weights), map(sum, zip(*weights, strict=True)), map(law.dense, weights))


def _cells(law: ExactLaw) -> Expansion:
    n, k, r = law.numbers, law.useful - 1, law.rows - 1
    total = n["truth"] + k * n["same_secret"] + r * n["same_useful"] + r * k * n["neither"]
    rows = (law.own(s, Part(n["same_secret"], {u: n["truth"]}, k + 1), Part(n["neither"], {u: n["same_useful"]}, k + 1))
            for s in range(law.rows) for u in range(law.useful))
    return (law.inputs, [total], rows)


def _constant(law: ExactLaw) -> Expansion:
    """One row stands for all: none of them depends on the input."""
    total = 1 << law.numbers["bits"]
    return (law.inputs, [total], iter([Row(total, (Part(1, {}, law.useful),))]))


def _conditional(law: ExactLaw) -> Expansion:
    keep, base, k = law.numbers["keep"], law.numbers["base"], law.useful
    if len(keep) != law.rows or len(base) != law.rows or any(len(b) != k for b in base):
        bad(f"the conditional law is not for {law.rows} × {k} inputs")
    both = list(zip(keep, base, strict=True))
    rows = (Row(1, tuple(Part(b[y], {y: b[y] + own}, k) for own, b in both)) for y in range(k))
    return (k, (own + sum(b) for own, b in both), rows)


def _unary(law: ExactLaw) -> Expansion:
    """A set of c inputs out of n: on·off^{c−1}(T−off)^{n−c} for those inside, (T−on)·off^c(T−off)^{n−c−1} outside."""
    n, total = law.inputs, 1 << law.numbers["bits"]
    on, off = law.numbers["on"], law.numbers["off"]
    if not off <= on <= total or n > 1_000_000:
        bad("a unary law needs off ≤ on ≤ 2^bits, and at most a million inputs")

    def row(y: int) -> Row:
        c = y.bit_count()
        inside = on * off ** (c - 1) * (total - off) ** (n - c) if c else 0
        outside = (total - on) * off**c * (total - off) ** (n - c - 1) if c < n else 0
        return law.dense([inside if y >> x & 1 else outside for x in range(n)])

    return (2**n if n <= UNARY_SETS else GREATEST, [total], map(row, range(2**min(n, UNARY_SETS))))


def _layout(law: ExactLaw) -> Expansion:
    lengths, heights = law.numbers["lengths"], law.numbers["heights"]
    if len(lengths) != law.rows or len(heights) != law.rows:
        bad(f"the layout is not for {law.rows} secrets")
    if len({sum(x) for x in lengths}) > 1 or sum(lengths[0]) > GREATEST:
        bad("the atoms of every secret must fill the same interval, of at most 2^62 units")
    both = list(zip(lengths, heights, strict=True))
    if any(len(x) != len(h) or any(len(atom) != law.useful for atom in h) for x, h in both):
        bad(f"the layout is not for {law.useful} useful values")
    sums = (sum(map(int.__mul__, x, column)) for x, h in both for column in zip(*h, strict=True))
    ends = [list(itertools.accumulate(x)) for x in lengths]
    cuts = sorted(set().union(*ends))  # the ends of the atoms of all secrets together are those of the outputs

    def rows() -> Iterator[Row]:
        atoms = [[Part(0, dict(enumerate(atom)), law.useful) for atom in h] for h in heights]
        at, start = [0] * law.rows, 0
        for cut in cuts:
            at = [i + (ends[s][i] <= start) for s, i in enumerate(at)]
            yield Row(cut - start, tuple(atoms[s][i] for s, i in enumerate(at)))
            start = cut

    return (len(cuts), sums, rows())


def _blocks(law: ExactLaw) -> Expansion:
    """Points of the smallest projective space over GF(order) with |U| or more: vectors whose first entry ≠ 0 is 1, in
    order; a block is the hyperplane of points with ⟨block, point⟩ = 0."""
    n, q, size = law.numbers, law.numbers["order"], 2
    if q not in PRIMES:
        bad(f"the order of blocks is none of {PRIMES}")
    while (count := (q**size - 1) // (q - 1)) < law.useful:
        size += 1
    if count > MOST_BLOCKS:
        bad(f"more than {MOST_BLOCKS:,} blocks")
    inside = (count - 1) // q  # points of a space with one dimension less
    total = inside * n["inside"] + (count - inside) * n["outside"] + (law.rows - 1) * count * n["other"]

    def rows() -> Iterator[Row]:
        if law.useful * count > WRITTEN_OUT:
            raise Beyond(f"{count:,} blocks of {law.useful:,} values are too many to list")
        points = [v for v in itertools.product(range(q), repeat=size) if next((x for x in v if x), 0) == 1]
        held = [{u: n["inside"] for u, x in enumerate(points[:law.useful]) if not sum(map(int.__mul__, x, y)) % q}
                for y in points]
        for s, block in itertools.product(range(law.rows), held):
            yield law.own(s, Part(n["outside"], block, law.useful), Part(n["other"], {}, law.useful))

    return (law.rows * count, [total], rows())


def _product(law: ExactLaw) -> Expansion:
    joint = law.joint or {}
    return (len(joint), [], (law.dense(weights, mass) for weights, mass in joint.items()))


_KINDS = {"table": _table, "cells": _cells, "constant": _constant, "conditional": _conditional, "unary": _unary,
          "layout": _layout, "blocks": _blocks, "product": _product}


def worse(a: Ratio, b: Ratio) -> Ratio:
    return None if a is None or b is None else max(a, b)


def quotient(top: int, bottom: int) -> Ratio:
    """top / bottom; 0/0 tells nothing and counts as 1."""
    return Fraction(top, bottom) if bottom else Fraction(1) if not top else None


def whole_table(p: list[list[float]], secrets: int, useful: int) -> Table:
    """A distribution in doubles as the whole numbers it is in proportion to."""
    rational = [[Fraction(x) for x in row] for row in p]
    off = sum((sum(row, Fraction(0)) for row in rational), Fraction(-1))
    if abs(off) > NEARLY or any(0 < x < SMALLEST for row in p for x in row):
        bad("the probabilities of a distribution do not sum to 1, or are nearly 0")
    scale = math.lcm(*(x.denominator for row in rational for x in row))
    return masses_of([[int(x * scale) for x in row] for row in rational], secrets, useful)


def masses_of(rows: list[list[int]], secrets: int, useful: int) -> Table:
    if len(rows) != secrets or any(len(row) != useful for row in rows):
        bad(f"a distribution of the file is no table of {secrets} × {useful}")
    return [{u: n for u, n in enumerate(row) if n} for row in rows]
