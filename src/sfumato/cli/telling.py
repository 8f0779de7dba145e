"""What is said about a mechanism and a release: lines for people, a document for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.cli.console import listed, percent
from sfumato.cli.plan import Plan, small_cells
from sfumato.mechanism import Bundle
from sfumato.sources import Where

SHOWN = ("table", "mechanism", "manifest", "report", "private_report")  # the order in which files are listed
Lines = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A release and everything said about it, put into words before the first file gets its name."""

    estimate: Any
    lines: Lines
    document: dict[str, Any]

    @classmethod
    def of(
        cls, plan: Plan, files: Mapping[str, Where], manifest: Any, estimate: Any, notes: Sequence[str],
        left_out: list[str], account: dict[str, Any] | None = None,
    ) -> Outcome:
        told = [*notes, *(() if estimate is None else getattr(estimate, "notes", ()))]
        kept = [c.name for c in manifest.columns if c.role == "kept"]
        columns = listed([c.name for c in manifest.columns])
        lines = [*promise(plan), ("released", f"{manifest.rows:,} rows with {columns}")]
        if kept:
            lines.append(("not protected", f"{listed(kept)}: passed through untouched, as asked"))
        if left_out:
            lines.append(("left out", listed(left_out)))
        if manifest.randomness != "system":
            lines.append(("seeded", "not for release: whoever knows the seed can undo the randomness"))
        lines += [("note", note) for note in told]
        if account is not None:
            lines.append(("ledger", account_text(account)))
        lines += [(name.replace("_", " "), str(files[name])) for name in SHOWN if name in files]
        document = {
            **plan_document(plan), "rows": manifest.rows,
            "columns": [{"name": c.name, "role": c.role} for c in manifest.columns], "left_out": left_out,
            "decode": manifest.decode, "randomness": manifest.randomness, "files": files, "notes": told,
            **({} if account is None else {"ledger": account}),
        }
        return cls(estimate, lines, document)


def account_text(account: dict[str, Any]) -> str:
    """What all releases about the same people amount to."""
    level = account["composed"]
    total = f"ε ≤ {level:.6g} ({account['notion'].upper()})" if level != float("inf") else "no finite ε"
    limit = "no budget" if account["budget"] is None else f"budget {account['budget']:.6g}"
    again = "" if account["repeats"] is None else f"; the answers of release {account['repeats']} again, at no cost"
    note = "" if account["note"] is None else f"; {account['note']}"
    return f"release {account['release']} about {account['people']!r}: together {total}, {limit}{again}{note}"


def promise(plan: Plan) -> Lines:
    """What is promised, how it was proved and what it cost."""
    if isinstance(plan.mechanism, Bundle):
        from sfumato.cli.bundled import promise_lines

        return promise_lines(plan)
    from sfumato.reporting import facts_of
    from sfumato.reporting.words import words

    mechanism, certificate = plan.mechanism, plan.certificate
    found = facts_of(mechanism, certificate)
    told, price, at = words(found), found.cost, witness(certificate)
    lines = [
        ("promised", f"{mechanism.claim.sentence}. {told.strength}"),
        ("proved", f"ε ≤ {certificate.level:.10g}, from the integers in the file" + (f"; worst at {at}" if at else "")),
        ("method", f"{mechanism.method}: {told.method}"),
    ]
    if price is not None and price.kept is not None:
        limit = "" if price.ceiling is None else f"; no mechanism with this promise keeps more than {price.ceiling:.4g}"
        share = "" if price.share is None else f" (NMI {percent(price.share)})"
        lines.append(("kept", f"{price.kept:.4g} of {price.whole:.4g} bits in a record{share}{limit}"))
    return lines


def witness(certificate: Any) -> str:
    """Where the level is attained, in words."""
    found = {k: " · ".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in certificate.witness.items()}
    versus = f"{found['first']} against {found['second']}" if {"first", "second"} <= set(found) else ""
    rest = [f"{k} {v}" for k, v in found.items() if k not in ("first", "second")]
    return ", ".join([*([versus] if versus else []), *rest])


def plan_document(plan: Plan) -> dict[str, Any]:
    """A mechanism and its proof as JSON."""
    if isinstance(plan.mechanism, Bundle):
        from sfumato.cli.bundled import bundle_document

        return bundle_document(plan)
    from sfumato.reporting import facts_of

    mechanism, certificate = plan.mechanism, plan.certificate
    price = facts_of(mechanism, certificate).cost
    return {
        "method": mechanism.method, "reads": mechanism.reads,
        "secret": list(mechanism.secret.names), "useful": list(mechanism.useful.names),
        "claim": {
            "sentence": mechanism.claim.sentence, "notion": certificate.notion, "within": certificate.within,
            "epsilon": certificate.epsilon, "level": certificate.level, "holds": certificate.holds,
            "witness": certificate.witness, "elsewhere": dict(certificate.elsewhere), "basis": certificate.basis,
        },
        "bits": None if price is None else {
            "kept": price.kept, "whole": price.whole, "ceiling": price.ceiling, "nmi": price.share
        },
        "design_data": {
            "source": mechanism.source, "rows": None if mechanism.joint is None else mechanism.joint.n,
            "cells": mechanism.secret.size * mechanism.useful.size, "small_cells": small_cells(mechanism.joint),
        },
    }
