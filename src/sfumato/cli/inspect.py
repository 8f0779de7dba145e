"""sfumato inspect and verify: what a mechanism file is, promises and means; the proof again, from the file alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import certification, reporting
from sfumato.cli.console import columns, document, heading, pairs, story
from sfumato.cli.options import json_option
from sfumato.decimals import LEVEL, MISSING, level, percent
from sfumato.mechanism.mechanism import spoken
from sfumato.tolerances import AT_A_GLANCE

if TYPE_CHECKING:
    from sfumato.alphabet import Column
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism

Meanings = list[tuple[str, list[tuple[str, float]]]]  # an output, and the cells it may come from with their chances
SOURCES = {
    "private": "the private table itself", "reference": "reference data", "split": "a part of the private table",
    "noisy": "the private table with noise", "public": "none",
}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--outputs", type=click.IntRange(1), default=20, show_default=True, help="Outputs to explain.")
@json_option
def inspect(file: Path, outputs: int, as_json: bool) -> None:
    """Show what a mechanism FILE is: columns, claim, design data, and what each output means.

    Nothing is proved here; see sfumato verify.

    \b
    Example:
      sfumato inspect released.mechanism.json
    """
    m = sf.load(file)
    if isinstance(m, sf.Bundle):
        return _inspect_bundle(file, m, as_json)
    meanings = [(spoken(answer), cells) for answer, cells in m.meanings(outputs)]
    if as_json:
        return document(_record(file, m, meanings))
    pairs(_lines(file, m))
    return _show(m, meanings)


def _record(file: Path, m: Mechanism, meanings: Meanings) -> Record:
    return {
        "file": file, "checksum": m.checksum, "method": m.method, "reads": m.reads,
        "claim": None if m.claim is None else m.claim.sentence,
        "promises": [told.sentence for told in sf.promises(m)],
        "secret": [_column_record(c) for c in m.secret.columns],
        "useful": [_column_record(c) for c in m.useful.columns],
        "inputs": m.inputs, "outputs": m.outputs if m.law.meaning != "subset" else None, "bits": m.law.bits,
        "meaning": m.law.meaning, "design_data": _design_record(m),
        "posterior": [{"output": o, "cells": [{"cell": c, "p": p} for c, p in cells]} for o, cells in meanings],
    }


def _lines(file: Path, m: Mechanism) -> list[tuple[str, str]]:
    return [
        ("file", str(file)),
        ("method", f"{m.method}, reads {'secret and useful' if m.reads == 'both' else 'useful'} columns"),
        ("claims", m.claim.sentence if m.claim else "nothing"),
        *(("that is", told.sentence) for told in sf.promises(m)),
        *(("secret", _column(c)) for c in m.secret.columns), *(("useful", _column(c)) for c in m.useful.columns),
        ("law", _law(m)), ("design data", _design(m)), ("checksum", m.checksum),
    ]


def _column_record(c: Column) -> Record:
    return {"name": c.name, "labels": list(c.labels), "other": c.other, "cuts": c.cuts}


def _column(c: Column) -> str:
    labels = [MISSING if x is None else x for x in c.labels[:AT_A_GLANCE]]
    return f"{c.name}, {c.size:,} values: {', '.join(labels)}{', …' if c.size > AT_A_GLANCE else ''}"


def _law(m: Mechanism) -> str:
    kinds = {
        "cell": f"{m.outputs:,} outputs, which are cells of the table",
        "useful": f"{m.outputs:,} outputs, which are useful values",
        "symbol": f"{m.outputs:,} outputs, which are symbols",
        "subset": f"sets of the {m.inputs:,} inputs, one bit each",
    }
    return f"{m.inputs:,} inputs to {kinds[m.law.meaning]}; weights are integers that sum to 2^{m.law.bits}"


def _design_record(m: Mechanism) -> Record:
    j = m.joint
    return {
        "source": m.source, "rows": None if j is None else j.n, "small_cells": 0 if j is None else j.small_cells,
        "counts": None if j is None or j.counts is None else j.counts,
        "noise": None if m.noise is None else asdict(m.noise),
        "fingerprint": None if j is None else j.fingerprint,
    }


def _design(m: Mechanism) -> str:
    if m.joint is None:
        return "none in the file"
    drawn = None if m.noise is None else certification.design_sentence(m.noise)
    if m.source == "public":
        return "none: an even weighting of labels" + (f"; {drawn}" if drawn else "")
    rows, fingerprint = "" if m.joint.n is None else f", {m.joint.n:,} rows", f"fingerprint {m.joint.fingerprint[:16]}…"
    if drawn is not None:
        return f"{drawn}; {fingerprint}"
    small = f"; {m.joint.small_cells:,} cells hold 1 to 4 people" if m.joint.small_cells else ""
    return f"{SOURCES.get(m.source, 'from where is not stated')}{rows}{small}; {fingerprint}"


def _show(m: Mechanism, meanings: Meanings) -> None:
    if not meanings:
        return
    heading("\nWhat an output means: the likeliest original cells, under the design distribution")
    rows = []
    for output, cells in meanings:
        rows += [["" if i else output, cell, percent(p)] for i, (cell, p) in enumerate(cells)]
    columns(["output", "original", ""], rows, numbers=1)
    if m.outputs > len(meanings):
        story(f"… and {m.outputs - len(meanings):,} more outputs (--outputs)")


PART_KEYS = ("columns", "about", "method", "outputs", "share")


def _inspect_bundle(file: Path, bundle: Bundle, as_json: bool) -> None:
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


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify(file: Path, as_json: bool) -> None:
    """Prove the claim of a mechanism FILE anew, from the integers in it.

    Exits with 0 only if the claim holds, with 5 and the place where it fails if it does not, and with 4 if the file
    was edited or is not a mechanism file.

    \b
    Example:
      sfumato verify released.mechanism.json
    """
    mechanism = sf.load(file)
    found, wrong = certification.judged(mechanism, file)
    if as_json:
        document({"file": file, **reporting.document_of(mechanism, found)})
    if wrong is not None:
        raise wrong
    if not as_json:
        _tell(file, mechanism, found)


def _tell(file: Path, mechanism: Mechanism | Bundle, found: certification.Certificate) -> None:
    """A claim that holds, for people: what was proved, where it is worst, and what it means."""
    at = certification.placed(certification.witnessed(found))
    pairs([
        ("holds", "" if mechanism.claim is None else mechanism.claim.sentence),
        ("proved", f"{level(found.level, LEVEL)}, from the integers in {file}"),
        *([("also", f"{level(other.level, LEVEL)} ({other.within})") for other in found.also]),
        *([("rests on", found.basis)] if found.basis != certification.PROVED else []),
        *([("worst at", at)] if at else []),
        *((f"at {where}", level(x)) for where, x in found.elsewhere.items()),
    ])
    for sentence in reporting.consequences(mechanism, found):
        story(sentence)
