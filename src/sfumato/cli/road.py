"""Rows through a planned mechanism into the files of a release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.atomic import as_output_error
from sfumato.cli.console import Total, progress
from sfumato.cli.files import Files, fill, publish
from sfumato.cli.parts import counted
from sfumato.cli.plan import Plan
from sfumato.cli.telling import Outcome
from sfumato.errors import DataError, InputError
from sfumato.estimation import Estimate, estimate
from sfumato.releasing.booking import Booking, Unbooked
from sfumato.releasing.engine import Flow, check_partition, flow_of
from sfumato.releasing.manifest import Manifest
from sfumato.releasing.randomness import Stream
from sfumato.releasing.writing import Made, output
from sfumato.sources import Source, Where


@dataclass(frozen=True, slots=True)
class Entered:
    """Where a release is entered, and under which conditions."""

    ledger: Path
    people: str | None
    budget: float | None
    same_values: bool
    memoise: str | None
    person: str | None

    def booking(self, flow: Flow, table: Where) -> Booking:
        from sfumato.ledgers import Ledger

        if not self.people:
            raise InputError("say whose data these are (--people NAME), so that the ledger can tell them from others.")
        with progress("looking into the ledger"):
            return Ledger(self.ledger).booking(
                flow, table, people=self.people, budget=self.budget, same_values=self.same_values,
                memoise=self.memoise, person=self.person,
            )


@dataclass(frozen=True, slots=True)
class Wanted:
    """How rows are released."""

    decode: str = "symbols"
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] | None = None  # the table's names for the mechanism's columns, when they differ
    useful: tuple[str, ...] | None = None
    seed: int | None = None
    force: bool = False
    entered: Entered | None = None
    raw_cells: bool = False  # in a pipe; files know it themselves


def released(source: Source, plan: Plan, files: Files, wanted: Wanted) -> Outcome:
    """Release, estimate and report; every file is named at the very end, or none is."""
    mechanism = plan.mechanism
    flow = flow_of(
        source, mechanism, wanted.decode, wanted.keep, wanted.secret, wanted.useful, Stream.of(wanted.seed)
    )
    check_partition(files.partition, flow)
    place = Unbooked() if wanted.entered is None else wanted.entered.booking(flow, files.table)
    flow = flow.at(place)
    with place, files.drafts() as made:
        same_rows = files.mechanism is not None and mechanism.source == "private"  # it was designed from these
        counted_from = getattr(mechanism, "joint", None)
        expected = counted_from.n if same_rows and counted_from is not None else source.expected
        writing = Writing(flow, made["table"], files.writer, expected)
        found, notes = writing.estimated()
        with as_output_error(files.table):
            made["table"].settle()
        manifest = flow.manifest(writing.rows, made["table"].size)
        fill(made["manifest"], manifest.encoded())
        for name, content in _documents(source, plan, files, flow, manifest, found):
            fill(made[name], content, private=name == "private_report")
        left_out = _left_out(flow, wanted)
        done = Outcome.of(plan, files.written, manifest, found, (*plan.notes, *notes), left_out, place.account)
        place.ready(writing.rows)
        publish(made, replace=wanted.force)  # last: what could still fail has not
    return done


def _left_out(flow: Flow, wanted: Wanted) -> list[str]:
    secret = wanted.secret or flow.mechanism.secret.names  # not read by every mechanism, but never left by mistake
    used = {*flow.coded.values(), *flow.kept, *secret}
    return [name for name in flow.source.columns if name not in used]


@dataclass(slots=True, eq=False)
class Writing:
    """The released table on its way to the disk, counted for the estimate in the same pass."""

    flow: Flow
    draft: Any
    made: Made
    expected: Total
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
        with (
            progress(f"releasing {self.flow.source.name}", self.expected, rows=True) as tell,
            output(self.made, self.draft.open, self.draft.target) as write,
        ):
            for batch in self.flow.batches(tell):
                write(batch)
                self.rows += batch.num_rows
                yield batch.select(list(wanted))
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
    if (law := plan.file if files.mechanism is None else files.mechanism.name) is not None:
        named["file"] = law
    if files.report is not None:
        yield "report", public_report(mechanism, plan.certificate, found, **named).encode()
    if files.private_report is not None:
        with progress("comparing with the true table"):
            truth = counted(source, mechanism, flow.coded)
            page = private_report(mechanism, plan.certificate, found, truth, **named)
        yield "private_report", page.encode()


def encoded(mechanism: Any) -> bytes:
    """The bytes of the file of a mechanism, or of a bundle."""
    import msgspec

    from sfumato.mechanism import Bundle, bundle_file, file

    record_of: Any = bundle_file.record_of if isinstance(mechanism, Bundle) else file.record_of
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
