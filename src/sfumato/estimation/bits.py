"""Inversion of unary laws (SUE, OUE) from the frequency of each bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.inversion import Mask, multinomial_deviations
from sfumato.estimation.simplex import on_simplex
from sfumato.mechanism import Unary
from sfumato.mechanism.law import scale


@dataclass(frozen=True, eq=False)
class BitsInversion:
    """p̂(x) = (share of ones in bit x − off) / (on − off).

    Given the input the bits are independent, so Cov = (diag p − p pᵀ)/n + diag(c)/n with
    c(x) = [p·on(1−on) + (1−p)·off(1−off)] / (on − off)².
    """

    raw: Floats
    p: Floats  # raw on the simplex, for the covariance
    noise: Floats  # c
    n: int
    step: float  # 1/(on − off), or 0 when the bits ignore the input
    rank: int

    @classmethod
    def of(cls, law: Unary, shares: Floats, n: int) -> BitsInversion:
        on, off = float(law.on) / scale(law.bits), float(law.off) / scale(law.bits)
        step = 1 / (on - off) if on - off > 1e-12 else 0.0
        raw = (shares - off) * step if step else np.full(shares.shape, 1 / shares.size)
        p = on_simplex(raw)
        noise = (p * on * (1 - on) + (1 - p) * off * (1 - off)) * step**2
        return cls(raw, p, noise, n, step, shares.size if step else 1)

    @property
    def variance(self) -> Floats:
        return np.asarray((self.p * (1 - self.p) + self.noise) / self.n)

    @property
    def jump(self) -> Floats:
        return np.full(self.raw.shape, self.step / self.n)

    @property
    def identified(self) -> Mask:
        return np.full(self.raw.shape, self.step > 0 or self.raw.size == 1)

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        own = rng.standard_normal((draws, self.p.size)) * np.sqrt(self.noise.ravel() / self.n)
        return multinomial_deviations(self.p.ravel(), self.n, rng, draws) + own

    def covariance(self) -> Floats:
        p = self.p.ravel()
        return (np.diag(p + self.noise.ravel()) - np.outer(p, p)) / self.n

    def marginal(self, axis: int) -> BitsInversion:
        parts = (x.sum(1 - axis) if x.ndim == 2 else x for x in (self.raw, self.p, self.noise))
        raw, p, noise = parts
        return BitsInversion(raw, p, noise, self.n, self.step, raw.size if self.step else 1)
