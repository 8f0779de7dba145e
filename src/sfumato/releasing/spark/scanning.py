"""Frames that are files: workers read these themselves, and Spark's rows need not be turned into Arrow's.

A frame is taken for its files only where nothing can come between: its optimised plan is a scan of Parquet files by
Spark's own reader, with columns chosen or renamed and nothing else, on paths that this machine sees, and every column
that is used has in every file the type that Spark gives it, of those that both read alike. Everything else (filters,
partition columns, cached frames, tables with a log, Spark Connect, dates and times, object stores) is read by Spark.

In files a row has what it lacks in other frames: a number that every computation gives it again. A file that is not the
one it was when the release began (its size, its time, its row groups) is refused, so no number ever changes its row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from sfumato.errors import DataError
from sfumato.sources.source import BATCH_ROWS
from sfumato.sources.spark_frames import column

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

ALIKE = {
    "string": pa.string(), "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(),
    "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "binary": pa.binary(),
}  # Spark's types that Parquet holds in one way only, with what pyarrow reads
SHARE = 1 << 22  # rows that are worth a task of their own
SPARK = "org.apache.spark.sql."
READER = SPARK + "execution.datasources.parquet.ParquetFileFormat"
LISTING = SPARK + "execution.datasources.InMemoryFileIndex"
NUMBER = "p"  # the column of the number of a row


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a file."""

    file: str
    index: int
    rows: int
    first: int  # the number of its first row among those of all files
    stamp: tuple[int, ...]  # which file it is, and when it was changed


@dataclass(frozen=True, slots=True)
class Scan:
    """The row groups of some files in shares for the workers, and the columns that are read of each."""

    shares: tuple[tuple[Group, ...], ...]
    columns: dict[str, str]  # the name it is given → that of the file
    kinds: dict[str, pa.DataType]  # of the columns of the files
    text: tuple[str, ...]  # those that are read as dictionaries

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a worker: the rows of the shares of these numbers, each with its own number among all."""
        for batch in numbers:
            for share in batch.column(0).to_pylist():
                for group in self.shares[share]:
                    yield from self._numbered(group)

    def _numbered(self, group: Group) -> Iterator[pa.RecordBatch]:
        stored, first = list(dict.fromkeys(self.columns.values())), group.first
        try:
            for rows in _batches(group, stored, self.text):
                held = {n: self._plain(n, rows.column(n)) for n in stored}
                number = pa.array(np.arange(first, first + len(rows)))
                first += len(rows)
                arrays = [*(held[n] for n in self.columns.values()), number]
                yield pa.RecordBatch.from_arrays(arrays, names=[*self.columns, NUMBER])
        except (pa.ArrowInvalid, OSError):
            raise DataError("a Parquet file of the Spark data frame could not be read to its end") from None

    def _plain(self, name: str, values: pa.Array) -> pa.Array:
        """Without the dictionary that the file's writer had in memory, unless it was asked for."""
        return values if name in self.text or values.type == self.kinds[name] else values.cast(self.kinds[name])


def _batches(group: Group, columns: list[str], text: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    with parquet.ParquetFile(group.file, read_dictionary=list(text)) as opened:
        there = opened.metadata.row_group(group.index).num_rows if group.index < opened.num_row_groups else None
        if there != group.rows:
            raise _other()
        _check_same(group)
        yield from opened.iter_batches(BATCH_ROWS, row_groups=[group.index], columns=columns, use_threads=False)
        _check_same(group)


def _check_same(group: Group) -> None:
    if _stamp(group.file) != group.stamp:
        raise _other()


def _other() -> DataError:
    return DataError("a file of the Spark data frame is another than before", next="Release it anew.")


def _stamp(file: str) -> tuple[int, ...]:
    """The time of the last change of anything is part of it: copies may bring size and time of writing along."""
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def scan_of(frame: Frame, coded: dict[str, str], kept: dict[str, str]) -> Scan | None:
    """The files behind a frame, with the columns to read of them as (name to give → name in the frame), if it is
    nothing but files."""
    used = list(dict.fromkeys([*coded.values(), *kept.values()]))
    chosen = frame.select(*(column(n) for n in used))
    found = _files(chosen, used) if type(frame).__module__.startswith("pyspark.sql.classic") else None
    if found is None:
        return None
    files, stored = found
    fields = {stored[f.name]: f.dataType.typeName() for f in chosen.schema.fields}
    kinds = {name: ALIKE[kind] for name, kind in fields.items() if kind in ALIKE}
    groups = _groups(files, kinds) if len(kinds) == len(fields) else None
    if not groups:
        return None
    untouched = {stored[n] for n in kept.values()}
    text = {stored[n] for n in coded.values() if kinds[stored[n]] == pa.string()} - untouched
    names = {inner: stored[n] for inner, n in (coded | kept).items()}
    workers = frame.sparkSession.sparkContext.defaultParallelism
    return Scan(_shares(groups, workers), names, kinds, tuple(sorted(text)))


def _files(chosen: Any, used: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
    """The paths behind a plan that only chooses and renames columns of Parquet files, and the files' own names."""
    plan = chosen._jdf.queryExecution().optimizedPlan()
    names: dict[str, str | None] = {name: name for name in used}
    if plan.nodeName() == "Project":
        listed = plan.projectList()
        names = {e.name(): _attribute(e) for e in (listed.apply(i) for i in range(listed.size()))}
        plan = plan.children().apply(0)
    if plan.nodeName() != "LogicalRelation" or None in names.values() or set(names) != set(used):
        return None
    relation = plan.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return None
    kinds = relation.fileFormat().getClass().getName(), relation.location().getClass().getName()
    paths = [urlparse(x) for x in relation.location().inputFiles()] if kinds == (READER, LISTING) else []
    if not paths or any(x.scheme != "file" for x in paths):
        return None
    return [unquote(x.path) for x in paths], {k: str(v) for k, v in names.items()}


def _attribute(expression: Any) -> str | None:
    """The column that an expression is, under this name or another."""
    kind = expression.getClass().getSimpleName()
    if kind == "Alias":
        expression = expression.child()
        kind = expression.getClass().getSimpleName()
    return str(expression.name()) if kind == "AttributeReference" else None


def _groups(files: Sequence[str], kinds: dict[str, pa.DataType]) -> list[Group] | None:
    """All row groups, if every file has every column in the type it should have."""
    from pyarrow import parquet

    groups: list[Group] = []
    first = 0
    for name in sorted(files):  # so that numbers do not depend on how they are listed
        try:
            stamp = _stamp(name)
            with parquet.ParquetFile(name) as file:
                schema, held = file.schema_arrow, file.metadata
        except (pa.ArrowInvalid, OSError):
            return None
        if any(n not in schema.names or _value_type(schema.field(n).type) != kind for n, kind in kinds.items()):
            return None
        for i in range(held.num_row_groups):
            groups.append(Group(name, i, held.row_group(i).num_rows, first, stamp))
            first += groups[-1].rows
    return groups


def _value_type(kind: pa.DataType) -> pa.DataType:
    """What is stored, however the writer had it in memory."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _shares(groups: Sequence[Group], workers: int) -> tuple[tuple[Group, ...], ...]:
    """Groups in as many runs of about as many rows as keep all workers busy alike."""
    total = sum(group.rows for group in groups)
    wanted = workers * max(1, -(-total // (SHARE * workers)))
    shares: list[list[Group]] = [[] for _ in range(wanted)]
    for group in groups:
        shares[min(wanted - 1, group.first * wanted // max(total, 1))].append(group)
    return tuple(tuple(s) for s in shares if s)
