"""Table: any law, listed as weights[y, x]; Conditional: keeps U or redraws it as if S were another secret."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints, read_only
from sfumato.errors import InputError
from sfumato.mechanism.law import (
    MATRIX_CELLS,
    Contrast,
    Law,
    Rows,
    Spikes,
    Weights,
    Words,
    check_bits,
    is_total,
    mask,
    present,
    scale,
    stacked,
    worst_row,
)

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight

ALIAS_BITS = 48  # of a threshold; the output that shares its bucket takes the other 16 bits of a table entry
GHOST = 2.0**-40  # an output less likely than this for every input is merged: its ratios are rounding noise


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
        check_bits(self.bits)
        w = read_only(self.weights, np.float64 if self.bits is None else np.int64)
        if w.ndim != 2 or w.size == 0 or w.shape[1] % self.rows:
            raise InputError(f"Q must be a table [y, x] with a column for each input, got shape {w.shape}.")
        if not np.all(np.isfinite(w)) or np.any(w < 0):
            raise InputError("Q must be finite and not negative.")
        total = w.sum(0) if self.bits is None else w.sum(0, dtype=object)
        if not all(is_total(x, self.bits) for x in total):
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
        return [Rows(self.weights.reshape(self.outputs, self.rows, self.useful))]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        top, bottom = self.weights.max(1), self.weights.min(1)
        y = worst_row(top, bottom)
        return top[y], bottom[y], y

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        v = self.weights.reshape(self.outputs, self.rows, self.useful).astype(float)
        laws = np.einsum("ysu,su->ys", np.broadcast_to(v, (self.outputs, *given.shape)), given)
        seen = laws[:, present(ps)]
        return seen.max(1), seen.min(1), laws @ ps, np.arange(self.outputs)

    def rounded(self, bits: int | None, margin: float) -> Table:
        q = merged(np.asarray(self.weights, float) / scale(self.bits), keep=self.meaning != "symbol")
        q = (1 - margin) * q + margin * q.mean(1, keepdims=True)
        if bits is None:
            bits = min(62, ALIAS_BITS + _buckets(len(q)))
        return Table(whole_weights(q, bits), self.rows, bits, self.meaning)

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
        word = mask(words[:, 0], self.bits)
        bucket = (word >> np.uint64(threshold_bits)).astype(np.int64)
        entry = table.ravel()[(codes << bucket_bits) + bucket]
        stays = mask(word, threshold_bits) < (entry >> np.uint64(16))
        return np.where(stays, bucket, (entry & np.uint64(0xFFFF)).astype(np.int64))

    def matrix(self) -> Floats | None:
        if self.weights.size > MATRIX_CELLS:
            return None
        return np.asarray(self.weights, float) / scale(self.bits)


def _buckets(outputs: int) -> int:
    return max(0, (outputs - 1).bit_length())


def merged(q: Floats, *, keep: bool = False) -> Floats:
    """Q with ghost outputs added to the likeliest output: merging is post-processing, so no level grows.

    With keep=True they stay as rows of zeros, because outputs that are labels are known by their place.
    """
    ghost = q.max(1) < GHOST
    if not ghost.any() or ghost.all():
        return q
    if keep:
        full = np.where(ghost[:, None], 0.0, q)
        full[int(np.argmax(full.sum(1)))] += q[ghost].sum(0)
        return np.asarray(full)
    kept = q[~ghost].copy()
    kept[int(np.argmax(kept.sum(1)))] += q[ghost].sum(0)
    return np.asarray(kept)


def whole_weights(q: Floats, bits: int) -> Ints:
    """Integers near 2^bits·q whose columns sum to 2^bits; what rounding leaves goes to the largest weights."""
    floor = np.floor(np.ldexp(q / q.sum(0), bits)).astype(np.int64)
    left = 2**bits - floor.sum(0, dtype=object)
    at = np.argmax(floor, 0), np.arange(q.shape[1])
    floor[at] += left.astype(np.int64)
    return np.asarray(floor)


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


# --- conditional reporting, a law that keeps U or redraws it as if S were another secret ------------------------------


CONDITIONAL_BITS = 62


@dataclass(frozen=True, eq=False)
class Conditional:
    """Output a useful value y: keep[s] more weight for y = u, on top of base[s, y] [001, Alg. 1]."""

    keep: Weights  # [s]
    base: Weights  # [s, y]
    bits: int | None = None
    kind: ClassVar[str] = "conditional"
    words: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_bits(self.bits)
        dtype = np.float64 if self.bits is None else np.int64
        object.__setattr__(self, "keep", read_only(self.keep, dtype))
        object.__setattr__(self, "base", read_only(self.base, dtype))
        if self.base.ndim != 2 or self.keep.shape != self.base.shape[:1]:
            raise InputError(f"keep has one weight for each secret, got {self.keep.shape} beside {self.base.shape}.")
        total = (self.base.sum(1) + self.keep) if self.bits is None else self.base.sum(1, dtype=object) + self.keep
        if min(self.base.min(), self.keep.min()) < 0 or not all(is_total(x, self.bits) for x in total):
            raise InputError("the weights of a conditional law must not be negative and must sum to the total.")

    @property
    def rows(self) -> int:
        return int(self.base.shape[0])

    @property
    def useful(self) -> int:
        return int(self.base.shape[1])

    @property
    def outputs(self) -> int:
        return self.useful

    @property
    def meaning(self) -> str:
        return "useful"

    def row(self, y: int) -> Weights:
        out = np.repeat(self.base[:, y, None], self.useful, axis=1)
        out[:, y] += self.keep
        return out if self.bits is None else out.astype(object)

    def contrasts(self) -> list[Contrast]:
        peak = self.base + self.keep[:, None]
        return [Spikes(self.base, peak, self.base, peak)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        peak = self.base + self.keep[:, None]
        tops = np.maximum(peak.max(0), self.base.max(0))
        bottoms = self.base.min(0) if self.useful > 1 else peak.min(0)
        y = worst_row(tops, bottoms)
        return tops[y], bottoms[y], y

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        laws = self.base + self.keep[:, None] * given
        seen = laws[present(ps)]
        return seen.max(0), seen.min(0), ps @ laws, np.arange(self.useful)

    def rounded(self, bits: int | None, margin: float) -> Law:
        bits = CONDITIONAL_BITS if bits is None else bits
        total = scale(self.bits)
        base, keep = np.asarray(self.base, float) / total, np.asarray(self.keep, float) / total
        even = (base + keep[:, None] / self.useful).mean(0)
        mixed = (1 - margin) * base + margin * even
        parts = whole_weights(np.column_stack([mixed, (1 - margin) * keep]).T, bits).T
        return Conditional(parts[:, -1], parts[:, :-1], bits)

    @cached_property
    def cumulative(self) -> Ints:
        return np.cumsum(self.base, axis=1, dtype=np.int64)

    def draw(self, codes: Ints, words: Words) -> Ints:
        assert self.bits is not None
        word = mask(words[:, 0], self.bits).astype(np.int64)
        s, u = np.divmod(codes, self.useful)
        out = u.copy()
        for secret in np.unique(s):
            here = (s == secret) & (word < self.cumulative[secret, -1])
            out[here] = np.searchsorted(self.cumulative[secret], word[here], side="right")
        return out

    def matrix(self) -> Floats | None:
        return stacked(self)
