"""Words for what commands found: promises, releases and bundles, as lines and as documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import sfumato as sf
from sfumato import certification, ledgers, reporting
from sfumato.cli.console import columns, document, heading, pairs, progress, story
from sfumato.decimals import MISSING, at_least, level, percent
from sfumato.errors import ClaimError, InputError, listed, spelled
from sfumato.tolerances import AT_A_GLANCE

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.releasing import Release


LISTED_FILES = ("table", "tables", "mechanism", "manifest", "report", "private_report")  # in order
Lines = list[tuple[str, str]]


def release_lines(done: Release) -> Lines:
    """A release for people."""
    manifest = done.manifest
    assert done.mechanism is not None and done.certificate is not None  # no command releases without a claim
    kept = [c.name for c in manifest.columns if c.role == "kept"]
    lines = [
        *reporting.lines_of(done.mechanism, done.certificate),
        ("released", f"{done.rows:,} rows with {listed([c.name for c in manifest.columns])}"),
    ]
    if kept:
        lines.append(("not protected", f"{listed(kept)}: passed through untouched, as asked"))
    if done.left_out:
        lines.append(("left out", listed(done.left_out)))
    if manifest.randomness != "system":
        lines.append(("seeded", "not for release: whoever knows the seed can undo the randomness"))
    lines += [("note", note) for note in done.notes]
    if done.account is not None:
        lines.append(("ledger", ledgers.account_text(done.account)))
    return [*lines, *((name.replace("_", " "), str(done.files[name])) for name in LISTED_FILES if name in done.files)]


def release_document(done: Release) -> Record:
    """A release for programs."""
    manifest = done.manifest
    assert done.mechanism is not None and done.certificate is not None  # no command releases without a claim
    return {
        **reporting.document_of(done.mechanism, done.certificate), "rows": done.rows,
        "columns": [{"name": c.name, "role": c.role} for c in manifest.columns], "left_out": list(done.left_out),
        "decode": manifest.decode, "randomness": manifest.randomness, "files": dict(done.files),
        "notes": [spelled(note, shell=True) for note in done.notes],
        **({} if done.account is None else {"ledger": dict(done.account)}),
    }


PART_KEYS = ("columns", "about", "method", "outputs", "share")


def inspect_bundle(file: Path, bundle: Bundle, as_json: bool) -> None:
    """What a bundle file is."""
    turns = bundle.turns or (None,) * len(bundle.parts)
    total = sum(t or 0 for t in turns)
    shares = [None if turn is None else turn / total for turn in turns]
    each = [(name, "+".join(part.secret.names), part.method, part.outputs, share)
            for name, part, share in zip(bundle.names, bundle.parts, shares, strict=True)]
    claim = None if bundle.claim is None else bundle.claim.sentence
    if as_json:
        document({"file": file, "checksum": bundle.checksum, "method": bundle.method, "claim": claim,
                  "secret": list(bundle.secret.names), "useful": list(bundle.useful.names),
                  "parts": [dict(zip(PART_KEYS, part, strict=True)) for part in each],
                  "assuming": None if bundle.claim is None else bundle.claim.assuming, "source": bundle.source})
        return
    pairs([("file", str(file)), ("method", bundle.method), ("claims", claim or "nothing"),
           ("secret", ", ".join(bundle.secret.names)), ("useful", ", ".join(bundle.useful.names))])
    heading("\nParts")
    columns(["columns", "about", "method", "outputs", "share of rows"],
            [[*texts, f"{outputs:,}", percent(share or 1.0)] for *texts, outputs, share in each], numbers=2)


def leak_bundle(file: Path, bundle: Bundle, as_json: bool, *, at_a_distribution: bool) -> None:
    """The levels of a bundle and of its parts; measures at a distribution would need the table of all columns."""
    if at_a_distribution:
        raise InputError(
            "measures at a distribution are about one table of all columns, which a bundle never builds",
            next="Leave out --joint and --map. Its levels hold whatever the distribution is.",
        )

    def levels(made: Mechanism | Bundle) -> tuple[float, float]:
        found = [x.ratio for x in (certification.anywhere(made), certification.about_record(made))]
        return tuple(math.inf if x == math.inf else math.log(x) for x in found)  # type: ignore[return-value]

    rows = [("all answers of a row", *levels(bundle)), *(
        (name, *levels(part)) for name, part in zip(bundle.names, bundle.parts, strict=True)
    )]
    if as_json:
        keys = ("answers", "secret", "record")
        document({"file": file, "claim": None if bundle.claim is None else bundle.claim.sentence,
                  "levels": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    story("What answers tell in nats, whatever the distribution: about the secret, and about everything that is read.")
    columns(["answers", "secret", "all that is read"], [[name, level(s), level(x)] for name, s, x in rows], numbers=2)


def audit_bundle(file: Path, bundle: Bundle, records: int, risk: float, seed: int | None, as_json: bool) -> None:
    """An attack on every part, which share the questions and the risk; the promise follows from theirs."""
    count = len(bundle.parts)
    with progress(f"attacking {file.name}"):
        each = max(1000, records // count)
        made = [sf.audit(part, records=each, risk=risk / count, seed=seed) for part in bundle.parts]
    refuted = [name for name, found in zip(bundle.names, made, strict=True) if found.refuted]
    rows = [(name, j.claimed, j.found, found.refuted) for name, found in zip(bundle.names, made, strict=True)
            for j in found.judgements]
    if as_json:
        keys = ("part", "claimed", "found", "refuted")
        document({"file": file, "records": sum(x.records for x in made), "risk": risk, "refuted": bool(refuted),
                  "parts": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        story(f"{sum(x.records for x in made):,} records, risk {risk:g} of refuting anything that is true.")
        columns(["part", "claimed", "found ≥", ""], [
            [name, level(claimed), at_least(found), "refuted" if wrong else "stands"]
            for name, claimed, found, wrong in rows
        ], numbers=2)
        story("What is not refuted is not proved: sfumato verify does that.")
    if refuted:
        raise ClaimError(f"{file}: the parts {', '.join(refuted)} do not keep what the file says of them.")


class Cell(NamedTuple):
    """A cell of a table of one or two columns, as it was estimated."""
    column: str
    value: Label
    other: str | None
    other_value: Label
    estimate: float
    low: float
    high: float
    error: float

    @property
    def shares(self) -> list[str]:
        """The estimate and its interval, in words."""
        return [percent(self.estimate), percent(self.low), percent(self.high)]


def table_rows(found: BundleEstimate, confidence: float) -> list[Cell]:
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
            out.append(Cell(names[0], a, other, b, float(p), float(from_), float(to), float(error)))
    return out


HEAD = ["column", "value", "other column", "other value", "estimate", "low", "high", "error"]


def show_tables(found: BundleEstimate, rows: Sequence[Cell], most: int) -> None:
    """One-way tables in full, the first two-way tables with their largest cells."""
    singles = [names[0] for names in found.names if len(names) == 1]
    for name in singles:
        heading(f"\n{name}")
        own = sorted((r for r in rows if r.column == name and r.other is None), key=lambda r: -r.estimate)
        shown = [[r.value or MISSING, *r.shares] for r in own[:most]]
        columns(["value", "estimate", "from", "to"], shown, numbers=3)
    pairs = [names for names in found.names if len(names) == 2]
    for a, b in pairs[:AT_A_GLANCE]:
        heading(f"\n{a} × {b}")
        own = sorted((r for r in rows if r.column == a and r.other == b), key=lambda r: -r.estimate)
        shown = [[r.value or MISSING, r.other_value or MISSING, *r.shares] for r in own[: min(most, 8)]]
        columns([a, b, "estimate", "from", "to"], shown, numbers=3)
    if len(pairs) > AT_A_GLANCE:
        story(f"… and {len(pairs) - AT_A_GLANCE} more tables of two columns (--csv, --json)")


def estimate_document(found: BundleEstimate, rows: Sequence[Cell], confidence: float, csv_file: Path | None) -> Record:
    return {
        "n": found.n, "confidence": confidence, "simultaneous": "all cells of all tables",
        "cells": [dict(zip(HEAD, row, strict=True)) for row in rows],
        "files": {} if csv_file is None else {"csv": csv_file},
    }
