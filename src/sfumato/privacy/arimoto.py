"""Arimoto mutual information."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.logs import log_or_minus_infinity
from sfumato.privacy.bayes import BayesLeakage
from sfumato.privacy.channel import live
from sfumato.privacy.reading import GAP, Measure, Reading
from sfumato.privacy.shannon import Shannon
from sfumato.privacy.sibson import Sibson


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
