"""Bundles on the command line: what is said about them, and their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.certification import Certificate
from sfumato.cli.console import columns, document, heading, story
from sfumato.decimals import LEVEL, at_least, level, percent

SHOWN_TABLES = 12  # two-way tables that are printed; --csv has all


def promise_lines(bundle: Any, proof: Certificate) -> list[tuple[str, str]]:
    """What is promised and how it was proved."""
    rest = [(f"at {where}", level(x)) for where, x in proof.elsewhere.items()]
    sure = bundle.confidence
    held = [] if sure is None else [("confidence", f"{at_least(sure, 4)} that all sets hold at once")]
    return [
        ("promised", f"{proof.title}: {bundle.claim.sentence}"),
        ("proved", f"{level(proof.level, LEVEL)}; {proof.basis}"), *held, *rest,
        ("columns", f"{', '.join(bundle.useful.names)}: {bundle.secret.size * bundle.useful.size:,} joint cells, never "
                    "listed"),
        ("method", bundle.method),
    ]


def bundle_document(bundle: Any, proof: Certificate) -> dict[str, Any]:
    """A bundle and its proof as JSON."""
    return {
        "method": bundle.method, "reads": bundle.reads, "asks": bundle.asks,
        "secret": list(bundle.secret.names), "useful": list(bundle.useful.names),
        "parts": [{"columns": n, "method": part.method} for n, part in zip(bundle.names, bundle.parts, strict=True)],
        "claim": {
            "sentence": bundle.claim.sentence, "notion": proof.notion, "title": proof.title, "within": proof.within,
            "epsilon": proof.epsilon, "level": proof.level, "holds": proof.holds, "witness": proof.witness,
            "elsewhere": proof.elsewhere, "basis": proof.basis, "confidence": bundle.confidence,
        },
        "design_data": {"source": bundle.source, "cells": bundle.secret.size * bundle.useful.size},
    }


def inspect_bundle(file: Path, bundle: Any, as_json: bool) -> None:
    """What a bundle file is."""
    from sfumato.cli.console import pairs
    from sfumato.mechanism.bundle_file import record_of

    turns = bundle.turns or (None,) * len(bundle.parts)
    total = sum(t or 0 for t in turns)
    parts = [
        {"columns": name, "about": "+".join(part.secret.names), "method": part.method, "outputs": part.outputs,
         "share": None if turn is None else turn / total}
        for name, part, turn in zip(bundle.names, bundle.parts, turns, strict=True)
    ]
    claim = None if bundle.claim is None else bundle.claim.sentence
    if as_json:
        document({"file": file, "checksum": record_of(bundle).checksum, "method": bundle.method, "claim": claim,
                  "secret": list(bundle.secret.names), "useful": list(bundle.useful.names), "parts": parts,
                  "assuming": None if bundle.claim is None else bundle.claim.assuming, "source": bundle.source})
        return
    pairs([("file", str(file)), ("method", bundle.method), ("claims", claim or "nothing"),
           ("secret", ", ".join(bundle.secret.names)), ("useful", ", ".join(bundle.useful.names))])
    heading("\nParts")
    columns(["columns", "about", "method", "outputs", "share of rows"], [
        [p["columns"], p["about"], p["method"], f"{p['outputs']:,}", percent(1.0 if p["share"] is None else p["share"])]
        for p in parts
    ], numbers=2)


Rows = list[list[Any]]


def table_rows(found: Any, confidence: float) -> Rows:
    """Every cell of every table: columns, values, estimate, interval, standard error."""
    limits, out = found.intervals(confidence), []
    for names in found.names:
        table = found.table(*names)
        low, high = limits[names]
        second = table.columns[1].labels if len(names) == 2 else (None,)
        cells = zip(table.p.ravel(), low.ravel(), high.ravel(), table.error.ravel(), strict=True)
        labels = [(a, b) for a in table.columns[0].labels for b in second]
        for (a, b), (p, from_, to, error) in zip(labels, cells, strict=True):
            other = names[1] if len(names) == 2 else None
            out.append([names[0], a, other, b, float(p), float(from_), float(to), float(error)])
    return out


HEAD = ["column", "value", "other column", "other value", "estimate", "low", "high", "error"]


def show_tables(found: Any, rows: Rows, most: int) -> None:
    """One-way tables in full, the first two-way tables with their largest cells."""
    singles = [names[0] for names in found.names if len(names) == 1]
    for name in singles:
        heading(f"\n{name}")
        own = sorted((r for r in rows if r[0] == name and r[2] is None), key=lambda r: -r[4])
        shown = [[_text(r[1]), *map(percent, r[4:7])] for r in own[:most]]
        columns(["value", "estimate", "from", "to"], shown, numbers=3)
    pairs = [names for names in found.names if len(names) == 2]
    for a, b in pairs[:SHOWN_TABLES]:
        heading(f"\n{a} × {b}")
        own = sorted((r for r in rows if r[0] == a and r[2] == b), key=lambda r: -r[4])
        shown = [[_text(r[1]), _text(r[3]), *map(percent, r[4:7])] for r in own[: min(most, 8)]]
        columns([a, b, "estimate", "from", "to"], shown, numbers=3)
    if len(pairs) > SHOWN_TABLES:
        story(f"… and {len(pairs) - SHOWN_TABLES} more tables of two columns (--csv, --json)")


def _text(label: Any) -> str:
    return "(missing)" if label is None else str(label)


def estimate_document(found: Any, rows: Rows, confidence: float, csv_file: Path | None) -> dict[str, Any]:
    return {
        "n": found.n, "confidence": confidence, "simultaneous": "all cells of all tables",
        "cells": [dict(zip(HEAD, row, strict=True)) for row in rows],
        "files": {} if csv_file is None else {"csv": csv_file},
    }
