"""Sums of an estimate's values: the shares of one column where several were estimated together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.inversion import Inversion, Mask


@dataclass(frozen=True, eq=False)
class Summed:
    """The inversion of A·p for sums A[k, cell] of 0 and 1 of what another inversion estimates.

    Sums of unbiased estimates are unbiased, with covariance A C Aᵀ. One record moves a sum by no more than it moves
    its terms together, and a sum counts as identified where all its terms are: both on the safe side.
    """

    terms: Inversion
    sums: Floats

    @property
    def raw(self) -> Floats:
        return np.asarray(self.sums @ self.terms.raw.ravel())

    @property
    def variance(self) -> Floats:
        return np.diag(self.covariance()).copy()

    @property
    def jump(self) -> Floats:
        return np.asarray(self.sums @ self.terms.jump.ravel())

    @property
    def identified(self) -> Mask:
        return np.asarray(self.sums @ ~self.terms.identified.ravel() == 0)

    @property
    def rank(self) -> int:
        return min(self.terms.rank, len(self.sums))

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        return np.asarray(self.terms.deviations(rng, draws) @ self.sums.T)

    def covariance(self) -> Floats:
        return np.asarray(self.sums @ self.terms.covariance() @ self.sums.T)

    def marginal(self, axis: int) -> Inversion:
        return self
