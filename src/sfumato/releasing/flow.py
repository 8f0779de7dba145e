"""Flow: rows from a source through a mechanism whose claim has been proved here, in batches, to whoever takes them.

The proof and the place of a release in a ledger stand below.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato import drawing
from sfumato.alphabet import Alphabet, Column
from sfumato.certification import Certificate
from sfumato.certification.certificate import certify_any
from sfumato.drawing.decoding import GUESS, Drawer
from sfumato.drawing.manifest import METADATA_KEY, NO_IMPRINT, Imprint, Manifest, OutputColumn, manifest_of
from sfumato.drawing.randomness import Memo
from sfumato.errors import ClaimError, InputError, option
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.file import encoded
from sfumato.releasing.wishes import Names, named
from sfumato.sources import RowSource, Source
from sfumato.sources.places import Where

if TYPE_CHECKING:
    from sfumato.drawing.compiled import TextCodes
    from sfumato.frames import Record
    from sfumato.mechanism.bundle import BundleRecord
    from sfumato.mechanism.file import MechanismRecord

Progress = Callable[[int], None]  # told the number of rows drawn so far
Target = Where | str | os.PathLike[str] | None  # where rows go; None: to a program


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """How rows are read, drawn and written."""

    decode: str = "symbols"
    keep: Sequence[str] = ()
    secret: Names = None  # the table's names for the mechanism's columns, when they differ
    useful: Names = None
    seed: int | None = None
    imprint: Imprint = NO_IMPRINT
    id: Names = None  # of a row on a cluster: columns that no two rows share


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """One release under way: what is read, how it is randomised, what comes out."""

    source: Source
    checked: Checked
    decode: str
    coded: dict[str, str]  # a column of the mechanism → the source's name for it
    private: tuple[str, ...]  # the source's names for secret and useful columns, read or not
    kept: tuple[str, ...]
    drawer: Drawer
    order: tuple[int, ...]  # of the output columns, as the source has them
    compared: dict[str, str] = field(default_factory=dict)  # of a secret that is promised about and not read
    text: dict[str, TextCodes] = field(default_factory=dict)
    memo: Memo | None = None  # answers are remembered rather than drawn anew
    entry: str | None = None  # the name of this release in a ledger
    imprint: Imprint = NO_IMPRINT
    id: tuple[str, ...] = ()  # columns by which a row on a cluster finds its noise; none: rows are counted

    @classmethod
    def of(cls, source: Source, checked: Checked, options: DrawOptions) -> Flow:
        made = checked.mechanism
        secret, useful = _called(made.secret, options.secret, "secret"), _called(made.useful, options.useful, "useful")
        coded = {**(secret if made.reads == "both" else {}), **useful}
        if len(set(coded.values())) != len(coded):
            raise InputError(f"one column is read twice: {', '.join(coded.values())}", next="Name each column once.")
        about = _is_promised_about(made)
        compared = {own: n for own, n in secret.items() if about and (options.secret or n in source.columns)}
        rows = named(options.id)
        if rows and source.cluster is None:
            raise InputError(f"id= names the rows of a Spark data frame; {source.name} has its rows in an order.")
        own = (*secret.values(), *useful.values())
        kept = source.check_release((*coded.values(), *compared.values()), options.keep, own, rows)
        told = "symbols" if options.decode == GUESS else options.decode  # guesses stand beside what is estimated from
        drawer = Drawer.of(made, options.decode, options.seed)
        names = [c.name for c in drawer.decoder.columns]
        clash = set(names) & set(kept)
        if clash:
            raise InputError(f"{min(clash)!r} cannot be kept: the output has a column of that name already.")
        at = {name: i for i, name in enumerate(source.columns)}
        places = [at.get(coded.get(n, n), -1) for n in (*names, *kept)]
        order = tuple(sorted(range(len(places)), key=lambda i: places[i]))
        source = source.knowing((*made.secret.columns, *made.useful.columns))
        return cls(source, checked, told, coded, own, kept, drawer, order, compared, imprint=options.imprint, id=rows)

    def at(self, place: Booking) -> Flow:
        """The same release with its place in a ledger."""
        return replace(self, memo=place.memo, entry=place.token)

    @property
    def mechanism(self) -> Mechanism | Bundle:
        """The mechanism, or the bundle."""
        return self.checked.mechanism

    @property
    def columns(self) -> list[OutputColumn]:
        found = [*self.drawer.decoder.columns, *(OutputColumn(name, "kept") for name in self.kept)]
        return [found[i] for i in self.order]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of the table that are not in the release; what is secret is not left out by mistake."""
        used = {*self.coded.values(), *self.kept, *self.private}
        return tuple(name for name in self.source.columns if name not in used)

    def batches(self, progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """Released batches in order; reading, drawing and what the caller does with them overlap."""
        rows = 0
        private = list(dict.fromkeys((*self.coded.values(), *self.compared.values())))
        also = () if self.memo is None or self.memo.column in (*private, *self.kept) else (self.memo.column,)
        reading = ahead(_numbered(self.source.batches(private, (*self.kept, *also))))
        try:
            for batch in in_order(self._released, reading):
                yield batch
                rows += batch.num_rows
                if progress is not None:
                    progress(rows)
        finally:
            reading.close()  # type: ignore[attr-defined]

    def _released(self, numbered: tuple[int, pa.RecordBatch]) -> pa.RecordBatch:
        first_row, batch = numbered
        for column in self.mechanism.secret.columns:  # a promise about other labels than these says nothing of these
            if column.name in self.compared:
                self._column_codes(column, batch.column(self.compared[column.name]), first_row)
        reading, coded = self.drawer.reading, self.coded
        codes = {c.name: self._column_codes(c, batch.column(coded[c.name]), first_row) for c in reading}
        people = None if self.memo is None else batch.column(self.memo.column)
        arrays = self.drawer.arrays(codes, first_row, self.memo, people)
        arrays += [batch.column(name) for name in self.kept]
        names = [c.name for c in self.columns]
        return pa.RecordBatch.from_arrays([arrays[i] for i in self.order], names=names)

    def _column_codes(self, column: Column, values: pa.Array, first_row: int) -> npt.NDArray[np.int32]:
        """Codes of one column, by the compiled way for plain text once numba is there."""
        if self.drawer.sampler.compiled and values.type == pa.string():
            if column.name not in self.text:
                self.text[column.name] = drawing.TextCodes(column)
            codes = self.text[column.name].encode(values)
            if codes is not None:
                return codes
        return column.encode(values, first_row=first_row)

    def returned(self, progress: Progress | None = None) -> RowSource:
        """The released rows for whoever asked for them, with their manifest."""
        return RowSource(self.batches(progress), self.kept, lambda rows: {METADATA_KEY: encoded(self.manifest(rows))})

    def manifest(self, rows: int | None, size: int | None = None, engine: str = "local") -> Manifest:
        compiled = engine == "local" and self.drawer.sampler.compiled
        return manifest_of(
            self.mechanism, self.checked.record.checksum, rows=rows, columns=self.columns, decode=self.decode,
            engine="local, compiled" if compiled else engine, size=size,
            randomness=self.drawer.stream.description, entry=self.entry, imprint=self.imprint,
        )


def _is_promised_about(made: Mechanism | Bundle) -> bool:
    """Whether something is promised about a secret that is not read: its labels must then be those of the promise."""
    if made.reads == "both" or made.claim is None:
        return False
    return made.claim.assuming != "nothing" if isinstance(made, Bundle) else made.claim.within is not None


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    first_row = 0
    for batch in batches:
        yield first_row, batch
        first_row += batch.num_rows


def _called(alphabet: Alphabet, given: Names, role: str) -> dict[str, str]:
    """The source's name for each column of an alphabet."""
    names = alphabet.names if given is None else named(given)
    if len(names) != len(alphabet.names):
        raise InputError(
            f"{role} must name {len(alphabet.names)} column(s), one for each of {', '.join(alphabet.names)}; "
            f"got {len(names)}."
        )
    return dict(zip(alphabet.names, names, strict=True))


# --- the one place where the claim of a mechanism is proved before a row goes through it ------------------------------


CLAIM_IT = option(
    "Ask its author for one that does",
    "Give it a claim that can be certified, or pass allow_unclaimed=True if no promise is needed",
)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A mechanism that may touch rows: sealed, with a claim that has been proved from its integers.

    To make one is to prove it, and a `Flow` is made of nothing else, so that no way of releasing can go around it.
    """

    mechanism: Mechanism | Bundle
    allow_unclaimed: bool = False  # no promise is needed
    certificate: Certificate | None = field(init=False)
    record: MechanismRecord | BundleRecord = field(init=False)  # the content of its file

    def __post_init__(self) -> None:
        if not self.mechanism.sealed:
            raise InputError("only a sealed mechanism can release rows; design() and seal() return sealed ones.")
        if self.mechanism.claim is None and not self.allow_unclaimed:
            raise ClaimError("this mechanism claims no privacy, so nothing was released", next=f"{CLAIM_IT}.")
        proof = None if self.mechanism.claim is None else certify_any(self.mechanism)
        object.__setattr__(self, "certificate", proof)
        object.__setattr__(self, "record", self.mechanism.record)


# --- the place of a release in a ledger: reserved before a row is drawn, settled when the files are named -------------
# Ledgers live in a folder of their own; a release only knows what it needs of one.


class Booking:
    """The place of a release in a ledger; here there is none. Leaving it without an error means: it was delivered."""

    memo: Memo | None = None  # how answers are remembered, if they are

    @property
    def token(self) -> str | None:
        """A random name of the release, which its manifest bears."""
        return None

    @property
    def account(self) -> Record | None:
        """What the ledger says about these people with this release, for whoever asked."""
        return None

    def ready(self, rows: int | None) -> None:
        """Everything is written; from here on the files may get their names."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say what became of it."""


class Book(Protocol):
    """A ledger, as far as a release knows it."""

    def booking(self, flow: Flow, target: Target, account: Account) -> Booking:
        """Reserve a place for the release, or refuse it."""


@dataclass(frozen=True, slots=True)
class Account:
    """Where a release is entered, and under which conditions; nowhere without a ledger."""

    ledger: Book | None = None
    people: str | None = None
    budget: float | None = None
    same_values: bool = False
    memoise: str | None = None
    person: str | None = None

    def booking(self, flow: Flow, target: Target) -> Booking:
        """The place of a release in the ledger, if there is one."""
        if self.ledger is not None:
            if not hasattr(self.ledger, "booking"):
                raise InputError("ledger= takes a ledger", value=self.ledger, next="Say ledger=sf.Ledger(path).")
            return self.ledger.booking(flow, target, self)
        if any(x is not None for x in (self.people, self.budget, self.memoise, self.person)):
            raise InputError("people, budget, memoise and person need a ledger: ledger=sf.Ledger('people.ledger').")
        return Booking()


# --- stages that overlap: threads in order, with bounded memory. None is no item: it stands for the end ---------------


T = TypeVar("T")
R = TypeVar("R")
DEPTH, DRAWING_THREADS = 3, 2  # items that wait for another thread, and threads that share work


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, fetched by a thread of their own, a few before they are needed; an error of the source is raised
    where the item would have been."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="sfumato reader") as pool:
        waiting = deque(pool.submit(next, source, None) for _ in range(DEPTH))
        try:
            while (item := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, source, None))
                yield item
        finally:
            for future in waiting:
                future.cancel()


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """work(item) for every item, done by a few threads, given back in order."""
    with ThreadPoolExecutor(DRAWING_THREADS, thread_name_prefix="sfumato draw") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > DRAWING_THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Stopped(Exception):
    """The items did not all pass."""


class Beside(Generic[T, R]):
    """Work on items while they pass on to somewhere else, in a thread of its own and at most `depth` items behind.

    The work is given an iterator of the items, and `result` tells what it returned or raised. An error of the work does
    not stop the passing; an error of the passing is `Stopped` to the work. The thread does not keep a process alive.
    """

    def __init__(self, work: Callable[[Iterator[T]], R], depth: int = DEPTH) -> None:
        self.box: queue.Queue[T | None] = queue.Queue(depth)
        self.over = self.stopped = False
        self.future: Future[R] = Future()
        self.thread = threading.Thread(target=self._run, args=(work,), name="sfumato beside", daemon=True)

    def _run(self, work: Callable[[Iterator[T]], R]) -> None:
        try:
            self.future.set_result(work(self._items()))
        except BaseException as error:
            self.future.set_exception(error)
        while not self.over:  # whoever passes items must not wait for work that has ended early
            self.over = self.box.get() is None

    def _items(self) -> Iterator[T]:
        while (item := self.box.get()) is not None:
            yield item
        self.over = True
        if self.stopped:
            raise Stopped

    def __enter__(self) -> Callable[[T], None]:
        self.thread.start()
        return self.box.put

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.stopped = kind is not None
        self.box.put(None)

    def result(self) -> R:
        """What the work returned; its error is raised here."""
        return self.future.result()
