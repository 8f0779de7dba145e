"""Extreme rays of a simple cone: every ray is a list of exactly d − 1 facets, every edge has two known ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.optimise.arrays import Floats, Ints

Facets = npt.NDArray[np.int16]

TIE = 1e-13
"""Heights of unit rays over unit rows below this have no trustworthy sign."""


class TooManyRays(Exception):
    """The cone has more rays than the caller wants to hold."""


class Degenerate(Exception):
    """More than d − 1 facets meet at a ray, so the cone is not simple."""


class SimpleCone:
    """The cone cut so far: rays v (rows that sum to 1), the facets of each, and the neighbour across each facet.

    `facets[i, k]` is the k-th facet tight at ray i; `across[i, k]` the ray that shares all facets of i but that one.
    In a simple cone of dimension d both have d − 1 columns. A cut makes one new ray per edge from a kept to a lost ray;
    new rays inherit d − 2 facets, and only edges among new rays must be found, by sorting hashed facet sets [ours].
    """

    def __init__(self, dimension: int, facets: int, limit: int) -> None:
        self.dimension = dimension
        self.limit = limit
        self.vectors: Floats = np.eye(dimension)
        everyone = np.arange(dimension)
        others = np.array([np.delete(everyone, i) for i in everyone], dtype=np.int64).reshape(dimension, -1)
        self.facets: Facets = others.astype(np.int16)
        self.across: Ints = others.copy()
        self.words = np.random.default_rng(20).integers(1, 2**63, facets, dtype=np.uint64)

    def cut(self, row: Floats, facet: int | None) -> None:
        """Keep the side row·v ≤ 0, whose boundary becomes `facet`; or the plane row·v = 0 if `facet` is None."""
        height = self.vectors @ row
        if bool(np.any(np.abs(height) <= TIE)):
            raise Degenerate("a ray lies on the plane of a new cut")
        lost = height > 0.0
        if facet is not None and not lost.any():
            return
        here, column = np.nonzero(lost[self.across] & ~lost[:, None])
        there = self.across[here, column]
        kept = ~lost if facet is not None else np.zeros_like(lost)
        count = int(np.count_nonzero(kept))
        if count + len(here) > self.limit:
            raise TooManyRays(f"{count + len(here)} rays, limit {self.limit}")
        fresh = height[there, None] * self.vectors[here] - height[here, None] * self.vectors[there]
        facets = self.facets[here]
        rows = np.arange(len(here))
        if facet is None:
            whole = np.ones_like(facets, dtype=np.bool_)
            whole[rows, column] = False
            facets = facets[whole].reshape(len(here), self.dimension - 2)
            self.dimension -= 1
            across = self._paired(facets, None, count)
        else:
            facets[rows, column] = facet
            across = self._paired(facets, column, count)
            renumbered = np.cumsum(kept) - 1
            across[rows, column] = renumbered[here]
            self.across[here, column] = -1 - rows
            old = self.across[kept]
            self.across = np.where(old >= 0, renumbered[np.maximum(old, 0)], count - 1 - old)
        self._clean(fresh, facets)
        stay = self.vectors[kept], self.facets[kept] if facet is not None else facets[:0]
        self.vectors = np.concatenate([stay[0], fresh])
        self.facets = np.concatenate([stay[1], facets])
        self.across = np.concatenate([self.across, across]) if facet is not None else across

    def _clean(self, fresh: Floats, facets: Facets) -> None:
        """Exact zeros where the orthant's own facets are tight, and unit sum."""
        owner, column = np.nonzero(facets < fresh.shape[1])
        fresh[owner, facets[owner, column]] = 0.0
        fresh /= fresh.sum(axis=1, keepdims=True)

    def _paired(self, facets: Facets, skip: Ints | None, offset: int) -> Ints:
        """The neighbour of each new ray across each facet, found by sorting the hashed sets that edges are."""
        across = np.full(facets.shape, -1, dtype=np.int64)
        if facets.size == 0:
            return across
        words = self.words[facets]
        keys = np.bitwise_xor.reduce(words, axis=1)[:, None] ^ words
        open_ = np.ones(facets.shape, dtype=np.bool_)
        if skip is not None:
            open_[np.arange(len(facets)), skip] = False
        flat = np.flatnonzero(open_)
        if len(flat) == 0:
            return across
        ordered = flat[np.argsort(keys.ravel()[flat])]
        if len(ordered) % 2:
            raise Degenerate("an edge has one end")
        one, two = ordered[0::2], ordered[1::2]
        values = keys.ravel()
        if not np.array_equal(values[one], values[two]) or bool(np.any(values[two][:-1] == values[one][1:])):
            raise Degenerate("an edge has not exactly two ends")
        width = facets.shape[1]
        across.ravel()[one] = two // width + offset
        across.ravel()[two] = one // width + offset
        return across
