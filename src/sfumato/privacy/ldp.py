"""LDP: local differential privacy, about the input or about the secret under a known joint."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.channel import live
from sfumato.privacy.measures import Measure, Reading
from sfumato.privacy.rldp import RLDP
from sfumato.uncertainty import Exactly


@dataclass(frozen=True, slots=True, eq=False)
class LDP(Measure):
    """max log Q(y|x) / Q(y|x') over all y, x, x' [000, Def. 2]; with a joint, the same of P(y|s) [001, Def. 1].

    The corner (∞, ∞) of maximal (α, β)-leakage. A prior matters only through its support.

    >>> from sfumato.mechanism import Tabular
    >>> round(LDP().level(Tabular([[0.75, 0.25], [0.25, 0.75]])), 6)
    1.098612
    """

    joint: Joint | None = None

    @property
    def name(self) -> str:
        return "local differential privacy"

    @property
    def about(self) -> Joint | None:
        return self.joint

    def level(self, mechanism: Mechanism) -> float:
        """From the law's contrasts, for laws of any size."""
        if self.joint is not None:
            return RLDP(Exactly(self.joint)).level(mechanism)
        top, bottom, _ = mechanism.law.input_extremes()
        return math.log(top / bottom) if bottom > 0 else math.inf

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        top, low = seen.q.max(axis=1), seen.q.min(axis=1)
        with np.errstate(divide="ignore"):
            ratios = np.log(top) - np.log(low)
        y = int(np.argmax(ratios))
        witness = seen.witness(int(np.argmax(seen.q[y])), int(np.argmin(seen.q[y])), y)
        return Reading(float(ratios[y]), float(ratios[y]), None, witness)
