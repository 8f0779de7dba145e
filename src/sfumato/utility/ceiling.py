"""The ceiling: no mechanism that is ε-private at P̂ can release more."""

from __future__ import annotations

import math

from sfumato.joint import Joint


def ceiling(joint: Joint, epsilon: float, *, reads: str = "both", notion: str = "rldp") -> float:
    """H(U|S) + min{H(S), κ − 1 − log κ} with κ = ε / (1 − e^{−ε}), in nats (ours).

    I(X;Y) = I(S;Y) + I(U;Y|S). The second term is at most H(U|S). For the first, P(y|s) lies within a factor e^ε
    of every other, and the greatest mutual information of such a channel, over all priors, is κ − 1 − log κ.
    A mechanism that reads U alone is also limited by H(U). ε-LIP and ε-SRLIP allow 2ε between two secrets and
    I(S;Y) ≤ ε; ε-PML allows I(S;Y) ≤ ε, the mean of log P(y|s)/P(y); a claim of that alone ('mi') allows no less.

    >>> joint = Joint.from_counts([[1, 1], [1, 1]])
    >>> round(ceiling(joint, 0.0), 6), round(ceiling(joint, 100.0), 6)
    (0.693147, 1.386294)
    """
    told = ("lip", "srlip", "pml", "mi")  # that bound I(S;Y) by ε
    about_secret = min(joint.entropy_secret, epsilon) if notion in told else joint.entropy_secret
    if notion not in ("mi", "pml"):
        about_secret = min(about_secret, _channel(2 * epsilon if notion in ("lip", "srlip") else epsilon))
    limit = joint.entropy_useful_given_secret + about_secret
    return limit if reads == "both" else min(limit, joint.entropy_useful)


def _channel(epsilon: float) -> float:
    """κ − 1 − log κ: the most that a channel with ratios up to e^ε can carry."""
    if epsilon <= 0:
        return 0.0
    kappa = epsilon / -math.expm1(-epsilon)
    return max(0.0, kappa - 1 - math.log(kappa))
