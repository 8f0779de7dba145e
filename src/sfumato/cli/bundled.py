"""Bundles on the command line: how they are planned, what is said about them, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.cli.columns import MOST_LABELS, label_sizes
from sfumato.cli.console import columns, document, heading, notice, percent, progress, story
from sfumato.cli.options import Wishes
from sfumato.cli.plan import Plan, learned
from sfumato.errors import InputError
from sfumato.sources import Source

SHOWN_TABLES = 12  # two-way tables that are printed; --csv has all
NOT_FOR_BUNDLES = {
    "method": "auto", "aim": None, "notion": "rldp", "reads": "both", "time_limit": None, "gap": None, "distance": None,
    "values": None, "outputs": None,
}


def fits_one_table(basis: Source, wishes: Wishes) -> bool:
    """Whether the columns named make a table that one mechanism can be designed for."""
    from sfumato.tabulation import MOST_CELLS

    sizes = label_sizes(basis, wishes, [*wishes.secret, *wishes.useful])
    cells = 1
    for size in sizes.values():
        cells *= size or MOST_LABELS
    return cells <= MOST_CELLS


def every_column(basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str]) -> Wishes:
    """The wishes with all categorical columns as useful ones, when none were named."""
    if wishes.useful:
        return wishes
    other = [c for c in basis.columns if c in known and c not in wishes.secret and c not in keep]
    sizes = label_sizes(basis, wishes, other)
    taken = tuple(c for c in other if (size := sizes[c]) is not None and 2 <= size <= MOST_LABELS)
    if not taken:
        raise InputError(
            f"no other column of {basis.name} is categorical. Name the useful columns with --useful, and bin numeric "
            "ones with --bins COL=5."
        )
    here = {*wishes.secret, *taken}
    rare = {k: v for k, v in wishes.rare.items() if k in here} if isinstance(wishes.rare, dict) else wishes.rare
    bins = {k: v for k, v in (wishes.bins or {}).items() if k in here}
    labels = {k: v for k, v in (wishes.labels or {}).items() if k in here} or None
    return replace(wishes, useful=taken, bins=bins or None, rare=rare, labels=labels)


def planned_bundle(basis: Source, wishes: Wishes, origin: str) -> Plan:
    """Design, seal and certify a bundle."""
    from sfumato.bundles import bundle

    for name, usual in NOT_FOR_BUNDLES.items():
        if getattr(wishes, name) != usual:
            raise InputError(f"--{name.replace('_', '-')} is for a single mechanism; leave it out for a bundle.")
    with progress(f"designing for {len(wishes.useful)} columns"):
        made = bundle(
            basis, list(wishes.secret), list(wishes.useful), wishes.epsilon, assuming=wishes.assuming,
            confidence=wishes.confidence, missing=wishes.missing, bins=wishes.bins, rare=wishes.rare, origin=origin,
            labels=wishes.labels,
        )
    edges = [name for name, rule in (wishes.bins or {}).items() if not isinstance(rule, int)]
    found = [c for c in (*wishes.secret, *wishes.useful) if c not in edges and c not in (wishes.labels or {})]
    told = learned(found) if made.bundle.confidence is not None else ()
    return Plan(made.bundle, made.certificate, (*made.notes, *told))


def bundle_notice(bundle: Any, file: str, table: str) -> None:
    """Say aloud which counts become public, and what is assumed."""
    assuming = bundle.claim.assuming
    if assuming in ("star", "tree"):
        notice("The promise rests on a model of the columns", [
            f"It holds if the columns {'are independent given the secret' if assuming == 'star' else 'form a tree'}, "
            "which cannot be proved from data. Leave out --assuming for a promise that needs no model."
        ])
    if assuming != "nothing" and bundle.source != "reference":
        notice("Counts of the private table become public with the mechanism file", [
            f"{file} contains, without noise, the table of counts of {table} for each of its {len(bundle.parts)} "
            "parts; nobody could verify the promise without them.",
            "With --assuming nothing (the default) it contains no counts; --design-from reference.csv keeps private "
            "rows out of it.",
        ])


def promise_lines(plan: Plan) -> list[tuple[str, str]]:
    """What is promised and how it was proved."""
    bundle, proof = plan.mechanism, plan.certificate
    rest = [(f"at {where}", f"ε ≤ {level:.6g}") for where, level in proof.elsewhere.items()]
    sure = [] if bundle.confidence is None else [("confidence", f"{bundle.confidence:.4g} that all sets hold at once")]
    return [
        ("promised", f"{proof.title}: {bundle.claim.sentence}"),
        ("proved", f"ε ≤ {proof.level:.10g}; {proof.basis}"), *sure, *rest,
        ("columns", f"{', '.join(bundle.useful.names)}: {bundle.secret.size * bundle.useful.size:,} joint cells, never "
                    "listed"),
        ("method", bundle.method),
    ]


def bundle_document(plan: Plan) -> dict[str, Any]:
    """A bundle and its proof as JSON."""
    bundle, proof = plan.mechanism, plan.certificate
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
