"""Inversion of any listed matrix Q[y, x] by weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.inversion import RANK_TOLERANCE, Mask, multinomial_deviations

IDENTIFIED = 1e-6  # the share of a cell's indicator that may lie outside the row space of Q


@dataclass(frozen=True, eq=False)
class DenseInversion:
    """p̂ = L f with L = (QᵀWQ)⁺QᵀW, and perhaps sums of its rows."""

    left: Floats  # L[x, y]
    f: Floats  # [y]
    n: int
    shape: tuple[int, ...]
    seen: Floats  # [x, x]: projector on the row space of Q, or sums of its rows
    cells: Floats  # [x, x]: what is estimated, as functionals of the cells
    rank: int

    @classmethod
    def of(cls, q: Floats, f: Floats, n: int, shape: tuple[int, ...], prior: Floats) -> DenseInversion:
        """Weighted by W = 1/(Q·prior): efficient when the rows follow the prior, unbiased whatever they follow.

        The weights do not look at the rows, so E p̂ = p on the row space of Q. They make priorᵀQᵀW = 1ᵀ,
        and so the normal equations QᵀW(f − Qp̂) = 0 keep the sum: Σ p̂ = Σ f = 1.
        """
        mean = q @ np.maximum(prior.ravel(), 1e-9)
        live = mean > 0
        root = np.where(live, 1 / np.sqrt(np.where(live, mean, 1.0)), 0.0)
        left, sizes, right = np.linalg.svd(root[:, None] * q, full_matrices=False)
        keep = sizes > RANK_TOLERANCE * sizes[0]
        inverse = (right[keep].T / sizes[keep]) @ left[:, keep].T * root
        seen = right[keep].T @ right[keep]
        return cls(inverse, f, n, shape, seen, np.eye(q.shape[1]), int(keep.sum()))

    @property
    def raw(self) -> Floats:
        return (self.left @ self.f).reshape(self.shape)

    @cached_property
    def _centred(self) -> Floats:
        return np.asarray(self.left - (self.left @ self.f)[:, None])

    @property
    def variance(self) -> Floats:
        return np.asarray((self._centred**2 @ self.f).reshape(self.shape) / self.n)

    @property
    def jump(self) -> Floats:
        return np.asarray(np.abs(self._centred).max(1).reshape(self.shape) / self.n)

    @property
    def identified(self) -> Mask:
        outside = np.linalg.norm(self.cells - self.seen, axis=1)
        return np.asarray(outside <= IDENTIFIED * np.linalg.norm(self.cells, axis=1)).reshape(self.shape)

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        return np.asarray(multinomial_deviations(self.f, self.n, rng, draws) @ self.left.T)

    def covariance(self) -> Floats:
        return np.asarray((self._centred * self.f) @ self._centred.T / self.n)

    def marginal(self, axis: int) -> DenseInversion:
        r, k = self.shape if len(self.shape) == 2 else (1, self.shape[0])
        sums = np.kron(np.eye(r), np.ones((1, k))) if axis == 0 else np.kron(np.ones((1, r)), np.eye(k))
        size = r if axis == 0 else k
        return DenseInversion(
            sums @ self.left, self.f, self.n, (size,), sums @ self.seen, sums @ self.cells, min(self.rank, size)
        )
