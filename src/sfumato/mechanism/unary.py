"""Unary: a bit for every input value, flipped at random; SUE and OUE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.mechanism.law import (
    MATRIX_CELLS,
    Contrast,
    Law,
    Spikes,
    Subsets,
    Weights,
    Words,
    check_bits,
    mask,
    present,
    scale,
)

if TYPE_CHECKING:
    from sfumato.alphabet import Bools
    from sfumato.mechanism.law import Weight

UNARY_BITS = 62


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
    kind: ClassVar[str] = "unary"

    def __post_init__(self) -> None:
        check_bits(self.bits)
        if not 0 <= self.off <= self.on <= (1 if self.bits is None else 2**self.bits):
            raise InputError("a unary law needs 0 ≤ off ≤ on ≤ 1.")

    @property
    def inputs(self) -> int:
        return self.rows * self.useful

    @property
    def outputs(self) -> int:
        return int(2**self.inputs)

    @property
    def meaning(self) -> str:
        return "subset"

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
        on, off = float(self.on) / scale(self.bits), float(self.off) / scale(self.bits)
        logs = np.log(np.maximum(np.where(members, off, 1 - off), 1e-300))
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
            return [Spikes(high, high, low, low)]
        return [Subsets(low, high)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        return (*self.odds, -1) if self.inputs > 1 else (1, 1, -1)

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """The subset with the greatest |log P(y|s)/P(y)|, found for each s by Dinkelbach's iteration.

        P(y|s) ∝ low + (high − low)·P(X ∈ y|s), so for a ratio λ the best set is {x : p₁(x) > λ p₂(x)}.
        """
        high, low = (float(w) for w in self.odds)
        seen = present(ps)
        laws = given if self.rows == 1 else (np.eye(self.rows)[:, :, None] * given[:, None, :]).reshape(self.rows, -1)
        mean = ps @ laws
        best: list[tuple[float, float, float]] = []
        for s in seen:
            for first, second in ((laws[s], mean), (mean, laws[s])):
                inside = best_subset(first, second, low, high)
                ends = [low + (high - low) * float(x[inside].sum()) for x in (laws[s], mean)]
                best.append((max(ends), min(ends), ends[1]))
        top, bottom, middle = np.array(best).T
        return top, bottom, middle, np.full(len(best), -1)

    def rounded(self, bits: int | None, margin: float) -> Law:
        bits = UNARY_BITS if bits is None else bits
        on = math.floor(math.ldexp(float(self.on) / scale(self.bits) * (1 - margin), bits))
        off = math.ceil(math.ldexp(float(self.off) / scale(self.bits) * (1 + margin), bits))
        return Unary(self.rows, self.useful, max(on, off), off, bits)

    def draw(self, codes: Ints, words: Words) -> Ints:
        """Bits [i, x] rather than an index: 2^|X| outputs have no other name."""
        assert self.bits is not None
        word = mask(words, self.bits)
        out = word < np.uint64(self.off)
        at = np.arange(len(codes))
        out[at, codes] = word[at, codes] < np.uint64(self.on)
        return out.astype(np.int64)

    def matrix(self) -> Floats | None:
        if self.inputs > 20 or self.outputs * self.inputs > MATRIX_CELLS:
            return None
        return self._listed((np.arange(self.outputs)[:, None] >> np.arange(self.inputs)) % 2 == 1)


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
