"""OLH: optimal local hashing, by its covariance. It is here for scale; nothing is released with it.

Each person draws a hash from a universal family onto g values and answers by GRR at ratio r over the hashed value, with
g = r + 1 rounded (Wang et al., USENIX Security 2017). Value x is supported when the answer is its hash: with chance
a = r/(r + g − 1) for the true value and 1/g for every other.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.alphabet import Floats
from sfumato.comparing.points import UNKNOWN, Precision, Spread
from sfumato.joint import Joint


def covariance(p: Floats, ratio: float, n: int) -> Floats:
    """Cov of the estimates (support − 1/g) / (a − 1/g), ratio = e^ε (the pairs: ours).

    Hashes of two values are independent, so two values x ≠ z are supported together with chance a/g when the truth is
    one of them and 1/g² when it is neither; one value x with chance r(x) = a·p(x) + (1 − p(x))/g.
    """
    g = max(2, round(ratio + 1))
    a, b = ratio / (ratio + g - 1), 1 / g
    r = b + (a - b) * p
    together = b * b + (a * b - b * b) * np.add.outer(p, p)
    np.fill_diagonal(together, r)
    return np.asarray((together - np.outer(r, r)) / (n * (a - b) ** 2))


def olh_precision(joint: Joint, ratio: float, n: int, *, reads: str = "both") -> Precision:
    """Errors of OLH over (s, u), or over u alone; `ratio` is what one answer may carry, e^ε for ε-LDP."""
    if ratio <= 1:
        return Precision(UNKNOWN, UNKNOWN, UNKNOWN)
    if math.isinf(ratio):
        raise ValueError("an infinite ratio hashes nothing")
    if reads == "useful":
        return Precision(Spread.of(np.diag(covariance(joint.p_useful, ratio, n))), UNKNOWN, UNKNOWN)
    (r, k), cov = joint.shape, covariance(joint.p.ravel(), ratio, n)
    by_s = np.kron(np.eye(r), np.ones((1, k)))
    by_u = np.kron(np.ones((1, r)), np.eye(k))
    useful, secret = (Spread.of(np.einsum("ix,xz,iz->i", m, cov, m)) for m in (by_u, by_s))
    return Precision(useful, secret, Spread.of(np.diag(cov)))
