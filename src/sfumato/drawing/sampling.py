"""Sampling: outputs from codes and random words, a pure function, compiled where numba is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Array, Ints
from sfumato.drawing.randomness import Lane, WordSource
from sfumato.mechanism.cells import Cells, Constant
from sfumato.mechanism.law import Law, Words
from sfumato.mechanism.subset_laws import Blocks
from sfumato.mechanism.table import Layout, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.drawing.bundle_draws import Remembering


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
    if type(law) in IN_RUNS and law.rows * law.useful * law.outputs * RUNS <= GUIDE_ENTRIES:
        return _guided_kernel(law)

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


def _guided_kernel(law: Law) -> Kernel:
    """Look the output up by the first bits of the word; only words near the end of a run need the law itself.

    For a given input each output takes one run of words, so a stretch of words whose first and last give the same
    output gives it throughout.
    """
    assert law.bits is not None
    inputs = law.rows * law.useful
    guide_bits = min(law.bits, (law.outputs * RUNS - 1).bit_length())
    shift = np.uint64(law.bits - guide_bits)
    first = np.tile(np.arange(1 << guide_bits, dtype=np.uint64) << shift, inputs)
    last = first + np.uint64((1 << int(shift)) - 1)
    codes = np.repeat(np.arange(inputs), 1 << guide_bits)
    low, high = (law.draw(codes, w[:, None]) for w in (first, last))
    guide = np.where(low == high, low, -1).astype(np.int32)
    whole = np.uint64((1 << guide_bits) - 1)

    def fill(codes: Array, words: Words, out: Array) -> None:
        at = ((words >> shift) & whole).astype(np.int32)
        at += codes << guide_bits
        np.take(guide, at, out=out, mode="clip")
        left = np.flatnonzero(out < 0)
        if len(left):
            out[left] = law.draw(codes[left].astype(np.int64), words[left][:, None])

    return fill


def compiled_kernel(law: Law) -> Kernel:
    """A compiled draw where there is one, else the law's own."""
    made = COMPILED.get(type(law))
    return plain_kernel(law) if made is None else made(law)


def _table_kernel(law: Table) -> Kernel:
    from sfumato.drawing.compiled import fill_table

    table, bucket_bits, threshold_bits = law.alias
    flat = np.ascontiguousarray(table.reshape(-1))

    def run(codes: Array, words: Words, out: Array) -> None:
        fill_table(codes, words, out, flat, bucket_bits, threshold_bits, law.bits)

    return run


def _cells_kernel(law: Cells) -> Kernel:
    from sfumato.drawing.compiled import fill_cells

    ends, weights = np.zeros(4, np.int64), np.ones(4, np.int64)
    for i, (weight, copies) in enumerate(zip(law.four, law.copies, strict=True)):
        ends[i] = (ends[i - 1] if i else 0) + int(weight) * copies
        weights[i] = max(int(weight), 1)

    def run(codes: Array, words: Words, out: Array) -> None:
        fill_cells(codes, words, out, law.useful, ends, weights, law.bits)

    return run


def _layout_kernel(law: Layout) -> Kernel:
    from sfumato.drawing.compiled import fill_layout

    below, starts, heights = law.search
    assert law.bits is not None  # only sealed laws are drawn from
    guide, guide_shift = _atom_guide(below, law.bits)
    cuts = np.asarray(law.cuts, np.int64)
    cut_guide, cut_shift = _cut_guide(cuts)

    def run(codes: Array, words: Words, out: Array) -> None:
        fill_layout(
            codes, words, out, law.useful, law.bits, below, heights, starts, guide, guide_shift, cuts, cut_guide,
            cut_shift,
        )

    return run


def _atom_guide(below: Ints, bits: int) -> tuple[npt.NDArray[np.int32], int]:
    """For each input and the first bits of a word the first atom it may fall into; the next entry is the last one.

    Four entries for each atom leave about one word in eight to be searched for; fewer where inputs are many.
    """
    inputs, atoms = below.shape
    room = max(GUIDE_ENTRIES // inputs, 1).bit_length() - 1
    guide_bits = min(bits, (4 * atoms - 1).bit_length(), room)
    shift = bits - guide_bits
    edges = np.append(np.arange(1 << guide_bits, dtype=np.int64) << shift, (1 << bits) - 1)
    return np.stack([np.searchsorted(row, edges, side="right") - 1 for row in below]).astype(np.int32), shift


def _cut_guide(cuts: Ints) -> tuple[npt.NDArray[np.int32], int]:
    """For the first bits of a place the first output it may be; the next entry is the last one."""
    last = int(cuts[-1]) - 1
    wanted = min(4 * len(cuts), GUIDE_ENTRIES)
    shift = max(last.bit_length() - (wanted - 1).bit_length(), 0)
    edges = np.arange((last >> shift) + 2, dtype=np.int64) << shift
    found = np.searchsorted(cuts, np.minimum(edges, last), side="right")
    return found.astype(np.int32), shift


COMPILED: dict[type[Law], Callable[..., Kernel]] = {Table: _table_kernel, Cells: _cells_kernel, Layout: _layout_kernel}


# --- codes to outputs, chunk by chunk, each record with the words that belong to its row number -----------------------


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
