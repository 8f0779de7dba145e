"""Dependence by orders: maximal (α, β)-leakage, informations of Shannon, Sibson and Arimoto, correlation, variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato import optimise
from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.optimise.arrays import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.beliefs import BayesLeakage, MaximalLeakage
from sfumato.privacy.ldp import LDP, pairwise, widest
from sfumato.privacy.measures import GAP, AnyMeasure, Live, Reading, live
from sfumato.tolerances import HALVINGS, NEAR_ONE, SLIP, UNIT

if TYPE_CHECKING:
    from sfumato.optimise.saddle import Orders


@dataclass(frozen=True, slots=True, eq=False)
class Leakage(AnyMeasure):
    """L_{α,β} = max_{x'} sup_p α/((α−1)β) log Σ_y Q(y|x')^{1−β} (Σ_x p_x Q(y|x)^α)^{β/α}  [004, Thm 1].

    α, β ∈ [1, ∞]. Edges, as limits: α = ∞ [004, (15)]; β = ∞ gives α/(α−1) times LDP; β ≥ α is a scaled Rényi
    divergence [004, (11)]; α = 1 < β is ∞ unless nothing leaks. (1, 1) depends on the path; here it is the capacity,
    the limit along β = 1. A zero in a live row gives ∞ for β > 1 and a finite value at β = 1. A prior only sets the
    support.
    """

    alpha: float
    beta: float
    gap: float = GAP
    title: ClassVar[str] = "maximal ({0.alpha:g}, {0.beta:g})-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        alpha, beta = self.alpha, self.beta
        if not (alpha >= 1 and beta >= 1):
            raise InputError(f"alpha and beta must be 1 or more, got {alpha} and {beta}.")
        seen = live(channel, prior)
        if nothing_leaks(seen.q):
            return Reading(0.0, 0.0)
        if np.isinf(alpha):
            return WorstInputLeakage(beta).of(channel, prior)
        if alpha == 1 and beta > 1:
            return Reading(np.inf, np.inf)
        if beta >= alpha and beta > 1:
            return _scaled_divergence(seen, alpha, beta)
        return saddle(seen, alpha, _tilt(alpha, beta), self.gap)


@dataclass(frozen=True, slots=True, eq=False)
class TiltedLeakage(AnyMeasure):
    """L_{α,τ}: maximal (α, β)-leakage with β = α/(1 + τ(α−1)), τ ∈ [0, 1]  [004, Remark 1].

    Not larger for larger τ, not smaller for larger α. τ = 0 is local Rényi DP of order α, τ = 1 maximal α-leakage. At
    α = 1 it is the limit along τ: max_{x', p} τ I(p) + (1−τ) Σ p_x D(Q_x ‖ Q_x').
    """

    alpha: float
    tau: float
    gap: float = GAP
    title: ClassVar[str] = "maximal leakage of order {0.alpha:g} tilted by {0.tau:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        alpha, tau = self.alpha, self.tau
        if not (alpha >= 1 and 0 <= tau <= 1):
            raise InputError(f"alpha must be 1 or more and tau in [0, 1], got {alpha} and {tau}.")
        seen = live(channel, prior)
        if nothing_leaks(seen.q):
            return Reading(0.0, 0.0)
        if np.isinf(alpha):
            return WorstInputLeakage(1 / tau if tau > 0 else np.inf).of(channel, prior)
        return saddle(seen, alpha, tau, self.gap)


def nothing_leaks(q: Floats) -> bool:
    """All columns are one law, up to rounding."""
    return bool(np.all(np.abs(q - q[:, :1]) <= 4 * UNIT * q.max(axis=1, keepdims=True)))


def _scaled_divergence(seen: Live, alpha: float, beta: float) -> Reading:
    """β ≥ α: α(β−1)/((α−1)β) · max D_β [004, (11)]; β = ∞: α/(α−1) · LDP."""
    if np.isinf(beta):
        inner = LDP().of(seen.q)
        value, x, other = inner.value, inner.witness.input, inner.witness.other
        scale = alpha / (alpha - 1)
    else:
        value, x, other = widest(pairwise(seen.q, beta))
        scale = alpha * (beta - 1) / ((alpha - 1) * beta)
    return Reading(scale * value, scale * value, None, seen.witness(x, other))


def _almost_pairs(seen: Live, orders: Orders) -> Reading:
    """τ next to 0, where θ rounds to 1: (1−τ) max D_β (a single input) ≤ L_{α,τ} ≤ max D_α (τ = 0)."""
    value, x, other = widest(pairwise(seen.q, orders.beta))
    bound = widest(pairwise(seen.q, orders.alpha))[0]
    value = min(bound, (1 - orders.tau) * value)
    return Reading(value, bound, None, seen.witness(x, other))


def _tilt(alpha: float, beta: float) -> float:
    """τ of the orders, 1 along β = 1 [004, Remark 1]."""
    return min(1.0, (alpha - beta) / (beta * (alpha - 1))) if alpha > 1 else 1.0


def saddle(seen: Live, alpha: float, tau: float, gap: float) -> Reading:
    """The strip 0 < τ ≤ 1, α < ∞, by the certified saddle-point solver, which is loaded when it is needed."""
    orders = optimise.Orders(alpha, tau)
    if tau * max(1.0, alpha - 1) < SLIP:
        return _almost_pairs(seen, orders)
    if tau == 1:
        found = optimise.freely(seen.q, orders, gap)
    elif (seen.q == 0).any():
        return Reading(np.inf, np.inf, None, seen.witness(other=int(np.argmax((seen.q == 0).any(axis=0)))))
    else:
        found = optimise.worst_reference(seen.q, orders, gap)
    value, bound = max(0.0, found.value), max(0.0, found.bound)
    return Reading(value, bound, seen.on_inputs(found.p), seen.witness(other=found.reference))


def dual_laws(channel: Floats, alpha: float, beta: float) -> Floats:
    """Laws on outputs, one for each reference x' (one for all when β = 1), that make the bound of (84) tight.

    For 1 ≤ β < α < ∞, or (1, 1). Suggestions in floats: certificates use them with outward rounding.
    """
    n, tau = channel.shape[1], _tilt(alpha, beta)
    orders = optimise.Orders(alpha, tau)
    if tau == 1:
        return optimise.freely(channel, orders, GAP).q[None, :]
    if tau * max(1.0, alpha - 1) < SLIP:
        return np.repeat(channel.mean(axis=1)[None, :], n, axis=0)
    crowd = optimise.worst_reference(channel, orders, GAP).crowd
    return optimise.SaddleProblem(channel, orders, channel.T).best_output(crowd)[0]


@dataclass(frozen=True, slots=True, eq=False)
class WorstInputLeakage(AnyMeasure):
    """max_{x'} (1/β) log Σ_y Q(y|x')^{1−β} max_x Q(y|x)^β  [004, (15)], β ∈ [1, ∞].

    β = 1 is maximal leakage, β = ∞ local differential privacy. A zero in a live row gives ∞ as soon as β > 1.
    """

    beta: float
    title: ClassVar[str] = "maximal (∞, {0.beta:g})-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if not self.beta >= 1:
            raise InputError("beta must be 1 or more", value=self.beta)
        if np.isinf(self.beta):
            return LDP().of(channel, prior)
        seen = live(channel, prior)
        top = np.log(seen.q.max(axis=1))
        if self.beta == 1:
            levels = np.full(seen.inputs.size, float(log_sum_exp(top)))
        else:
            logs = (1 - self.beta) * log_or_minus_infinity(seen.q) + self.beta * top[:, None]
            levels = log_sum_exp(logs, axis=0) / self.beta
            levels[(seen.q == 0).any(axis=0)] = np.inf
        other = int(np.argmax(levels))
        value = max(0.0, float(levels[other]))
        return Reading(value, value, None, seen.witness(other=other))


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
        return Reading(value, value, seen.on_inputs(seen.p))


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


def _near_one(q: Floats, p: Floats, a: float) -> float:
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
                worst.value, worst.bound, None if worst.prior is None else _powered(worst.prior, 1 / a)
            )
        seen = live(channel, prior)
        inner = Sibson(a, self.gap).of(seen.q, _powered(seen.p, a))
        return Reading(inner.value, inner.bound, seen.on_inputs(seen.p))


def _powered(p: Floats, power: float) -> Floats:
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
        for _ in range(400):  # each step is cheap, and any p gives a bound
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
