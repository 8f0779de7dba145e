"""Rows through a planned mechanism into the files of a release, and what is said about it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.cli.console import listed, pairs, percent, progress
from sfumato.cli.files import Files, fill, publish
from sfumato.cli.parts import counted
from sfumato.cli.plan import Plan, small_cells
from sfumato.errors import DataError, InputError
from sfumato.estimation import Estimate, estimate
from sfumato.releasing.atomic import as_output_error
from sfumato.releasing.engine import Flow
from sfumato.releasing.manifest import Manifest
from sfumato.releasing.randomness import Stream
from sfumato.releasing.writing import writer_for
from sfumato.sources import Source

SHOWN = ("table", "mechanism", "manifest", "report", "private_report")  # the order in which files are listed


@dataclass(frozen=True, slots=True)
class Wanted:
    """How rows are released."""

    decode: str = "symbols"
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] | None = None  # the table's names for the mechanism's columns, when they differ
    useful: tuple[str, ...] | None = None
    seed: int | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A release that is done."""

    plan: Plan
    files: Files
    manifest: Manifest
    estimate: Estimate | None
    notes: tuple[str, ...]


def released(source: Source, plan: Plan, files: Files, wanted: Wanted) -> Outcome:
    """Release, estimate and report; every file is named at the very end, or none is."""
    mechanism = plan.mechanism
    flow = Flow.of(
        source, mechanism, wanted.decode, wanted.keep, wanted.secret, wanted.useful, Stream.of(wanted.seed)
    )
    with files.drafts() as made:
        writing = Writing(flow, made["table"], mechanism.joint.n if mechanism.joint else None)
        found, notes = writing.estimated()
        with as_output_error(files.table):
            made["table"].settle()
        manifest = flow.manifest(writing.rows, made["table"].size)
        fill(made["manifest"], manifest.encoded())
        for name, content in _documents(source, plan, files, flow, manifest, found):
            fill(made[name], content, private=name == "private_report")
        publish(made, replace=wanted.force)
    return Outcome(plan, files, manifest, found, (*plan.notes, *notes))


@dataclass(slots=True, eq=False)
class Writing:
    """The released table on its way to the disk, counted for the estimate in the same pass."""

    flow: Flow
    draft: Any
    expected: int | None
    rows: int = 0
    complete: bool = False

    def estimated(self) -> tuple[Estimate | None, tuple[str, ...]]:
        """Write every row and estimate from them; a table too large to estimate from is released all the same."""
        names = tuple(c.name for c in self.flow.columns)
        source = Source("the released table", names, lambda coded, kept: self._batches([*coded, *kept]), once=True)
        try:
            return estimate(source, self.flow.mechanism, decode=self.flow.decode), ()
        except (InputError, MemoryError) as error:
            if isinstance(error, DataError) or not self.complete:
                raise
            return None, (f"no estimate was made: {error or 'it needs too much memory'}",)

    def _batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        target = self.draft.target
        made: Callable[[str, pa.Schema], Any] = writer_for(target)
        writer = None
        with progress(f"releasing {self.flow.source.name}", self.expected) as tell:
            for batch in self.flow.batches(tell):
                with as_output_error(target):
                    writer = made(self.draft.path, batch.schema) if writer is None else writer
                    writer.write(batch)
                self.rows += batch.num_rows
                yield batch.select(list(wanted))
        with as_output_error(target):
            if writer is not None:
                writer.close()
        self.complete = True


def _documents(
    source: Source, plan: Plan, files: Files, flow: Flow, manifest: Manifest, found: Estimate | None
) -> Iterator[tuple[str, bytes]]:
    """The other files, by name."""
    from sfumato.reporting import private_report, public_report

    mechanism = plan.mechanism
    if files.mechanism is not None:
        yield "mechanism", encoded(mechanism)
    named: dict[str, Any] = {"manifest": manifest}
    if files.mechanism is not None:
        named["file"] = files.mechanism.name
    if files.report is not None:
        yield "report", public_report(mechanism, plan.certificate, found, **named).encode()
    if files.private_report is not None:
        with progress("comparing with the true table"):
            truth = counted(source, mechanism, flow.coded)
            page = private_report(mechanism, plan.certificate, found, truth, **named)
        yield "private_report", page.encode()


def encoded(mechanism: Any) -> bytes:
    """The bytes of a mechanism file."""
    import msgspec

    from sfumato.mechanism.file import record_of

    return msgspec.json.format(msgspec.json.encode(record_of(mechanism)), indent=1) + b"\n"


@contextlib.contextmanager
def counting_within(part: bool) -> Iterator[None]:
    """Row numbers of a part of the table are not those of the file: say so."""
    try:
        yield
    except DataError as error:
        if not part or ", row " not in str(error):
            raise
        raise DataError(f"{error} (With --split, rows are counted within their part.)") from None


def cost(plan: Plan) -> Any:
    """What the release keeps, in bits at the design distribution; None without one."""
    from sfumato.reporting.facts import cost_of

    joint = plan.mechanism.joint
    return None if joint is None else cost_of(plan.mechanism, joint)


def witness(certificate: Any) -> str:
    """Where the level is attained, in words."""
    found = {k: " · ".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in certificate.witness.items()}
    versus = f"{found['first']} against {found['second']}" if {"first", "second"} <= set(found) else ""
    rest = [f"{k} {v}" for k, v in found.items() if k not in ("first", "second")]
    return ", ".join([*([versus] if versus else []), *rest])


def promise(plan: Plan) -> list[tuple[str, str]]:
    """Lines about what is promised, how it was proved and what it cost."""
    from sfumato.reporting.facts import facts_of
    from sfumato.reporting.words import words

    mechanism, certificate = plan.mechanism, plan.certificate
    told = words(facts_of(mechanism, certificate))
    at = witness(certificate)
    lines = [
        ("promised", f"{mechanism.claim.sentence}. {told.strength}"),
        ("proved", f"ε ≤ {certificate.level:.10g}, from the integers in the file" + (f"; worst at {at}" if at else "")),
        ("method", f"{mechanism.method}: {told.method}"),
    ]
    price = cost(plan)
    if price is not None and price.kept is not None:
        limit = "" if price.ceiling is None else f"; no mechanism with this promise keeps more than {price.ceiling:.4g}"
        share = "" if price.share is None else f" (NMI {percent(price.share)})"
        lines.append(("kept", f"{price.kept:.4g} of {price.whole:.4g} bits in a record{share}{limit}"))
    return lines


def describe(done: Outcome, left_out: Sequence[str]) -> None:
    """The outcome in prose."""
    columns = [c.name for c in done.manifest.columns]
    rows = [*promise(done.plan), ("released", f"{done.manifest.rows:,} rows with {listed(columns)}")]
    kept = [c.name for c in done.manifest.columns if c.role == "kept"]
    if kept:
        rows.append(("not protected", f"{listed(kept)}: passed through untouched, as asked"))
    if left_out:
        rows.append(("left out", listed(list(left_out))))
    if done.manifest.randomness != "system":
        rows.append(("seeded", "not for release: whoever knows the seed can undo the randomness"))
    told = () if done.estimate is None else done.estimate.notes
    rows += [("note", note) for note in (*done.notes, *told)]
    written = done.files.written
    rows += [(name.replace("_", " "), str(written[name])) for name in SHOWN if name in written]
    pairs(rows)


def as_document(done: Outcome, left_out: Sequence[str]) -> dict[str, Any]:
    """The outcome as JSON."""
    plan, price = done.plan, cost(done.plan)
    return {
        **plan_document(plan),
        "rows": done.manifest.rows,
        "columns": [{"name": c.name, "role": c.role} for c in done.manifest.columns],
        "left_out": list(left_out), "decode": done.manifest.decode, "randomness": done.manifest.randomness,
        "bits": None if price is None else {
            "kept": price.kept, "whole": price.whole, "ceiling": price.ceiling, "nmi": price.share
        },
        "files": done.files.written, "notes": [*done.notes, *(() if done.estimate is None else done.estimate.notes)],
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    """A mechanism and its proof as JSON."""
    mechanism, certificate = plan.mechanism, plan.certificate
    return {
        "method": mechanism.method, "reads": mechanism.reads,
        "secret": list(mechanism.secret.names), "useful": list(mechanism.useful.names),
        "claim": {
            "sentence": mechanism.claim.sentence, "notion": certificate.notion, "within": certificate.within,
            "epsilon": certificate.epsilon, "level": certificate.level, "holds": certificate.holds,
            "witness": certificate.witness, "elsewhere": certificate.elsewhere,
        },
        "design_data": {
            "source": mechanism.source, "rows": None if mechanism.joint is None else mechanism.joint.n,
            "cells": mechanism.secret.size * mechanism.useful.size, "small_cells": small_cells(mechanism.joint),
        },
    }
