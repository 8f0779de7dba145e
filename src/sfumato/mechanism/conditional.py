"""Conditional: conditional reporting, a law that keeps U or redraws it as if S were another secret."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints, read_only
from sfumato.errors import InputError
from sfumato.mechanism.law import (
    Contrast,
    Law,
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
from sfumato.mechanism.table import whole_weights

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight

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
