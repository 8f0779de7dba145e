"""The engine: rows through a mechanism into a table, streamed, checked before and all or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Alphabet, Column, find_column
from sfumato.atomic import as_output_error, check_target, drafts
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism.bundle import Bundle
from sfumato.mechanism.mechanism import Mechanism
from sfumato.releasing.decoding import Decoder, decoder
from sfumato.releasing.manifest import Manifest, OutputColumn, manifest_of, manifest_path
from sfumato.releasing.randomness import Stream
from sfumato.releasing.sampling import Sampler
from sfumato.releasing.text_codes import TextCodes
from sfumato.releasing.threads import ahead, in_order
from sfumato.releasing.writing import writer_for
from sfumato.sources import Source, open_source

Names = str | Sequence[str] | None
Progress = Callable[[int], None]  # told the number of rows written so far
METADATA_KEY = b"sfumato.manifest"


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A released table: where it is, how many rows it has, and its manifest."""

    path: Path
    rows: int
    manifest: Manifest


@overload
def release(
    source: Any, mechanism: Mechanism | Bundle, to: None = None, *, decode: str = ..., keep: Sequence[str] = ...,
    secret: Names = ..., useful: Names = ..., seed: int | None = ..., force: bool = ...,
    allow_unclaimed: bool = ..., progress: Progress | None = ...,
) -> pa.Table: ...


@overload
def release(
    source: Any, mechanism: Mechanism | Bundle, to: str | os.PathLike[str], *, decode: str = ...,
    keep: Sequence[str] = ..., secret: Names = ..., useful: Names = ..., seed: int | None = ...,
    force: bool = ..., allow_unclaimed: bool = ..., progress: Progress | None = ...,
) -> Release: ...


def release(
    source: Any, mechanism: Mechanism | Bundle, to: str | os.PathLike[str] | None = None, *, decode: str = "symbols",
    keep: Sequence[str] = (), secret: Names = None, useful: Names = None, seed: int | None = None,
    force: bool = False, allow_unclaimed: bool = False, progress: Progress | None = None,
) -> Release | pa.Table:
    """Randomise every row of a source into a .csv, .tsv, .csv.gz or .parquet file, or into an Arrow table.

    The claim is certified first. Columns that the mechanism does not read are left out unless `keep` names
    them; kept columns are not protected. `secret` and `useful` name the columns to read when the source calls
    them otherwise than the mechanism, in its order. The file appears complete or not at all, with a manifest
    beside it.
    """
    opened = open_source(source)
    target = None if to is None else Path(to)
    if target is not None:
        made = writer_for(target)
        check_target(target, opened.path, force=force)
        check_target(manifest_path(target), opened.path, force=force)
    _check_promise(mechanism, allow_unclaimed)
    flow = flow_of(opened, mechanism, decode, keep, secret, useful, Stream.of(seed))
    if target is None:
        batches = list(flow.batches(progress))
        manifest = flow.manifest(sum(b.num_rows for b in batches))
        return pa.Table.from_batches(batches).replace_schema_metadata({METADATA_KEY: manifest.encoded()})
    with drafts(target, manifest_path(target)) as (table, note):
        rows = flow.write(lambda schema: made(table.path, schema), target, progress)
        with as_output_error(target):
            table.settle()
            manifest = flow.manifest(rows, table.size)
            os.write(note.descriptor, manifest.encoded())
            note.settle()
            note.publish(replace=force)
            table.publish(replace=force)
    return Release(target, rows, manifest)


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
    text: dict[str, TextCodes] = field(default_factory=dict)

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
        for name in coded.values():
            find_column(name, source.columns, source.name)
        kept = _kept(keep, source, {**private[0], **private[1]})
        decoding = decoder(mechanism, decode, stream)
        names = [c.name for c in decoding.columns]
        clash = set(names) & set(kept)
        if clash:
            raise InputError(f"{min(clash)!r} cannot be kept: the output has a column of that name already.")
        places = [_position(source, coded.get(n, n)) for n in (*names, *kept)]
        order = tuple(sorted(range(len(places)), key=lambda i: places[i]))
        return cls(source, mechanism, decode, coded, kept, Sampler(mechanism.law, stream), decoding, order)

    @property
    def columns(self) -> list[OutputColumn]:
        found = [*self.decoder.columns, *(OutputColumn(name, "kept") for name in self.kept)]
        return [found[i] for i in self.order]

    def batches(self, progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """Released batches in order; reading, drawing and what the caller does with them overlap."""
        rows = 0
        reading = ahead(_numbered(self.source.batches(list(self.coded.values()), self.kept)))
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
        drawn = self.sampler.draw(self._codes(batch, first_row), first_row)
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

    def write(self, opened: Callable[[pa.Schema], Any], target: Path, progress: Progress | None) -> int:
        """Every batch into a writer; the number of rows."""
        writer, rows = None, 0
        for batch in self.batches(progress):
            with as_output_error(target):
                writer = opened(batch.schema) if writer is None else writer
                writer.write(batch)
            rows += batch.num_rows
        with as_output_error(target):
            if writer is not None:
                writer.close()
        return rows

    def manifest(self, rows: int, size: int | None = None) -> Manifest:
        return manifest_of(
            self.mechanism, rows=rows, columns=self.columns, decode=self.decode,
            engine="local, compiled" if self.sampler.compiled else "local", size=size,
            randomness=self.sampler.stream.description,
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
