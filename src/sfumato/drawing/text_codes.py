"""Text to codes, compiled: what `Column.encode` does, for the plain text of CSV files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Column

if TYPE_CHECKING:
    from sfumato.mechanism.law import Words

MASKS = np.array([(1 << (8 * k)) - 1 for k in range(9)], np.uint64)  # the low k bytes of a word
MOST_LABELS = 4096
MOST_BYTES = 64  # of a label
SEEDS = 1000  # hashes that are tried until no two labels share a slot


class TextCodes:
    """The codes of one column's labels. It knows only plain cases: `encode` gives None for everything else."""

    def __init__(self, column: Column) -> None:
        self.ready = False
        labels = [(x or "").encode() for x in column.labels if x is not None]
        longest = max(map(len, labels), default=0)
        if column.cuts is not None or not 0 < len(labels) <= MOST_LABELS or not longest <= MOST_BYTES or b"" in labels:
            return
        self.place = np.array([i for i, x in enumerate(column.labels) if x is not None], np.int32)
        width = -(-longest // 8)
        padded = b"".join(x.ljust(8 * width, b"\0") for x in labels)
        self.words = np.frombuffer(padded, np.uint64).reshape(len(labels), width)
        self.sizes = np.array([len(x) for x in labels], np.int32)
        self._find_hash(len(labels))

    def _find_hash(self, labels: int) -> None:
        from sfumato.drawing.compiled import place_labels

        bits = min(20, max(4, (labels * labels // 2).bit_length()))
        self.shift = 64 - bits
        for seed in range(SEEDS):
            self.slots = np.zeros(1 << bits, np.int32)
            random = np.random.default_rng(seed)  # for speed only: no secret depends on it
            self.factors = random.integers(0, 2**64, self.words.shape[1] + 1, np.uint64) | np.uint64(1)
            if place_labels(self.words, self.sizes, self.slots, self.shift, self.factors):
                self.ready = True
                return

    def encode(self, values: pa.Array) -> npt.NDArray[np.int32] | None:
        """Codes of a text array, or None when a value is missing, not a label, or not plain text."""
        if not self.ready or values.type != pa.string() or values.null_count:
            return None
        from sfumato.drawing.compiled import fill_text_codes

        words, ends = _words(values, 8 * self.words.shape[1])
        out = np.empty(len(values), np.int32)
        if not fill_text_codes(words, ends, MASKS, self.slots, self.shift, self.factors, self.words, self.sizes, out):
            return None
        return np.asarray(np.take(self.place, out, mode="clip"))


def _words(values: pa.Array, room: int) -> tuple[Words, npt.NDArray[np.int32]]:
    """The text as overlapping words, the i-th made of the eight bytes from i on, and where each value ends.

    Behind the last value there are `room` zero bytes to be read in its place.
    """
    ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    size = int(ends[-1])
    data = np.zeros(size + room, np.uint8)
    if size:
        data[:size] = np.frombuffer(values.buffers()[2], np.uint8, size)
    return np.ndarray((size + room - 7,), np.uint64, data, strides=(1,)), ends
