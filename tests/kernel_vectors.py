"""Files with verdicts that both verifiers must reach: python -m tests.kernel_vectors writes tests/kernel_vectors.json."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

from tests import forging, mechanism_files

import sfumato_kernel as kernel

HERE = Path(__file__).with_suffix(".json")
FORGED = 400


def simple(document):
    """Whether the second verifier knows the claims: ldp, and what holds for any distribution; or they are no claims."""
    claims = [document.get("claim")]
    while claims:
        claim = claims.pop()
        if not isinstance(claim, dict) or not isinstance(claim.get("within") or {}, dict) or not isinstance(claim.get("also", []), list):
            continue
        kind, notion = (claim.get("within") or {}).get("kind"), claim.get("notion")
        if not (notion == "ldp" and kind is None) and not (notion in ("rldp", "lip") and kind == "anything"):
            return False
        claims += claim.get("also", [])
    return True


def verdict(data):
    try:
        kernel.verify(data)
    except kernel.Refused:
        return False
    return True


def made():
    honest = [d for seed in range(3) for d in mechanism_files.documents(seed) if d["format"] == "sfumato/mechanism" and simple(d)]
    rng, out = random.Random(7), [{"file": forging.sealed(d).decode(), "proved": True} for d in honest]
    while len(out) < len(honest) + FORGED:
        document = forging.mutated(rng.choice(honest), rng)
        if isinstance(document, dict) and simple(document):
            data = forging.sealed(document)
            with contextlib.suppress(UnicodeDecodeError):
                out.append({"file": data.decode(), "proved": verdict(data)})
    return out


if __name__ == "__main__":
    HERE.write_text(json.dumps(made(), ensure_ascii=False, indent=0) + "\n")
