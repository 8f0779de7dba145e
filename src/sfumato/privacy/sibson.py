"""Sibson mutual information and maximal α-leakage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.logs import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.channel import live
from sfumato.privacy.maximal import MaximalLeakage
from sfumato.privacy.reading import GAP, Measure, Reading
from sfumato.privacy.shannon import Shannon

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
            raise InputError(f"order must be above 0, got {a}.")
        if prior is None:
            if a < 1:
                raise InputError(f"the worst prior is known for orders 1 or more, got {a}.")
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
