"""Inversion: unbiased linear estimates p̂ = L f of the input law from output frequencies f, kept on the simplex, with
intervals that hold for all cells at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.mechanism import Unary
from sfumato.tolerances import LISTED, RANK, SEED, SLIP


def on_simplex(raw: Floats) -> Floats:
    """The distribution nearest to `raw` in Euclidean distance: max(raw − τ, 0) with τ such that it sums to 1.

    When every raw value is within h of the truth, τ ≤ h: were τ > h, every kept value would fall below the
    truth and the sum below 1. So projecting moves no cell by more than the largest error there was.

    >>> on_simplex(np.array([0.7, 0.5, -0.2])).round(6).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = np.asarray(raw, float).ravel()
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, flat.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    kept = np.maximum(flat - excess[last], 0.0)
    return np.asarray((kept / kept.sum()).reshape(np.shape(raw)))


# --- what every unbiased linear estimate p̂ = L f of the input law from output frequencies f offers -------------------


Mask = npt.NDArray[np.bool_]


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

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        """Gaussian draws [i, cell] with the covariance of the raw values."""

    def covariance(self) -> Floats:
        """Covariance [cell, cell] of the raw values."""


class LawInversion(Inversion, Protocol):
    """The inversion of a whole law, which has sides."""

    @property
    def rank(self) -> int:
        """Dimension of what is revealed, the total included."""

    def marginal(self, axis: int) -> Inversion:
        """The same for the sums over the other axis: axis 0 keeps s, axis 1 keeps u."""


def sides(r: int, k: int) -> tuple[Floats, Floats]:
    """The marginals of a table as sums of its cells: [s, x] and [u, x]."""
    return np.repeat(np.eye(r), k, axis=1), np.tile(np.eye(k), r)


def multinomial_deviations(f: Floats, n: int, rng: np.random.Generator, draws: int) -> Floats:
    """Gaussian draws [i, y] with the covariance (diag f − f fᵀ)/n of multinomial frequencies."""
    root = np.sqrt(np.maximum(f, 0.0))
    noise = rng.standard_normal((draws, f.size)) * root
    return np.asarray((noise - noise.sum(1, keepdims=True) * f) / np.sqrt(n))


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
        keep = sizes > RANK * sizes[0]
        inverse = (right[keep].T / sizes[keep]) @ left[:, keep].T * root
        seen = right[keep].T @ right[keep]
        return cls(inverse, f, n, shape, seen, np.eye(q.shape[1]))

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

    @property
    def rank(self) -> int:
        """Of the projector, where cells are what is estimated."""
        return round(float(np.trace(self.seen)))

    def summed(self, m: Floats, shape: tuple[int, ...]) -> DenseInversion:
        """M p̂ for M[t, x]."""
        return DenseInversion(m @ self.left, self.f, self.n, shape, m @ self.seen, m @ self.cells)

    def marginal(self, axis: int) -> DenseInversion:
        m = sides(*(self.shape if len(self.shape) == 2 else (1, *self.shape)))[axis]
        return self.summed(m, (len(m),))


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

    @classmethod
    def of(cls, law: Unary, shares: Floats, n: int) -> BitsInversion:
        on, off = law.chances
        step = 1 / (on - off) if on - off > SLIP else 0.0
        raw = (shares - off) * step if step else np.full(shares.shape, 1 / shares.size)
        p = on_simplex(raw)
        noise = (p * on * (1 - on) + (1 - p) * off * (1 - off)) * step**2
        return cls(raw, p, noise, n, step)

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

    @property
    def rank(self) -> int:
        return self.raw.size if self.step else 1

    def marginal(self, axis: int) -> BitsInversion:
        raw, p, noise = (x.sum(1 - axis) if x.ndim == 2 else x for x in (self.raw, self.p, self.noise))
        return BitsInversion(raw, p, noise, self.n, self.step)


# --- intervals that hold for all cells of a table at once -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Simulated:
    """Draws of the Gaussian maximum, by which intervals hold at once."""

    draws: int = 4000  # of the Gaussian maximum: the quantile's own error is then 0.3 % of coverage
    fewest: int = 1000
    factored: int = 400  # cells up to which the covariance is factored once instead of being applied to every draw


SIMULATED = Simulated()


def critical(inversion: Inversion, level: float) -> float:
    """z with P(|p̂ − p| ≤ z·sd in every cell) = level in the normal limit.

    The quantile of max |Z| under the estimate's own correlations, by simulation; for large tables, and where the
    level lies beyond what so many draws can tell, Šidák's bound for every correlation.
    """
    sd = np.sqrt(inversion.variance.ravel())
    cells = int(inversion.identified.sum())
    draws = min(SIMULATED.draws, 2 * LISTED // max(sd.size, 1))
    shown = inversion.identified.ravel() & (sd > 0)
    if draws < SIMULATED.fewest or not shown.any():  # rows that are all alike show no spread, and are no certainty
        return sidak(cells, level)
    if sd.size <= SIMULATED.factored:
        return largest(inversion.covariance()[np.ix_(shown, shown)], level, draws)
    return _quantile(inversion.deviations(np.random.default_rng(SEED), draws)[:, shown] / sd[shown], level)


def largest(covariance: Floats, level: float, draws: int = SIMULATED.draws) -> float:
    """The quantile of the largest |Z| of Gaussian numbers with these correlations, by simulation."""
    return _quantile(correlated(covariance, draws), level)


def sidak(cells: int, level: float) -> float:
    """z for each of so many cells; its tail by itself, as no float tells a level next to 1 from 1."""
    tail = -math.expm1(math.log(level) / max(cells, 1)) / 2
    return -NormalDist().inv_cdf(tail)


def _quantile(z: Floats, level: float) -> float:
    """Of the largest |z[i, cell]| of each draw, on the wide side of what the simulation leaves in doubt."""
    ordered, doubt = np.sort(np.abs(z).max(1)), 2 * np.sqrt(level * (1 - level) / len(z))
    place, most = math.ceil((level + doubt) * len(z)), sidak(z.shape[1], level)
    return min(float(ordered[place]), most) if place < len(z) else most


def correlated(covariance: Floats, draws: int) -> Floats:
    """Gaussian draws [i, cell] with unit variances and the correlations of a covariance."""
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return np.asarray(_noise(draws, len(sd)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)


@lru_cache(maxsize=4)
def _noise(draws: int, size: int) -> Floats:
    return np.random.default_rng(SEED).standard_normal((draws, size))


def simultaneous(inversion: Inversion, level: float, p: Floats) -> tuple[Floats, Floats]:
    """(low, high) around the unbiased estimate, inside [0, 1] and containing the estimate shown.

    Half width z·√(Var + z²·jump²/2): the second term is what Wilson's interval adds to a count (z²/2 more
    observations), without which a cell whose outputs were seen rarely or never gets an interval
    of almost no width. Cells that are not identified get [0, 1].
    """
    if not 0 < level < 1:
        raise InputError("the level must lie strictly between 0 and 1", value=level)
    z = critical(inversion, level)
    half = z * np.sqrt(inversion.variance + z**2 / 2 * inversion.jump**2)
    low = np.clip(np.minimum(inversion.raw - half, p), 0.0, 1.0)
    high = np.clip(np.maximum(inversion.raw + half, p), 0.0, 1.0)
    known = inversion.identified
    return np.where(known, low, 0.0), np.where(known, high, 1.0)
