"""Sealing: from floats to integers that keep the promise."""

from __future__ import annotations

from dataclasses import replace
from math import expm1

from sfumato.certification.certificate import BELIEFS, Certificate, certificate, outlook
from sfumato.errors import ClaimError
from sfumato.mechanism import Claim, Mechanism

MARGINS = (2.0**-28, 2.0**-22, 2.0**-18, 2.0**-14, 2.0**-11, 2.0**-8)  # the least costs 4e-9 of the value
FINE = (0.0, 2.0**-46, 2.0**-40, 2.0**-34, *MARGINS)  # for optima whose last digits are worth several proofs


def seal(
    mechanism: Mechanism, claim: Claim, *, bits: int | None = None, margins: tuple[float, ...] = MARGINS
) -> tuple[Mechanism, Certificate]:
    """Integer weights near the floats for which the claim is proved, with the certificate.

    Weights are rounded after mixing in a little of a law that ignores the input; the mixture is the least of a
    ladder for which the certificate holds. A proof that fails says how much is missing: what makes up for a level that
    is δ too high, about δ/(1 − e^{−ε}), is tried before the next step. Ghost outputs, unused but for rounding noise,
    are merged first.
    """
    needed, tuned, left = 0.0, False, list(margins)
    while left:
        margin = left.pop(0)
        if margin < needed and left:
            continue
        tried = replace(mechanism, law=mechanism.law.rounded(bits, margin), claim=claim)
        found = certificate(tried, wider=False)
        if found.holds:
            return tried, replace(found, elsewhere=outlook(tried))
        if claim.notion not in BELIEFS:  # those are proved at ε or not at all: a level that fails says little
            missing = found.level - claim.epsilon
            needed = missing / 8  # a smaller mixture could not make up for what is missing
            enough = 1.05 * missing / -expm1(-claim.epsilon) if claim.epsilon > 0 else 0.0
            if margin < enough < margins[-1] and not tuned:
                left, tuned = [enough, *(x for x in left if x > enough)], True
    raise ClaimError(
        f"the mechanism could not be sealed at ε = {claim.epsilon:.6g}: after a margin of {margins[-1]:.3g} its "
        f"proved level is {found.level:.6g}", next="Its floats do not satisfy the claim; check the design.",
    )
