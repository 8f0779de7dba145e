"""A session: one release from beginning to end, its steps in the order in which data moves.

    open      whatever holds rows                               Session.open
    count     the table of secret and useful columns            Session.design
    design    a mechanism, sealed in integers                   Session.design, or Session.load and Session.use
    check     its claim, proved from the integers               Session.check: no row is drawn before
    draw      every row with words of its own                   Drawing, from here on
    write     the batches, and beside it
    estimate  from the same batches                             Drawing.written
    report    what was released, and what it still tells
    publish   every file gets its name, or none does

An `Order` asks for all of them: Python (`release`, `publish`), the command line, the studio, pipes, bundles and Spark
go this way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from sfumato import releasing
from sfumato.alphabet import find_column
from sfumato.atomic import Drafted, publish_all
from sfumato.certification import Certificate
from sfumato.drawing.manifest import Manifest
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA
from sfumato.errors import DataError, InputError, OutputError, SfumatoError
from sfumato.estimation import tidy_csv
from sfumato.estimation.estimates import estimate_drawn
from sfumato.mechanism import Bundle, Mechanism, known
from sfumato.mechanism.file import encoded
from sfumato.releasing.basis import counting_within
from sfumato.releasing.files import Files, can_report, earlier_releases
from sfumato.releasing.flow import Account, Beside, Booking, Checked, DrawOptions, Flow, Progress, Target
from sfumato.releasing.planning import Plan, given, planned, say_of
from sfumato.releasing.wishes import Listener, Silent, Wishes, named, say
from sfumato.releasing.writing import Through, output, stream_writer
from sfumato.reporting import private_report, public_report
from sfumato.reporting.facts import counted_tables
from sfumato.sources import Place, Source, Where, open_source
from sfumato.sources.tabulation import counted

if TYPE_CHECKING:
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.result import Estimate
    from sfumato.frames import Datum
    from sfumato.releasing.wishes import Total
    from sfumato.reporting.pages import ReportOptions
    from sfumato.sources.source import Frame, TableLike

Released = Mechanism | Bundle | str | os.PathLike[str] | Place  # what to release with, or its file
SHUFFLED = (
    "the table was shuffled, so that where a row stands tells nothing of it; with id= (columns that no two rows share) "
    "rows are released where they are"
)
HALF = "What was written is not the whole table: discard it."


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A released table: where it is, how many rows it has, its manifest, and what else came of it."""

    path: Where | str  # text: an address that Spark wrote to
    rows: int
    manifest: Manifest
    files: Mapping[str, Where] = field(default_factory=dict)  # everything that was written, by what it is
    certificate: Certificate | None = None
    estimate: Estimate | BundleEstimate | None = None  # of what is behind the rows, where one was asked for and can be
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # columns of the table that are not in the release
    account: Mapping[str, Datum] | None = None  # what the ledger says about these people, with this release
    mechanism: Mechanism | Bundle | None = None  # that the rows went through


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A table that is about to be released, and the mechanism it will go through, once there is one."""

    source: Source
    plan: Plan | None = None
    listener: Listener = field(default_factory=Silent)

    @classmethod
    def open(cls, table: TableLike, listener: Listener | None = None) -> Session:
        """Whatever holds rows; none is read yet."""
        return cls(open_source(table), listener=listener or Silent())

    def design(
        self, wishes: Wishes, *, keep: Sequence[str] = (), reference: TableLike | None = None,
        split: float | None = None, seed: int | None = None,
    ) -> Session:
        """Count the table, a part of it or a reference, and design for it."""
        with counting_within(split is not None):
            plan = planned(
                self.source, wishes, keep=keep, reference=reference, fraction=split, seed=seed, listener=self.listener
            )
        return replace(self, plan=plan)

    def load(
        self, path: str | os.PathLike[str] | Place, secret: Sequence[str] = (), useful: Sequence[str] = ()
    ) -> Session:
        """A mechanism from its file instead; `secret` and `useful` are the table's names, where they differ."""
        say_of(self.source, self.listener)
        return replace(self, plan=given(self.source, path, secret, useful))

    def use(self, mechanism: object) -> Session:
        """A mechanism, a bundle, a design or a plan that is there already."""
        plan = mechanism if isinstance(mechanism, Plan) else Plan(self.source, known(mechanism))
        return replace(self, plan=plan)

    def foresee(self, *, anyway: bool = False) -> None:
        """Say what estimates from a design will be worth; refuse one that is worth next to nothing, unless it is asked
        for anyway. A mechanism that was there before was somebody's decision."""
        if self.plan is None or self.plan.certificate is None or (told := self.plan.foreseen()) is None:
            return
        lead = "What whoever estimates from the release will know:"
        say(self.listener, lead, *(f"  {line}" for line in told.lines))
        self.plan.check_worth(told, anyway=anyway)

    def warn(self, files: Files | None) -> None:
        """Say what becomes public with the files, and what is missing among them."""
        law = None if files is None else files.mechanism
        for one in () if self.plan is None else self.plan.notices(None if law is None else str(law)):
            self.listener.warn(one)
        if files is not None and files.report is None and not can_report():
            self.listener.say("No report: it needs more packages (pip install sfumato). Whoever has them makes it from "
                              "the files of this release (sfumato report).")

    def check(
        self, options: DrawOptions | None = None, account: Account | None = None, *, allow_unclaimed: bool = False
    ) -> Drawing:
        """Prove the claim from the integers, then see that the table has the columns. Nothing is drawn without it."""
        if self.plan is None:
            raise InputError("there is nothing to release with yet: design, load or use a mechanism first.")
        with self.listener.step("certifying the mechanism"):
            checked = Checked(self.plan.mechanism, allow_unclaimed)
        flow = Flow.of(self.plan.source, checked, options or DrawOptions())
        return Drawing(self.plan, flow, account or Account(), self.listener)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Rows on their way through a mechanism whose claim has been proved, to wherever they are wanted."""

    plan: Plan
    flow: Flow
    account: Account
    listener: Listener

    @contextlib.contextmanager
    def written(self, files: Files, *, estimating: bool = True, force: bool = False) -> Iterator[Release]:
        """Everything is written when the block begins, and named when it ends without an error: all files, or none."""
        check_partition(files.partition, self.flow)
        uncounted = earlier_releases(files, self.flow.mechanism) if self.account.ledger is None else ()
        place = self._booked(files.table)
        flow = self.flow.at(place)
        with place, files.drafts() as made:
            rows, found, notes = self._consumed(flow, files, made["table"], estimating)
            manifest = flow.manifest(rows, made["table"].size)
            done = Release(
                files.table, rows, manifest, files.written, flow.checked.certificate, found,
                (*self.plan.notes, *uncounted, *notes), flow.left_out, place.account, flow.mechanism,
            )
            for name, content in self._documents(files, done):
                made[name].fill(content, private=name == "private_report")
            yield done
            place.ready(rows)
            self.plan.keep()  # first: rows from counts that are not kept would be paid for twice
            publish_all(list(made.values()), replace=force)  # last: what could still fail has not

    def streamed(self, to: BinaryIO, form: str = "csv", *, raw_cells: bool = False) -> int:
        """Rows into a pipe as they are drawn, which cannot be all or nothing; their number."""
        rows, out, writer = 0, Through(to), stream_writer(form, raw_cells)
        try:
            with self._step() as tell, output(writer, lambda name: pa.PythonFile(out, "w")) as write:
                for batch in self.flow.batches(tell):
                    write(batch)
                    rows += batch.num_rows
        except (BrokenPipeError, SfumatoError) as error:  # whoever reads has seen enough, or it is said already
            if isinstance(error, BrokenPipeError) or not rows:
                raise
            raise error.followed_by(HALF) from None
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else "the system gave no reason"
            raise OutputError(f"standard output could not be written: {why}", next=HALF) from None
        return rows

    def returned(self) -> Frame:
        """The rows as what they came in; with a ledger all are drawn before it counts them as delivered."""
        with self._booked(None) as place, self._step() as tell:
            rows = self.flow.at(place).returned(tell)
            if self.account.ledger is not None:
                batches = list(rows.batches)
                place.ready(sum(b.num_rows for b in batches))
                rows = replace(rows, batches=iter(batches))
            return self.flow.source.back(rows)

    def on_its_cluster(self, to: str | os.PathLike[str] | None, *, force: bool = False) -> Frame:
        """The rows of a Spark frame, released where they are: into a lazy frame, or into a folder."""
        with self._booked(to) as place:
            place.ready(None)  # from here on the cluster may name files: what fails now must be settled by a person
            done = releasing.cluster_release(self.flow.at(place), to, force=force)
            if to is None:
                return done
            shuffled = not self.flow.id and (bool(self.flow.kept) or isinstance(self.flow.mechanism, Bundle))
            path, rows, manifest = done
            return Release(path, rows, manifest, notes=(SHUFFLED,) if shuffled else ())

    def _booked(self, target: Target) -> Booking:
        looking = "looking into the ledger"
        with contextlib.nullcontext() if self.account.ledger is None else self.listener.step(looking):
            return self.account.booking(self.flow, target)

    def _step(self) -> contextlib.AbstractContextManager[Progress]:
        made = self.flow.mechanism
        expected: Total = self.flow.source.expected
        if self.plan.certificate is not None and made.source == "private" and not isinstance(made, Bundle):
            expected = expected if made.joint is None or made.joint.n is None else made.joint.n  # it counted these rows
        return self.listener.step(f"releasing {self.flow.source.name}", expected, rows=True)

    def _consumed(
        self, flow: Flow, files: Files, draft: Drafted, estimating: bool
    ) -> tuple[int, Estimate | BundleEstimate | None, tuple[str, ...]]:
        """Draw every batch once: one consumer writes it, another counts it for the estimate."""
        estimated = partial(estimate_drawn, mechanism=flow.mechanism, decode=flow.decode)
        counting = Beside(estimated) if estimating else None
        rows = 0
        with (
            counting_within(self.plan.part), counting or contextlib.nullcontext(lambda batch: None) as count,
            self._step() as tell, output(files.writer, draft.open, draft.target) as write,
        ):
            for batch in flow.batches(tell):
                write(batch)
                count(batch)
                rows += batch.num_rows
        if rows > ROWS_WORTH_NUMBA and not flow.drawer.sampler.compiled:
            self.listener.say(f"{rows:,} rows are drawn faster with numba: pip install 'sfumato[fast]'.")
        return rows, *((None, ()) if counting is None else _estimated(counting))

    def _documents(self, files: Files, done: Release) -> Iterator[tuple[str, bytes]]:
        """The other files, by name."""
        yield "manifest", encoded(done.manifest)
        mechanism, proof = self.flow.mechanism, self.flow.checked.certificate
        if files.mechanism is not None:
            yield "mechanism", encoded(self.flow.checked.record)
        named: ReportOptions = {"manifest": done.manifest}
        if (law := self.plan.file if files.mechanism is None else files.mechanism.name) is not None:
            named["file"] = law
        if files.tables is not None:
            yield "tables", tidy_csv(done.estimate).encode()
        if files.report is not None:
            with self.listener.step("writing the report"):
                page = public_report(mechanism, proof, done.estimate, **named)
            yield "report", page.encode()
        if files.private_report is not None:
            with self.listener.step("comparing with the true table"):
                source, coded = self.flow.source, self.flow.coded
                truth = counted_tables(source, mechanism, coded) if isinstance(mechanism, Bundle) else counted(
                    source, mechanism.secret, mechanism.useful, coded)
                page = private_report(mechanism, proof, done.estimate, truth, **named)
            yield "private_report", page.encode()


def _estimated(
    counting: Beside[pa.RecordBatch, Estimate | BundleEstimate]
) -> tuple[Estimate | BundleEstimate | None, tuple[str, ...]]:
    """What was estimated beside the writing, with its notes, or why nothing was."""
    try:
        found = counting.result()
    except (InputError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        return None, (f"no estimate was made: {error or 'it needs too much memory'}",)
    return found, found.notes


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A release as it is asked for: the table, where it goes, and what is to be designed, or is there already."""

    source: Source
    files: Files | None  # None: into a pipe, or to a program
    using: Wishes | Plan | Released
    options: DrawOptions = field(default_factory=DrawOptions)
    account: Account = field(default_factory=Account)
    reference: TableLike | None = None
    split: float | None = None
    anyway: bool = False  # also what is worth next to nothing
    allow_unclaimed: bool = False  # no promise is needed
    force: bool = False

    def checked(self, listener: Listener) -> Drawing:
        """The steps until rows may be drawn. What nobody may miss is said before."""
        session = self._planned(Session.open(self.source, listener))
        session.foresee(anyway=self.anyway)
        session.warn(self.files)
        return session.check(self.options, self.account, allow_unclaimed=self.allow_unclaimed)

    def _planned(self, session: Session) -> Session:
        using, options = self.using, self.options
        if isinstance(using, Wishes):
            return session.design(
                using, keep=options.keep, reference=self.reference, split=self.split, seed=options.seed
            )
        if isinstance(using, (str, os.PathLike, Place)):
            return session.load(using, named(options.secret), named(options.useful))
        return session.use(using)

    @contextlib.contextmanager
    def released(self, listener: Listener, *, estimating: bool = True) -> Iterator[Release]:
        """All steps in their order; what the block says of the release is worded before the first file gets its name.
        """
        assert self.files is not None  # what goes elsewhere is `checked`, and drawn by whoever takes it
        with self.checked(listener).written(self.files, estimating=estimating, force=self.force) as done:
            yield done


def check_partition(divided: Sequence[str], flow: Flow) -> None:
    """Refuse to divide by columns that are not released, before anything is drawn."""
    names = [c.name for c in flow.columns]
    for name in divided:
        find_column(name, names, "the released table")
    if len(set(divided)) != len(divided):
        raise InputError(f"a column is named twice in partition ({', '.join(divided)})", next="Name each once.")
