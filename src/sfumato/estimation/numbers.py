"""Mean and quantiles of a useful variable whose values are numbers, with intervals, from released rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.estimation.intervals import DRAWS, correlated
from sfumato.estimation.result import Estimate, Marginal

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimated number and the interval it lies in."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a numeric column looks like: mean, quantiles and histogram.

    The mean has its own interval; those of all quantiles hold together, and so do those of all bins.
    """

    values: Floats
    mean: Figure
    quantiles: dict[float, Figure]
    histogram: tuple[Figure, ...]


def numbers(
    estimate: Estimate, values: npt.ArrayLike | None = None, *, quantiles: Sequence[float] = (0.25, 0.5, 0.75),
    level: float = 0.95,
) -> Numbers:
    """Mean, quantiles and histogram of the useful variable; `values` are the numbers its labels stand for.

    Without `values` they are what the labels spell, or the middles of the bins. The mean is linear in the estimated
    distribution; a quantile is where the estimated distribution function, or the edges of its band, cross.

    >>> from sfumato import Tabular
    >>> from sfumato.estimation import estimate
    >>> found = numbers(estimate([500, 500], Tabular([[0.75, 0.25], [0.25, 0.75]])))
    >>> round(found.mean.estimate, 6), found.quantiles[0.5].estimate
    (0.5, 0.0)
    """
    from sfumato.designers.distances import letters

    side = estimate.useful
    given = letters(side.alphabet) if values is None else np.asarray(values, float)
    if given.shape != (side.alphabet.size,) or not np.all(np.isfinite(given)):
        raise InputError(f"values must be a finite number for each of the {side.alphabet.size} useful values.")
    if not 0 < level < 1 or any(not 0 < q < 1 for q in quantiles):
        raise InputError("the level and the quantiles must lie strictly between 0 and 1.")
    span, start = float(np.ptp(given)) or 1.0, float(given.min())
    (mean,) = _functionals(side, ((given - start) / span)[None, :], level)
    low, high = side.interval(level)
    bins = tuple(Figure(*map(float, x)) for x in zip(side.p, low, high, strict=True))
    shifted = Figure(*(start + span * x for x in (mean.estimate, mean.low, mean.high)))
    return Numbers(given, shifted, _quantiles(side, given, quantiles, level), bins)


def _quantiles(side: Marginal, values: Floats, wanted: Sequence[float], level: float) -> dict[float, Figure]:
    order = np.argsort(values, kind="stable")
    points = values[order]
    below = np.zeros((len(points) - 1, len(points)))
    for i in range(len(points) - 1):
        below[i, order[: i + 1]] = 1.0
    band = _functionals(side, below, level) if len(points) > 1 else []
    edges = [[*(getattr(f, end) for f in band), 1.0] for end in ("estimate", "low", "high")]
    cdf, least, most = (np.maximum.accumulate(x) for x in edges)

    def crossing(curve: Floats, q: float) -> float:
        return float(points[int(np.argmax(curve >= q - 1e-12))])

    return {q: Figure(crossing(cdf, q), crossing(most, q), crossing(least, q)) for q in wanted}


def _functionals(side: Marginal, weights: Floats, level: float) -> list[Figure]:
    """Σ w·p for each row of weights in [0, 1], with intervals that hold for all rows at once."""
    shown = weights @ side.p
    if side.bounds is not None and side.sums is not None:
        low, high = side.bounds.interval(weights @ side.sums, level)
    elif not side.identified:
        low, high = np.zeros(len(weights)), np.ones(len(weights))
    else:
        inversion = side.inversion
        raw, cov = weights @ inversion.raw, weights @ inversion.covariance() @ weights.T
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        seen = sd > 0
        z = 0.0
        if seen.any():
            draws = np.abs(correlated(cov[np.ix_(seen, seen)], DRAWS)).max(1)
            z = float(np.quantile(draws, min(level + 2 * np.sqrt(level * (1 - level) / DRAWS), 1 - (1 - level) / 2)))
        half = z * np.sqrt(sd**2 + z**2 / 2 * (weights @ inversion.jump) ** 2)
        low, high = np.clip(raw - half, 0, 1), np.clip(raw + half, 0, 1)
    ends = zip(shown, np.minimum(low, shown), np.maximum(high, shown), strict=True)
    return [Figure(*map(float, x)) for x in ends]
