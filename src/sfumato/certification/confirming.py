"""Confirming: what the kernel of proof refuses is refused here, whatever the fast proofs say.

Every mechanism passes the kernel's admission (fields, ranges, shapes, sums, confidences) as the bytes it is saved as.
Where the kernel's own proof takes a fraction of a second it alone decides; larger laws rest on the fast proofs,
which tests hold to the kernel on every pair of law, notion and set.
"""

from __future__ import annotations

from typing import Any

import msgspec

import sfumato_kernel as kernel
from sfumato.errors import ClaimError
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle_file import record_of as bundle_record
from sfumato.mechanism.file import record_of

EXACT_CELLS = 20_000  # outputs × inputs for which rationals take about a tenth of a second
PROVED_PAIRS = 64  # outputs × secrets² that may each need a dual point of some milliseconds
LEAKING = 400  # outputs × inputs², each a power of 40 digits
BALLS = ("chi-square-ball", "renyi-ball")


def confirm(made: Any) -> bool:
    """Whether the kernel proves every claim of the mechanism or bundle; not, if that is too much for it or would take
    long. ClaimError if it refuses them, or a claim that is quick to prove."""
    record: msgspec.Struct = bundle_record(made) if isinstance(made, Bundle) else record_of(made)
    try:
        found = kernel.admitted(msgspec.json.encode(record))
        for part in found.parts if isinstance(made, Bundle) else [found]:
            if not all(_quick(part, claim) for claim in part.claims):
                return False
        kernel.judged(found)
    except kernel.Beyond:
        return False  # nothing is said against it
    except kernel.Refused as error:
        raise ClaimError(f"{error}. Nothing was released.") from None
    return True


def _quick(part: Any, claim: dict[str, Any]) -> bool:
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
