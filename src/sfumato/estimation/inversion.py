"""Inversion: what every unbiased linear estimate p̂ = L f of the input law from output frequencies f offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats

Mask = npt.NDArray[np.bool_]
RANK_TOLERANCE = 1e-8  # singular values below this share of the largest count as zero: n = 10^16 rows would be needed
COVARIANCE_CELLS = 3000  # the most cells for which a full covariance matrix is built


class Inversion(Protocol):
    """An unbiased estimate bound to what was seen. Arrays have the shape of the table: [s, u], [s] or [u]."""

    @property
    def raw(self) -> Floats:
        """L f: unbiased where identified, possibly negative."""

    @property
    def variance(self) -> Floats:
        """Var of each raw value, from the observed frequencies."""

    @property
    def jump(self) -> Floats:
        """How far one record can move each value, max_y |L(x, y) − p̂(x)| / n: what the normal limit forgets."""

    @property
    def identified(self) -> Mask:
        """Cells whose probability the mechanism reveals at all."""

    @property
    def rank(self) -> int:
        """Dimension of what is revealed, the total included."""

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        """Gaussian draws [i, cell] with the covariance of the raw values."""

    def covariance(self) -> Floats:
        """Covariance [cell, cell] of the raw values."""

    def marginal(self, axis: int) -> Inversion:
        """The same for the sums over the other axis: axis 0 keeps s, axis 1 keeps u."""


def multinomial_deviations(f: Floats, n: int, rng: np.random.Generator, draws: int) -> Floats:
    """Gaussian draws [i, y] with the covariance (diag f − f fᵀ)/n of multinomial frequencies."""
    root = np.sqrt(np.maximum(f, 0.0))
    noise = rng.standard_normal((draws, f.size)) * root
    return np.asarray((noise - noise.sum(1, keepdims=True) * f) / np.sqrt(n))
