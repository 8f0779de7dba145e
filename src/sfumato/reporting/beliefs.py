"""Beliefs: what a level of privacy means for somebody who believes something."""

from __future__ import annotations

import math

PRIORS = (0.01, 0.1, 0.25, 0.5, 0.75)
UNBOUNDED = ("mi", "leakage")  # averages and sums over outputs bound no single belief


def bounded(notion: str) -> bool:
    """Whether the notion bounds what one released row can do to one belief."""
    return notion not in UNBOUNDED


def worst_belief(prior: float, epsilon: float, notion: str) -> float:
    """The greatest belief in a value of the secret after seeing a released row, from a belief before it.

    RLDP and LDP bound the odds, whatever the belief before: odds after ≤ e^ε · odds before. LIP bounds the belief
    itself where it is the value's share in the data: after ≤ e^ε · before, and because the other values keep at least
    e^{−ε} of theirs, after ≤ 1 − e^{−ε}(1 − before). PML lets the other values fall to nothing: after ≤ e^ε · before.

    >>> round(worst_belief(0.5, math.log(3), "rldp"), 6), round(worst_belief(0.5, math.log(3), "lip"), 6)
    (0.75, 0.833333)
    """
    if not bounded(notion):
        return 1.0
    if notion == "pml":
        return min(math.exp(min(epsilon, 700.0)) * prior, 1.0)
    if notion in ("lip", "srlip"):
        return min(math.exp(min(epsilon, 700.0)) * prior, 1 - math.exp(-epsilon) * (1 - prior))
    if prior <= 0 or prior >= 1:
        return prior
    return 1 / (1 + math.exp(-epsilon) * (1 - prior) / prior)
