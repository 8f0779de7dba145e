"""Sums of what an inversion estimates: any table of some of the columns, and any other linear figures of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.estimation.bits import BitsInversion
from sfumato.estimation.cells import CellsInversion, forward
from sfumato.estimation.dense import DenseInversion
from sfumato.estimation.inversion import COVARIANCE_CELLS, Inversion, Mask


def summed(inversion: Inversion, m: Floats, shape: tuple[int, ...]) -> Inversion:
    """M p̂ with everything that is known of it, for M[t, x] over the cells x of the inversion."""
    if isinstance(inversion, CellsInversion):
        inversion = _listed(inversion)
    if isinstance(inversion, DenseInversion):
        return DenseInversion(
            m @ inversion.left, inversion.f, inversion.n, shape, m @ inversion.seen, m @ inversion.cells,
            min(inversion.rank, len(m)),
        )
    if isinstance(inversion, BitsInversion) and np.all(m.sum(0) <= 1):  # sums of different bits
        raw, p, noise = ((m @ x.ravel()).reshape(shape) for x in (inversion.raw, inversion.p, inversion.noise))
        return BitsInversion(raw, p, noise, inversion.n, inversion.step, min(inversion.rank, len(m)))
    return SummedInversion(inversion, m, shape)


def _listed(inversion: CellsInversion) -> DenseInversion:
    """A cells law in closed form as a matrix; what it does to each cell and back is the projector on what is seen."""
    law, f = inversion.law, inversion.f
    if law.outputs > COVARIANCE_CELLS:
        raise InputError(
            f"tables of some columns of {law.outputs:,} cells are too large to sum up; use .secret and .useful, or "
            "design for fewer columns."
        )
    x = np.eye(law.outputs).reshape(-1, *f.shape)
    left = inversion.inverse.apply(x).reshape(law.outputs, -1).T
    seen = inversion.inverse.apply(forward(law).apply(x)).reshape(law.outputs, -1).T
    return DenseInversion(left, f.ravel(), inversion.n, inversion.raw.shape, seen, np.eye(law.outputs), inversion.rank)


@dataclass(frozen=True, eq=False)
class SummedInversion:
    """Sums of an inversion that has no closer form; the jump of a sum is at most the sum of the jumps."""

    inner: Inversion
    m: Floats
    shape: tuple[int, ...]

    @property
    def raw(self) -> Floats:
        return np.asarray(self.m @ self.inner.raw.ravel()).reshape(self.shape)

    @property
    def variance(self) -> Floats:
        return np.maximum(np.diag(self.covariance()), 0.0).reshape(self.shape)

    @property
    def jump(self) -> Floats:
        return np.asarray(np.abs(self.m) @ self.inner.jump.ravel()).reshape(self.shape)

    @property
    def identified(self) -> Mask:
        lost = ~self.inner.identified.ravel()
        return np.asarray((self.m != 0)[:, lost].sum(1) == 0).reshape(self.shape)

    @property
    def rank(self) -> int:
        return min(self.inner.rank, len(self.m))

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        return np.asarray(self.inner.deviations(rng, draws) @ self.m.T)

    def covariance(self) -> Floats:
        return np.asarray(self.m @ self.inner.covariance() @ self.m.T)

    def marginal(self, axis: int) -> Inversion:
        raise InputError("ask for the table of the column itself.")
