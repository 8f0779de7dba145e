"""Answers that are cells or useful values: Cells, as GRR, SRR and IR give; Constant, which ignores the input; and
Conditional, which keeps U or redraws it as if S were another secret."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints, read_only
from sfumato.errors import InputError
from sfumato.mechanism import law as laws
from sfumato.mechanism.law import Contrast, Law, OneWord, Weights, Words

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight


@dataclass(frozen=True, eq=False)
class _Small(OneWord):
    """What laws have in common that answer with a cell, or with a useful value where the secret is not read."""

    rows: int
    useful: int
    outputs: int = field(init=False, repr=False)
    meaning: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", self.rows * self.useful)
        object.__setattr__(self, "meaning", "cell" if self.rows > 1 else "useful")


@dataclass(frozen=True, eq=False)
class Cells(_Small):
    """Output (s', u') with a weight that depends only on whether s' = s and whether u' = u.

    `truth` if both agree, `same_secret` if s' = s alone, `same_useful` if u' = u alone, `neither` otherwise.
    Four numbers whatever the size of the table; a law that reads U alone has rows = 1.
    """

    truth: Weight
    same_secret: Weight
    same_useful: Weight
    neither: Weight
    bits: int | None = None
    four: tuple[Weight, Weight, Weight, Weight] = field(init=False, repr=False)
    copies: tuple[int, int, int, int] = field(init=False, repr=False)  # how many outputs carry each of the four
    chances: tuple[float, float, float, float] = field(init=False, repr=False)  # the four as probabilities
    spectrum: tuple[float, float, float] = field(init=False, repr=False)  # what Q multiplies the effects of s, those of
    # u and the interaction by
    kind: ClassVar[str] = "cells"

    def __post_init__(self) -> None:
        _Small.__post_init__(self)
        laws.check_bits(self.bits)
        four = self.truth, self.same_secret, self.same_useful, self.neither
        copies = 1, self.useful - 1, self.rows - 1, (self.rows - 1) * (self.useful - 1)
        if min(four) < 0 or not laws.is_total(sum(w * k for w, k in zip(four, copies, strict=True)), self.bits):
            raise InputError("the weights of a cell response must not be negative and must sum to the total.")
        total = laws.scale(self.bits)
        own = self.truth - self.same_secret - self.same_useful + self.neither
        by_s, by_u = (self.same_secret - self.neither) * self.useful, (self.same_useful - self.neither) * self.rows
        object.__setattr__(self, "spectrum", tuple(float(x) / total for x in (own + by_s, own + by_u, own)))
        object.__setattr__(self, "four", four)
        object.__setattr__(self, "copies", copies)
        object.__setattr__(self, "chances", tuple(float(w) / total for w in four))

    def row(self, y: int) -> Weights:
        s, u = divmod(y, self.useful)
        out = np.full((self.rows, self.useful), self.neither, dtype=float if self.bits is None else object)
        out[:, u] = self.same_useful
        out[s] = self.same_secret
        out[s, u] = self.truth
        return out

    def contrasts(self) -> list[Contrast]:
        own, others = (self.same_secret, self.truth), (self.neither, self.same_useful)
        if self.rows == 1:
            return [laws.Spikes(*own, *own)]
        third: list[Contrast] = [laws.Spikes(*others, *others)] if self.rows > 2 else []
        return [laws.Spikes(*own, *others), laws.Spikes(*others, *own), *third]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        used = [w for w, k in zip(self.four, self.copies, strict=True) if k]
        return max(used), min(used), 0

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        on, off = float(self.same_useful), float(self.neither)
        others = off + (on - off) * given if self.rows > 1 else given * 0
        own = float(self.same_secret) + (float(self.truth) - float(self.same_secret)) * given
        y = np.arange(given.size if self.rows > 1 else self.useful)
        seen = laws.present(ps)
        if self.rows == 1:
            return own[seen].max(0), own[seen].min(0), ps @ own, y
        mean = (ps @ others)[None, :] + ps[:, None] * (own - others)
        top, bottom = _without_each(others, seen, largest=True), _without_each(others, seen, largest=False)
        here = np.zeros(len(ps), bool)
        here[seen] = True
        top = np.where(here[:, None], np.maximum(own, top), top)
        bottom = np.where(here[:, None], np.minimum(own, bottom), bottom)
        return top.ravel(), bottom.ravel(), mean.ravel(), y

    def rounded(self, bits: int | None, margin: float) -> Law:
        bits = laws.MOST_BITS if bits is None else bits
        even = 1 / self.outputs
        mixed = [(1 - margin) * w + margin * even for w in self.chances]
        whole = [math.floor(math.ldexp(w, bits)) if k else 0 for w, k in zip(mixed, self.copies, strict=True)]
        left = 2**bits - sum(w * k for w, k in zip(whole, self.copies, strict=True))
        for i in sorted(range(4), key=lambda i: -self.copies[i]):  # what rounding leaves, where it weighs least
            if self.copies[i]:
                each, left = divmod(left, self.copies[i])
                whole[i] += each
        return Cells(self.rows, self.useful, whole[0], whole[1], whole[2], whole[3], bits)

    def draw(self, codes: Ints, words: Words) -> Ints:
        word = self.drawn(words)
        out = np.empty_like(codes)
        left = np.ones(len(codes), bool)
        for start, stop, weight, pick in self.segments():
            here = left & (word < stop)
            out[here] = pick(codes[here], (word[here] - start) // weight)
            left &= ~here
        return out

    def segments(self) -> list[tuple[int, int, int, Weight]]:
        """The word's range cut into runs: (start, stop, words an output takes, how the index becomes an output)."""
        k, out, start = self.useful, [], 0
        picks = (
            lambda x, i: x,
            lambda x, i: x - x % k + i + (i >= x % k),
            lambda x, i: (i + (i >= x // k)) * k + x % k,
            lambda x, i: (i // (k - 1) + (i // (k - 1) >= x // k)) * k + i % (k - 1) + (i % (k - 1) >= x % k),
        )
        for weight, count, pick in zip(self.four, self.copies, picks, strict=True):
            if weight and count:
                out.append((start, start + weight * count, weight, pick))
                start += weight * count
        return out


def _without_each(table: Floats, seen: Ints, *, largest: bool) -> Floats:
    """For each s the extreme over the other secrets that occur; where there is none, the value itself."""
    best = np.full(table.shape, np.nan)
    part = table[seen]
    order = np.argsort(-part if largest else part, axis=0, kind="stable")
    first = order[0]
    lead = np.take_along_axis(part, first[None], 0)[0]
    follow = np.take_along_axis(part, order[1][None], 0)[0] if len(seen) > 1 else lead
    best[:] = lead
    best[seen[first], np.arange(table.shape[1])] = follow
    return best


@dataclass(frozen=True, eq=False)
class Constant(_Small):
    """Every cell (or useful value) with the same weight, up to one word, for every input: level exactly 0."""

    bits: int | None = None
    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        _Small.__post_init__(self)
        laws.check_bits(self.bits)

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
        one = np.full(1, laws.scale(self.bits) / self.outputs)
        return one, one, one, np.zeros(1, np.int64)

    def rounded(self, bits: int | None, margin: float) -> Law:
        return Constant(self.rows, self.useful, laws.MOST_BITS if bits is None else bits)

    def draw(self, codes: Ints, words: Words) -> Ints:
        (share, extra), word = self.edges, self.drawn(words)
        long = extra * (share + 1)
        tail = extra + (word - long) // share if share else extra + 0 * word
        return np.where(word < long, word // (share + 1), tail)


@dataclass(frozen=True, eq=False)
class Conditional(OneWord):
    """Output a useful value y: keep[s] more weight for y = u, on top of base[s, y] [001, Alg. 1]."""

    keep: Weights  # [s]
    base: Weights  # [s, y]
    bits: int | None = None
    kind: ClassVar[str] = "conditional"
    meaning: ClassVar[str] = "useful"

    def __post_init__(self) -> None:
        laws.check_bits(self.bits)
        dtype = np.float64 if self.bits is None else np.int64
        object.__setattr__(self, "keep", read_only(self.keep, dtype))
        object.__setattr__(self, "base", read_only(self.base, dtype))
        if self.base.ndim != 2 or self.keep.shape != self.base.shape[:1]:
            raise InputError(f"keep has one weight for each secret, got {self.keep.shape} beside {self.base.shape}.")
        total = (self.base.sum(1) + self.keep) if self.bits is None else self.base.sum(1, dtype=object) + self.keep
        if min(self.base.min(), self.keep.min()) < 0 or not all(laws.is_total(x, self.bits) for x in total):
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

    def row(self, y: int) -> Weights:
        out = np.repeat(self.base[:, y, None], self.useful, axis=1)
        out[:, y] += self.keep
        return out if self.bits is None else out.astype(object)

    def contrasts(self) -> list[Contrast]:
        peak = self.base + self.keep[:, None]
        return [laws.Spikes(self.base, peak, self.base, peak)]

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        peak = self.base + self.keep[:, None]
        tops = np.maximum(peak.max(0), self.base.max(0))
        bottoms = self.base.min(0) if self.useful > 1 else peak.min(0)
        y = laws.worst_row(tops, bottoms)
        return tops[y], bottoms[y], y

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        own = self.base + self.keep[:, None] * given
        seen = own[laws.present(ps)]
        return seen.max(0), seen.min(0), ps @ own, np.arange(self.useful)

    def rounded(self, bits: int | None, margin: float) -> Law:
        bits = laws.MOST_BITS if bits is None else bits
        total = laws.scale(self.bits)
        base, keep = np.asarray(self.base, float) / total, np.asarray(self.keep, float) / total
        even = (base + keep[:, None] / self.useful).mean(0)
        mixed = (1 - margin) * base + margin * even
        parts = laws.whole_weights(np.column_stack([mixed, (1 - margin) * keep]).T, bits).T
        return Conditional(parts[:, -1], parts[:, :-1], bits)

    @cached_property
    def cumulative(self) -> Ints:
        return np.cumsum(self.base, axis=1, dtype=np.int64)

    def draw(self, codes: Ints, words: Words) -> Ints:
        word = self.drawn(words)
        s, u = np.divmod(codes, self.useful)
        out = u.copy()
        for secret in np.unique(s):
            here = (s == secret) & (word < self.cumulative[secret, -1])
            out[here] = np.searchsorted(self.cumulative[secret], word[here], side="right")
        return out
