"""A proved upper bound of I(S;Y), for claims about the average case."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.mechanism.product import part_bits

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts

DIGITS = 50  # of the logarithms; a result is rounded up by far more than their error


def secret_information(mechanism: Mechanism, joint: Joint) -> float:
    """A float at or above I(S;Y) = Σ P(s,y) log P(s,y) / (P(s) P(y)), from the integers, with 50-digit logarithms."""
    law = mechanism.law
    if law.outputs * joint.secret.size > 1_000_000:
        raise InputError("I(S;Y) is certified for at most a million pairs of secret and output.")
    exact, total = joint.weights()
    secrets = [int(n) for n in exact.sum(1)]
    scale = total << part_bits(law)
    with localcontext() as context:
        context.prec = DIGITS
        sum_, related = Decimal(0), False
        for y in range(law.outputs):
            row: BigInts = np.broadcast_to(np.asarray(law.row(y), object), joint.shape)
            part = [int((row[s] * exact[s]).sum()) for s in range(len(secrets))]
            mass = sum(part)
            for s, k in enumerate(part):
                if k:
                    ratio = Fraction(k * total, mass * secrets[s])
                    related |= ratio != 1
                    log = Decimal(ratio.numerator).ln() - Decimal(ratio.denominator).ln()
                    sum_ += Decimal(k) / Decimal(scale) * log
    return 0.0 if not related else float(np.nextafter(max(0.0, float(sum_)) + 1e-30, np.inf))
