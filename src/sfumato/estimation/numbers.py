"""Figures about numbers and outcomes: means and quantiles of a column, and regressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato import designers
from sfumato.alphabet import Column, Floats
from sfumato.errors import InputError
from sfumato.estimation.inversion import largest, on_simplex
from sfumato.estimation.result import Estimate, Marginal
from sfumato.estimation.tables import Figures, Linear, TableEstimate, text_of
from sfumato.tolerances import SLIP

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
    estimate: Estimate, values: npt.ArrayLike | Mapping[str, float] | None = None, *,
    quantiles: Sequence[float] = (0.25, 0.5, 0.75), level: float = 0.95,
) -> Numbers:
    """Mean, quantiles and histogram of the useful variable; `values` are the numbers its labels stand for, in their
    order or by label.

    Without `values` they are what the labels spell, or the middles of the bins. The mean is linear in the estimated
    distribution; a quantile is where the estimated distribution function, or the edges of its band, cross.

    >>> from sfumato import Tabular
    >>> from sfumato.estimation import estimate
    >>> found = numbers(estimate([500, 500], Tabular([[0.75, 0.25], [0.25, 0.75]])))
    >>> round(found.mean.estimate, 6), found.quantiles[0.5].estimate
    (0.5, 0.0)
    """
    side = estimate.useful
    told = side.alphabet.numbered(values) if isinstance(values, Mapping) else values
    given = designers.letters(side.alphabet) if told is None else np.asarray(told, float)
    if given.shape != (side.alphabet.size,) or not np.all(np.isfinite(given)):
        raise InputError(f"values must be a finite number for each of the {side.alphabet.size} useful values.")
    if not 0 < level < 1 or any(not 0 < q < 1 for q in quantiles):
        raise InputError("the level and the quantiles must lie strictly between 0 and 1.")
    span, start = float(np.ptp(given)) or 1.0, float(given.min())
    (unit,) = _functionals(side, ((given - start) / span)[None, :], level)
    mean = Figure(*(start + span * x for x in (unit.estimate, unit.low, unit.high)))
    bins = tuple(Figure(*map(float, x)) for x in zip(side.p, *side.interval(level), strict=True))
    return Numbers(given, mean, _quantiles(side, given, quantiles, level), bins)


def _quantiles(side: Marginal, values: Floats, wanted: Sequence[float], level: float) -> dict[float, Figure]:
    order = np.argsort(values, kind="stable")
    points, below = values[order], np.zeros((len(values) - 1, len(values)))
    below[:, order] = np.tri(len(values))[:-1]
    band = _functionals(side, below, level) if len(points) > 1 else []
    edges = [[*(getattr(f, end) for f in band), 1.0] for end in ("estimate", "low", "high")]
    cdf, least, most = (np.maximum.accumulate(x) for x in edges)

    def crossing(curve: Floats, q: float) -> float:
        return float(points[int(np.argmax(curve >= q - SLIP))])

    return {q: Figure(crossing(cdf, q), crossing(most, q), crossing(least, q)) for q in wanted}


def _functionals(side: Marginal, weights: Floats, level: float) -> list[Figure]:
    """Σ w·p for each row of weights in [0, 1], with intervals that hold for all rows at once."""
    shown = weights @ side.p
    if side.bounds is not None and side.sums is not None:
        low, high = side.bounds.interval(weights @ side.sums, level, shown)
    elif not side.identified:
        low, high = np.zeros(len(weights)), np.ones(len(weights))
    else:
        own = side.inversion
        cov = weights @ own.covariance() @ weights.T
        seen = np.diag(cov) > 0
        z = largest(cov[np.ix_(seen, seen)], level) if seen.any() else 0.0
        figures = Linear(weights @ own.raw, cov, weights @ own.jump, np.full(len(weights), True))
        low, high = (np.clip(x, 0, 1) for x in figures.ends(z))
    ends = zip(shown, np.minimum(low, shown), np.maximum(high, shown), strict=True)
    return [Figure(*map(float, x)) for x in ends]


# --- logistic regression on categorical columns, from an estimated table instead of rows ------------------------------


@dataclass(frozen=True, slots=True)
class Scoring:
    """How long Newton's method goes on for a regression."""

    rounds: int = 100
    close: float = 1e-10  # of the score: Newton's method has ended
    farthest: float = 20.0  # of a step in any coefficient: further is the way to infinity


SCORING = Scoring()


@dataclass(frozen=True, eq=False)
class Regression:
    """log odds of an outcome = intercept + Σ effects of the values of categorical columns."""

    outcome: str
    value: str
    terms: tuple[str, ...]
    coefficients: Floats
    covariance: Floats  # of the coefficients
    linear: Linear = field(repr=False)
    steps: Floats = field(repr=False)  # ∂coefficient/∂cell
    converged: bool

    def effects(self, level: float = 0.95, *, together: bool = False, odds: bool = False) -> Figures:
        """Coefficients, or e to their power, with intervals by the delta method."""
        z = self.linear.critical(level, together, self.steps)
        wide = self.steps @ self.linear.widened(z) @ self.steps.T
        half = z * np.sqrt(np.diag(wide)) if self.converged else np.full(len(self.terms), np.inf)
        labels = tuple({"term": term} for term in self.terms)
        b = self.coefficients
        found = Figures("coefficient", labels, b, b - half, b + half, level, together)
        return found.exponential("odds ratio") if odds else found

    def __repr__(self) -> str:
        return f"<Regression of {self.outcome} = {self.value}>\n{self.effects()!r}"


def logistic(table: TableEstimate, value: str | None = None) -> Regression:
    """The logistic regression of the table's first column (being `value`, or not) on all its other columns.

    β solves Σ p(y, x) (1{y} − μ(xβ)) x = 0, the score of the model at the estimated distribution p: linear in p, so
    that by the implicit function theorem ∂β/∂p(y, x) = H⁻¹ x (1{y} − μ) with H = Σ p μ(1 − μ) x xᵀ. Columns enter as
    one effect for each value but the first.
    """
    outcome, *columns = table.columns
    if not columns:
        raise InputError("a regression needs one column or more to explain the outcome with.")
    chosen = _second(outcome) if value is None else value
    either = np.eye(outcome.size)[outcome.code(chosen)]
    if not table.identified:
        raise InputError("the table of these columns cannot be identified from the released rows.")
    (x, terms), k = _design(columns), table.p.size // outcome.size
    linear = Linear.of(table.inversion, np.kron([either, 1 - either], np.eye(k)))  # of all others: outcome and not
    yes, no = linear.raw[:k], linear.raw[k:]
    beta, ended = _solved(x, yes, no)
    if not ended:
        flat = on_simplex(linear.raw)
        beta, _ = _solved(x, flat[:k], flat[k:])
    mu, h = _information(x, yes + no, beta)
    steps = np.linalg.pinv(h) @ np.concatenate([x * (1 - mu)[:, None], -x * mu[:, None]]).T
    covariance = steps @ linear.covariance @ steps.T
    return Regression(outcome.name, chosen, terms, beta, covariance, linear, steps, ended)


def _second(outcome: Column) -> str:
    """Of two values, which is the outcome unless somebody says otherwise."""
    labels = [x for x in outcome.labels if x is not None]
    if len(labels) != 2:
        raise InputError(f"{outcome.name!r} has {len(labels)} values", next="Say which is the outcome (value=).")
    return labels[1]


def _design(columns: Sequence[Column]) -> tuple[Floats, tuple[str, ...]]:
    """[cell, term]: an intercept, and one column for each value but the first of each column."""
    codes = np.indices([c.size for c in columns]).reshape(len(columns), -1)
    parts, terms = [np.ones(codes.shape[1])], ["(intercept)"]
    for i, column in enumerate(columns):
        for j, label in enumerate(column.labels[1:], 1):
            parts.append((codes[i] == j).astype(float))
            terms.append(f"{column.name} = {text_of(label)}")
    return np.stack(parts, 1), tuple(terms)


def _information(x: Floats, rows: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """μ of each combination of columns, and H = Σ p μ(1 − μ) x xᵀ."""
    mu = 1 / (1 + np.exp(-np.clip(x @ beta, -500, 500)))
    return mu, np.asarray((x * (rows * mu * (1 - mu))[:, None]).T @ x)


def _solved(x: Floats, yes: Floats, no: Floats) -> tuple[Floats, bool]:
    """Newton's method for the score; whether it ended where the information is positive definite.

    Steps are halved until the log-likelihood Σ yes·log μ + no·log (1 − μ) does not fall; an unbiased table may have
    negative cells, with which it need not be concave, and then there may be no end.
    """
    def likelihood(b: Floats) -> float:
        return float(-(yes * np.logaddexp(0, -x @ b) + no * np.logaddexp(0, x @ b)).sum())

    beta = np.zeros(x.shape[1])
    for _ in range(SCORING.rounds):
        mu, h = _information(x, yes + no, beta)
        score = x.T @ (yes * (1 - mu) - no * mu)
        try:
            np.linalg.cholesky(h)
        except np.linalg.LinAlgError:
            return beta, False
        if np.abs(score).max() < SCORING.close:
            return beta, True
        step = np.linalg.solve(h, score)
        size = next(s for s in 0.5 ** np.arange(21) if s < 1e-6 or likelihood(beta + s * step) >= likelihood(beta))
        beta = beta + size * step
        if np.abs(beta).max() > SCORING.farthest:
            return beta, False
    return beta, False
