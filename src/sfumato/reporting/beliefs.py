"""Beliefs: what a level of privacy means for somebody who believes something."""

from __future__ import annotations

import math

import numpy as np

from sfumato.alphabet import Floats

PRIORS = (0.01, 0.1, 0.25, 0.5, 0.75)
UNBOUNDED = ("mi", "leakage")  # averages and sums over outputs bound no single belief


def bounded(notion: str) -> bool:
    """Whether the notion bounds what one released row can do to one belief."""
    return notion not in UNBOUNDED


def most_guessed(shares: Floats, epsilon: float, notion: str) -> float:
    """How often a guess of the secret is right at most after a released row, when its values have these shares.

    A guess is a partition of the outputs into D_s, right with probability Σ p_s a_s, a_s = P(D_s|s). If odds change by
    e^ε at most, P(D_s|s') ≥ e^{−ε} a_s, so a_{s'} + e^{−ε} Σ_{s≠s'} a_s ≤ 1 for every s'. With t = Σ a_s every a_s is
    at most (1 − e^{−ε} t)/(1 − e^{−ε}); the best are the commonest values at that limit, and that is linear in t
    between the numbers m of values that are full. So it is the greatest of e^ε/(e^ε − 1 + m) times the shares of the
    m commonest values. Where only beliefs are bounded, no guess is righter than the greatest belief.

    >>> p = np.array([0.67, 0.33])
    >>> round(most_guessed(p, 1.0, "rldp"), 4), round(most_guessed(p, 0.1, "rldp"), 4), most_guessed(p, 9.0, "mi")
    (0.7311, 0.67, 1.0)
    """
    p = np.sort(np.asarray(shares, float))[::-1]
    p = p[p > 0]
    if notion not in ("rldp", "ldp"):
        return max(worst_belief(float(x), epsilon, notion) for x in p)
    full = np.arange(1, p.size + 1)
    return float(min((np.cumsum(p) / (1 + (full - 1) * math.exp(-epsilon))).max(), 1.0))


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
