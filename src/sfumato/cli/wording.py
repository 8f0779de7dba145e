"""What is said about a mechanism and a release: lines for people, a document for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sfumato.certification import Certificate, promises
from sfumato.decimals import BITS, LEVEL, at_least, at_most, level, near, percent
from sfumato.errors import listed
from sfumato.mechanism import Bundle
from sfumato.releasing.notices import small_cells

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.mechanism import Mechanism
    from sfumato.releasing import Release

SHOWN = ("table", "tables", "mechanism", "manifest", "report", "private_report")  # the order in which files are listed
Lines = list[tuple[str, str]]


def release_lines(mechanism: Mechanism | Bundle, done: Release) -> Lines:
    """A release for people."""
    manifest = done.manifest
    kept = [c.name for c in manifest.columns if c.role == "kept"]
    lines = [
        *promise(mechanism, done.certificate),
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
        from sfumato.ledgers.booking import account_text

        lines.append(("ledger", account_text(done.account)))
    return [*lines, *((name.replace("_", " "), str(done.files[name])) for name in SHOWN if name in done.files)]


def release_document(mechanism: Mechanism | Bundle, done: Release) -> Record:
    """A release for programs."""
    manifest = done.manifest
    return {
        **mechanism_document(mechanism, done.certificate), "rows": done.rows,
        "columns": [{"name": c.name, "role": c.role} for c in manifest.columns], "left_out": list(done.left_out),
        "decode": manifest.decode, "randomness": manifest.randomness, "files": dict(done.files),
        "notes": list(done.notes), **({} if done.account is None else {"ledger": dict(done.account)}),
    }


def promise(mechanism: Mechanism | Bundle, certificate: Certificate | None) -> Lines:
    """What is promised, how it was proved and what it cost."""
    assert certificate is not None  # the command line releases nothing without a claim
    if isinstance(mechanism, Bundle):
        from sfumato.cli.bundled import promise_lines

        return promise_lines(mechanism, certificate)
    from sfumato.reporting.facts import cost_of, promise_of
    from sfumato.reporting.words import strength, way

    price, at = None if mechanism.joint is None else cost_of(mechanism, mechanism.joint), witness(certificate)
    told = strength(promise_of(mechanism, certificate), ", ".join(mechanism.secret.names))
    where = f"; worst at {at}" if at else ""
    lines = [
        ("promised", f"{_sentence(mechanism)}. {told}"),
        *(("that is", one.sentence) for one in promises(mechanism, certificate)),
        ("proved", f"{level(certificate.level, LEVEL)}, from the integers in the file{where}"),
        ("method", f"{mechanism.method}: {way(mechanism.method)}"),
    ]
    if price is not None and price.kept is not None:
        most = None if price.ceiling is None else at_most(price.ceiling, BITS)
        limit = "" if most is None else f"; no mechanism with this promise keeps more than {most}"
        share = "" if price.share is None else f" (NMI {percent(price.share)})"
        lines.append(("kept", f"{at_least(price.kept, BITS)} of {near(price.whole)} bits in a record{share}{limit}"))
    return lines


def _sentence(mechanism: Mechanism | Bundle) -> str:
    return "" if mechanism.claim is None else mechanism.claim.sentence


def witness(certificate: Certificate) -> str:
    """Where the level is attained, in words."""
    found = {k: " · ".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in certificate.witness.items()}
    versus = f"{found['first']} against {found['second']}" if {"first", "second"} <= set(found) else ""
    rest = [f"{k} {v}" for k, v in found.items() if k not in ("first", "second")]
    return ", ".join([*([versus] if versus else []), *rest])


def mechanism_document(mechanism: Mechanism | Bundle, certificate: Certificate | None) -> Record:
    """A mechanism and its proof as JSON."""
    assert certificate is not None
    if isinstance(mechanism, Bundle):
        from sfumato.cli.bundled import bundle_document

        return bundle_document(mechanism, certificate)
    from sfumato.reporting.facts import cost_of

    price = None if mechanism.joint is None else cost_of(mechanism, mechanism.joint)
    noise = None if mechanism.joint is None else mechanism.joint.noise
    return {
        "method": mechanism.method, "reads": mechanism.reads,
        "secret": list(mechanism.secret.names), "useful": list(mechanism.useful.names),
        "claim": {
            "sentence": _sentence(mechanism), "notion": certificate.notion, "within": certificate.within,
            "epsilon": certificate.epsilon, "level": certificate.level, "holds": certificate.holds,
            "witness": certificate.witness, "elsewhere": dict(certificate.elsewhere), "basis": certificate.basis,
            "also": [{"notion": c.notion, "within": c.within, "epsilon": c.epsilon, "level": c.level}
                     for c in certificate.also],
        },
        "promises": [asdict(one) for one in promises(mechanism, certificate)],
        "bits": None if price is None else {
            "kept": price.kept, "whole": price.whole, "ceiling": price.ceiling, "nmi": price.share
        },
        "design_data": {
            "source": mechanism.source, "rows": None if mechanism.joint is None else mechanism.joint.n,
            "cells": mechanism.secret.size * mechanism.useful.size, "small_cells": small_cells(mechanism.joint),
            "noise": None if noise is None else asdict(noise),
        },
    }
