"""Extreme rays of a polyhedral cone {v ≥ 0 : A v ≤ 0, E v = 0}, by double description."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from sfumato.alphabet import Array
from sfumato.optimise.arrays import SOLVED, Bools, Floats, Ints
from sfumato.optimise.budget import FREE, Budget, spend

Facets = npt.NDArray[np.int16]

TIE = 1e-13  # heights of unit rays over unit rows below this have no trustworthy sign
ENTRIES = 7_500_000  # numbers of all rays held at a time (0.4 GB with facets and neighbours), unless a limit is given


class TooManyRays(Exception):
    """The cone has more rays than the caller wants to hold."""


class Degenerate(Exception):
    """An edge has not two ends: heights were rounded to signs that contradict each other."""


def extreme_rays(
    rows: Floats, equalities: npt.ArrayLike = (), *, dimension: int, limit: int | None = None, budget: Budget = FREE
) -> Floats:
    """All extreme rays of {v ≥ 0 : A v ≤ 0, E v = 0} as rows that sum to 1, some more than once where it is degenerate.

    Every edge of the cone has both its ends in the list. The graph of a polytope is connected, so none is missing.
    Raises TooManyRays when an intermediate cone exceeds `limit`, or when the time is over.
    """
    cuts, flat = _scaled(rows, dimension), _scaled(equalities, dimension)
    flat = flat[independent(flat)] if len(flat) else flat
    cone = SimpleCone(dimension, dimension + len(cuts) + len(flat), limit or ENTRIES // dimension)
    for index, row in enumerate(flat):
        cone.slice(row, dimension + len(cuts) + index)
    pending = list(range(len(cuts)))
    while pending and len(cone.vectors):
        lost = np.count_nonzero(cone.vectors @ cuts[pending].T > TIE, axis=0)
        best = int(lost.argmax())  # cutting off most rays first keeps the intermediate cones small
        spend(35 + 2 * len(pending), cone.vectors.size)
        if lost[best] == 0:
            break
        if budget.over:
            raise TooManyRays(f"{len(cone.vectors)} rays and counting when time was up")
        index = pending.pop(best)
        cone.cut(cuts[index], dimension + index)
    return cone.vectors


def _scaled(rows: npt.ArrayLike, dimension: int) -> Floats:
    given = np.reshape(rows, (-1, dimension))
    size = np.abs(given).max(axis=1)
    return np.asarray(given[size > 0.0] / size[size > 0.0, None], dtype=np.float64)


def independent(rows: Floats) -> Ints:
    """Indices of a maximal independent set of rows: something is left of each after those before it."""
    _, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    return np.asarray(order[: np.count_nonzero(np.abs(np.diag(triangle)) > SOLVED)])


def _joined(old: Array, stay: Ints, new: Array) -> Array:
    """Some of the old rows, and the new ones, in one copy."""
    out = np.empty((len(stay) + len(new), new.shape[1]), new.dtype)
    old.take(stay, 0, out=out[: len(stay)], mode="clip")
    out[len(stay) :] = new
    return out


class SimpleCone:
    """The cone cut so far: rays v (rows that sum to 1), the facets of each, and the neighbour across each facet.

    `facets[i, k]` is the k-th facet tight at ray i; `across[i, k]` the ray that shares all facets of i but that one.
    In a simple cone of dimension d both have d − 1 columns. A cut makes one new ray per edge from a kept to a lost ray;
    new rays inherit d − 2 facets, and only edges among new rays must be found, by sorting hashed facet sets [ours].
    A ray on the plane of a cut is kept, and copied along its edges to lost ones. So it is where cuts are loose by less
    than any number, each by far more than those before it: that cone is simple, whatever the cuts are.
    """

    def __init__(self, dimension: int, facets: int, limit: int) -> None:
        self.limit = limit
        self.vectors: Floats = np.eye(dimension)
        self.across: Ints = np.nonzero(~np.eye(dimension, dtype=np.bool_))[1].reshape(dimension, dimension - 1)
        self.facets: Facets = self.across.astype(np.int16)
        self.words = np.random.default_rng(20).integers(1, 2**63, facets, dtype=np.uint64)

    def cut(self, row: Floats, facet: int) -> Bools:
        """Keep the side row·v ≤ 0, whose boundary becomes `facet`; which rays there were stay."""
        height = self.vectors @ row
        lost = height > TIE
        height = np.where(lost, height, np.minimum(height, 0.0))
        here, column = np.nonzero(lost[self.across] & ~lost[:, None])
        there, rows, stay = self.across[here, column], np.arange(len(here)), np.flatnonzero(~lost)
        count = len(stay)
        if count + len(here) > self.limit:
            raise TooManyRays(f"{count + len(here)} rays, limit {self.limit}")
        fresh = height[there, None] * self.vectors[here] - height[here, None] * self.vectors[there]
        facets, renumbered = self.facets[here], np.cumsum(~lost) - 1
        facets[rows, column] = facet
        across = self._paired(facets, column, count)
        across[rows, column] = renumbered[here]
        self.across[here, column] = -1 - rows  # counted from the end of their numbers, the new ones last to first
        self.across = np.append(renumbered, np.arange(count + len(here), count, -1) - 1)[self.across]
        owner, tight = np.nonzero(facets < fresh.shape[1])
        fresh[owner, facets[owner, tight]] = 0.0  # exact zeros where the orthant's own facets are tight
        fresh /= fresh.sum(axis=1, keepdims=True)
        self.vectors = _joined(self.vectors, stay, fresh)
        self.facets, self.across = _joined(self.facets, stay, facets), _joined(self.across, stay, across)
        return np.asarray(~lost)

    def slice(self, row: Floats, facet: int) -> None:
        """Keep the plane row·v = 0: what a cut makes a facet of."""
        self.cut(row, facet)
        own = self.facets == facet
        on = own.any(axis=1)
        rest, shape = ~own[on], (np.count_nonzero(on), own.shape[1] - 1)
        self.vectors, self.facets = self.vectors[on], self.facets[on][rest].reshape(shape)
        self.across = (np.cumsum(on) - 1)[self.across[on][rest]].reshape(shape)

    def _paired(self, facets: Facets, skip: Ints, offset: int) -> Ints:
        """The neighbour of each new ray across each facet but one, found by sorting the hashed sets that edges are."""
        across = np.full(facets.shape, -1, dtype=np.int64)
        words, width = self.words[facets], facets.shape[1]
        keys = (np.bitwise_xor.reduce(words, axis=1)[:, None] ^ words).ravel()
        flat = np.flatnonzero(np.arange(width) != skip[:, None])
        ordered = flat[np.argsort(keys[flat])]
        one, two = ordered[0::2], ordered[1::2]
        if not np.array_equal(keys[one], keys[two]) or bool(np.any(keys[two][:-1] == keys[one][1:])):
            raise Degenerate("an edge has not exactly two ends")
        across.ravel()[one] = two // width + offset
        across.ravel()[two] = one // width + offset
        return across
