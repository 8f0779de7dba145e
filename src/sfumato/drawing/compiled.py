"""Compiled draws of the commonest laws, and codes of plain text; importing this module loads numba."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit, uint64

from sfumato.alphabet import Column, Ints
from sfumato.drawing.randomness import MASKS
from sfumato.drawing.sampling import GUIDE_ENTRIES, Kernel
from sfumato.mechanism.cells import Cells
from sfumato.mechanism.law import Law, Words
from sfumato.mechanism.table import Layout, Table


@njit(nogil=True, cache=True)
def fill_table(entries, bucket_bits, threshold_bits, bits, codes, words, out):
    """Walker's alias method: one word, one look-up."""
    within = (uint64(1) << uint64(threshold_bits)) - uint64(1)
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = words[i] & whole
        bucket = word >> uint64(threshold_bits)
        entry = entries[(uint64(codes[i]) << uint64(bucket_bits)) + bucket]
        partner = entry & uint64(0xFFFF)
        stays = uint64((word & within) < (entry >> uint64(16)))
        out[i] = partner + (bucket - partner) * stays  # without a branch, which would be guessed wrong half the time


@njit(nogil=True, cache=True)
def fill_cells(useful, ends, weights, bits, codes, words, out):
    """The word's range cut into four runs: the truth, the same secret, the same useful value, neither."""
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = np.int64(words[i] & whole)
        x = np.int64(codes[i])
        if word < ends[0]:
            out[i] = x
            continue
        s, u = x // useful, x % useful
        if word < ends[1]:
            at = (word - ends[0]) // weights[1]
            u = at + (at >= u)
        elif word < ends[2]:
            at = (word - ends[1]) // weights[2]
            s = at + (at >= s)
        else:
            at = (word - ends[2]) // weights[3]
            row, column = at // (useful - 1), at % (useful - 1)
            s, u = row + (row >= s), column + (column >= u)
        out[i] = s * useful + u


@njit(nogil=True, cache=True)
def fill_layout(
    useful, bits, below, heights, starts, guide, guide_shift, cuts, cut_guide, cut_shift, codes, words, out
):
    """The atom that holds the word, the place of the word in it, and the output at that place.

    Both are searched only between what the guides say for the first bits, which is one candidate or a few.
    """
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = np.int64(words[i] & whole)
        x = np.int64(codes[i])
        at = word >> guide_shift
        low, high = np.int64(guide[x, at]), np.int64(guide[x, at + 1])
        while low < high:
            middle = (low + high + 1) >> 1
            if below[x, middle] <= word:
                low = middle
            else:
                high = middle - 1
        place = starts[x // useful, low] + (word - below[x, low]) // heights[x, low]
        at = place >> cut_shift
        low, high = np.int64(cut_guide[at]), np.int64(cut_guide[at + 1])
        while low < high:
            middle = (low + high) >> 1
            if cuts[middle] <= place:
                low = middle + 1
            else:
                high = middle
        out[i] = low


# --- how the loops are called, by law ---------------------------------------------------------------------------------


def _table_kernel(law: Table) -> Kernel:
    table, bucket_bits, threshold_bits = law.alias
    return partial(fill_table, np.ascontiguousarray(table.reshape(-1)), bucket_bits, threshold_bits, law.bits)


def _cells_kernel(law: Cells) -> Kernel:
    ends, weights = np.zeros(4, np.int64), np.ones(4, np.int64)
    for i, (weight, copies) in enumerate(zip(law.four, law.copies, strict=True)):
        ends[i] = (ends[i - 1] if i else 0) + int(weight) * copies
        weights[i] = max(int(weight), 1)
    return partial(fill_cells, law.useful, ends, weights, law.bits)


def _layout_kernel(law: Layout) -> Kernel:
    below, starts, heights = law.search
    assert law.bits is not None  # only sealed laws are drawn from
    cuts = np.asarray(law.cuts, np.int64)
    guides = *_atom_guide(below, law.bits), cuts, *_cut_guide(cuts)
    return partial(fill_layout, law.useful, law.bits, below, heights, starts, *guides)


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


# --- text to codes: what `Column.encode` does, for the plain text of CSV files ----------------------------------------


@njit(nogil=True, cache=True)
def fill_text_codes(words, ends, masks, slots, shift, factors, label_words, label_sizes, out):
    """The code of each text by a hash without collisions among the labels; False at the first that is no label.

    words[i] are the eight bytes from i on. Every text is read as the same number of words, zero behind its end,
    because a loop of varying length costs a wrong guess of the processor at every row.
    """
    shift, width = uint64(shift), label_words.shape[1]
    for i in range(len(ends) - 1):
        start, size = ends[i], ends[i + 1] - ends[i]
        h = factors[width] * uint64(size)
        for k in range(width):
            h += (words[start + 8 * k] & masks[max(0, min(8, size - 8 * k))]) * factors[k]
        code = slots[h >> shift]
        different = uint64(size ^ label_sizes[code])
        for k in range(width):
            different |= label_words[code, k] ^ (words[start + 8 * k] & masks[max(0, min(8, size - 8 * k))])
        if different:
            return False
        out[i] = code
    return True


@njit(nogil=True, cache=True)
def place_labels(label_words, label_sizes, slots, shift, factors):
    """Give every label a slot of its own; False when two would share one."""
    shift, width = uint64(shift), label_words.shape[1]
    taken = np.zeros(len(slots), np.uint8)
    for code in range(len(label_sizes)):
        h = factors[width] * uint64(label_sizes[code])
        for k in range(width):
            h += label_words[code, k] * factors[k]
        if taken[h >> shift]:
            return False
        taken[h >> shift] = 1
        slots[h >> shift] = code
    return True


@dataclass(frozen=True, slots=True)
class Hashing:
    """Which labels are hashed, and how long a hash is looked for."""

    labels: int = 4096
    bytes: int = 64  # of a label
    seeds: int = 1000  # hashes that are tried until no two labels share a slot


HASHING = Hashing()


class TextCodes:
    """The codes of one column's labels. It knows only plain cases: `encode` gives None for everything else."""

    def __init__(self, column: Column) -> None:
        self.ready = False
        labels = [x.encode() for x in column.labels if x is not None]
        longest = max(map(len, labels), default=0)
        few = 0 < len(labels) <= HASHING.labels and 0 < min(map(len, labels)) <= longest <= HASHING.bytes
        if column.cuts is not None or not few:
            return
        self.place = np.array([i for i, x in enumerate(column.labels) if x is not None], np.int32)
        width = -(-longest // 8)
        padded = b"".join(x.ljust(8 * width, b"\0") for x in labels)
        self.words = np.frombuffer(padded, np.uint64).reshape(len(labels), width)
        self.sizes = np.array([len(x) for x in labels], np.int32)
        self._find_hash(len(labels))

    def _find_hash(self, labels: int) -> None:
        bits = min(20, max(4, (labels * labels // 2).bit_length()))
        self.shift = 64 - bits
        for seed in range(HASHING.seeds):
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
