"""Figures that follow from an estimated table, with intervals: sums, ratios, and sums of transformed ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.decimals import sure
from sfumato.errors import InputError
from sfumato.estimation.inversion import (
    BitsInversion,
    DenseInversion,
    Inversion,
    Mask,
    largest,
    sidak,
)
from sfumato.estimation.models import CellsInversion, forward
from sfumato.frames import Framed
from sfumato.tolerances import LEAST, SQUARE

if TYPE_CHECKING:
    from sfumato.frames import Record


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
    law, f, cells = inversion.law, inversion.f, inversion.f.size
    if cells > SQUARE:
        raise InputError(
            f"tables of some columns of {cells:,} cells are too large to sum up",
            next="Use .secret and .useful, or design for fewer columns.",
        )
    x = np.eye(cells).reshape(-1, *f.shape)
    left = inversion.inverse.apply(x).reshape(cells, -1).T
    seen = inversion.inverse.apply(forward(law).apply(x)).reshape(cells, -1).T
    return DenseInversion(left, f.ravel(), inversion.n, inversion.raw.shape, seen, np.eye(cells), inversion.rank)


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


# --- figures that follow from an estimated table, with intervals: linear ones, ratios, and sums of transformed ones ---


NO_VARIANCE = 1e-14  # of a variance: what rounding leaves of a figure that does not vary


@dataclass(frozen=True, eq=False)
class Figures(Framed):
    """Numbers of one kind with an interval each: for single ones, or for all at once."""

    kind: str
    labels: tuple[dict[str, str], ...]
    estimate: Floats
    low: Floats
    high: Floats
    level: float
    together: bool

    def records(self) -> Iterator[Record]:
        """One record for each number."""
        for labels, *three in zip(self.labels, self.estimate, self.low, self.high, strict=True):
            yield {**labels, **dict(zip((self.kind, "low", "high"), map(float, three), strict=True))}

    def within(self, least: float, most: float) -> Figures:
        """Inside the range that such numbers have, and around the estimates shown."""
        shown = np.where(np.isnan(self.estimate), self.low, self.estimate)
        return replace(
            self, low=np.clip(np.minimum(self.low, shown), least, most),
            high=np.clip(np.maximum(self.high, shown), least, most),
        )

    def exponential(self, kind: str) -> Figures:
        with np.errstate(over="ignore"):
            parts = {name: np.exp(getattr(self, name)) for name in ("estimate", "low", "high")}
        return replace(self, kind=kind, **parts)

    def __repr__(self) -> str:
        held = "together" if self.together else "one by one"
        shown = [f"  {', '.join(f'{k} {v}' for k, v in x.items())}: {e:.4g} ({a:.4g} to {b:.4g})" for x, e, a, b in
                 zip(self.labels[:20], self.estimate, self.low, self.high, strict=False)]
        more = [f"  … and {len(self.labels) - 20} more"] if len(self.labels) > 20 else []
        return "\n".join([f"<{self.kind}, {sure(self.level)} intervals {held}>", *shown, *more])


@dataclass(frozen=True, eq=False)
class Linear:
    """Unbiased linear figures with their covariance, and how far one record can move each."""

    raw: Floats
    covariance: Floats
    jump: Floats
    identified: Mask

    @classmethod
    def of(cls, inversion: Inversion) -> Linear:
        return cls(inversion.raw.ravel(), inversion.covariance(), inversion.jump.ravel(), inversion.identified.ravel())

    def critical(self, level: float, together: bool, gradient: Floats | None = None) -> float:
        """z of one interval, or of all figures with these gradients at once: the quantile of the largest |Z|."""
        if not 0 < level < 1:
            raise InputError("the level must lie strictly between 0 and 1", value=level)
        one = sidak(1, level)
        if not together:
            return one
        cov = self.covariance if gradient is None else gradient @ self.covariance @ gradient.T
        own = np.diag(cov)
        live = np.isfinite(own) & (own > NO_VARIANCE * max(float(np.nanmax(own, initial=0.0)), LEAST))
        if not live.any():
            return one
        return max(one, largest(cov[np.ix_(live, live)], level))

    def widened(self, z: float) -> Floats:
        """The covariance with what Wilson's interval adds for z (see `simultaneous`): seldom seen figures get width."""
        return np.asarray(self.covariance + np.diag(z**2 / 2 * self.jump**2))

    def ends(self, z: float) -> tuple[Floats, Floats]:
        """(low, high) of each figure; everything where it is not identified."""
        half = z * np.sqrt(np.diag(self.widened(z)))
        return np.where(self.identified, self.raw - half, -np.inf), np.where(self.identified, self.raw + half, np.inf)

    def ratios(self, top: Ints, below: Ints, z: float) -> tuple[Floats, Floats]:
        """Fieller's interval of each raw[top] / raw[below]: all θ with (a − θb)² ≤ z² Var(a − θb).

        A quadratic in θ, (b² − z²v_b) θ² − 2 (ab − z²c) θ + a² − z²v_a ≤ 0; everything where b may be zero.
        """
        cov = self.widened(z)
        a, b = self.raw[top], self.raw[below]
        lead = b**2 - z**2 * cov[below, below]
        half = a * b - z**2 * cov[top, below]
        rest = a**2 - z**2 * cov[top, top]
        root = np.sqrt(np.maximum(half**2 - lead * rest, 0.0))
        sure = (lead > 0) & (b > 0) & self.identified[top] & self.identified[below]
        safe = np.where(sure, lead, 1.0)
        return np.where(sure, (half - root) / safe, -np.inf), np.where(sure, (half + root) / safe, np.inf)

    def correlation(self, gradient: Floats) -> Floats:
        """Of figures with these gradients [k, i]; zero where one does not vary."""
        cov = gradient @ self.covariance @ gradient.T
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        scale = np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 0.0)
        return np.asarray(cov * np.outer(scale, scale))


def moved(estimate: Floats, low: Floats, high: Floats, correlation: Floats) -> tuple[float, float]:
    """The interval of Σ estimates from those of the terms and their correlations.

    MOVER (Zou and Donner 2008): the lower end is as far below the sum as √(dᵀ R d) with d the distances of the
    terms' lower ends, which for normal terms is the Wald interval, and for skewed terms has their skewness.
    """
    total = float(estimate.sum())
    ends = []
    for sign, end in ((-1, low), (1, high)):
        d = np.abs(end - estimate)
        away = float(d @ correlation @ d) if np.isfinite(d).all() else math.inf
        ends.append(total + sign * math.sqrt(max(away, 0.0)))
    return ends[0], ends[1]
