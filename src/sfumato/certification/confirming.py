"""Confirming: what the kernel of proof refuses is refused here, whatever the fast proofs say.

Every mechanism passes the kernel's admission (fields, ranges, shapes, sums, confidences) as the bytes it is saved as.
Where the kernel's own proof takes a fraction of a second it alone decides; larger laws rest on the fast proofs,
which tests hold to the kernel on every pair of law, notion and set.
"""

from __future__ import annotations

import msgspec

import sfumato_kernel as kernel
from sfumato.errors import ClaimError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import record_of as bundle_record
from sfumato.mechanism.file import record_of
from sfumato.uncertainty import RenyiBall
from sfumato.uncertainty.renyi import simulated_radius

EXACT_CELLS = 20_000  # outputs × inputs for which rationals take about a tenth of a second
PROVED_PAIRS = 64  # outputs × secrets² that may each need a dual point of some milliseconds
LEAKING = 400  # outputs × inputs², each a power of 40 digits
REPEATED = 0.95  # of a simulated radius: other versions of NumPy may draw otherwise, and then quantiles differ a little
BALLS = ("chi-square-ball", "renyi-ball")


def confirm(made: Mechanism | Bundle) -> bool:
    """Whether the kernel proves every claim of the mechanism or bundle; not, if that is too much for it or would take
    long. ClaimError if it refuses them, or a claim that is quick to prove."""
    record: msgspec.Struct = bundle_record(made) if isinstance(made, Bundle) else record_of(made)
    for part in made.parts if isinstance(made, Bundle) else (made,):
        check_coverage(part)
    try:
        found = kernel.admitted(msgspec.json.encode(record))
        for own in [found] if isinstance(found, kernel.verdict.Mechanism) else found.parts:
            if not all(_quick(own, claim) for claim in own.claims):
                return False
        kernel.judged(found)
    except kernel.Beyond:
        return False  # nothing is said against it
    except kernel.Refused as error:
        raise ClaimError(str(error), next="Nothing was released.") from None
    return True


def check_coverage(mechanism: Mechanism) -> None:
    """Whether the set around noisy counts is as large as the simulation of its coverage asks for, repeated here."""
    claim, noise = mechanism.claim, None if mechanism.joint is None else mechanism.joint.noise
    if claim is None or noise is None or noise.coverage is None or not isinstance(claim.within, RenyiBall):
        return
    counts = claim.within.joint.counts
    asked = 0.0 if counts is None else simulated_radius(counts.astype(float), noise, noise.coverage)
    if claim.within.alpha != 0.5 or claim.within.radius < REPEATED * asked:
        raise ClaimError(
            f"the set around the noisy counts has the radius {claim.within.radius:.4g}; for a coverage of "
            f"{noise.coverage:g} simulations ask for {asked:.4g}", next="Nothing was released.",
        )


def _quick(part: kernel.verdict.Mechanism, claim: kernel.verdict.Claim) -> bool:
    """Whether the kernel's proof of a claim takes well under a second."""
    law = part.law
    if law.kind == "product":
        return law.bits <= 400 and law.inputs <= 12 and len(law.releases) == 1
    if law.kind == "unary" and not law.listable:
        return claim["notion"] in ("ldp", "rldp") and law.inputs <= 64
    outputs = law.outputs
    if outputs * law.inputs > EXACT_CELLS:
        return False
    if claim["notion"] == "leakage":
        return bool(outputs * law.inputs**2 <= LEAKING)
    ball = claim["within"] is not None and claim["within"]["kind"] in BALLS
    return not ball or bool(outputs * part.secrets**2 <= PROVED_PAIRS)
