"""Answers that are sets of values: Unary flips a bit for each, Blocks draws one of a balanced family of sets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.mechanism import law as laws
from sfumato.mechanism.law import Contrast, Law, OneWord, Weights, Words
from sfumato.tolerances import HALVINGS, LEAST, LISTED, UNIT
from sfumato_kernel.laws import MOST_BLOCKS, PRIMES

if TYPE_CHECKING:
    from sfumato.alphabet import Bools
    from sfumato.mechanism.law import Weight


@dataclass(frozen=True, eq=False)
class Unary:
    """Independent bits: the bit of the true input is 1 with weight `on`, every other with weight `off`.

    Q(y|x) depends on x only through whether x ∈ y, with the ratio on(1−off) / (off(1−on)) [001, (30), (31) corrected].
    """

    rows: int
    useful: int
    on: Weight
    off: Weight
    bits: int | None = None
    chances: tuple[float, float] = field(init=False, repr=False)  # on and off as probabilities
    kind: ClassVar[str] = "unary"
    meaning: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        laws.check_bits(self.bits)
        if not 0 <= self.off <= self.on <= (1 if self.bits is None else 2**self.bits):
            raise InputError("a unary law needs 0 ≤ off ≤ on ≤ 1.")
        total = laws.scale(self.bits)
        object.__setattr__(self, "chances", (float(self.on) / total, float(self.off) / total))

    @property
    def inputs(self) -> int:
        return self.rows * self.useful

    @property
    def outputs(self) -> int:
        return int(2**self.inputs)

    @property
    def words(self) -> int:
        return self.inputs

    @property
    def odds(self) -> tuple[Weight, Weight]:
        """(high, low): weights of a row on and off its set, up to a factor of the row."""
        total = 1.0 if self.bits is None else 2**self.bits
        return self.on * (total - self.off), self.off * (total - self.on)

    def row(self, y: int) -> Weights:
        """Q(y|·) in floats or, sealed, as whole numbers over 2^(bits·inputs): a product over all bits."""
        member = np.array([(y >> i) & 1 for i in range(self.inputs)], bool)
        if self.bits is not None:
            return self._whole_row(member)
        return np.asarray(self._listed(member[None])[0].reshape(self.rows, self.useful))

    def _listed(self, members: Bools) -> Floats:
        """Rows in floats of sets [y, x]."""
        on, off = float(self.on) / laws.scale(self.bits), float(self.off) / laws.scale(self.bits)
        logs = np.log(np.maximum(np.where(members, off, 1 - off), LEAST))
        return np.asarray(np.exp(logs.sum(1, keepdims=True) - logs) * np.where(members, on, 1 - on))

    def _whole_row(self, member: Bools) -> Weights:
        total, on, off = 1 << self.bits if self.bits is not None else 1, int(self.on), int(self.off)
        inside, n = int(member.sum()), self.inputs
        own = on * off ** (inside - 1) * (total - off) ** (n - inside) if inside else 0
        rest = (total - on) * off**inside * (total - off) ** (n - inside - 1) if inside < n else 0
        row = np.empty(n, object)
        row[:] = [own if x else rest for x in member]
        return row.reshape(self.rows, self.useful)

    def contrasts(self) -> list[Contrast]:
        high, low = self.odds
        if self.rows > 1:  # the set may hold every input of s1 and none of s2
            return [laws.Spikes(high, high, low, low)]
        return [laws.Subsets(low, high)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        return (*self.odds, -1) if self.inputs > 1 else (1, 1, -1)

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """The subset with the greatest |log P(y|s)/P(y)|, found for each s by Dinkelbach's iteration.

        P(y|s) ∝ low + (high − low)·P(X ∈ y|s), so for a ratio λ the best set is {x : p₁(x) > λ p₂(x)}.
        """
        high, low = (float(w) for w in self.odds)
        seen = laws.present(ps)
        own = given if self.rows == 1 else (np.eye(self.rows)[:, :, None] * given[:, None, :]).reshape(self.rows, -1)
        mean = ps @ own
        best: list[tuple[float, float, float]] = []
        for s in seen:
            for first, second in ((own[s], mean), (mean, own[s])):
                inside = best_subset(first, second, low, high)
                ends = [low + (high - low) * float(x[inside].sum()) for x in (own[s], mean)]
                best.append((max(ends), min(ends), ends[1]))
        top, bottom, middle = np.array(best).T
        return top, bottom, middle, np.full(len(best), -1)

    def rounded(self, bits: int | None, margin: float) -> Law:
        bits = laws.MOST_BITS if bits is None else bits
        on = math.floor(math.ldexp(float(self.on) / laws.scale(self.bits) * (1 - margin), bits))
        off = math.ceil(math.ldexp(float(self.off) / laws.scale(self.bits) * (1 + margin), bits))
        return Unary(self.rows, self.useful, max(on, off), off, bits)

    def draw(self, codes: Ints, words: Words) -> Ints:
        """Bits [i, x] rather than an index: 2^|X| outputs have no other name."""
        assert self.bits is not None
        word = laws.mask(words, self.bits)
        out = word < np.uint64(self.off)
        at = np.arange(len(codes))
        out[at, codes] = word[at, codes] < np.uint64(self.on)
        return out.astype(np.int64)

    def matrix(self) -> Floats | None:
        if self.inputs > 20 or self.outputs * self.inputs > LISTED:
            return None
        return self._listed(subsets_of(self.inputs))


def subsets_of(k: int) -> Bools:
    """All subsets of k values as rows."""
    return np.asarray((np.arange(2**k)[:, None] >> np.arange(k)) % 2 == 1)


def subset_rows(c: laws.Subsets, k: int) -> Weights:
    """The rows [y, 1, u] of two levels over all subsets of k useful values."""
    return np.where(subsets_of(k), np.array(c.high, object), np.array(c.low, object))[:, None, :]


def subset_ratio(most: Floats, least: Floats, low: float, high: float, cap: float) -> float:
    """An upper bound, if `cap` is one, of (low + d·R₁(H)) / (low + d·R₂(H)) over all sets H, with d = high − low, R₁ ≤
    most, R₂ ≥ least: the least λ with d·min{1, Σ(most − λ·least)₊} ≤ (λ − 1)·low, checked with room to spare."""
    small, large = 1.0, cap
    spare = 1 + (len(most) + 8) * 4 * UNIT
    for _ in range(HALVINGS):
        mid = (small + large) / 2
        total = min(1.0, float(np.maximum(most - mid * least, 0).sum()) * spare + 1e-15)
        holds = (high - low) * total * spare <= (mid - 1) * low * (2 - spare)
        small, large = (small, mid) if holds else (mid, large)
    return large


def best_subset(first: Floats, second: Floats, low: float, high: float) -> Bools:
    """The set H with the greatest (low + d·first(H)) / (low + d·second(H)), d = high − low, by Dinkelbach."""
    ratio, d = 1.0, high - low
    inside = first > second
    for _ in range(100):
        bottom = low + d * second[inside].sum()
        better = np.inf if bottom <= 0 else (low + d * first[inside].sum()) / bottom
        if not better > ratio * (1 + 1e-15):
            break
        ratio = better
        inside = first > ratio * second if np.isfinite(ratio) else (second <= 0) & (first > 0)
    return inside


# --- answer with one of a balanced family of sets of useful values, and perhaps with a secret beside it ---------------


ORDERS = PRIMES  # of fields: a set of order q holds about one value in q


@lru_cache(maxsize=64)
def incidence(useful: int, order: int) -> npt.NDArray[np.bool_]:
    """[block, u]: points and hyperplanes of the smallest projective space over GF(order) with `useful` points or more.

    Every point lies in equally many hyperplanes and every two points in equally many together, so no useful value is
    treated otherwise than another (projective geometry response: Feldman, Nelson, Nguyen, Talwar 2022).
    """
    if order not in ORDERS:
        raise InputError(f"the order of blocks must be one of {', '.join(map(str, ORDERS))}", value=order)
    size = 2
    while (order**size - 1) // (order - 1) < useful:
        size += 1
    if (order**size - 1) // (order - 1) > MOST_BLOCKS:
        raise InputError(f"{useful:,} values need more than {MOST_BLOCKS:,} blocks of order {order}.")
    vectors = np.indices((order,) * size).reshape(size, -1).T
    first = np.argmax(vectors != 0, axis=1)
    normal = vectors[np.arange(len(vectors)), first] == 1  # one vector for each line through the origin
    points = vectors[normal]
    found = (points @ points[:useful].T) % order == 0
    found.flags.writeable = False
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Blocks(OneWord):
    """Output a set H of useful values (rows = 1), or a secret s' with a set H.

    `inside` if s' = s and u ∈ H, `outside` if s' = s and u ∉ H, `other` if s' ≠ s. With inside = e^ε·outside it is
    ε-LDP about u [Feldman et al. 2022]; with (inside, outside, other) ∝ (e^ε, e^{−ε}, 1) it is SRR with sets in the
    place of single values: ratios between different secrets reach e^ε only, whatever the distribution (ours).
    """

    rows: int
    useful: int
    order: int
    inside: Weight
    outside: Weight
    other: Weight
    bits: int | None = None
    kind: ClassVar[str] = "blocks"
    meaning: ClassVar[str] = "symbol"

    def __post_init__(self) -> None:
        laws.check_bits(self.bits)
        d, e = self.copies
        total = d * self.inside + e * self.outside + (self.rows - 1) * self.blocks * self.other
        if min(self.inside, self.outside, self.other) < 0 or not laws.is_total(total, self.bits):
            raise InputError("the weights of blocks must not be negative and must sum to the total.")

    @property
    def blocks(self) -> int:
        return len(incidence(self.useful, self.order))

    @cached_property
    def copies(self) -> tuple[int, int]:
        """How many blocks hold a useful value, and how many do not."""
        inside = int(incidence(self.useful, self.order)[:, 0].sum())
        return inside, self.blocks - inside

    @property
    def outputs(self) -> int:
        return self.rows * self.blocks

    @cached_property
    def listed(self) -> Weights:
        """Every weight, [y, s, u]."""
        if self.outputs * self.rows * self.useful > LISTED:
            raise InputError(f"{self.outputs:,} outputs of {self.rows * self.useful:,} inputs are too many to compare.")
        kind = np.float64 if self.bits is None else np.int64
        own = np.asarray(np.where(incidence(self.useful, self.order), self.inside, self.outside), kind)
        out = np.full((self.rows, self.blocks, self.rows, self.useful), self.other, kind)
        for s in range(self.rows):
            out[s, :, s] = own
        return out.reshape(self.outputs, self.rows, self.useful)

    def row(self, y: int) -> Weights:
        s, block = divmod(y, self.blocks)
        out = np.full((self.rows, self.useful), self.other, float if self.bits is None else object)
        out[s] = np.where(incidence(self.useful, self.order)[block], self.inside, self.outside)
        return out

    def contrasts(self) -> list[Contrast]:
        return [laws.Rows(self.listed)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        used = [self.outside, *([self.inside] if self.copies[0] else []), *([self.other] if self.rows > 1 else [])]
        return max(used), min(used), 0

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        return laws.listed_laws(self.listed.astype(float), given, ps)

    def rounded(self, bits: int | None, margin: float) -> Law:
        """d·inside + e·outside must make up what `other` leaves; d and e have no common divisor, so integers exist."""
        bits = laws.MOST_BITS if bits is None else bits
        even, (d, e) = 1 / self.outputs, self.copies
        mixed = [(1 - margin) * float(w) / laws.scale(self.bits) + margin * even
                 for w in (self.inside, self.outside, self.other)]
        other = math.floor(math.ldexp(mixed[2], bits)) if self.rows > 1 else 0
        left = 2**bits - (self.rows - 1) * self.blocks * other
        outside = math.floor(math.ldexp(mixed[1], bits))
        outside += (left * pow(e, -1, d) - outside) % d if d > 1 else 0  # so that d divides what is left
        return Blocks(self.rows, self.useful, self.order, (left - e * outside) // d, outside, other, bits)

    @cached_property
    def _members(self) -> tuple[Ints, Ints]:
        """For each useful value the blocks that hold it, and those that do not."""
        held = incidence(self.useful, self.order).T
        inside, outside = (np.array([np.flatnonzero(x == own) for x in held]) for own in (True, False))
        return inside, outside

    def draw(self, codes: Ints, words: Words) -> Ints:
        word, (s, u) = self.drawn(words), np.divmod(codes, self.useful)
        (inside, outside), (d, e) = self._members, self.copies
        out = np.empty(len(codes), np.int64)
        first, second = d * self.inside, d * self.inside + e * self.outside
        at = np.flatnonzero(word < first)
        out[at] = s[at] * self.blocks + inside[u[at], word[at] // max(self.inside, 1)]
        at = np.flatnonzero((word >= first) & (word < second))
        out[at] = s[at] * self.blocks + outside[u[at], (word[at] - first) // max(self.outside, 1)]
        at = np.flatnonzero(word >= second)
        rest = (word[at] - second) // max(self.other, 1)
        out[at] = rest + self.blocks * (rest // self.blocks >= s[at])
        return out
