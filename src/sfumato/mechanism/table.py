"""Laws that list their weights: Table, any of them, as weights[y, x]; Layout, per-secret atoms on a common interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints, given_up, read_only
from sfumato.errors import InputError
from sfumato.mechanism import law as laws
from sfumato.mechanism.law import Contrast, Law, OneWord, Weights, Words
from sfumato.tolerances import LISTED, SLIP, SUMS_TO_ONE
from sfumato_kernel.laws import ALIAS_BITS

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight

GHOST_MASS = 2.0**-40  # an output less likely than this for every input is merged: its ratios are rounding noise


@dataclass(frozen=True, eq=False)
class Table:
    """Q[y, x] as floats with columns that sum to 1, or integers with columns that sum to 2^bits."""

    weights: Weights  # [y, x]
    rows: int
    bits: int | None = None
    meaning: str = "symbol"
    kind: ClassVar[str] = "table"
    words: ClassVar[int] = 1

    def __post_init__(self) -> None:
        laws.check_bits(self.bits)
        w = read_only(self.weights, np.float64 if self.bits is None else np.int64)
        if w.ndim != 2 or w.size == 0 or w.shape[1] % self.rows:
            raise InputError(f"Q must be a table [y, x] with a column for each input, got shape {w.shape}.")
        if not np.all(np.isfinite(w)) or np.any(w < 0):
            raise InputError("Q must be finite and not negative.")
        total = w.sum(0) if self.bits is None else w.sum(0, dtype=object)
        if not all(laws.is_total(x, self.bits) for x in total):
            raise InputError("the columns of Q, one for each input, must sum to 1.")
        if w.shape[0] > 65536:
            raise InputError("a table can list at most 65,536 outputs", value=w.shape[0])
        object.__setattr__(self, "weights", w)

    @property
    def useful(self) -> int:
        return int(self.weights.shape[1] // self.rows)

    @property
    def outputs(self) -> int:
        return int(self.weights.shape[0])

    def row(self, y: int) -> Weights:
        return np.asarray(self.weights[y].reshape(self.rows, self.useful))

    def contrasts(self) -> list[Contrast]:
        return [laws.Rows(self.weights.reshape(self.outputs, self.rows, self.useful))]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        top, bottom = self.weights.max(1), self.weights.min(1)
        y = laws.worst_row(top, bottom)
        return top[y], bottom[y], y

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        return laws.listed_laws(self.weights.reshape(self.outputs, self.rows, self.useful).astype(float), given, ps)

    def rounded(self, bits: int | None, margin: float) -> Table:
        q = merged(np.asarray(self.weights, float) / laws.scale(self.bits), keep=self.meaning != "symbol")
        q = (1 - margin) * q + margin * q.mean(1, keepdims=True)
        if bits is None:
            bits = min(laws.MOST_BITS, ALIAS_BITS + _buckets(len(q)))
        return Table(laws.whole_weights(q, bits), self.rows, bits, self.meaning)

    @cached_property
    def alias(self) -> tuple[Words, int, int]:
        """The sampler's table [x, bucket] = threshold·2^16 + partner, the bits of a bucket and of a threshold."""
        assert self.bits is not None
        bucket_bits = _buckets(self.outputs)
        threshold_bits = self.bits - bucket_bits
        if not 0 <= threshold_bits <= ALIAS_BITS:
            raise InputError(f"{self.outputs} outputs need between {bucket_bits} and {bucket_bits + ALIAS_BITS} bits.")
        columns = [alias_column([int(w) for w in c], bucket_bits, threshold_bits) for c in self.weights.T]
        return np.array(columns, np.uint64), bucket_bits, threshold_bits

    def draw(self, codes: Ints, words: Words) -> Ints:
        table, bucket_bits, threshold_bits = self.alias
        assert self.bits is not None
        word = laws.mask(words[:, 0], self.bits)
        bucket = (word >> np.uint64(threshold_bits)).astype(np.int64)
        entry = table.ravel()[(codes << bucket_bits) + bucket]
        stays = laws.mask(word, threshold_bits) < (entry >> np.uint64(16))
        return np.where(stays, bucket, (entry & np.uint64(0xFFFF)).astype(np.int64))

    def matrix(self) -> Floats | None:
        if self.weights.size > LISTED:
            return None
        return np.asarray(self.weights, float) / laws.scale(self.bits)


def _buckets(outputs: int) -> int:
    return max(0, (outputs - 1).bit_length())


def merged(q: Floats, *, keep: bool = False) -> Floats:
    """Q with ghost outputs added to the likeliest output: merging is post-processing, so no level grows.

    With keep=True they stay as rows of zeros, because outputs that are labels are known by their place.
    """
    ghost = q.max(1) < GHOST_MASS
    if not ghost.any() or ghost.all():
        return q
    full = np.where(ghost[:, None], 0.0, q)
    full[int(np.argmax(full.sum(1)))] += q[ghost].sum(0)
    return np.asarray(full if keep else full[~ghost])


def alias_column(weights: list[int], bucket_bits: int, threshold_bits: int) -> list[int]:
    """Walker's alias table in integers: bucket i keeps i below its threshold and gives the rest to one partner."""
    size, room = 1 << bucket_bits, 1 << threshold_bits
    left = weights + [0] * (size - len(weights))
    entries = [(room << 16) | i if room < (1 << ALIAS_BITS) else ((room - 1) << 16) | i for i in range(size)]
    small = [i for i in range(size) if left[i] < room]
    large = [i for i in range(size) if left[i] > room]
    while small:
        i, j = small.pop(), large[-1]
        entries[i] = (left[i] << 16) | j
        left[j] -= room - left[i]
        if left[j] <= room:
            large.pop()
            if left[j] < room:
                small.append(j)
    return entries


# --- per-secret atoms on a common interval, for designs too large to list as a matrix ---------------------------------


REST = 2.0**-20  # share of an output that takes what rounding leaves, nearly the same for every input
LISTED_PAIRS = 2_000_000  # rows × secrets² up to which every row is compared, not only every pair of atoms


@dataclass(frozen=True, eq=False)
class Layout(OneWord):
    """Output a cell of the common refinement of |S| partitions of one interval.

    Secret s cuts the interval into atoms; atom i has length lengths[s][i] and, for each u, a height: the weight of a
    unit of length. Q(y|s, u) = length of y · height of the atom of s that contains y. Numbers kept: |S||U|² instead
    of |Y||S||U|. Lengths of a secret sum to the same total; Σ_i lengths[s][i]·heights[s][i, u] is 1 (or 2^bits).
    """

    lengths: tuple[Weights, ...]  # per secret [i]: floats, or int64 units once sealed
    heights: tuple[Weights, ...]  # per secret [i, u]
    bits: int | None = None
    kind: ClassVar[str] = "layout"
    meaning: ClassVar[str] = "symbol"

    def __post_init__(self) -> None:
        laws.check_bits(self.bits)
        dtype = np.float64 if self.bits is None else np.int64
        object.__setattr__(self, "lengths", tuple(read_only(x, dtype) for x in self.lengths))
        object.__setattr__(self, "heights", tuple(read_only(x, dtype) for x in self.heights))
        total = self.lengths[0].sum()
        for x, h in zip(self.lengths, self.heights, strict=True):
            if x.ndim != 1 or h.ndim != 2 or len(x) != len(h) or x.min() <= 0 or h.min() < 0:
                raise InputError("a layout needs a positive length and a height per useful value for every atom.")
            mass = x @ h if self.bits is None else _whole_mass(x, h)
            if abs(x.sum() - total) > SUMS_TO_ONE * total or not all(laws.is_total(m, self.bits) for m in mass):
                raise InputError("the atoms of a layout must fill the interval and give every input the same weight.")
        if self.bits is not None:
            totals = {sum(x.tolist()) for x in self.lengths}
            if len(totals) > 1 or max(totals) > 2**laws.MOST_BITS:
                most = laws.MOST_BITS
                raise InputError(f"the atoms of every secret must fill one interval of at most 2^{most} units.")

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def useful(self) -> int:
        return int(self.heights[0].shape[1])

    @cached_property
    def cuts(self) -> Weights:
        """Ends of the outputs on the interval, in order; the last one is the total."""
        ends = np.concatenate([np.cumsum(x) for x in self.lengths])
        if self.bits is not None:
            return np.unique(ends)
        total = float(np.sum(self.lengths[0]))
        ends = np.unique(np.append(ends[ends < total * (1 - SLIP)], total))
        return np.asarray(ends[np.append(np.diff(ends) > SLIP * total, True)])

    @property
    def outputs(self) -> int:
        return len(self.cuts)

    @cached_property
    def widths(self) -> Weights:
        """Length of every output."""
        return np.diff(self.cuts, prepend=self.cuts.dtype.type(0))

    @cached_property
    def atoms_at(self) -> npt.NDArray[np.int32]:
        """The atom of each secret that contains each output, as [y, s]."""
        # Sealed cuts are whole numbers that floats may not tell apart: a piece is known by where it begins.
        middle = self.cuts - (self.widths / 2 if self.bits is None else self.widths)
        return pieces_at([np.cumsum(x) for x in self.lengths], middle, "left")

    def row(self, y: int) -> Weights:
        at = self.atoms_at[y]
        rows = np.stack([h[i] for h, i in zip(self.heights, at, strict=True)])
        return rows * self.widths[y] if self.bits is None else rows.astype(object) * int(self.widths[y])

    def contrasts(self) -> list[Contrast]:
        """Rows without their common factor, the length. With too many rows to compare, every pair of atoms between
        two cuts that all secrets share, as if all of them could meet."""
        if self.outputs * self.rows**2 <= LISTED_PAIRS:
            return [laws.Rows(np.stack([h[i] for h, i in zip(self.heights, self.atoms_at.T, strict=True)], 1))]
        ends = [np.cumsum(x) for x in self.lengths]
        shared = ends[0]
        for e in ends[1:]:
            shared = np.intersect1d(shared, e)
        heights, secret = np.concatenate(self.heights), np.repeat(np.arange(self.rows), [len(e) for e in ends])
        block = np.searchsorted(shared, np.concatenate(ends))
        return [laws.Atoms(heights[block == i], secret[block == i]) for i in range(len(shared))]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        ends = [(h.max(1)[at], h.min(1)[at]) for h, at in zip(self.heights, self.atoms_at.T, strict=True)]
        top, low = ends[0]
        for high, least in ends[1:]:
            top, low = np.maximum(top, high), np.minimum(low, least)
        y = laws.worst_row(top, low)
        row = np.stack([h[i] for h, i in zip(self.heights, self.atoms_at[y], strict=True)])
        return row.max(), row.min(), y

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        top, low, mean = np.zeros(self.outputs), np.full(self.outputs, np.inf), np.zeros(self.outputs)
        for s in laws.present(ps):
            law = (np.asarray(self.heights[s], float) @ given[s])[self.atoms_at[:, s]]
            top, low, mean = np.maximum(top, law), np.minimum(low, law), mean + ps[s] * law
        width = np.asarray(self.widths, float)
        return top * width, low * width, mean * width, np.arange(self.outputs)

    def rounded(self, bits: int | None, margin: float) -> Law:
        """Whole units of length and whole heights; one more output takes what is left of every input's weight."""
        bits = laws.MOST_BITS if bits is None else bits
        units = 2 ** (bits // 2)  # of length, into which the interval is cut
        lengths, heights = [], []
        for x, h in zip(self.lengths, self.heights, strict=True):
            whole = whole_lengths(np.asarray(x, float), units)
            kept = whole > 0
            whole, tall = whole[kept], np.asarray(h, float)[kept]
            share = whole / units
            tall = (1 - margin) * tall / (share @ tall) + margin
            tall = np.floor(np.ldexp((1 - REST) * tall / units, bits)).astype(np.int64)
            rest = 2**bits - _whole_mass(whole, tall)
            lengths.append(np.append(whole, 1))
            heights.append(given_up(np.vstack([tall, rest.astype(np.int64)])))
        return Layout(tuple(lengths), tuple(heights), bits)

    @cached_property
    def search(self) -> tuple[Ints, Ints, Ints]:
        """Per input [x, i] the words below each atom, per secret the start of each atom, and heights [x, i], padded."""
        deepest = max(len(x) for x in self.lengths)
        below = np.full((self.rows * self.useful, deepest + 1), np.iinfo(np.int64).max)
        heights = np.ones((self.rows * self.useful, deepest), np.int64)
        starts = np.zeros((self.rows, deepest), np.int64)
        for s, (x, h) in enumerate(zip(self.lengths, self.heights, strict=True)):
            here = slice(s * self.useful, (s + 1) * self.useful)
            below[here, 0] = 0
            below[here, 1 : len(x)] = np.cumsum(x[:, None] * h, 0).T[:, :-1]
            heights[here, : len(x)] = np.maximum(h.T, 1)
            starts[s, : len(x)] = np.cumsum(x) - x
        return below, starts, heights

    def draw(self, codes: Ints, words: Words) -> Ints:
        (below, starts, heights), word = self.search, self.drawn(words)
        atom = np.zeros(len(codes), np.int64)
        step = 1 << max(below.shape[1] - 2, 0).bit_length()
        while step:
            ahead = np.minimum(atom + step, below.shape[1] - 1)
            atom = np.where(below[codes, ahead] <= word, ahead, atom)
            step >>= 1
        place = starts[codes // self.useful, atom] + (word - below[codes, atom]) // heights[codes, atom]
        return np.asarray(np.searchsorted(self.cuts, place, side="right"))

    def matrix(self) -> Floats | None:
        if self.outputs * self.rows * self.useful > LISTED:
            return None
        blocks = [np.asarray(h, float)[at] for h, at in zip(self.heights, self.atoms_at.T, strict=True)]
        return np.concatenate(blocks, 1) * (np.asarray(self.widths, float) / laws.scale(self.bits))[:, None]


def pieces_at(ends: Sequence[Weights], places: Weights, side: Literal["left", "right"]) -> npt.NDArray[np.int32]:
    """Which piece of each partition holds each of the places, which are in order, as [place, partition]: a place at an
    end is in the next piece (left) or in the one that ends there. A partition lies in memory in one run."""
    out = np.empty((len(ends), len(places)), np.int32)
    for row, e in zip(out, ends, strict=True):
        begins = np.searchsorted(places, e[:-1], side)
        row[:] = np.repeat(np.arange(len(e)), np.diff(begins, prepend=0, append=len(places)))
    return out.T


def _whole_mass(lengths: Ints, heights: Ints) -> Weights:
    """Σ_i lengths[i]·heights[i, u] of whole numbers ≥ 0, exactly: in 64 bits where floats say that it fits by far."""
    if (lengths.astype(float) @ heights.astype(float)).max(initial=0.0) < 2.0**62.5:
        return np.asarray(lengths @ heights)
    return np.asarray(lengths.astype(object) @ heights.astype(object))


def whole_lengths(lengths: Floats, units: int) -> Ints:
    """Whole units near the lengths that sum to `units`. Ends are rounded, and not lengths: where atoms of two secrets
    end together they still do, and no sliver is one thing to one of them and another to the other."""
    ends = np.cumsum(lengths)
    return np.asarray(np.diff(np.rint(ends / ends[-1] * units).astype(np.int64), prepend=0))
