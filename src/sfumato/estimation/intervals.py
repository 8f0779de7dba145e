"""Intervals that hold for all cells of a table at once."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.estimation.inversion import Inversion

DRAWS = 4000  # of the Gaussian maximum: the quantile's own error is then 0.3 % of coverage
SIMULATED_NUMBERS = 40_000_000  # the most Gaussian numbers spent on one quantile; larger tables use Šidák's bound
FEWEST_DRAWS = 1000
FACTORED = 400  # cells up to which the covariance is factored once instead of being applied to every draw
SEED = 20260101  # intervals of the same data are the same


def critical(inversion: Inversion, level: float) -> float:
    """z with P(|p̂ − p| ≤ z·sd in every cell) = level in the normal limit.

    The quantile of max |Z| under the estimate's own correlations, by simulation; for large tables Šidák's
    z = Φ⁻¹((1 + level^{1/K})/2), which bounds it for every correlation.
    """
    sd = np.sqrt(inversion.variance.ravel())
    cells = int(inversion.identified.sum())
    draws = min(DRAWS, SIMULATED_NUMBERS // max(sd.size, 1))
    shown = inversion.identified.ravel() & (sd > 0)
    if draws < FEWEST_DRAWS or not shown.any():  # rows that are all alike show no spread, and are no certainty
        return NormalDist().inv_cdf((1 + level ** (1 / max(cells, 1))) / 2)
    if sd.size <= FACTORED:
        z = correlated(inversion.covariance()[np.ix_(shown, shown)], draws)
    else:
        z = inversion.deviations(np.random.default_rng(SEED), draws)[:, shown] / sd[shown]
    doubt = 2 * np.sqrt(level * (1 - level) / draws)  # of the simulation: err on the wide side
    return float(np.quantile(np.abs(z).max(1), min(level + doubt, 1 - (1 - level) / 2)))


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
        raise InputError(f"the level must lie strictly between 0 and 1, got {level!r}.")
    z = critical(inversion, level)
    half = z * np.sqrt(inversion.variance + z**2 / 2 * inversion.jump**2)
    low = np.clip(np.minimum(inversion.raw - half, p), 0.0, 1.0)
    high = np.clip(np.maximum(inversion.raw + half, p), 0.0, 1.0)
    known = inversion.identified
    return np.where(known, low, 0.0), np.where(known, high, 1.0)
