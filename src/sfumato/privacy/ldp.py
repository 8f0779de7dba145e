"""LDP: local differential privacy, about the input or about the secret under a known joint."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.rldp import RLDP
from sfumato.uncertainty import Exactly


@dataclass(frozen=True, slots=True, eq=False)
class LDP:
    """max log Q(y|x) / Q(y|x') over all y, x, x' [000, Def. 2]; with a joint, the same of P(y|s) [001, Def. 1].

    >>> from sfumato.mechanism import Tabular
    >>> round(LDP().level(Tabular([[0.75, 0.25], [0.25, 0.75]])), 6)
    1.098612
    """

    joint: Joint | None = None

    def level(self, mechanism: Mechanism) -> float:
        if self.joint is not None:
            return RLDP(Exactly(self.joint)).level(mechanism)
        top, bottom, _ = mechanism.law.input_extremes()
        return math.log(top / bottom) if bottom > 0 else math.inf
