"""Sampling: codes to outputs, chunk by chunk, each record with the words that belong to its row number."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Ints
from sfumato.drawing.kernels import Kernel, compiled_kernel, numba_allowed, plain_kernel
from sfumato.drawing.randomness import Lane, WordSource
from sfumato.mechanism.law import Law, Words

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.alphabet import Array
    from sfumato.drawing.bundle_draws import Remembering

CHUNK_WORDS = 1 << 12  # words drawn at a time: 32 kB, which leaves room in the cache for the table
ROWS_WORTH_NUMBA = 5_000_000  # from here on loading numba pays


@dataclass(slots=True)
class Sampler:
    """Draws of one law from one lane of a stream."""

    law: Law
    stream: WordSource
    lane: int = Lane.DRAW()
    kernel: Kernel = field(init=False)
    compiled: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.kernel = plain_kernel(self.law)
        if "numba" in sys.modules:
            self.compile()

    def compile(self) -> None:
        """Change to the compiled kernel, if there is one; the outputs stay the same."""
        if not self.compiled and numba_allowed():
            self.kernel, self.compiled = compiled_kernel(self.law), True

    def draw(self, codes: Array, first_row: int) -> Ints:
        """Outputs of the records first_row, first_row + 1, …: [i], or [i, x] for answers that are sets."""
        if first_row + len(codes) > ROWS_WORTH_NUMBA:
            self.compile()
        width = self.law.words
        rows = max(1, CHUNK_WORDS // width)
        shape = (len(codes),) if self.law.meaning != "subset" else (len(codes), width)
        out = np.empty(shape, np.uint8 if self.law.meaning == "subset" else np.int32)
        buffer = np.empty(min(rows, max(len(codes), 1)) * width, np.uint64)
        fill = self.stream.reader(first_row * width, lane=self.lane)
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows]
            words = buffer[: len(part) * width]
            fill(words)
            self.kernel(part, words, out[start : start + rows])
        return out

    def remembered(self, memo: Remembering, people: pa.Array, codes: Array, first_row: int) -> Words:
        """Words that follow from the person and the input, by answers that are remembered."""
        words: Words = memo.words(people, codes, self.law.words, first_row)
        return words

    def drawn(self, codes: Array, words: Words) -> Ints:
        """Outputs for given words [i·w]."""
        shape = (len(codes),) if self.law.meaning != "subset" else (len(codes), self.law.words)
        out = np.empty(shape, np.uint8 if self.law.meaning == "subset" else np.int32)
        self.kernel(codes, words, out)
        return out
