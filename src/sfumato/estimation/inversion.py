"""Inversion: unbiased linear estimates p̂ = L f of the input law from output frequencies f, kept on the simplex, with
intervals that hold for all cells at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Column, Floats
from sfumato.errors import InputError
from sfumato.mechanism import Unary
from sfumato.tolerances import RANK, SEED, SLIP


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

    def covariance(self) -> Floats:
        """Covariance [cell, cell] of the raw values."""


class LawInversion(Inversion, Protocol):
    """The inversion of a whole law, which has sides."""

    @property
    def rank(self) -> int:
        """Dimension of what is revealed, the total included."""

    def marginal(self, axis: int) -> LawInversion:
        """The same for the sums over the other axis: axis 0 keeps s, axis 1 keeps u."""

    def summed(self, m: Floats, shape: tuple[int, ...]) -> LawInversion:
        """M p̂ with everything that is known of it, for M[t, x] that adds up each cell x once."""


def sides(r: int, k: int) -> tuple[Floats, Floats]:
    """The marginals of a table as sums of its cells: [s, x] and [u, x]."""
    return np.repeat(np.eye(r), k, axis=1), np.tile(np.eye(k), r)


def sums(columns: Sequence[Column], wanted: Sequence[str]) -> Floats:
    """[t, x]: which cell of the wanted columns each joint code of `columns` lies in."""
    place = {c.name: i for i, c in enumerate(columns)}
    axes, sizes = [place[name] for name in wanted], [c.size for c in columns]
    kept = [sizes[axis] for axis in axes]
    at = np.ravel_multi_index(tuple(np.indices(sizes)[axes]), kept).ravel()
    return np.asarray(np.arange(math.prod(kept))[:, None] == at, float)


def centred(table: Floats, shape: Sequence[int]) -> Floats:
    """Along every axis of the table less its mean: what the columns together say beyond fewer of them. [t, …]"""
    out = table.reshape(*shape, -1)
    for axis in range(len(shape)):
        out = out - out.mean(axis, keepdims=True)
    return np.asarray(out.reshape(table.shape))


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

    def covariance(self) -> Floats:
        p = self.p.ravel()
        return (np.diag(p + self.noise.ravel()) - np.outer(p, p)) / self.n

    @property
    def rank(self) -> int:
        return self.raw.size if self.step else 1

    def marginal(self, axis: int) -> BitsInversion:
        raw, p, noise = (x.sum(1 - axis) if x.ndim == 2 else x for x in (self.raw, self.p, self.noise))
        return BitsInversion(raw, p, noise, self.n, self.step)

    def summed(self, m: Floats, shape: tuple[int, ...]) -> BitsInversion:
        raw, p, noise = ((m @ x.ravel()).reshape(shape) for x in (self.raw, self.p, self.noise))
        return BitsInversion(raw, p, noise, self.n, self.step)


# --- tables across the parts of a bundle, or from several of them ----------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairInversion:
    """A table across two parts: the mean of products of scores, from the joint frequencies f[y, y'] of their outputs.

    p̂ = A f Bᵀ; Var = (A² f (B²)ᵀ − p̂²)/n.
    """

    a: Floats  # [t, y]
    b: Floats
    f: Floats  # [y, y']
    n: int
    identified: Mask

    @classmethod
    def of(cls, first: DenseInversion, second: DenseInversion, f: Floats, n: int) -> PairInversion:
        return cls(first.left, second.left, f, n, np.logical_and.outer(first.identified, second.identified))

    @property
    def raw(self) -> Floats:
        return np.asarray(self.a @ self.f @ self.b.T)

    @property
    def variance(self) -> Floats:
        return np.maximum(self.a**2 @ self.f @ (self.b**2).T - self.raw**2, 0.0) / self.n

    @property
    def jump(self) -> Floats:
        """At most: the product of the largest scores, and the value itself."""
        return np.asarray((np.outer(np.abs(self.a).max(1), np.abs(self.b).max(1)) + np.abs(self.raw)) / self.n)

    def covariance(self) -> Floats:
        left = np.kron(self.a, self.b) - self.raw.reshape(-1, 1)
        return np.asarray((left * self.f.ravel()) @ left.T / self.n)


@dataclass(frozen=True, eq=False)
class PooledInversion:
    """A table from parts that different rows answered: an even table, and the effects that each part tells of it.

    A table is 1/K and the effects of its columns and of their interaction, which do not overlap: sums over a column
    leave those of the others as they are. Each effect is a mean over the parts that tell it (`pooled`), so that two
    tables have the same effects of a column they share, and agree on it.
    """

    parts: tuple[DenseInversion, ...]  # what each tells of every cell
    identified: Mask

    @property
    def raw(self) -> Floats:
        even = np.full(self.identified.size, 1 / self.identified.size)
        return np.asarray(sum((p.raw for p in self.parts), even))

    @property
    def variance(self) -> Floats:
        return np.asarray(sum((p.variance for p in self.parts), np.zeros(self.identified.size)))

    @property
    def jump(self) -> Floats:
        """Each row answers one part."""
        return np.asarray(np.max([p.jump for p in self.parts] or [np.zeros(self.identified.size)], axis=0))

    def covariance(self) -> Floats:
        return np.asarray(sum((p.covariance() for p in self.parts), np.zeros((self.identified.size,) * 2)))


# --- intervals that hold for all cells of a table at once -------------------------------------------------------------


SIMULATED = 400  # cells up to which the maximum is simulated: of more, Šidák's bound is no wider


def critical(inversion: Inversion, level: float) -> float:
    """z with P(|p̂ − p| ≤ z·sd in every cell) = level in the normal limit.

    The quantile of max |Z| under the estimate's own correlations, by simulation; for large tables, and where the
    level lies beyond what so many draws can tell, Šidák's bound for every correlation.
    """
    shown = (inversion.identified & (inversion.variance > 0)).ravel()
    if shown.size > SIMULATED or not shown.any():  # rows that are all alike show no spread, and are no certainty
        return sidak(int(inversion.identified.sum()), level)
    return largest(inversion.covariance()[np.ix_(shown, shown)], level)


def sidak(cells: int, level: float) -> float:
    """z for each of so many cells; its tail by itself, as no float tells a level next to 1 from 1."""
    tail = -math.expm1(math.log(level) / max(cells, 1)) / 2
    return -NormalDist().inv_cdf(tail)


def largest(covariance: Floats, level: float) -> float:
    """The quantile of the largest |Z| of Gaussian numbers with these correlations, by simulation; on the wide side of
    what that leaves in doubt."""
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    z = _noise(len(sd)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    ordered, doubt = np.sort(np.abs(z).max(1)), 2 * np.sqrt(level * (1 - level) / len(z))
    place, most = math.ceil((level + doubt) * len(z)), sidak(len(sd), level)
    return min(float(ordered[place]), most) if place < len(z) else most


@lru_cache(maxsize=4)
def _noise(size: int, draws: int = 4000) -> Floats:
    """Normal draws; of so many the quantile's own error is 0.3 % of coverage."""
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
