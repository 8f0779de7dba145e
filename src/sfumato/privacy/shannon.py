"""Dependence: informations of Shannon, Sibson and Arimoto, maximal α-leakage, correlation and total variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.optimise.arrays import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.beliefs import BayesLeakage, MaximalLeakage
from sfumato.privacy.measures import GAP, AnyMeasure, Live, Reading, live
from sfumato.tolerances import HALVINGS, NEAR_ONE


@dataclass(frozen=True, slots=True, eq=False)
class Shannon(AnyMeasure):
    """I(X;Y) = Σ p_x D(Q_x ‖ Qp); the worst prior gives the capacity, certified by max_x D(Q_x ‖ q) for a law q."""

    gap: float = GAP
    title: ClassVar[str] = "mutual information"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return Leakage(1, 1, self.gap).of(channel)
        seen = live(channel, prior)
        out = seen.q @ seen.p
        ratio = np.where(seen.q > 0, seen.q / out[:, None], 1.0)
        value = max(0.0, float((seen.q * np.log(ratio)).sum(axis=0) @ seen.p))
        return Reading(value, value, seen.on_inputs(seen.p), output_law=seen.on_outputs(out))


@dataclass(frozen=True, slots=True, eq=False)
class Sibson(AnyMeasure):
    """I_a(p) = a/(a−1) log Σ_y (Σ_x p_x Q(y|x)^a)^{1/a} = min_q D_a(p Q ‖ p × q), 0 < a ≤ ∞.

    Shannon's at a = 1, maximal leakage on the support at a = ∞. Its worst prior gives maximal a-leakage [004, (2)].
    """

    order: float
    gap: float = GAP
    title: ClassVar[str] = "Sibson mutual information of order {0.order:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        a = self.order
        if not a > 0:
            raise InputError("order must be above 0", value=a)
        if prior is None:
            if a < 1:
                raise InputError("the worst prior is known for orders 1 or more", value=a)
            return Leakage(a, 1, self.gap).of(channel)
        if a == 1 or np.isinf(a):
            inner = Shannon().of(channel, prior) if a == 1 else MaximalLeakage().of(channel, prior)
            return Reading(inner.value, inner.bound, np.asarray(prior, dtype=np.float64))
        seen = live(channel, prior)
        logs = a * log_or_minus_infinity(seen.q) + np.log(seen.p)
        if abs(a - 1) < NEAR_ONE:
            value = _near_one(seen.q, seen.p, a)
        else:
            value = float(log_sum_exp(log_sum_exp(logs) / a)) * a / (a - 1)
        return Reading(max(0.0, value), max(0.0, value), seen.on_inputs(seen.p))


def _near_one(q: npt.NDArray[np.float64], p: npt.NDArray[np.float64], a: float) -> float:
    """The same as 1/(a−1) log Σ p Q (Q/q*)^{a−1} at the best q*, which keeps its digits as a → 1."""
    logs = log_or_minus_infinity(q)
    means = log_sum_exp(a * logs + np.log(p)) / a
    best = means - log_sum_exp(means)
    ratio = np.where(q > 0, (a - 1) * (logs - best[:, None]), 0.0)
    return float(np.log1p((q * np.expm1(ratio)).sum(axis=0) @ p) / (a - 1))


@dataclass(frozen=True, slots=True, eq=False)
class MaximalAlphaLeakage(AnyMeasure):
    """sup_p I_a(p), a ∈ [1, ∞]: maximal (a, 1)-leakage [004, (2)]. A prior only sets the support."""
    order: float
    gap: float = GAP
    title: ClassVar[str] = "maximal {0.order:g}-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return Leakage(self.order, 1, self.gap).of(channel, prior)


@dataclass(frozen=True, slots=True, eq=False)
class Arimoto(AnyMeasure):
    """H_a(X) − H_a(X|Y) = Sibson's I_a at the tilted prior p^a / Σ p^a, 0 < a ≤ ∞.

    Tilting permutes the priors of full support, so both have the same worst case. a = ∞ is min-entropy leakage.
    """
    order: float
    gap: float = GAP
    title: ClassVar[str] = "Arimoto mutual information of order {0.order:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        a = self.order
        if a == 1:
            return Shannon(self.gap).of(channel, prior)
        if np.isinf(a):
            return BayesLeakage().of(channel, prior)
        if prior is None:
            worst = Sibson(a, self.gap).of(channel)
            return Reading(
                worst.value, worst.bound, None if worst.prior is None else _tilt(worst.prior, 1 / a)
            )
        seen = live(channel, prior)
        inner = Sibson(a, self.gap).of(seen.q, _tilt(seen.p, a))
        return Reading(inner.value, inner.bound, seen.on_inputs(seen.p))


def _tilt(p: npt.NDArray[np.float64], power: float) -> npt.NDArray[np.float64]:
    logs = power * log_or_minus_infinity(p)
    tilted = np.exp(logs - logs.max())
    return np.asarray(tilted / tilted.sum())


# --- dependence of two variables: maximal correlation, and total variation of posteriors ------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MaximalCorrelation(AnyMeasure):
    """ρ(p) = second singular value of √p_x Q(y|x) / √P(y), in [0, 1].

    Its square in the worst case over priors is the χ² contraction coefficient, which two inputs attain: max_{x,x'}
    max_λ 1 − Σ_y PR/(λP + (1−λ)R). The sum is convex in λ, so a tangent bounds its minimum.
    """

    unit: ClassVar[str] = ""
    title: ClassVar[str] = "maximal correlation"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        if prior is None:
            return _worst(seen)
        out = seen.q @ seen.p
        singular = np.linalg.svd(seen.q * np.sqrt(seen.p) / np.sqrt(out)[:, None], compute_uv=False)
        value = float(min(1.0, singular[1])) if singular.size > 1 else 0.0
        return Reading(value, value, seen.on_inputs(seen.p))


def _overlap(p: Floats, r: Floats, share: Floats) -> tuple[Floats, Floats]:
    """h(λ) = Σ_y PR/(λP + (1−λ)R) and h'(λ), a row a pair; outputs seen under one input alone add nothing."""
    apart = r - p
    mean = r - share[:, None] * apart
    mean[mean <= 0] = 1.0  # neither input makes this output, or the share leaves it to one that does not
    term = p * r
    term /= mean
    return term.sum(axis=1), np.einsum("ij,ij->i", term, apart / mean)


def _worst(seen: Live) -> Reading:
    left, right = np.triu_indices(seen.q.shape[1], 1)
    if left.size == 0:
        return Reading(0.0, 0.0)
    columns = np.ascontiguousarray(seen.q.T)
    level, slope = _overlap(columns[left], columns[right], np.full(left.size, 0.5))
    hopeful = level - 0.5 * np.abs(slope) <= level.min()
    left, right = left[hopeful], right[hopeful]
    low, high = np.zeros(left.size), np.ones(left.size)
    floor = np.full(left.size, -np.inf)
    best, pair, weight = np.inf, [0, 0], [0.5, 0.5]
    for _ in range(HALVINGS):
        share = (low + high) / 2
        level, slope = _overlap(columns[left], columns[right], share)
        floor = np.maximum(floor, level - np.abs(slope) * (high - low) / 2)
        i = int(np.argmin(level))
        if level[i] < best:
            best, pair, weight = float(level[i]), [left[i], right[i]], [share[i], 1 - share[i]]
        low, high = np.where(slope < 0, share, low), np.where(slope < 0, high, share)
        keep = floor < best - 1e-15
        if not keep.any():
            break
        left, right, low, high, floor = left[keep], right[keep], low[keep], high[keep], floor[keep]
    bound = 1 - min(best, float(floor.min()) if floor.size else best)
    prior = np.zeros(seen.q.shape[1])
    prior[pair] = weight
    value = float(np.sqrt(max(0.0, 1 - best)))
    return Reading(value, max(value, float(np.sqrt(max(0.0, bound)))), seen.on_inputs(prior))


# --- the mean distance of posteriors from the prior, and the largest between two inputs -------------------------------


ASCENTS = 400


def distances(q: Floats) -> Floats:
    """TV(Q_x, Q_x') for all pairs."""
    return np.array([0.5 * np.abs(q - column[:, None]).sum(axis=0) for column in q.T])


@dataclass(frozen=True, slots=True, eq=False)
class TotalVariation(AnyMeasure):
    """½ Σ_{x,y} p_x |Q(y|x) − P(y)|, a number in [0, 1). Without a prior: a value and a bound that may differ.

    Bound: Σ p_x TV(Q_x, Qp) ≤ pᵀDp with D the distances between columns. ℓ₁ distances are of negative type, so pᵀDp
    is concave on the simplex and 2 max(Dp) − pᵀDp bounds it at any p. Two equal points attain half the largest D.
    """
    unit: ClassVar[str] = ""
    title: ClassVar[str] = "total variation"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        if prior is not None:
            value = _level(seen.q, seen.p)
            return Reading(value, value, seen.on_inputs(seen.p))
        d = distances(seen.q)
        if not d.any():
            return Reading(0.0, 0.0)
        p = np.full(d.shape[0], 1 / d.shape[0])
        for _ in range(ASCENTS):
            p = p * (d @ p)
            p /= p.sum()
        bound = float(2 * (d @ p).max() - p @ d @ p)
        pair = np.zeros_like(p)
        pair[list(np.unravel_index(int(np.argmax(d)), d.shape))] = 0.5
        value, best = max(((_level(seen.q, r), r) for r in (p, pair)), key=lambda found: found[0])
        return Reading(value, max(value, bound), seen.on_inputs(best))


@dataclass(frozen=True, slots=True, eq=False)
class Contraction(AnyMeasure):
    """Dobrushin's coefficient max_{x,x'} TV(Q_x, Q_x'): the best advantage in telling two inputs apart."""

    unit: ClassVar[str] = ""
    title: ClassVar[str] = "largest total variation"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        d = distances(seen.q)
        x, other = np.unravel_index(int(np.argmax(d)), d.shape)
        return Reading(float(d[x, other]), float(d[x, other]), None, seen.witness(int(x), int(other)))


def _level(q: Floats, p: Floats) -> float:
    return float(0.5 * np.abs(q - (q @ p)[:, None]).sum(axis=0) @ p)
