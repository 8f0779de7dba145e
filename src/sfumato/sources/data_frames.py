"""Data frames, DuckDB relations, tables of counts and frames of Spark as sources; none of these is imported here."""

from __future__ import annotations

import contextlib
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato import errors
from sfumato.alphabet import Ints
from sfumato.errors import At, DataError, InputError, SfumatoError, option
from sfumato.libraries import narwhals as nw
from sfumato.libraries import pyspark
from sfumato.libraries import spark_functions as F
from sfumato.sources.meaning import Meaning
from sfumato.sources.source import BATCH_ROWS, Part, RowSource, Source
from sfumato.sources.values import numbers_of
from sfumato.tolerances import BLOCK

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from narwhals import Series
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import StructType

    from sfumato.sources.source import Frame

ATTRIBUTE = "sfumato."  # what a frame's own notes begin with when they are ours


def frame_source(frame: Frame) -> Source:
    """A pandas or Polars frame, eager or lazy."""
    kind = f"the {type(frame).__module__.split('.')[0]} frame"
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect_batches"):
        return _lazy_source(frame, kind)
    if not hasattr(frame, "columns"):
        raise InputError(f"{kind} is a {type(frame).__name__}", next="Give a frame with named columns.")

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        wanted = [*coded, *kept]
        part = nw.from_native(frame, eager_only=True).select(wanted)
        arrays = [_arrow_column(part[name], name) for name in wanted]
        return pa.table(arrays, names=wanted).to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]

    notes = {k.encode(): v.encode() for k, v in getattr(frame, "attrs", {}).items() if str(k).startswith(ATTRIBUTE)}
    return Source(
        kind, tuple(frame.columns), read, back=lambda rows: _frame_like(frame, rows), metadata=notes, rows=len(frame)
    )


def _frame_like(frame: Frame, rows: RowSource) -> Frame:
    """Released rows as a frame of the same library; kept columns are the frame's own, with their types.

    An index is not a column that was named to be kept, so it does not come through.
    """
    table = rows.table()
    known = nw.from_native(frame, eager_only=True)
    made = nw.from_arrow(table.drop_columns(list(rows.kept)), backend=known.implementation)
    own = known.select(list(rows.kept)).to_native()
    own = nw.from_native(own.reset_index(drop=True) if hasattr(own, "reset_index") else own, eager_only=True)
    whole = nw.concat([made, own], how="horizontal").select(table.column_names).to_native()
    if hasattr(whole, "attrs"):
        whole.attrs.update({k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()})
    return whole


def _lazy_source(frame: Frame, kind: str) -> Source:
    """A lazy Polars frame, collected batch by batch for the columns asked for, once for each reading.

    What comes back is lazy too, but over rows that are drawn already: noise that were drawn again whenever somebody
    collects would be another release of the same people.
    """
    columns = tuple(frame.collect_schema().names())

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *kept]
        for part in frame.select(wanted).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
            yield from part.to_arrow().to_batches(max_chunksize=BATCH_ROWS)

    def back(rows: RowSource) -> Frame:
        kinds = {name: kind for name, kind in frame.collect_schema().items() if name in rows.kept}
        made = nw.from_arrow(rows.table(), backend=nw.from_native(frame).implementation).to_native()
        return (made.cast(kinds) if kinds else made).lazy()

    return Source(kind, columns, read, back=back)


def _arrow_column(series: Series[Frame], name: str) -> pa.Array | pa.ChunkedArray:
    try:
        values = series.to_arrow()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        kinds = sorted({type(x).__name__ for x in series.to_list() if x is not None and x == x})
        what = f"mixes values of different types ({', '.join(kinds)})" if len(kinds) > 1 else (
            f"holds values of the type {''.join(kinds)} that no column of Arrow holds")
        raise DataError(
            what,
            next="Convert it to one type first, for example to text.", where=At(name),
        ) from None
    return values


def relation_source(relation: DuckDBPyRelation) -> Source:
    """A DuckDB relation, such as a SQL query, streamed; the query runs once for each reading."""
    if not hasattr(relation, "columns") or not hasattr(relation, "project"):
        kind = type(relation).__name__
        raise InputError(f"a DuckDB {kind} has no rows", next="Give a relation, such as con.sql('…').")

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        part = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in (*coded, *kept)))
        stream = part.to_arrow_reader if hasattr(part, "to_arrow_reader") else part.fetch_arrow_reader
        yield from stream(BATCH_ROWS)

    def back(rows: RowSource) -> Frame:
        sfumato_released = rows.table()  # found by its name, in this frame: DuckDB looks for it when it runs the query
        assert sfumato_released.num_rows
        return relation.query("sfumato_relation", "SELECT * FROM sfumato_released")

    return Source("the DuckDB relation", tuple(relation.columns), read, back=back)


# --- tables that are counted already: each row stands for as many people as a column says -----------------------------


def expanded(source: Source, counts: str) -> Source:
    """The people behind a table of counts, one row each, made as they are read and in a random order.

    In the order of the table one person more in a cell would move everybody behind it: released rows, which stand in
    the order of the people, would then tell of each cell how many it holds.
    """
    source.find(counts)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *(() if counts in coded else (counts,))]
        batches = list(source.batches(wanted, kept))
        cells = pa.Table.from_batches(batches).combine_chunks()
        people = _people(cells.column(counts).combine_chunks(), counts)
        chosen = cells.select([*coded, *kept])
        for at in in_random_order(people, BATCH_ROWS):
            yield from chosen.take(pa.array(at)).combine_chunks().to_batches()

    left = tuple(name for name in source.columns if name != counts)
    said = tuple(x for x in source.reading.said if "number of people in each row" not in x)
    reading = Meaning(said=said, guessed=source.reading.guessed)
    name = f"{source.name} (people by {counts})"
    return replace(source, name=name, columns=left, read=read, rows=None, share=None, reading=reading)


def in_random_order(people: Ints, most: int) -> Iterator[Ints]:
    """Every person's cell once, `most` at a time, every order alike.

    Each batch is drawn without replacement from those who are left, by the system's randomness.
    """
    left = people.copy()
    while (total := int(left.sum())) > 0:
        found = np.searchsorted(np.cumsum(left), _distinct(min(most, total), total), side="right")
        left -= np.bincount(found, minlength=len(left))
        yield found


def _distinct(many: int, below: int) -> Ints:
    """Different whole numbers below a limit, every sequence of them alike but for 2⁻⁶⁴ of the limit."""
    if 2 * many > below:
        return np.argsort(_words(below), kind="stable")[:many].astype(np.int64)
    found = np.empty(0, np.int64)
    while len(found) < many:
        found = np.concatenate([found, (_words(many) % np.uint64(below)).astype(np.int64)])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
    return found[:many]


def _words(many: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(secrets.token_bytes(8 * many), np.uint64)


def _people(values: pa.Array, name: str) -> Ints:
    try:
        found = numbers_of(values, name, 0)
        bad = np.flatnonzero(~((found >= 0) & (found == np.floor(found))))
        row = int(bad[0]) + 1 if bad.size else None
    except DataError as error:
        row = error.where.row if isinstance(error.where, At) else 0
    if row is not None:
        counts = option("--counts", "counts=")
        raise DataError(
            "a count must be a whole number, zero or more",
            next=f"{counts} names the column that says how many people a row is: leave it out where each is one.",
            where=At(name, row=row),
        )
    return found.astype(np.int64)


# --- frames of Spark: rows stay on the cluster, only sums over them come here -----------------------------------------
# Nothing here needs an RDD or a SparkContext, so classic sessions and Spark Connect are served alike. Work on rows is a
# function of one Arrow batch that gives keys with weights; Spark runs it beside the rows (mapInArrow) and adds up.


WEIGHT = "n"
OURS = re.compile(r"^(?:sfumato\.errors\.)(\w+): (.*)$", re.MULTILINE)


def spark_source(frame: Frame) -> Source:
    """A Spark data frame, classic or Connect, as a source that is counted where its rows are."""
    if not hasattr(frame, "mapInArrow") or not hasattr(frame, "columns"):
        raise InputError(
            f"a {type(frame).__module__}.{type(frame).__name__} is not a Spark data frame",
            next="Give a DataFrame (pandas-on-Spark frames have .to_spark()).",
        )
    if frame.isStreaming:
        raise InputError("a streaming data frame has no end; release its batches one by one (foreachBatch).")

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        with clear_errors():
            wanted = frame.select(*(column(name) for name in (*coded, *kept)))
            return wanted.toArrow().to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]

    return Source("the Spark data frame", tuple(frame.columns), read, cluster=frame)


def sums_there(frame: Frame, columns: Sequence[str], part: Part, keys: pa.Schema, *, few: bool) -> pa.Table:
    """Distinct keys with the sum of their weights. `few`: rows take few distinct values, so Spark counts them first
    and `part` sees every value once. More than BLOCK keys would be a copy of the table, not its counts."""
    rows = grouped(frame, columns) if few else frame.select(*plain_columns(columns))
    names = [f"c{i}" for i in range(len(columns))]
    with clear_errors():
        parts = map_in_arrow(rows, _summing(part, list(columns), names, keys), keys)
        total = parts.groupBy(*keys.names[:-1]).agg(F.sum(WEIGHT).alias(WEIGHT))
        table = total.limit(BLOCK + 1).toArrow()
    if table.num_rows > BLOCK:
        raise InputError(
            f"{', '.join(columns)} take more than {BLOCK:,} distinct combinations of values: are there numbers "
            "or identifiers among them?",
            next=f"Bin them with given edges ({option('--bins COL=EDGES', 'bins={column: [edges]}')}) or leave them "
            "out.",
        )
    return table.cast(keys)


def _summing(
    part: Part, columns: list[str], names: list[str], keys: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with worker_errors():
                rows = pa.RecordBatch.from_arrays([batch.column(n) for n in names], names=columns)
                found = part(rows, 0, weights_of(batch))
            yield from found.cast(keys).to_batches()

    return run


def weights_of(batch: pa.RecordBatch) -> Ints:
    """How often each row occurs: the column of weights, or once."""
    if WEIGHT in batch.schema.names:
        return np.asarray(batch.column(WEIGHT), np.int64)
    return np.ones(batch.num_rows, np.int64)


def column(name: str) -> SparkColumn:
    """A column by its whole name, dots and backticks included."""
    return F.col("`" + name.replace("`", "``") + "`")


def plain_columns(names: Sequence[str]) -> list[SparkColumn]:
    """Columns under names of our own, c0, c1, …: no dots, no clash, no letter case."""
    return [column(name).alias(f"c{i}") for i, name in enumerate(names)]


def grouped(frame: Frame, names: Sequence[str]) -> Frame:
    """Distinct values of columns c0, c1, … with how often they occur. Text is compared byte by byte: a collation
    would give one of several spellings, and not always the same one."""
    part = frame.select(*plain_columns(names))
    text = {f.name for f in part.schema.fields if f.dataType.typeName() == "string"}
    part = part.select(*(F.col(n).cast("string").alias(n) if n in text else F.col(n) for n in part.columns))
    return part.groupBy(*part.columns).agg(F.count(F.lit(1)).alias(WEIGHT))


def map_in_arrow(
    frame: Frame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema | StructType
) -> Frame:
    """frame.mapInArrow(work); `schema` is Arrow's or Spark's. mapInArrow wants pandas only to convert types it is
    not given here, so its doubts about new versions of pandas do not concern us."""
    if isinstance(schema, pa.Schema):
        schema = pyspark.sql.pandas.types.from_arrow_schema(schema)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        return frame.mapInArrow(work, schema)


@contextlib.contextmanager
def worker_errors() -> Iterator[None]:
    """In a worker: an error about a row keeps its column and loses its number, which means nothing on a cluster."""
    try:
        yield
    except SfumatoError as error:
        raise error.without_row() from None


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Where a job is started: an error that sfumato raised in a worker is raised here again, without Java's stack."""
    try:
        yield
    except pyspark.errors.PySparkException as error:
        found = OURS.findall(str(error))
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None:
            raise
        raise kind(found[-1][1]) from None
