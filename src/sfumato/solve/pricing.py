"""Pricing over subsets of U: the best column for given duals, and a bound on every column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx

ENUMERATE = 16  # subsets are listed up to this |U|: 65,536 of them price in about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """Columns with positive reduced cost and their gains; none means that the family knows of no more."""

    columns: Floats
    gains: Floats


class Family(Protocol):
    """The columns of one secret: where to start, and the best ones for duals (y, y₀)."""

    def start(self) -> Floats: ...
    def points(self) -> Floats: ...
    def gain(self, columns: Floats) -> Floats: ...
    def price(self, y: Floats, y0: float, tolerance: float) -> Priced: ...
    def ceiling(self, y: Floats, y0: float) -> float:
        """A proved upper bound on gain − y·column − y₀ over all columns, whatever the duals."""


def subset_sums(y: Floats) -> Floats:
    """Σ_{u∈H} y_u for every H ⊆ U, H read as the bits of its index."""
    sums = np.zeros(1)
    for x in y:
        sums = np.concatenate([sums, sums + x])
    return sums


def indicator(index: Ints, k: int) -> Floats:
    """Subsets as 0/1 vectors."""
    return ((index[:, None] >> np.arange(k)) & 1).astype(np.float64)


@dataclass(eq=False)
class Listed:
    """Every subset listed: columns lo_H + (hi_H − lo_H)·1_H, and optionally one coordinate f ∉ H at its own height."""

    q: Floats
    subset: Ints
    lo: Floats
    hi: Floats
    extra: Ints | None = None  # coordinate f per column, or none
    rest: Floats | None = None  # height there

    def __post_init__(self) -> None:
        w = subset_sums(self.q)[self.subset]
        off = 1.0 - w
        base = w * xlogx(self.hi)
        if self.extra is not None and self.rest is not None:
            off = off - self.q[self.extra]
            base += self.q[self.extra] * xlogx(self.rest)
        self._base = base + np.maximum(off, 0.0) * xlogx(self.lo)
        self._step = self.hi - self.lo
        # A complete list in order needs no gather, which would cost more than the arithmetic.
        self._full = bool(np.array_equal(self.subset, np.arange(1 << len(self.q))))

    def gain(self, columns: Floats) -> Floats:
        return np.asarray(xlogx(columns) @ self.q)

    def vectors(self, at: Ints) -> Floats:
        k = len(self.q)
        out = self.lo[at, None] + self._step[at, None] * indicator(self.subset[at], k)
        if self.extra is not None and self.rest is not None:
            out[np.arange(len(at)), self.extra[at]] = self.rest[at]
        return out

    def part(self, turn: int, parts: int) -> slice:
        """The columns whose subsets lie in one of `parts` equal ranges of indices (subsets are sorted)."""
        size = (1 << len(self.q)) // parts
        low, high = np.searchsorted(self.subset, [turn * size, (turn + 1) * size])
        return slice(int(low), int(high))

    def reduced(self, y: Floats, y0: float, part: slice = slice(None)) -> Floats:
        """gain − y·column − y₀ of every column (of a part)."""
        subset = self.subset[part]
        if not len(subset):
            return np.zeros(0)
        # Sums over the low bits alone where the part fixes the high ones.
        first, last = int(subset.min()), int(subset.max())
        low = (first ^ last).bit_length()
        high = float(((first >> low << low) >> np.arange(len(y)) & 1) @ y)
        sums = subset_sums(y[:low]) + high
        inside = sums if self._full and len(sums) == len(subset) else sums[subset & ((1 << low) - 1)]
        cost = self._base[part] - self._step[part] * inside - y0
        if self.extra is not None and self.rest is not None:
            return np.asarray(cost - self.rest[part] * y[self.extra[part]])
        return np.asarray(cost - self.lo[part] * y.sum())

    def start(self) -> Floats:
        return np.zeros((0, len(self.q)))

    def ceiling(self, y: Floats, y0: float) -> float:
        return float(self.reduced(y, y0).max(initial=-np.inf))

    def price(self, y: Floats, y0: float, tolerance: float) -> Priced:
        reduced = self.reduced(y, y0)
        at = spread_best(reduced, tolerance, 2 * len(self.q)) if len(reduced) else np.zeros(0, dtype=np.int64)
        columns = self.vectors(at)
        return Priced(columns, self.gain(columns))


def spread_best(reduced: Floats, tolerance: float, count: int) -> Ints:
    """The best column of each of `count` blocks of consecutive indices: good and different from one another."""
    if not len(reduced):
        return np.zeros(0, dtype=np.int64)
    size = -(-len(reduced) // count)
    whole = len(reduced) // size
    at = reduced[: whole * size].reshape(whole, size).argmax(axis=1) + size * np.arange(whole)
    if whole * size < len(reduced):
        at = np.append(at, whole * size + int(reduced[whole * size :].argmax()))
    return np.asarray(at[reduced[at] > tolerance])


@dataclass(eq=False)
class Union:
    """Several families of one secret as one, with given starting columns."""

    q: Floats
    parts: list[Listed]
    first: Floats

    def start(self) -> Floats:
        return self.first

    def points(self) -> Floats:
        """Every column, listed."""
        return np.concatenate([self.first, *[x.vectors(np.arange(len(x.subset))) for x in self.parts]])

    def gain(self, columns: Floats) -> Floats:
        return np.asarray(xlogx(columns) @ self.q)

    def price(self, y: Floats, y0: float, tolerance: float) -> Priced:
        found = [part.price(y, y0, tolerance) for part in self.parts]
        return Priced(np.concatenate([f.columns for f in found]), np.concatenate([f.gains for f in found]))

    def ceiling(self, y: Floats, y0: float) -> float:
        # Starting columns may lie outside every part; they count too.
        own = float((self.gain(self.first) - self.first @ y - y0).max())
        return max(own, *[part.ceiling(y, y0) for part in self.parts])
