"""The best proved lower bound on ε from one set of answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.audit.counts import Halves
from sfumato.audit.guessing import Guessing, guessing
from sfumato.audit.odds import Odds, odds


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """ε ≥ epsilon with probability ≥ 1 − risk; the two attacks that were tried share the risk."""

    epsilon: float
    odds: Odds
    guessing: Guessing
    risk: float

    def refutes(self, claim: float) -> bool:
        """The claim ε ≤ claim is false, at this risk of saying so wrongly."""
        return self.epsilon > claim


def verdict(halves: Halves, risk: float = 1e-3) -> Verdict:
    """The larger of two bounds, for inputs that were drawn uniformly.

    Odds look at one event and one pair. Guessing pools every pair: under ε-LDP and n uniform inputs a guess that is
    right on D_x leaves wrong mass Σ_{x'≠x} Q(D_x|x') ≥ (n−1) e^{−ε} Q(D_x|x), so accuracy a means e^ε ≥ (n−1) a / (1
    − a). [ours]
    """
    inputs = halves.judge.shape[1]
    single = odds(halves, risk / 2)
    pooled = guessing(halves, prior=np.full(inputs, 1 / inputs), risk=risk / 2)
    a = min(pooled.accuracy, 1 - 1e-16)
    spread = float(np.log(a * (inputs - 1) / (1 - a))) if a > 0 and inputs > 1 else 0.0
    return Verdict(max(single.epsilon, spread, 0.0), single, pooled, risk)
