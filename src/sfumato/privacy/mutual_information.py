"""Mutual informations: of Shannon, Sibson and Arimoto, and maximal α-leakage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.logs import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.gain import BayesLeakage, MaximalLeakage
from sfumato.privacy.measures import GAP, Measure, Reading, live

# --- shannon's mutual information, and the capacity as its worst case -------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Shannon(Measure):
    """I(X;Y) = Σ p_x D(Q_x ‖ Qp); the worst prior gives the capacity, certified by max_x D(Q_x ‖ q) for a law q."""

    gap: float = GAP
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "mutual information"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return Leakage(1, 1, self.gap).of(channel)
        seen = live(channel, prior)
        out = seen.q @ seen.p
        ratio = np.where(seen.q > 0, seen.q / out[:, None], 1.0)
        value = max(0.0, float((seen.q * np.log(ratio)).sum(axis=0) @ seen.p))
        return Reading(value, value, seen.on_inputs(seen.p), output_law=seen.on_outputs(out))


# --- sibson mutual information and maximal α-leakage ------------------------------------------------------------------


NEAR_ONE = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Sibson(Measure):
    """I_a(p) = a/(a−1) log Σ_y (Σ_x p_x Q(y|x)^a)^{1/a} = min_q D_a(p Q ‖ p × q), 0 < a ≤ ∞.

    Shannon's at a = 1, maximal leakage on the support at a = ∞. Its worst prior gives maximal a-leakage [004, (2)].
    """

    order: float
    gap: float = GAP
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"Sibson mutual information of order {self.order:g}"

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
class MaximalAlphaLeakage(Measure):
    """sup_p I_a(p), a ∈ [1, ∞]: maximal (a, 1)-leakage [004, (2)]. A prior only sets the support."""
    order: float
    gap: float = GAP
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"maximal {self.order:g}-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return Leakage(self.order, 1, self.gap).of(channel, prior)


# --- arimoto mutual information ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arimoto(Measure):
    """H_a(X) − H_a(X|Y) = Sibson's I_a at the tilted prior p^a / Σ p^a, 0 < a ≤ ∞.

    Tilting permutes the priors of full support, so both have the same worst case. a = ∞ is min-entropy leakage.
    """
    order: float
    gap: float = GAP
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"Arimoto mutual information of order {self.order:g}"

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
