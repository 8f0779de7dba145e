"""Product: several releases of one record, drawn independently given the record, as one law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.mechanism.law import MOST_BITS, Contrast, Law, Rows, Spikes, Weights, Words, listed_laws
from sfumato.mechanism.subset_laws import Unary
from sfumato_kernel.laws import PRODUCT_BITS, UNARY_SETS
from sfumato_kernel.laws import PRODUCT_CELLS as JOINT_CELLS

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts
    from sfumato.mechanism.law import Weight

UNLISTED = (
    "the joint outputs of these releases are too many to list; only bounds of their level are known (sf.compose). "
    "Compose fewer releases, or ones with fewer outputs."
)


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A sealed law, the useful columns it reads (by their place among all), and how often it is released."""

    law: Law
    columns: tuple[int, ...]
    times: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The distinct joint rows. Q(y|x) = masses[y]·rows[y, x] / 2^bits, the rows without a common factor.

    Outputs whose rows are proportional tell the same, so they are one output here: no level and no leakage changes,
    because all of them are built from ratios within a row or from sums that are homogeneous in rows. The k-tuples of
    a law released k times become multisets by themselves.
    """

    rows: BigInts  # [y, x] of Python integers
    masses: tuple[int, ...]
    bits: int
    steps: tuple[Ints, ...]  # after each release: (what was seen so far, its output) → what has been seen now


@dataclass(frozen=True, eq=False)
class Product:
    """Q(y₁, …, y_k | x) = Π_j Q_j(y_j | x): shared input, independent noise.

    `sizes` are those of all useful columns; a part that reads only some of them is lifted to all. While the distinct
    joint rows are few they are listed exactly, in integers; beyond, only the ratio of the product of extremes is known.
    """

    parts: tuple[Factor, ...]
    rows: int
    sizes: tuple[int, ...]
    kind: ClassVar[str] = "product"
    meaning: ClassVar[str] = "symbol"

    def __post_init__(self) -> None:
        if not self.parts or any(p.law.bits is None or isinstance(p.law, Product) or p.times < 1 for p in self.parts):
            raise InputError("a product needs sealed laws that are no products, each released at least once.")
        for p in self.parts:
            if p.law.rows not in (1, self.rows) or p.law.useful != math.prod(self.sizes[c] for c in p.columns):
                raise InputError("a law of a product does not fit the columns it is said to read.")

    @property
    def bits(self) -> int:
        return sum(part_bits(p.law) * p.times for p in self.parts)

    @property
    def useful(self) -> int:
        return math.prod(self.sizes)

    @property
    def words(self) -> int:
        return sum(p.law.words * p.times for p in self.parts)

    @property
    def listed(self) -> bool:
        """Whether the joint outputs are few enough to be compared one by one."""
        return self.listing is not None

    @property
    def outputs(self) -> int:
        """Distinct joint outputs, or all tuples when they cannot be listed."""
        if self.listing is not None:
            return len(self.listing.masses)
        return math.prod(p.law.outputs**p.times for p in self.parts)

    @cached_property
    def codes(self) -> tuple[Ints, ...]:
        """Per part: the code of its input for every joint input."""
        at = np.unravel_index(np.arange(self.useful), self.sizes) if self.sizes else ()
        out = []
        for p in self.parts:
            u = np.zeros(self.useful, np.int64)
            for c in p.columns:
                u = u * self.sizes[c] + at[c]
            s = np.arange(self.rows)[:, None] if p.law.rows > 1 else np.zeros((self.rows, 1), np.int64)
            out.append((s * p.law.useful + u).ravel())
        return tuple(out)

    @cached_property
    def listing(self) -> Listing | None:
        inputs = self.rows * self.useful
        if self.bits > PRODUCT_BITS or inputs > JOINT_CELLS or any(not _listable(p.law, inputs) for p in self.parts):
            return None
        seen: dict[tuple[int, ...], int] = {(1,) * inputs: 1}
        steps: list[Ints] = []
        for p, codes in zip(self.parts, self.codes, strict=True):
            own = [[row[c] for c in codes] for row in exact_rows(p.law)]
            for _ in range(p.times):
                if len(seen) * len(own) * inputs > JOINT_CELLS:
                    return None
                seen, step = _joined(seen, own)
                steps.append(step)
        rows = np.empty((len(seen), inputs), object)
        rows[:] = list(seen)
        return Listing(rows, tuple(seen.values()), self.bits, tuple(steps))

    def _listing(self) -> Listing:
        if self.listing is None:
            raise InputError(UNLISTED)
        return self.listing

    def row(self, y: int) -> Weights:
        listing = self._listing()
        return np.asarray(listing.rows[y] * listing.masses[y], object).reshape(self.rows, self.useful)

    def contrasts(self) -> list[Contrast]:
        """The distinct rows; or, when they cannot be listed, one contrast that is as bad as any joint output can be."""
        if self.listing is not None:
            return [Rows(self.listing.rows.reshape(-1, self.rows, self.useful))]
        top, bottom, _ = self.input_extremes()
        return [Spikes(top, top, bottom, bottom)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        if self.listing is not None:
            rows = self.listing.rows
            live = [y for y in range(len(rows)) if max(rows[y])]
            y = max(live, key=lambda y: Fraction(max(rows[y]), min(rows[y])) if min(rows[y]) else math.inf)
            return max(rows[y]), min(rows[y]), y
        ratio = Fraction(1)
        for p in self.parts:
            top, bottom, _ = p.law.input_extremes()
            if not int(bottom):
                return 1, 0, -1
            ratio *= Fraction(int(top), int(bottom)) ** p.times
        whole = 1 << MOST_BITS  # after the point, and twice as many before
        return (math.ceil(ratio * whole), whole, -1) if ratio < whole**2 else (1, 0, -1)

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        listing = self._listing()
        v = np.array([[float(w * m) for w in row] for row, m in zip(listing.rows, listing.masses, strict=True)])
        return listed_laws(v.reshape(-1, self.rows, self.useful), given, ps)

    def rounded(self, bits: int | None, margin: float) -> Law:
        parts = tuple(Factor(p.law.rounded(bits, margin), p.columns, p.times) for p in self.parts)
        return Product(parts, self.rows, self.sizes)

    def draw(self, codes: Ints, words: Words) -> Ints:
        """Every release with words of its own, then the place of what was drawn among the distinct joint rows."""
        steps = iter(self._listing().steps)
        state, used = np.zeros(len(codes), np.int64), 0
        for p, lifted in zip(self.parts, self.codes, strict=True):
            for _ in range(p.times):
                drawn = p.law.draw(lifted[codes], words[:, used : used + p.law.words])
                used += p.law.words
                if p.law.meaning == "subset":
                    drawn = drawn @ (1 << np.arange(drawn.shape[1]))
                state = next(steps)[state, drawn]
        return state

    def matrix(self) -> Floats | None:
        if self.listing is None:
            return None
        total = 1 << self.listing.bits
        pairs = zip(self.listing.rows, self.listing.masses, strict=True)
        return np.array([[w * m / total for w in row] for row, m in pairs])


def part_bits(law: Law) -> int:
    """Bits of the exact weights of a law; the weights of a set are products over all its bits."""
    assert law.bits is not None
    return law.bits * law.rows * law.useful if isinstance(law, Unary) else law.bits


def exact_rows(law: Law) -> list[list[int]]:
    """Q(y|x)·2^bits for every output y, as Python integers."""
    return [[int(w) for w in np.ravel(law.row(y))] for y in range(law.outputs)]


def _listable(law: Law, inputs: int) -> bool:
    if isinstance(law, Unary) and law.inputs > UNARY_SETS:
        return False
    return law.outputs * inputs <= JOINT_CELLS


def _joined(seen: dict[tuple[int, ...], int], own: list[list[int]]) -> tuple[dict[tuple[int, ...], int], Ints]:
    """Every row seen times every row of one more law, proportional ones merged; and which became which."""
    found: dict[tuple[int, ...], int] = {}
    place: dict[tuple[int, ...], int] = {}
    step = np.empty((len(seen), len(own)), np.int64)
    for i, (row, mass) in enumerate(seen.items()):
        for y, other in enumerate(own):
            product = [a * b for a, b in zip(row, other, strict=True)]
            common = math.gcd(*product) or 1
            key = tuple(w // common for w in product)
            found[key] = found.get(key, 0) + mass * common
            step[i, y] = place.setdefault(key, len(place))
    return found, step
