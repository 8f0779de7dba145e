"""Extreme rays of a polyhedral cone {v ≥ 0 : A v ≤ 0, E v = 0}, by double description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from sfumato.optimise.arrays import SOLVED, TIDY, Bools, Floats, Ints
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.tolerances import BLOCK

Facets = npt.NDArray[np.int16]

TIE = 1e-13  # heights of unit rays over unit rows below this have no trustworthy sign
SLACKS = (2.0**-34, 2.0**-30, 2.0**-26)  # relaxations tried in turn when a cone is degenerate and large: well above
# rounding, far below any price of ε
PAIRS = 1_000_000  # tested at one cut before giving up in favour of perturbation
ENTRIES = 7_500_000  # numbers of all rays held at a time (0.4 GB with facets and neighbours), unless a limit is given


class TooManyRays(Exception):
    """The cone has more rays than the caller wants to hold."""


class Degenerate(Exception):
    """More than d − 1 facets meet at a ray, so the cone is not simple."""


@dataclass(frozen=True, slots=True, eq=False)
class Rays:
    """Extreme rays as rows that sum to 1, of the cone itself or of one that contains it."""

    vectors: Floats
    proved: bool
    """Every edge has both its ends in the list. The graph of a polytope is connected, so none is missing."""


def extreme_rays(
    rows: Floats, equalities: Floats | None = None, *, dimension: int, limit: int | None = None, budget: Budget = FREE
) -> Rays:
    """All extreme rays of {v ≥ 0 : A v ≤ 0, E v = 0}, or of a slightly larger cone if it is degenerate and large: the
    rows, scaled to largest entry 1, are then relaxed to A_i v ≤ 2·slack·Σv at most.

    Raises TooManyRays when an intermediate cone exceeds `limit`, or when the time is over.
    """
    cuts, flat = _scaled(rows, dimension), _scaled(equalities, dimension)
    flat = flat[_independent(flat)] if len(flat) else flat
    attempts: list[tuple[type[SimpleCone] | type[PairedCone], float]] = [(SimpleCone, 0.0), (PairedCone, 0.0)]
    for kind, slack in attempts + [(SimpleCone, slack) for slack in SLACKS]:
        shift = slack * (1.0 + np.random.default_rng(7).random(len(cuts)))
        cone = kind(dimension, dimension + len(cuts) + len(flat), limit or ENTRIES // dimension)
        try:
            return Rays(_described(cone, cuts - shift[:, None], flat, budget), kind is SimpleCone)
        except Degenerate:
            continue
    raise Degenerate(f"no relaxation up to {SLACKS[-1]:g} makes the cone simple")


def _described(cone: SimpleCone | PairedCone, cuts: Floats, flat: Floats, budget: Budget) -> Floats:
    for index, row in enumerate(flat):
        cone.slice(row, cone.dimension + len(cuts) + index)
    pending = list(range(len(cuts)))
    while pending and len(cone.vectors):
        lost = np.count_nonzero(cone.vectors @ cuts[pending].T > 0.0, axis=0)
        best = int(lost.argmax())  # cutting off most rays first keeps the intermediate cones small
        spend(35 + 2 * len(pending), cone.vectors.size)
        if lost[best] == 0:
            break
        if budget.over:
            raise TooManyRays(f"{len(cone.vectors)} rays and counting when time was up")
        index = pending.pop(best)
        cone.cut(cuts[index], cone.dimension + index)
    return cone.vectors


def _scaled(rows: Floats | None, dimension: int) -> Floats:
    if rows is None or len(rows) == 0:
        return np.zeros((0, dimension))
    size = np.abs(rows).max(axis=1)
    kept = size > 0.0
    return np.asarray(rows[kept] / size[kept, None], dtype=np.float64)


def _independent(rows: Floats) -> Ints:
    """Indices of a maximal independent set of rows: something is left of each after those before it."""
    _, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    return np.asarray(order[: np.count_nonzero(np.abs(np.diag(triangle)) > SOLVED)])


def _joined(old: npt.NDArray[Any], stay: Ints, new: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
    """

    def __init__(self, dimension: int, facets: int, limit: int) -> None:
        self.dimension, self.limit = dimension, limit
        self.vectors: Floats = np.eye(dimension)
        everyone = np.arange(dimension)
        others = np.array([np.delete(everyone, i) for i in everyone], dtype=np.int64).reshape(dimension, -1)
        self.facets: Facets = others.astype(np.int16)
        self.across: Ints = others.copy()
        self.words = np.random.default_rng(20).integers(1, 2**63, facets, dtype=np.uint64)

    def cut(self, row: Floats, facet: int) -> None:
        """Keep the side row·v ≤ 0, whose boundary becomes `facet`."""
        height = self.vectors @ row
        if bool(np.any(np.abs(height) <= TIE)):
            raise Degenerate("a ray lies on the plane of a new cut")
        lost = height > 0.0
        if not lost.any():
            return
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
        self._clean(fresh, facets)
        self.vectors = _joined(self.vectors, stay, fresh)
        self.facets, self.across = _joined(self.facets, stay, facets), _joined(self.across, stay, across)

    def slice(self, row: Floats, facet: int) -> None:
        """Keep the plane row·v = 0: what a cut makes a facet of."""
        self.cut(row, facet)
        own = self.facets == facet
        on = own.any(axis=1)
        rest, shape = ~own[on], (np.count_nonzero(on), own.shape[1] - 1)
        self.vectors, self.facets = self.vectors[on], self.facets[on][rest].reshape(shape)
        self.across = (np.cumsum(on) - 1)[self.across[on][rest]].reshape(shape)

    def _clean(self, fresh: Floats, facets: Facets) -> None:
        """Exact zeros where the orthant's own facets are tight, and unit sum."""
        owner, column = np.nonzero(facets < fresh.shape[1])
        fresh[owner, facets[owner, column]] = 0.0
        fresh /= fresh.sum(axis=1, keepdims=True)

    def _paired(self, facets: Facets, skip: Ints, offset: int) -> Ints:
        """The neighbour of each new ray across each facet but one, found by sorting the hashed sets that edges are."""
        across = np.full(facets.shape, -1, dtype=np.int64)
        words = self.words[facets]
        keys = np.bitwise_xor.reduce(words, axis=1)[:, None] ^ words
        open_ = np.ones(facets.shape, dtype=np.bool_)
        open_[np.arange(len(facets)), skip] = False
        flat = np.flatnonzero(open_)
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


class PairedCone:
    """Any small cone, degenerate or not: rays, the facets tight at each by a tolerance, edges by testing pairs."""

    def __init__(self, dimension: int, facets: int, limit: int) -> None:
        self.dimension, self.limit = dimension, limit
        self.vectors: Floats = np.eye(dimension)
        self.tight: Bools = np.zeros((dimension, facets), dtype=np.bool_)
        self.tight[:, :dimension] = ~np.eye(dimension, dtype=np.bool_)

    def cut(self, row: Floats, facet: int) -> None:
        """Keep the side row·v ≤ 0, whose boundary becomes `facet`."""
        height = self.vectors @ row
        lost, on = height > TIDY, np.abs(height) <= TIDY
        low, high = self._edges(np.flatnonzero(~lost & ~on), np.flatnonzero(lost))
        fresh = height[high, None] * self.vectors[low] - height[low, None] * self.vectors[high]
        tight = self.tight[low] & self.tight[high]
        fresh[tight[:, : self.dimension]] = 0.0
        fresh /= fresh.sum(axis=1, keepdims=True)
        self.tight[on, facet] = tight[:, facet] = True
        if len(fresh) + np.count_nonzero(~lost) > self.limit:
            raise TooManyRays(f"{len(fresh) + np.count_nonzero(~lost)} rays, limit {self.limit}")
        self.vectors = np.concatenate([self.vectors[~lost], fresh])
        self.tight = np.concatenate([self.tight[~lost], tight])

    def slice(self, row: Floats, facet: int) -> None:
        """Keep the plane row·v = 0."""
        self.cut(row, facet)
        on = self.tight[:, facet]
        self.vectors, self.tight = self.vectors[on], self.tight[on]

    def _edges(self, kept: Ints, lost: Ints) -> tuple[Ints, Ints]:
        """Pairs (kept, lost) that span an edge: no third ray is tight wherever both are."""
        if len(kept) * len(lost) > PAIRS:
            raise Degenerate(f"{len(kept)} × {len(lost)} pairs at a degenerate cut")
        facets = self.tight.astype(np.float32)
        one, two = np.nonzero(facets[kept] @ facets[lost].T >= self.dimension - 2)
        one, two = kept[one], lost[two]
        common = (self.tight[one] & self.tight[two]).astype(np.float32)
        alone = np.zeros(len(one), dtype=np.bool_)
        step = max(1, BLOCK // max(1, len(facets)))
        for start in range(0, len(one), step):
            part = common[start : start + step]
            covering = np.count_nonzero(part @ facets.T >= part.sum(axis=1)[:, None], axis=1)
            alone[start : start + step] = covering == 2
        return one[alone], two[alone]
