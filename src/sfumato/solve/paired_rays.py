"""Extreme rays of any small cone, degenerate or not, by testing pairs of rays for adjacency."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.solve.simple_rays import Degenerate, TooManyRays

Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

ZERO = 1e-11
"""A row of unit size is tight at a ray of unit size below this: four digits above rounding."""

PAIR_LIMIT = 1_000_000
"""Pairs tested at one cut before giving up in favour of perturbation."""


class PairedCone:
    """The cone cut so far: rays and the facets tight at each, told by a tolerance."""

    def __init__(self, dimension: int, facets: int, limit: int) -> None:
        self.dimension = dimension
        self.orthant = dimension
        self.limit = limit
        self.vectors: Floats = np.eye(dimension)
        self.tight: Bools = np.zeros((dimension, facets), dtype=np.bool_)
        self.tight[:, :dimension] = ~np.eye(dimension, dtype=np.bool_)

    def cut(self, row: Floats, facet: int | None) -> None:
        """Keep the side row·v ≤ 0, whose boundary becomes `facet`; or the plane row·v = 0 if `facet` is None."""
        height = self.vectors @ row
        lost, on = height > ZERO, np.abs(height) <= ZERO
        kept = ~lost & ~on
        low, high = self._edges(np.flatnonzero(kept), np.flatnonzero(lost))
        fresh = height[high, None] * self.vectors[low] - height[low, None] * self.vectors[high]
        tight = self.tight[low] & self.tight[high]
        fresh[tight[:, : self.orthant]] = 0.0
        fresh /= fresh.sum(axis=1, keepdims=True)
        stay = on if facet is None else ~lost
        if facet is None:
            self.dimension -= bool(kept.any() or lost.any())
        else:
            self.tight[on, facet] = True
            tight[:, facet] = True
        if len(fresh) + np.count_nonzero(stay) > self.limit:
            raise TooManyRays(f"{len(fresh) + np.count_nonzero(stay)} rays, limit {self.limit}")
        self.vectors = np.concatenate([self.vectors[stay], fresh])
        self.tight = np.concatenate([self.tight[stay], tight])

    def _edges(self, kept: Ints, lost: Ints) -> tuple[Ints, Ints]:
        """Pairs (kept, lost) that span an edge: no third ray is tight wherever both are."""
        if len(kept) * len(lost) > PAIR_LIMIT:
            raise Degenerate(f"{len(kept)} × {len(lost)} pairs at a degenerate cut")
        facets = self.tight.astype(np.float32)
        one, two = np.nonzero(facets[kept] @ facets[lost].T >= self.dimension - 2)
        one, two = kept[one], lost[two]
        common = (self.tight[one] & self.tight[two]).astype(np.float32)
        alone = np.zeros(len(one), dtype=np.bool_)
        step = max(1, 20_000_000 // max(1, len(facets)))
        for start in range(0, len(one), step):
            part = common[start : start + step]
            covering = np.count_nonzero(part @ facets.T >= part.sum(axis=1)[:, None], axis=1)
            alone[start : start + step] = covering == 2
        return one[alone], two[alone]
