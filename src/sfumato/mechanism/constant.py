"""Constant: an output that ignores the input, which is all that ε = 0 allows without further knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.mechanism.law import Contrast, Law, Weights, Words, check_bits, mask, scale, stacked

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight

CONSTANT_BITS = 62


@dataclass(frozen=True, eq=False)
class Constant:
    """Every cell (or useful value) with the same weight, up to one word, for every input: level exactly 0."""

    rows: int
    useful: int
    bits: int | None = None
    kind: ClassVar[str] = "constant"
    words: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def outputs(self) -> int:
        return self.rows * self.useful

    @property
    def meaning(self) -> str:
        return "cell" if self.rows > 1 else "useful"

    @cached_property
    def edges(self) -> tuple[int, int]:
        """(share, extra): the first `extra` outputs have weight share + 1, the others share."""
        assert self.bits is not None
        share, extra = divmod(2**self.bits, self.outputs)
        return int(share), int(extra)

    def row(self, y: int) -> Weights:
        weight: Weight = 1 / self.outputs
        if self.bits is not None:
            share, extra = self.edges
            weight = share + (y < extra)
        return np.full((self.rows, self.useful), weight, dtype=float if self.bits is None else object)

    def contrasts(self) -> list[Contrast]:
        return []

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        return 1, 1, 0

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        one = np.full(1, scale(self.bits) / self.outputs)
        return one, one, one, np.zeros(1, np.int64)

    def rounded(self, bits: int | None, margin: float) -> Law:
        return Constant(self.rows, self.useful, CONSTANT_BITS if bits is None else bits)

    def draw(self, codes: Ints, words: Words) -> Ints:
        assert self.bits is not None
        share, extra = self.edges
        word = mask(words[:, 0], self.bits).astype(np.int64)
        long = extra * (share + 1)
        tail = extra + (word - long) // share if share else extra + 0 * word
        return np.where(word < long, word // (share + 1), tail)

    def matrix(self) -> Floats | None:
        return stacked(self)
