"""Maximal (α, β)-leakage for every order, α = ∞ included, and its reparameterisation by τ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.optimise.arrays import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.ldp import LDP, pairwise, widest
from sfumato.privacy.measures import GAP, AnyMeasure, Live, Reading, live
from sfumato.tolerances import SLIP, UNIT

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
    from sfumato.optimise.saddle import Orders, freely, worst_reference

    orders = Orders(alpha, tau)
    if tau * max(1.0, alpha - 1) < SLIP:
        return _almost_pairs(seen, orders)
    if tau == 1:
        found, other = freely(seen.q, orders, gap), None
    elif (seen.q == 0).any():
        return Reading(np.inf, np.inf, None, seen.witness(other=int(np.argmax((seen.q == 0).any(axis=0)))))
    else:
        winner = worst_reference(seen.q, orders, gap)
        found, other = winner.saddle, winner.reference
    value, bound = max(0.0, found.value), max(0.0, found.bound)
    return Reading(value, bound, seen.on_inputs(found.p), seen.witness(other=other), seen.on_outputs(found.q))


def dual_laws(channel: Floats, alpha: float, beta: float) -> Floats:
    """Laws on outputs, one for each reference x' (one for all when β = 1), that make the bound of (84) tight.

    For 1 ≤ β < α < ∞, or (1, 1). Suggestions in floats: certificates use them with outward rounding.
    """
    from sfumato.optimise.saddle import Orders, SaddleProblem, freely, worst_reference

    n, tau = channel.shape[1], _tilt(alpha, beta)
    orders = Orders(alpha, tau)
    if tau == 1:
        return freely(channel, orders, GAP).q[None, :]
    if tau * max(1.0, alpha - 1) < SLIP:
        return np.repeat(channel.mean(axis=1)[None, :], n, axis=0)
    crowd = worst_reference(channel, orders, GAP).crowd
    return SaddleProblem(channel, orders, channel.T).best_output(crowd)[0]


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
