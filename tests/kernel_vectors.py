"""Files with verdicts that both verifiers must reach: python -m tests.kernel_vectors writes tests/kernel_vectors.json."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests import forging, mechanism_files

import sfumato_kernel as kernel

HERE = Path(__file__).with_suffix(".json")
FORGED = 400


def simple(document):
    """Whether the second verifier knows the claims: ldp, and what holds for any distribution."""
    claims = [document.get("claim")]
    while claims:
        claim = claims.pop()
        if not isinstance(claim, dict):
            return False
        kind = (claim.get("within") or {}).get("kind")
        if not (claim["notion"] == "ldp" and kind is None) and not (claim["notion"] in ("rldp", "lip") and kind == "anything"):
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
        how = rng.choice((forging.shifted, forging.claimed))
        document = json.loads(json.dumps(rng.choice(honest)))
        try:
            how(document, rng)
        except (LookupError, ValueError):
            continue
        if simple(document):
            data = forging.sealed(document)
            out.append({"file": data.decode(), "proved": verdict(data)})
    return out


if __name__ == "__main__":
    HERE.write_text(json.dumps(made(), ensure_ascii=False, indent=0) + "\n")
