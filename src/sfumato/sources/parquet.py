"""Parquet as a source: one file, or a folder of files with or without hive partitions (year=2026/part-0.parquet)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from sfumato.errors import At, DataError, InputError
from sfumato.sources.places import Where, below, files_below, opened
from sfumato.sources.source import BATCH_ROWS, Source

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
Key = str | int | None


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """One file, with the columns that its folders state."""

    where: Where
    name: str  # as messages call it
    schema: pa.Schema
    rows: int
    keys: dict[str, Key]

    @classmethod
    def of(cls, where: Where, name: str, keys: dict[str, Key]) -> FilePart:
        with _file(where, name) as file:
            return cls(where, name, file.schema_arrow, file.metadata.num_rows, keys)

    def batches(self, coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *kept]
        stored = [n for n in wanted if n not in self.keys]
        text = [n for n in coded if n in stored and _plain(self.schema.field(n).type) == pa.string()]
        try:
            with _file(self.where, self.name, read_dictionary=text) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=stored):
                    yield self._with_keys(batch, wanted) if len(stored) < len(wanted) else batch.select(wanted)
        except (pa.ArrowInvalid, OSError):
            raise DataError("could not be read to its end: the file is damaged", where=self.name) from None

    def _with_keys(self, batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
        rows = batch.num_rows
        arrays = [
            _repeated(self.keys[n], self.schema.field(n).type, rows) if n in self.keys else batch.column(n)
            for n in wanted
        ]
        return pa.RecordBatch.from_arrays(arrays, names=wanted)


def _repeated(key: Key, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind) if key is None else pa.repeat(pa.scalar(key, kind), rows)


@contextlib.contextmanager
def _file(where: Where, name: str, **options: list[str]) -> Iterator[ParquetFile]:
    from pyarrow import parquet

    with opened(where) as raw:
        try:
            file = parquet.ParquetFile(raw, **options)
        except pa.ArrowInvalid:
            raise InputError("is not a Parquet file, or it is damaged", where=name) from None
        yield file


def parquet_source(where: Where) -> Source:
    """One Parquet file."""
    return _source([FilePart.of(where, where.name, {})], where.name, where)


def folder_source(where: Where) -> Source:
    """Every Parquet file of a folder, in the order of their paths."""
    found = files_below(where)
    if not found:
        raise InputError("is a folder without Parquet files", where=where)
    odd = [parts for parts in found if not parts[-1].lower().endswith(".parquet")]
    if odd:
        raise InputError(
            f"is a folder with other files than Parquet ones, such as {'/'.join(odd[0])}",
            next="Give one file, or a folder in which every file ends in .parquet.", where=where,
        )
    keys = _keys(found, where.name)
    parts = [
        FilePart.of(below(where, at), f"{where.name}/{'/'.join(at)}", own) for at, own in zip(found, keys, strict=True)
    ]
    return _source([_with_fields(p, keys) for p in parts], where.name, where)


def _keys(found: list[tuple[str, ...]], name: str) -> list[dict[str, Key]]:
    """What the folders state about each file: whole numbers where all are, else text."""
    raw = [dict(part.split("=", 1) for part in parts[:-1] if "=" in part) for parts in found]
    for own, parts in zip(raw, found, strict=True):
        if list(own) != list(raw[0]):
            raise InputError(
                f"the folder {name} is partitioned in two ways: by {', '.join(raw[0]) or 'nothing'} and, at "
                f"{'/'.join(parts)}, by {', '.join(own) or 'nothing'}", next="Give one of them.",
            )
    out: list[dict[str, Key]] = [{} for _ in raw]
    for key in raw[0]:
        values = [None if own[key] == NULL_PARTITION else unquote(own[key]) for own in raw]
        whole = all(v is None or WHOLE.fullmatch(v) for v in values)
        for own_out, v in zip(out, values, strict=True):
            own_out[unquote(key)] = v if v is None or not whole else int(v)
    return out


def _with_fields(part: FilePart, keys: list[dict[str, Key]]) -> FilePart:
    """The part with the types of what its folders state, which win over a column of the same name in the file."""
    schema = part.schema
    for key in part.keys:
        kind = pa.int64() if any(isinstance(own[key], int) for own in keys) else pa.string()
        at = schema.get_field_index(key)
        schema = schema.append(pa.field(key, kind)) if at < 0 else schema.set(at, pa.field(key, kind))
    return FilePart(part.where, part.name, schema, part.rows, part.keys)


def _source(parts: list[FilePart], name: str, where: Where) -> Source:
    first = parts[0]

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in parts[1:]:
            _check_alike(first, part, coded, kept)
        for part in parts:
            yield from part.batches(coded, kept)

    return Source(
        name, tuple(first.schema.names), read, where, metadata=first.schema.metadata or {},
        rows=sum(p.rows for p in parts),
    )


def _check_alike(first: FilePart, part: FilePart, coded: Sequence[str], kept: Sequence[str]) -> None:
    """Refuse a folder whose files differ in a column that is read; how coded text is stored makes no difference."""
    for name in (*coded, *kept):
        if name not in part.schema.names:
            raise InputError(
                f"is in {first.name} but not in {part.name}",
                next="Write the folder anew with one schema, or give the files one by one.", where=At(name),
            )
        kinds = [p.schema.field(name).type for p in (first, part)]
        if name in coded:
            kinds = [_plain(kind) for kind in kinds]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"is {kinds[0]} in {first.name} but {kinds[1]} in {part.name}",
                next="Write the folder anew with one schema, or give the files one by one.", where=At(name),
            )


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without regard to how text is stored."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if kind in (pa.large_string(), pa.string_view()) else kind
