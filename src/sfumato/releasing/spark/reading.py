"""What a release on Spark reads, by Spark or from the files themselves, and under which names: what all ways share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from sfumato.drawing.decoding import GUESS
from sfumato.drawing.manifest import SPARK_KEY, Told
from sfumato.errors import At, DataError, InputError
from sfumato.libraries import spark_functions as F
from sfumato.libraries import spark_types as T
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark.tasks import NUMBER, Job, Opened, coded_apart, encode
from sfumato.sources.data_frames import WEIGHT, column, grouped, map_in_arrow
from sfumato.sources.source import BATCH_ROWS

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

    from sfumato.sources.source import Frame

SPELLED = (
    "string", "char", "varchar", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date",
    "timestamp", "timestamp_ntz", "binary", "void",
)  # types whose values have one spelling in bytes


def job_of(flow: Flow, *, numbered: bool = False) -> Job:
    """What the workers must know of a release; `numbered` rows have a number in files."""
    record = msgspec.json.encode(flow.checked.record)
    guessed = any(c.role == "guess" for c in flow.drawer.decoder.columns)
    inputs = len(coded_apart(flow.mechanism))
    decode, compared = GUESS if guessed else flow.decode, tuple(flow.compared)
    return Job(record, flow.drawer.stream.key, decode, len(flow.kept), len(flow.id), inputs, compared, numbered)


def looked_at(flow: Flow) -> list[str]:
    """The columns that workers look at: those of the input code in its order, then those that are only compared."""
    return [*(flow.coded[c.name] for c in flow.drawer.reading), *flow.compared.values()]


@dataclass(frozen=True, slots=True, eq=False)
class RowsRead:
    """A frame, and the files behind it where it is nothing but files, which workers then read themselves.

    Columns are c… (looked at), k… (kept) and i… (names).
    """

    frame: Frame
    scan: Scan | None

    @property
    def opened(self) -> Opened:
        """How a worker gets at the rows."""
        return iter if self.scan is None else self.scan.read

    @property
    def names(self) -> RowsRead:
        """The same with the names of rows alone."""
        if self.scan is None:
            return RowsRead(self.frame.select(*(n for n in self.frame.columns if n.startswith("i"))), None)
        columns = {inner: n for inner, n in self.scan.columns.items() if inner.startswith("i")}
        return RowsRead(self.frame, replace(self.scan, columns=columns))


def rows_of(flow: Flow) -> RowsRead:
    """What is read of a release: files are listed, and their states taken down, once for all that is done with it."""
    frame, coded = flow.source.cluster, _inner("c", looked_at(flow))
    kept = _inner("k", flow.kept) | _inner("i", flow.id)
    scan = scan_of(frame, coded, kept)
    if scan is not None:
        parts = len(scan.shares)
        return RowsRead(frame.sparkSession.range(0, parts, 1, parts), scan)
    return RowsRead(frame.select(*(column(name).alias(inner) for inner, name in (coded | kept).items())), None)


def _inner(prefix: str, names: Sequence[str]) -> dict[str, str]:
    """Names inside for those of the source."""
    return {f"{prefix}{i}": name for i, name in enumerate(names)}


def encoded(flow: Flow) -> Frame:
    """The rows of a release that keeps nothing, as columns x0 (input code) and n (how often); a code may come twice."""
    schema = pa.schema([(name, pa.int64()) for name in (*job_of(flow).codes, WEIGHT)])
    rows = rows_of(flow)
    frame, opened = rows.frame, rows.opened
    columns = [c for a in (flow.mechanism.secret, flow.mechanism.useful) for c in a.columns]
    if rows.scan is None and all(c.cuts is None for c in columns):  # few distinct values: Spark counts them first
        frame = grouped(flow.source.cluster, looked_at(flow))
    return map_in_arrow(frame, partial(encode, job_of(flow), opened), schema)


def check_kinds(flow: Flow) -> None:
    """Refuse to tell rows apart by values whose bytes may differ where they are the same."""
    for field in flow.source.cluster.select(*(column(n) for n in (*flow.kept, *flow.id))).schema.fields:
        if not _spelled(field.dataType):
            raise InputError(
                f"of Spark type {field.dataType.typeName()} cannot be kept: its values have no spelling to tell rows "
                "apart by", next="Cast it to text first.", where=At(field.name),
            )


def _spelled(kind: DataType) -> bool:
    inner = [getattr(kind, n) for n in ("elementType", "keyType", "valueType") if hasattr(kind, n)]
    inner += [f.dataType for f in getattr(kind, "fields", ())]
    return all(map(_spelled, inner)) if kind.typeName() in ("array", "map", "struct") else kind.typeName() in SPELLED


def shuffle_parts(flow: Flow) -> int:
    """The number of parts that the session asks for."""
    return int(flow.source.cluster.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def as_columns(flow: Flow, rows: Frame) -> Frame:
    """Released rows of columns k…, y… under the names and in the order of the release."""
    told = Told(flow.mechanism.checksum, flow.decode, flow.drawer.stream.description)
    fields, ours = kept_fields(flow), {SPARK_KEY: told._asdict()}
    return rows.select(*(
        F.col(inner).alias(name, metadata=fields[inner].metadata if inner in fields else ours)
        for inner, name in output_names(flow)
    ))


def kept_fields(flow: Flow) -> dict[str, StructField]:
    """Kept columns by their internal names, with their fields in the source's schema."""
    fields = flow.source.cluster.select(*(column(name) for name in flow.kept)).schema.fields if flow.kept else []
    return {f"k{i}": field for i, field in enumerate(fields)}


def answer_keys(flow: Flow) -> list[str]:
    """The internal names of the released columns: y0, y1, …"""
    return [f"y{i}" for i in range(len(flow.drawer.decoder.columns))]


def answer_schema(flow: Flow) -> T.StructType:
    """Spark's schema of released rows inside: columns k…, y…"""
    fields = [T.StructField(name, field.dataType) for name, field in kept_fields(flow).items()]
    return T.StructType([*fields, *(T.StructField(name, T.StringType()) for name in answer_keys(flow))])


def output_names(flow: Flow) -> list[tuple[str, str]]:
    """(internal name, released name) in the order of the released table. Inside, kept columns come first."""
    inner = [*answer_keys(flow), *(f"k{i}" for i in range(len(flow.kept)))]
    named = list(zip(inner, [*(c.name for c in flow.drawer.decoder.columns), *flow.kept], strict=True))
    return [named[i] for i in flow.order]


# --- frames that are files: workers read these themselves, and Spark's rows need not be turned into Arrow's -----------
# A frame is taken for its files only where nothing can come between: its optimised plan is a scan of Parquet files by
# Spark's own reader, with columns chosen or renamed and nothing else, on paths that this machine sees, and every column
# that is used has in every file the type that Spark gives it, of those that both read alike. Everything else (filters,
# partition columns, cached frames, tables with a log, Spark Connect, dates and times, object stores) is read by Spark.
#
# In files a row has what it lacks in other frames: a number that every computation gives it again. A file that is not
# the one it was when the release began (its size, its time, its row groups) is refused, so no number ever changes its
# row.


SAME_TYPES = {
    "string": pa.string(), "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(),
    "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "binary": pa.binary(),
}  # Spark's types that Parquet holds in one way only, with what pyarrow reads
ROWS_OF_A_TASK = 1 << 22  # rows that are worth a task of their own
SPARK = "org.apache.spark.sql."
READER = SPARK + "execution.datasources.parquet.ParquetFileFormat"
LISTING = SPARK + "execution.datasources.InMemoryFileIndex"


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
    kinds = {name: SAME_TYPES[kind] for name, kind in fields.items() if kind in SAME_TYPES}
    groups = _groups(files, kinds) if len(kinds) == len(fields) else None
    if not groups:
        return None
    untouched = {stored[n] for n in kept.values()}
    text = {stored[n] for n in coded.values() if kinds[stored[n]] == pa.string()} - untouched
    names = {inner: stored[n] for inner, n in (coded | kept).items()}
    workers = frame.sparkSession.sparkContext.defaultParallelism
    return Scan(_shares(groups, workers), names, kinds, tuple(sorted(text)))


def _files(chosen: Frame, used: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
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


def _attribute(expression: Frame) -> str | None:
    """The column that an expression is, under this name or another."""
    kind = expression.getClass().getSimpleName()
    if kind == "Alias":
        expression = expression.child()
        kind = expression.getClass().getSimpleName()
    return str(expression.name()) if kind == "AttributeReference" else None


def _groups(files: Sequence[str], kinds: dict[str, pa.DataType]) -> list[Group] | None:
    """All row groups, if every file has every column in the type it should have."""
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
    wanted = workers * max(1, -(-total // (ROWS_OF_A_TASK * workers)))
    shares: list[list[Group]] = [[] for _ in range(wanted)]
    for group in groups:
        shares[min(wanted - 1, group.first * wanted // max(total, 1))].append(group)
    return tuple(tuple(s) for s in shares if s)
