"""LIP: local information privacy, how far the posterior of the secret can move from its prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.uncertainty.exactly import quotient


@dataclass(frozen=True, slots=True, eq=False)
class LIP:
    """max |log P(y|s) / P(y)| over y and s [001, Def. 2]. ε-LDP ⇒ ε-LIP ⇒ 2ε-LDP about the secret."""

    joint: Joint

    def level(self, mechanism: Mechanism) -> float:
        given, ps = self.joint.useful_given_secret, self.joint.p_secret
        top, bottom, mean, _ = mechanism.law.secret_laws(given, ps)
        worst = float(np.maximum(quotient(top, mean), quotient(mean, bottom)).max())
        return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf
