"""Precision: how exact the shares are that an analyst can estimate, before any row is seen."""

from __future__ import annotations

import math

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.foreseen import foreseen
from sfumato.estimation.inversion import Inversion
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.reporting.figures import Precision

LISTED = 400_000  # outputs × inputs up to which a law without a closed form is inverted for this


def errors_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[float | None, ...]:
    """Root mean square standard errors of the shares of the secret and of the useful variable from n rows.

    They are those of the unbiased linear estimate when the rows follow the joint, so they are known before a row is
    released. ∞ where the rows do not fix the shares, however many there are; None where the law is too large to tell.
    """
    closed = mechanism.law.kind in ("cells", "constant", "unary")
    if not closed and mechanism.outputs * mechanism.inputs > LISTED:
        return (None, None)
    whole = foreseen(mechanism, joint, n, decode)
    if whole is None:
        return (None, None)
    secret = None if mechanism.reads != "both" or joint.secret.size < 2 else _spread(whole.marginal(0))
    return secret, _spread(whole.marginal(1))


def _spread(side: Inversion) -> float:
    return float(np.sqrt(np.maximum(side.variance, 0).mean())) if side.identified.all() else math.inf


def precision_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[Precision, ...]:
    """What the rows are worth: errors with the protection and without it, p(1 − p)/n."""
    errors = errors_of(mechanism, joint, n, decode)
    sides = [("secret", mechanism.secret, joint.p_secret), ("useful", mechanism.useful, joint.p_useful)]
    return tuple(
        Precision(", ".join(alphabet.names), role, n, error, _plain(p, n))
        for (role, alphabet, p), error in zip(sides, errors, strict=True)
        if role == "useful" or (mechanism.reads == "both" and joint.secret.size > 1)
    )


def _plain(p: Floats, n: int) -> float:
    return float(np.sqrt((p * (1 - p)).mean() / n))
