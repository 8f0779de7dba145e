"""A mechanism and its proof in a few lines, and as a document: what is promised, how it was proved and what it cost."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import TYPE_CHECKING

from sfumato.certification import Certificate, promises
from sfumato.decimals import BITS, LEVEL, at_least, at_most, level, near, percent
from sfumato.mechanism import Bundle, Mechanism
from sfumato.reporting.bundle_figures import design_data
from sfumato.reporting.facts import cost_of, promise_of
from sfumato.reporting.figures import placed
from sfumato.reporting.words import strength, way

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.reporting.figures import Cost

Lines = list[tuple[str, str]]


def lines_of(made: Mechanism | Bundle, proof: Certificate) -> Lines:
    """What is promised, how it was proved and what it cost."""
    if isinstance(made, Bundle):
        return _lines_of_a_bundle(made, proof)
    promise, cost = promise_of(made, proof), None if made.joint is None else cost_of(made, made.joint)
    assert promise is not None  # nothing is released or saved by a command without a claim
    where = f"; worst at {at}" if (at := placed(promise.witness)) else ""
    return [
        ("promised", f"{promise.sentence}. {strength(promise, ', '.join(made.secret.names))}"),
        *(("that is", sentence) for sentence in promise.told),
        ("proved", f"{level(promise.level, LEVEL)}, from the integers in the file{where}"),
        ("method", f"{made.method}: {way(made.method)}"),
        *([] if cost is None or cost.kept is None else [("kept", _kept(cost, cost.kept))]),
    ]


def _kept(cost: Cost, kept: float) -> str:
    most = "" if cost.ceiling is None else at_most(cost.ceiling, BITS)
    limit = f"; no mechanism with this promise keeps more than {most}" if most else ""
    share = "" if cost.share is None else f" (NMI {percent(cost.share)})"
    return f"{at_least(kept, BITS)} of {near(cost.whole)} bits in a record{share}{limit}"


def _lines_of_a_bundle(bundle: Bundle, proof: Certificate) -> Lines:
    sure = bundle.confidence
    return [
        ("promised", f"{proof.title}: {'' if bundle.claim is None else bundle.claim.sentence}"),
        ("proved", f"{level(proof.level, LEVEL)}; {proof.basis}"),
        *([] if sure is None else [("confidence", f"{at_least(sure, 4)} that all sets hold at once")]),
        *((f"at {where}", level(x)) for where, x in proof.elsewhere.items()),
        ("columns", f"{', '.join(bundle.useful.names)}: {bundle.secret.size * bundle.useful.size:,} joint cells, never "
                    "listed"),
        ("method", bundle.method),
    ]


def document_of(made: Mechanism | Bundle, proof: Certificate) -> Record:
    """The same as JSON."""
    claim: Record = {
        "sentence": "" if made.claim is None else made.claim.sentence, "notion": proof.notion, "within": proof.within,
        "epsilon": proof.epsilon, "level": proof.level, "holds": proof.holds, "witness": proof.witness,
        "elsewhere": dict(proof.elsewhere), "basis": proof.basis,
    }
    cells = made.secret.size * made.useful.size
    told: Record = {
        "method": made.method, "reads": made.reads, "secret": list(made.secret.names), "useful": list(made.useful.names)
    }
    if isinstance(made, Bundle):
        parts = [{"columns": n, "method": part.method} for n, part in zip(made.names, made.parts, strict=True)]
        claim = {**claim, "title": proof.title, "confidence": made.confidence}
        data: Record = {"source": made.source, "cells": cells}
        return {**told, "asks": made.asks, "parts": parts, "claim": claim, "design_data": data}
    cost = None if made.joint is None else cost_of(made, made.joint)
    also: list[Record] = [{"notion": c.notion, "within": c.within, "epsilon": c.epsilon, "level": c.level}
                          for c in proof.also]
    return {
        **told, "claim": {**claim, "also": also}, "promises": [asdict(one) for one in promises(made, proof)],
        "bits": None if cost is None else dict(zip(("kept", "whole", "ceiling", "nmi"), astuple(cost), strict=True)),
        "design_data": _design_document(made, cells),
    }


def _design_document(made: Mechanism, cells: int) -> Record:
    joint = made.joint
    return {
        "source": made.source, "rows": None if joint is None else joint.n, "cells": cells,
        "small_cells": 0 if joint is None else design_data(made.source, [joint]).small,
        "noise": None if joint is None or joint.noise is None else asdict(joint.noise),
    }
