"""The engine: rows through a mechanism into a table, streamed, checked before and all or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Alphabet, Column, find_column
from sfumato.atomic import as_output_error
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism.bundle import Bundle
from sfumato.mechanism.file import known
from sfumato.mechanism.mechanism import Mechanism
from sfumato.releasing.booking import Book, Booking, Memo, booked
from sfumato.releasing.decoding import Decoder, decoder
from sfumato.releasing.manifest import Manifest, OutputColumn, manifest_of, manifest_path
from sfumato.releasing.randomness import Stream
from sfumato.releasing.sampling import Sampler
from sfumato.releasing.targets import Drafted, all_drafted, check_place, publish_all
from sfumato.releasing.text_codes import TextCodes
from sfumato.releasing.threads import ahead, in_order
from sfumato.releasing.writing import Made, is_folder, output, writer_for
from sfumato.sources import Place, Rows, Source, Where, located, open_source

Names = str | Sequence[str] | None
Released = Mechanism | Bundle | str | os.PathLike[str]  # what to release with, or its file
Progress = Callable[[int], None]  # told the number of rows written so far
METADATA_KEY = b"sfumato.manifest"


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A released table: where it is, how many rows it has, and its manifest."""

    path: Where
    rows: int
    manifest: Manifest


@overload
def release(
    source: Any, mechanism: Released, to: None = None, *, decode: str = ..., keep: Sequence[str] = ...,
    secret: Names = ..., useful: Names = ..., partition: Sequence[str] = ..., seed: int | None = ...,
    force: bool = ..., allow_unclaimed: bool = ..., progress: Progress | None = ..., ledger: Book | None = ...,
    people: str | None = ..., budget: float | None = ..., same_values: bool = ..., memoise: str | None = ...,
    person: str | None = ..., raw_cells: bool = ...,
) -> Any: ...


@overload
def release(
    source: Any, mechanism: Released, to: str | os.PathLike[str] | Place, *, decode: str = ...,
    keep: Sequence[str] = ..., secret: Names = ..., useful: Names = ..., partition: Sequence[str] = ...,
    seed: int | None = ..., force: bool = ..., allow_unclaimed: bool = ..., progress: Progress | None = ...,
    ledger: Book | None = ..., people: str | None = ..., budget: float | None = ..., same_values: bool = ...,
    memoise: str | None = ..., person: str | None = ..., raw_cells: bool = ...,
) -> Release: ...


def release(
    source: Any, mechanism: Any, to: str | os.PathLike[str] | Place | None = None, *,
    decode: str = "symbols", keep: Sequence[str] = (), secret: Names = None, useful: Names = None,
    partition: Sequence[str] = (), seed: int | None = None, force: bool = False, allow_unclaimed: bool = False,
    progress: Progress | None = None, ledger: Book | None = None, people: str | None = None,
    budget: float | None = None, same_values: bool = False, memoise: str | None = None,
    person: str | None = None, raw_cells: bool = False,
) -> Any:
    """Randomise every row of a source, into a file or folder or into what the source is.

    `mechanism` may be the path of its file. The claim is certified first. Columns that the mechanism does not read are
    left out unless `keep` names them; kept columns are not protected. `secret` and `useful` name the columns to read
    when the source calls them otherwise than the mechanism, in its order.

    `to` is a .csv, .tsv (also packed: .csv.gz, .csv.zst, .csv.bz2) or .parquet file, or a folder of Parquet files (a
    name without suffix; `partition` names columns of the output by which it is divided), here or in a store
    (s3://…, sfumato.Place). It appears complete or not at all, with a manifest beside it. Without `to` the rows come
    back as what they came in: a pandas or Polars frame, an Arrow table, batch, reader or dataset, a DuckDB relation;
    the rows of a file come back as an Arrow table. They are drawn once, also where the frame is lazy. A Spark data
    frame is released on its cluster: into a lazy Spark data frame, or into a folder of Parquet files.

    In CSV, a cell that a spreadsheet would run as a formula is written with an apostrophe in front, which sfumato takes
    away when it reads the file, and text with control characters is refused; `raw_cells=True` writes cells as they are.

    With `ledger=sf.Ledger(path)` the release is entered as one about `people`, and refused if all releases about them
    together would exceed `budget` (docs/ledger.md has person, same_values and memoise).
    """
    mechanism = known(mechanism)
    opened = open_source(source)
    divided = (partition,) if isinstance(partition, str) else tuple(partition)
    if opened.cluster is not None:
        from sfumato.releasing.spark import spark_release

        if divided or memoise is not None:
            raise InputError("a release on a cluster can neither be divided by columns nor remember answers.")
        if isinstance(mechanism, Bundle):
            raise InputError("a bundle is released from files and frames of this machine, not on a cluster.")
        if isinstance(to, Place):
            raise InputError("a cluster writes to paths and addresses that it knows itself; give to= as text.")
        _check_promise(mechanism, allow_unclaimed)
        flow = Flow.of(opened, mechanism, decode, keep, secret, useful, Stream.of(seed))
        account = booked(ledger, flow, to, people=people, budget=budget, same_values=same_values, person=person)
        with account as place:
            place.ready(None)  # from here on the cluster may name files: what fails now must be settled by a person
            return spark_release(flow.at(place), to, force=force)
    target = None if to is None else located(to)
    if target is None and divided:
        raise InputError("partition divides a folder of files; say which with to=.")
    if target is not None:
        writer_for(target, divided)
        check_place(target, opened.path, force=force, folder=is_folder(target, divided))
        check_place(manifest_path(target), opened.path, force=force)
    _check_promise(mechanism, allow_unclaimed)
    flow = flow_of(opened, mechanism, decode, keep, secret, useful, Stream.of(seed))
    check_partition(divided, flow)
    place = booked(
        ledger, flow, target, people=people, budget=budget, same_values=same_values, memoise=memoise, person=person
    )
    with place:
        flow = flow.at(place)
        if target is None:
            return opened.back(_ready(flow.returned(progress), place, held=ledger is not None))
        return _written(flow, target, divided, place, force, progress, writer_for(target, divided, raw=raw_cells))


def _ready(rows: Rows, place: Booking, *, held: bool) -> Rows:
    """Rows that can be handed over: all of them are drawn before a ledger counts them as delivered."""
    if not held:
        return rows
    batches = list(rows.batches)
    place.ready(sum(b.num_rows for b in batches))
    return replace(rows, batches=iter(batches))


def _written(
    flow: Flow, target: Where, divided: tuple[str, ...], place: Booking, force: bool, progress: Progress | None,
    made: Made,
) -> Release:
    """The release as a table and its manifest, which are named last, the table after the manifest."""
    folder = target if is_folder(target, divided) else None
    with all_drafted([manifest_path(target), target], folder=folder) as (note, table):
        rows = flow.write(made, table, progress)
        with as_output_error(target):
            table.settle()
            manifest = flow.manifest(rows, table.size)
        note.fill(manifest.encoded())
        place.ready(rows)
        publish_all([note, table], replace=force)
    return Release(target, rows, manifest)


def check_partition(divided: Sequence[str], flow: Flow) -> None:
    """Refuse to divide by columns that are not released, before anything is drawn."""
    names = [c.name for c in flow.columns]
    for name in divided:
        find_column(name, names, "the released table")
    if len(set(divided)) != len(divided):
        raise InputError(f"a column is named twice in partition ({', '.join(divided)}); name each once.")


def _check_promise(mechanism: Mechanism | Bundle, allow_unclaimed: bool) -> None:
    """Only a sealed mechanism with a claim that certifies may touch a row."""
    if not mechanism.sealed:
        raise InputError("only a sealed mechanism can release rows; design() and seal() return sealed ones.")
    if mechanism.claim is None:
        if not allow_unclaimed:
            raise ClaimError(
                "this mechanism claims no privacy, so nothing was released. Give it a claim that can be "
                "certified, or pass allow_unclaimed=True if no promise is needed."
            )
        return
    from sfumato.certification.certificate import certify_any

    certify_any(mechanism)


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """One release under way: what is read, how it is randomised, what is written."""

    source: Source
    mechanism: Mechanism
    decode: str
    coded: dict[str, str]  # a column of the mechanism → the source's name for it
    kept: tuple[str, ...]
    sampler: Sampler
    decoder: Decoder
    order: tuple[int, ...]  # of the output columns, as the source has them
    stream: Stream
    compared: dict[str, str] = field(default_factory=dict)  # of a secret that is promised about and not read
    text: dict[str, TextCodes] = field(default_factory=dict)
    memo: Memo | None = None  # answers are remembered rather than drawn anew
    entry: str | None = None  # the name of this release in a ledger

    @classmethod
    def of(
        cls, source: Source, mechanism: Mechanism, decode: str, keep: Sequence[str], secret: Names,
        useful: Names, stream: Stream,
    ) -> Flow:
        private = _named(mechanism.secret, secret, "secret"), _named(mechanism.useful, useful, "useful")
        both = mechanism.reads == "both"
        coded = {**(private[0] if both else {}), **private[1]}
        if len(set(coded.values())) != len(coded):
            raise InputError(f"one column is read twice: {', '.join(coded.values())}. Name each column once.")
        about = not both and mechanism.claim is not None and mechanism.claim.within is not None
        compared = {own: name for own, name in private[0].items() if about and (secret or name in source.columns)}
        for name in (*coded.values(), *compared.values()):
            find_column(name, source.columns, source.name)
        kept = _kept(keep, source, {**private[0], **private[1]})
        decoding = decoder(mechanism, decode, stream)
        names = [c.name for c in decoding.columns]
        clash = set(names) & set(kept)
        if clash:
            raise InputError(f"{min(clash)!r} cannot be kept: the output has a column of that name already.")
        places = [_position(source, coded.get(n, n)) for n in (*names, *kept)]
        order = tuple(sorted(range(len(places)), key=lambda i: places[i]))
        sampler = Sampler(mechanism.law, stream)
        return cls(source, mechanism, decode, coded, kept, sampler, decoding, order, stream, compared)

    def at(self, place: Booking) -> Flow:
        """The same release with its place in a ledger."""
        return replace(self, memo=place.memo, entry=place.token)

    @property
    def columns(self) -> list[OutputColumn]:
        found = [*self.decoder.columns, *(OutputColumn(name, "kept") for name in self.kept)]
        return [found[i] for i in self.order]

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
        codes = self._codes(batch, first_row)
        if self.memo is None:
            drawn = self.sampler.draw(codes, first_row)
        else:
            words = self.memo.words(batch.column(self.memo.column), codes, self.sampler.law.words, first_row)
            drawn = self.sampler.drawn(codes, words)
        arrays = self.decoder.arrays(drawn, first_row)
        arrays += [batch.column(name) for name in self.kept]
        names = [c.name for c in self.columns]
        return pa.RecordBatch.from_arrays([arrays[i] for i in self.order], names=names)

    def _codes(self, batch: pa.RecordBatch, first_row: int) -> npt.NDArray[Any]:
        """Input codes x = s·|U| + u, narrow where they fit."""
        both = self.mechanism.reads == "both"
        columns = (*(self.mechanism.secret.columns if both else ()), *self.mechanism.useful.columns)
        kind: Any = np.int64 if self.mechanism.inputs > np.iinfo(np.int32).max else np.int32
        total: Any = kind(0)
        for column in columns:
            codes = self._column_codes(column, batch.column(self.coded[column.name]), first_row)
            total = total * kind(column.size) + codes if np.ndim(total) else codes.astype(kind, copy=False)
        return np.asarray(total)

    def _column_codes(self, column: Column, values: pa.Array, first_row: int) -> npt.NDArray[np.int32]:
        """Codes of one column, by the compiled way for plain text once numba is there."""
        if self.sampler.compiled and values.type == pa.string():
            if column.name not in self.text:
                self.text[column.name] = TextCodes(column)
            codes = self.text[column.name].encode(values)
            if codes is not None:
                return codes
        return column.encode(values, first_row=first_row)

    def returned(self, progress: Progress | None = None) -> Rows:
        """The released rows for whoever asked for them, with their manifest."""

        def described(rows: int | None) -> dict[bytes, bytes]:
            return {METADATA_KEY: self.manifest(rows).encoded()}

        return Rows(self.batches(progress), self.kept, described)

    def write(self, made: Made, draft: Drafted, progress: Progress | None) -> int:
        """Every batch into a draft; the number of rows."""
        rows = 0
        with output(made, draft.open, draft.target) as write:
            for batch in self.batches(progress):
                write(batch)
                rows += batch.num_rows
        return rows

    def manifest(self, rows: int | None, size: int | None = None, engine: str = "local") -> Manifest:
        compiled = engine == "local" and self.sampler.compiled
        return manifest_of(
            self.mechanism, rows=rows, columns=self.columns, decode=self.decode,
            engine="local, compiled" if compiled else engine, size=size,
            randomness=self.stream.description, entry=self.entry,
        )


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    first_row = 0
    for batch in batches:
        yield first_row, batch
        first_row += batch.num_rows


def _named(alphabet: Alphabet, given: Names, role: str) -> dict[str, str]:
    """The source's name for each column of an alphabet."""
    if given is None:
        return {name: name for name in alphabet.names}
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != len(alphabet.names):
        raise InputError(
            f"{role} must name {len(alphabet.names)} column(s), one for each of {', '.join(alphabet.names)}; "
            f"got {len(names)}."
        )
    return dict(zip(alphabet.names, names, strict=True))


def _kept(keep: Sequence[str], source: Source, private: dict[str, str]) -> tuple[str, ...]:
    names = [keep] if isinstance(keep, str) else list(keep)
    for name in names:
        find_column(name, source.columns, source.name)
        if name in private.values():
            raise InputError(f"{name!r} is protected by the mechanism; keeping it untouched would undo that.")
    if len(set(names)) != len(names):
        raise InputError(f"a column is named twice in keep ({', '.join(names)}); name each once.")
    return tuple(names)


def flow_of(
    source: Source, mechanism: Mechanism | Bundle, decode: str, keep: Sequence[str], secret: Names, useful: Names,
    stream: Stream,
) -> Flow:
    """The flow of a mechanism, or of a bundle."""
    if isinstance(mechanism, Bundle):
        from sfumato.releasing.bundled import BundleFlow

        return BundleFlow.of(source, mechanism, decode, keep, secret, useful, stream)
    return Flow.of(source, mechanism, decode, keep, secret, useful, stream)


def _position(source: Source, name: str) -> int:
    return source.columns.index(name) if name in source.columns else -1
