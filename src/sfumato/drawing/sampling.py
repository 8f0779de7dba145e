"""Sampling: outputs of a mechanism or a bundle from codes and words, a pure function, compiled where that pays."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato import drawing
from sfumato.alphabet import Array, Column, Ints
from sfumato.drawing.randomness import Lane, Memo, WordSource
from sfumato.mechanism import Bundle
from sfumato.mechanism.cells import Cells, Constant
from sfumato.mechanism.law import Law, Words, told_apart
from sfumato.mechanism.subset_laws import Blocks
from sfumato.mechanism.table import Table

# --- the draws of the commonest laws, compiled. For the same words they give what `law.draw` gives --------------------
# numba is loaded only where it pays, because loading it takes longer than drawing ten million rows without it.


GUIDE_ENTRIES = 1 << 20  # the largest guide table
RUNS = 64  # its entries for each output: one word in 64 or so falls on an entry that decides nothing
IN_RUNS = (Cells, Constant, Blocks)  # laws in which each output takes one run of words
Kernel = Callable[[Array, Words, Array], None]  # (codes, words, out): fills out


def numba_allowed() -> bool:
    """False when SFUMATO_NO_NUMBA=1 is set or numba is not there."""
    if os.environ.get("SFUMATO_NO_NUMBA", "0") not in ("", "0"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def plain_kernel(law: Law) -> Kernel:
    """The law's own draw in numpy, through a guide table where the law is small and its draws come in runs."""
    width = law.words
    if isinstance(law, Table):
        return _alias_kernel(law)
    if type(law) in IN_RUNS and law.rows * law.useful * (outputs := law.outputs) * RUNS <= GUIDE_ENTRIES:
        return _guided_kernel(law, outputs)

    def fill(codes: Array, words: Words, out: Array) -> None:
        out[:] = law.draw(codes.astype(np.int64), words.reshape(-1, width))

    return fill


def _alias_kernel(law: Table) -> Kernel:
    """The alias method in few passes over the words: compare w·2^16 + 65535 with the entry, partner and all."""
    table, bucket_bits, threshold_bits = law.alias
    assert law.bits is not None
    flat, ones = np.ascontiguousarray(table.reshape(-1)), np.uint64(0xFFFF)
    whole, within = (np.uint64((1 << bits) - 1) for bits in (law.bits, threshold_bits))

    def fill(codes: Array, words: Words, out: Array) -> None:
        bucket = words & whole
        bucket >>= np.uint64(threshold_bits)
        at = codes.astype(np.int64)
        at <<= bucket_bits
        at += bucket.view(np.int64)
        entry = np.take(flat, at, mode="clip")
        low = words & within
        low <<= np.uint64(16)
        low |= ones
        stays = low < entry
        entry &= ones
        np.copyto(entry, bucket, where=stays)
        out[:] = entry

    return fill


def _guided_kernel(law: Law, outputs: int) -> Kernel:
    """Look the output up by the first bits of the word; only words near the end of a run need the law itself.

    For a given input each output takes one run of words, so a stretch of words whose first and last give the same
    output gives it throughout.
    """
    assert law.bits is not None
    inputs = law.rows * law.useful
    guide_bits = min(law.bits, (outputs * RUNS - 1).bit_length())
    shift = np.uint64(law.bits - guide_bits)
    first = np.tile(np.arange(1 << guide_bits, dtype=np.uint64) << shift, inputs)
    last = first + np.uint64((1 << int(shift)) - 1)
    codes = np.repeat(np.arange(inputs), 1 << guide_bits)

    def drawn(codes: Array, words: Words) -> Array:
        return law.draw(codes.astype(np.int64), words[:, None])

    low, high = drawn(codes, first), drawn(codes, last)
    guide = np.where(low == high, low, -1).astype(np.int32)
    whole = np.uint64((1 << guide_bits) - 1)

    def fill(codes: Array, words: Words, out: Array) -> None:
        at = ((words >> shift) & whole).astype(np.int32)
        at += codes << guide_bits
        np.take(guide, at, out=out, mode="clip")
        left = np.flatnonzero(out < 0)
        if len(left):
            out[left] = drawn(codes[left], words[left])

    return fill


def compiled_kernel(law: Law) -> Kernel:
    """A compiled draw where there is one, else the law's own."""
    made = drawing.COMPILED.get(type(law))
    return plain_kernel(law) if made is None else made(law)


# --- codes to outputs, chunk by chunk, each record with the words that belong to its row number -----------------------


CHUNK_WORDS = 1 << 12  # words drawn at a time: 32 kB, which leaves room in the cache for the table
ROWS_WORTH_NUMBA = 5_000_000  # from here on loading numba pays


@dataclass(slots=True)
class Sampler:
    """Draws of one law from the words of a stream."""

    law: Law
    stream: WordSource
    reading: Sequence[Column] = ()  # in the order of the input code, for `answers`
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
        width, out = self.law.words, self._room(len(codes))
        rows = max(1, CHUNK_WORDS // width)
        buffer = np.empty(min(rows, max(len(codes), 1)) * width, np.uint64)
        fill = self.stream.reader(first_row * width, lane=Lane.DRAW())
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows]
            words = buffer[: len(part) * width]
            fill(words)
            self.kernel(part, words, out[start : start + rows])
        return out

    def answers(self, codes: ColumnCodes, first_row: int, memo: Memo | None, people: pa.Array | None) -> Ints:
        """Outputs that are drawn; or remembered, by words that follow from the person and the input."""
        inputs = input_codes(self.reading, codes)
        if memo is None or people is None:
            return self.draw(inputs, first_row)
        return self.drawn(inputs, memo.words(people, inputs, self.law.words, first_row))

    def drawn(self, codes: Array, words: Words) -> Ints:
        """Outputs for given words [i·w]."""
        out = self._room(len(codes))
        self.kernel(codes, words, out)
        return out

    def _room(self, rows: int) -> Array:
        return np.empty((rows, self.law.words), np.uint8) if self.law.meaning == "subset" else np.empty(rows, np.int32)


# --- bundles: every part with words of its own, or each row draws the part that it answers ----------------------------


ColumnCodes = dict[str, npt.NDArray[np.int32]]  # of every column that some part reads
Rows = slice | npt.NDArray[np.int64]  # every row, or those whose turn it is


@dataclass(slots=True)
class BundleSampler:
    """Draws of all parts of a bundle: [row, part], or [row, (part, output)] when they take turns.

    A record takes a word for each part, or two where parts take turns: which part it answers, and its answer.
    """

    bundle: Bundle
    stream: WordSource
    compiled: bool = field(init=False, default=False)
    kernels: list[Kernel] = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = self._made(plain_kernel)
        if "numba" in sys.modules:
            self.compile()

    def compile(self) -> None:
        """Change to the compiled kernels, if there are any; the outputs stay the same."""
        if not self.compiled and numba_allowed():
            self.kernels, self.compiled = self._made(compiled_kernel), True

    def _made(self, kernel: Callable[[Law], Kernel]) -> list[Kernel]:
        """A kernel for each part; parts with the same numbers share one, also where they were read from a file."""
        keys = [told_apart(part.law) for part in self.bundle.parts]
        shared: dict[Hashable, Kernel] = {}
        for key, part in zip(keys, self.bundle.parts, strict=True):
            if key not in shared:
                shared[key] = kernel(part.law)
        return [shared[key] for key in keys]

    def draw(self, codes: ColumnCodes, first_row: int) -> npt.NDArray[np.int32]:
        """Outputs of the records first_row, first_row + 1, … from the codes of their columns."""
        rows = len(next(iter(codes.values())))
        if first_row + rows > ROWS_WORTH_NUMBA:
            self.compile()
        parts = [Lane.PART(i) for i in range(len(self.kernels))]
        lanes = parts if self.bundle.turns is None else [Lane.TURN(), Lane.PART()]
        words = np.empty((len(lanes), rows), np.uint64)
        for own, lane in zip(words, lanes, strict=True):
            self.stream.words(first_row, own, lane=lane)
        return self.drawn(codes, words)

    def drawn(self, codes: ColumnCodes, words: Words) -> npt.NDArray[np.int32]:
        """Outputs for given words [word, row]."""
        rows = words.shape[1]
        if self.bundle.turns is None:
            out = np.empty((len(self.kernels), rows), np.int32).T  # the answers of a part lie side by side
            for i, own in enumerate(words):
                self.kernels[i](self._input(i, codes, slice(None)), own, out[:, i])
            return out
        out = np.empty((rows, 2), np.int32)
        out[:, 0] = self.bundle.drawn_turns(words[0])
        for i, at in _in_turn(out[:, 0], len(self.kernels)):
            own = np.empty(len(at), np.int32)
            self.kernels[i](self._input(i, codes, at), words[1][at], own)
            out[at, 1] = own
        return out

    def answers(
        self, codes: ColumnCodes, first_row: int, memo: Memo | None, people: pa.Array | None
    ) -> npt.NDArray[np.int32]:
        """Outputs that are drawn; or remembered, by words that follow from the person, the part and what the part
        reads; whose turn it is, from the person alone.

        So whoever keeps the values that a part reads gives that part's answer again, and nobody answers two parts.
        """
        if memo is None or people is None:
            return self.draw(codes, first_row)

        def own_words(part: int, at: Rows) -> Words:
            named = people if isinstance(at, slice) else people.take(pa.array(at))
            return memo.part(f"part {part}").words(named, self._input(part, codes, at), 1, first_row)

        if self.bundle.turns is None:
            return self.drawn(codes, np.stack([own_words(i, slice(None)) for i in range(len(self.kernels))]))
        words = np.empty((2, len(people)), np.uint64)
        words[0] = memo.part("turn").words(people, np.zeros(len(people), np.int64), 1, first_row)
        for i, at in _in_turn(self.bundle.drawn_turns(words[0]), len(self.kernels)):
            words[1][at] = own_words(i, at)
        return self.drawn(codes, words)

    def _input(self, part: int, codes: ColumnCodes, at: Rows) -> Array:
        return input_codes(self.bundle.reading(self.bundle.parts[part]), codes, at)


def input_codes(columns: Sequence[Column], codes: ColumnCodes, at: Rows = slice(None)) -> Array:
    """Input codes of some columns in row-major order, x = s·|U| + u, narrow where they fit."""
    kind = np.int64 if math.prod(c.size for c in columns) > np.iinfo(np.int32).max else np.int32
    total: Array = codes[columns[0].name][at].astype(kind, copy=False)
    for column in columns[1:]:
        total = total * kind(column.size) + codes[column.name][at]
    return total


def words_of(bundle: Bundle) -> int:
    """The random words that a record takes."""
    return len(bundle.parts) if bundle.turns is None else 2


def _in_turn(turn: Array, parts: int) -> Iterator[tuple[int, Ints]]:
    """Each part that has rows, with these."""
    order = np.argsort(turn, kind="stable")
    ends = np.searchsorted(turn[order], np.arange(parts + 1))
    for i, (start, stop) in enumerate(pairwise(ends.tolist())):
        if start < stop:
            yield i, order[start:stop]
