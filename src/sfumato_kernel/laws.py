"""Laws: from the numbers of a file to the exact rows Q(y|·), whatever the kind.

A row is a factor and, for every secret the law tells apart, a part: a base value, and the useful values where it is
another one. Q(y|s,u)·2^bits = factor · part_s(u). Ratios within a row do not depend on the factor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from sfumato_kernel.reading import GREATEST, Beyond, bad

LISTED = 4_000_000  # weights that are written out
PRODUCT_CELLS = 400_000  # joint outputs × inputs that one more release may make before like ones are merged
PRODUCT_BITS = 960
SUBSETS = 12  # inputs up to which the sets of a unary law are listed
ALIAS_BITS = 48  # of a threshold in the sampler of a table
MOST_BLOCKS = 20_000
PRIMES = (2, 3, 5, 7, 11, 13)


class Part(NamedTuple):
    """The weights of one output for one secret: `base`, but for the useful values in `peaks`."""

    base: int
    peaks: dict[int, int]
    size: int  # |U|

    @property
    def values(self) -> list[int]:
        rest = [self.base] if len(self.peaks) < self.size else []
        return [*self.peaks.values(), *rest]

    def grouped(self, masses: Sequence[int], total: int) -> list[tuple[int, int]]:
        """(value, mass) for a mass on every useful value; `total` is their sum."""
        found: dict[int, int] = {}
        for u, value in self.peaks.items():
            found[value] = found.get(value, 0) + masses[u]
            total -= masses[u]
        if len(self.peaks) < self.size:
            found[self.base] = found.get(self.base, 0) + total
        return list(found.items())

    def mean(self, masses: Sequence[int], total: int) -> int:
        """Σ_u masses[u]·value(u)."""
        return self.base * total + sum((v - self.base) * masses[u] for u, v in self.peaks.items())

    def at(self, u: int) -> int:
        return self.peaks.get(u, self.base)


class Row(NamedTuple):
    factor: int
    parts: tuple[Part, ...]

    def of(self, s: int) -> Part:
        return self.parts[s if len(self.parts) > 1 else 0]

    @property
    def live(self) -> bool:
        return any(any(p.values) for p in self.parts)


@dataclass(frozen=True)
class Law:
    """The numbers of a law with the shape they are for; `rows` is |S|, or 1 if it reads U alone."""

    kind: str
    numbers: dict[str, Any]
    rows: int
    useful: int
    sizes: tuple[int, ...]  # of the useful columns

    @property
    def inputs(self) -> int:
        return self.rows * self.useful

    @cached_property
    def bits(self) -> int:
        """Q(y|x) is a whole number over 2^bits."""
        if self.kind == "product":
            return sum(part.bits * times for part, _, times in self.releases)
        bits: int = self.numbers["bits"]
        return bits * self.inputs if self.kind == "unary" else bits

    @cached_property
    def odds(self) -> tuple[int, int]:
        """(high, low) of a unary law: a row on and off its set, up to a factor."""
        on, off, total = self.numbers["on"], self.numbers["off"], 1 << self.numbers["bits"]
        return on * (total - off), off * (total - on)

    @cached_property
    def releases(self) -> list[tuple[Law, tuple[int, ...], int]]:
        """Of a product: each law, the columns it reads and how often it is released."""
        out = []
        for part in self.numbers["parts"]:
            columns = tuple(part["columns"])
            if any(c >= len(self.sizes) for c in columns) or len(set(columns)) < len(columns):
                bad("a part of the product reads a column that the file does not have, or one twice")
            rows, sizes = self.rows if part["reads"] == "both" else 1, tuple(self.sizes[c] for c in columns)
            out.append((checked(part["law"], rows, sizes), columns, part["times"]))
        return out

    @cached_property
    def listable(self) -> bool:
        if self.kind == "unary":
            return self.inputs <= SUBSETS
        return self.kind != "product" or self._joint is not None

    @cached_property
    def listed(self) -> list[Row]:
        """Every row that occurs, in order; rows without an input that tells them from others may be left out."""
        if not self.listable:
            raise Beyond(f"the outputs of this {self.kind} law are too many to list")
        found = []
        cells = 0
        for row in _ROWS[self.kind](self):
            cells += sum(max(1, len(p.peaks)) for p in row.parts)
            if cells > LISTED:
                raise Beyond(f"this {self.kind} law has more than {LISTED:,} weights to compare")
            if row.live:
                found.append(row)
        return found

    @cached_property
    def _joint(self) -> dict[tuple[int, ...], int] | None:
        """The distinct rows of a product without their common factors, with the factors that like ones add up to."""
        laws = [(law, columns, times) for law, columns, times in self.releases]
        if self.bits > PRODUCT_BITS or self.inputs > PRODUCT_CELLS:
            return None
        seen = {(1,) * self.inputs: 1}
        for law, columns, times in laws:
            if not law.listable or (law.kind != "unary" and law.outputs * self.inputs > PRODUCT_CELLS):
                return None
            own = [(row.factor, self._lifted(law, row, columns)) for row in law.listed]
            for _ in range(times):
                if len(seen) * len(own) * self.inputs > PRODUCT_CELLS:
                    return None
                found: dict[tuple[int, ...], int] = {}
                for (first, mass), (factor, second) in itertools.product(seen.items(), own):
                    joint = [a * b for a, b in zip(first, second, strict=True)]
                    common = math.gcd(*joint)
                    key = tuple(w // (common or 1) for w in joint)
                    found[key] = found.get(key, 0) + mass * factor * common
                seen = found
        return seen

    def _lifted(self, law: Law, row: Row, columns: tuple[int, ...]) -> list[int]:
        """The row of a part for every joint input."""
        digits = list(itertools.product(*(range(k) for k in self.sizes)))
        codes = [sum(d[c] * math.prod(law.sizes[i + 1:]) for i, c in enumerate(columns)) for d in digits]
        return [row.of(s).at(u) for s in range(self.rows) for u in codes]

    @property
    def outputs(self) -> int:
        """|Y|, for every kind but a product."""
        match self.kind:
            case "table":
                return len(self.numbers["weights"])
            case "layout":
                return len(cuts(self.numbers["lengths"]))
            case "blocks":
                return self.rows * len(points(self.useful, self.numbers["order"]))
            case "conditional":
                return self.useful
            case "unary":
                return int(2**self.inputs)
        return self.inputs

    def subset(self, chosen: dict[int, int]) -> Law:
        """Some of the releases of a product, each so many times; one alone that reads every column is that law."""
        every = tuple(range(len(self.sizes)))
        if len(chosen) == 1 and sum(chosen.values()) == 1 and self.releases[next(iter(chosen))][1] == every:
            return self.releases[next(iter(chosen))][0]
        parts = [{**self.numbers["parts"][j], "times": times} for j, times in chosen.items()]
        rows = max(self.releases[j][0].rows for j in chosen)
        return replace(self, numbers={"parts": parts}, rows=rows)


def checked(numbers: dict[str, Any], rows: int, sizes: tuple[int, ...]) -> Law:
    """The law, if every input has weights that sum to exactly 2^bits and that the sampler can draw."""
    law = Law(numbers["kind"], numbers, rows, math.prod(sizes), sizes)
    if law.inputs > GREATEST:
        bad("there are too many inputs")
    if numbers["kind"] != "product":
        total = 1 << numbers["bits"]
        if any(sum_ != total for sum_ in _SUMS[law.kind](law)):
            bad(f"the weights of the {law.kind} law do not sum to 2^{numbers['bits']} for every input")
    else:
        _ = law.releases
    return law


def _table_sums(law: Law) -> Iterator[int]:
    weights, bits = law.numbers["weights"], law.numbers["bits"]
    buckets = (len(weights) - 1).bit_length()
    if len(weights) > 65536 or not buckets <= bits <= buckets + ALIAS_BITS:
        bad(f"a table of {len(weights)} outputs is drawn with {buckets} to {min(62, buckets + ALIAS_BITS)} bits")
    if any(len(w) != law.inputs for w in weights):
        bad(f"the table is not for {law.inputs} inputs")
    if (law.numbers["meaning"], len(weights)) not in (
        ("symbol", len(weights)), ("useful", law.useful), ("cell", law.inputs)
    ):
        bad("the outputs of the table are not what its meaning says")
    return map(sum, zip(*weights, strict=True))


def _cells_sums(law: Law) -> list[int]:
    k, r, n = law.useful - 1, law.rows - 1, law.numbers
    return [n["truth"] + k * n["same_secret"] + r * n["same_useful"] + r * k * n["neither"]]


def _conditional_sums(law: Law) -> Iterator[int]:
    keep, base = law.numbers["keep"], law.numbers["base"]
    if len(keep) != law.rows or len(base) != law.rows or any(len(b) != law.useful for b in base):
        bad(f"the conditional law is not for {law.rows} × {law.useful} inputs")
    return (k + sum(b) for k, b in zip(keep, base, strict=True))


def _unary_sums(law: Law) -> list[int]:
    total = 1 << law.numbers["bits"]
    if not law.numbers["off"] <= law.numbers["on"] <= total:
        bad("a unary law needs off ≤ on ≤ 2^bits")
    if law.inputs > 1_000_000:
        bad("a unary law has at most a million inputs")
    return [total]


def _layout_sums(law: Law) -> Iterator[int]:
    lengths, heights = law.numbers["lengths"], law.numbers["heights"]
    if len(lengths) != law.rows or len(heights) != law.rows:
        bad(f"the layout is not for {law.rows} secrets")
    if len({sum(x) for x in lengths}) > 1 or sum(lengths[0]) > GREATEST:
        bad("the atoms of every secret must fill the same interval, of at most 2^62 units")
    for x, h in zip(lengths, heights, strict=True):
        if len(x) != len(h) or any(len(atom) != law.useful for atom in h):
            bad(f"the layout is not for {law.useful} useful values")
        for u in range(law.useful):
            yield sum(a * b[u] for a, b in zip(x, h, strict=True))


def _blocks_sums(law: Law) -> list[int]:
    n, blocks = law.numbers, len(points(law.useful, law.numbers["order"]))
    inside = (blocks - 1) // n["order"]  # points of a space with one dimension less
    rest = (law.rows - 1) * blocks * n["other"]
    return [inside * n["inside"] + (blocks - inside) * n["outside"] + rest]


_SUMS: dict[str, Any] = dict(
    table=_table_sums, cells=_cells_sums, constant=lambda law: [1 << law.numbers["bits"]],
    conditional=_conditional_sums, unary=_unary_sums, layout=_layout_sums, blocks=_blocks_sums,
)


def _table_rows(law: Law) -> Iterator[Row]:
    k = law.useful
    for w in law.numbers["weights"]:
        yield Row(1, tuple(Part(0, dict(enumerate(w[s * k:(s + 1) * k])), k) for s in range(law.rows)))


def _cells_rows(law: Law) -> Iterator[Row]:
    n, k = law.numbers, law.useful
    for s, u in itertools.product(range(law.rows), range(k)):
        own, rest = Part(n["same_secret"], {u: n["truth"]}, k), Part(n["neither"], {u: n["same_useful"]}, k)
        yield Row(1, tuple(own if t == s else rest for t in range(law.rows)))


def _constant_rows(law: Law) -> Iterator[Row]:
    """One row stands for all: none of them depends on the input."""
    yield Row(1 << law.numbers["bits"], (Part(1, {}, law.useful),))


def _conditional_rows(law: Law) -> Iterator[Row]:
    keep, base = law.numbers["keep"], law.numbers["base"]
    for y in range(law.useful):
        parts = (Part(b[y], {y: b[y] + k}, law.useful) for k, b in zip(keep, base, strict=True))
        yield Row(1, tuple(parts))


def _unary_rows(law: Law) -> Iterator[Row]:
    """A set of c inputs out of n: off^{c−1}(T−off)^{n−c−1} times (on(T−off) inside, off(T−on) outside), kept whole."""
    total, n = 1 << law.numbers["bits"], law.inputs
    on, off = law.numbers["on"], law.numbers["off"]
    for y in range(2**n):
        c = y.bit_count()
        inside = on * off ** (c - 1) * (total - off) ** (n - c) if c else 0
        outside = (total - on) * off**c * (total - off) ** (n - c - 1) if c < n else 0
        members = [[u for u in range(law.useful) if y >> (s * law.useful + u) & 1] for s in range(law.rows)]
        yield Row(1, tuple(Part(outside, dict.fromkeys(m, inside), law.useful) for m in members))


def _layout_rows(law: Law) -> Iterator[Row]:
    lengths = law.numbers["lengths"]
    atoms = [[Part(0, dict(enumerate(h)), law.useful) for h in heights] for heights in law.numbers["heights"]]
    ends = [list(itertools.accumulate(x)) for x in lengths]
    at, start = [0] * law.rows, 0
    for cut in cuts(lengths):
        at = [i + (ends[s][i] <= start) for s, i in enumerate(at)]
        yield Row(cut - start, tuple(atoms[s][i] for s, i in enumerate(at)))
        start = cut


def cuts(lengths: list[list[int]]) -> list[int]:
    """Ends of the outputs of a layout: every end of an atom of some secret."""
    return sorted({end for x in lengths for end in itertools.accumulate(x)})


def _blocks_rows(law: Law) -> Iterator[Row]:
    n, blocks = law.numbers, len(points(law.useful, law.numbers["order"]))
    members: list[dict[int, int]] = [{} for _ in range(blocks)]
    for u, held in enumerate(hyperplanes(law.useful, n["order"])):
        for block in held:
            members[block][u] = n["inside"]
    rest = Part(n["other"], {}, law.useful)
    for s, block in itertools.product(range(law.rows), range(blocks)):
        own = Part(n["outside"], members[block], law.useful)
        yield Row(1, tuple(own if t == s else rest for t in range(law.rows)))


def points(useful: int, order: int) -> list[tuple[int, ...]]:
    """Of the smallest projective space over GF(order) with so many: vectors whose first entry ≠ 0 is 1, in order."""
    if order not in PRIMES:
        bad(f"the order of blocks is none of {PRIMES}")
    size = 2
    while (count := (order**size - 1) // (order - 1)) < useful:
        size += 1
    if count > MOST_BLOCKS:
        bad(f"more than {MOST_BLOCKS:,} blocks")
    return [v for v in itertools.product(range(order), repeat=size) if next((x for x in v if x), 0) == 1]


def hyperplanes(useful: int, order: int) -> list[list[int]]:
    """For each useful value the blocks that hold it: ⟨block, point⟩ = 0 mod order."""
    found = points(useful, order)
    if useful * len(found) > LISTED:
        raise Beyond(f"{len(found):,} blocks of {useful:,} values are too many to list")
    return [[i for i, y in enumerate(found) if not sum(map(int.__mul__, x, y)) % order] for x in found[:useful]]


def _product_rows(law: Law) -> Iterator[Row]:
    assert law._joint is not None
    k = law.useful
    for weights, mass in law._joint.items():
        yield Row(mass, tuple(Part(0, dict(enumerate(weights[s * k:(s + 1) * k])), k) for s in range(law.rows)))


_ROWS: dict[str, Any] = dict(
    table=_table_rows, cells=_cells_rows, constant=_constant_rows, conditional=_conditional_rows, unary=_unary_rows,
    layout=_layout_rows, blocks=_blocks_rows, product=_product_rows,
)
Ratio = Fraction | None  # None: infinite


def worse(a: Ratio, b: Ratio) -> Ratio:
    return None if a is None or b is None else max(a, b)


def quotient(top: int, bottom: int) -> Ratio:
    """top / bottom; 0/0 tells nothing and counts as 1."""
    return Fraction(top, bottom) if bottom else Fraction(1) if not top else None
