"""The α = ∞ variant: maximal (∞, β)-leakage, between maximal leakage and local differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.logs import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.channel import live
from sfumato.privacy.ldp import LDP
from sfumato.privacy.reading import Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class WorstInputLeakage(Measure):
    """max_{x'} (1/β) log Σ_y Q(y|x')^{1−β} max_x Q(y|x)^β  [004, (15)], β ∈ [1, ∞].

    β = 1 is maximal leakage, β = ∞ local differential privacy. A zero in a live row gives ∞ as soon as β > 1.
    """

    beta: float
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"maximal (∞, {self.beta:g})-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if not self.beta >= 1:
            raise InputError(f"beta must be 1 or more, got {self.beta}.")
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
