"""Spark data frames as sources: rows stay on the cluster, only sums over them come here.

Nothing here needs an RDD or a SparkContext, so classic sessions and Spark Connect are served alike. Work on rows is a
function of one Arrow batch that gives keys with weights; Spark runs it beside the rows (mapInArrow) and adds up.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato import errors
from sfumato.alphabet import Ints
from sfumato.errors import InputError, SfumatoError, option
from sfumato.sources.source import BATCH_ROWS, Part, Source

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import StructType

    from sfumato.sources.source import Frame

MOST_GROUPS = 5_000_000  # distinct keys that are brought here; more would be a copy of the table, not its counts
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

    def sums(columns: Sequence[str], part: Part, keys: pa.Schema, *, few: bool) -> pa.Table:
        return _sums(frame, columns, part, keys, few=few)

    return Source("the Spark data frame", tuple(frame.columns), read, sums=sums, cluster=frame)


def _sums(frame: Frame, columns: Sequence[str], part: Part, keys: pa.Schema, *, few: bool) -> pa.Table:
    """Distinct keys with the sum of their weights. `few`: rows take few distinct values, so Spark counts them first
    and `part` sees every value once."""
    from pyspark.sql import functions as F

    rows = grouped(frame, columns) if few else frame.select(*plain_columns(columns))
    names = [f"c{i}" for i in range(len(columns))]
    with clear_errors():
        parts = map_in_arrow(rows, _summing(part, list(columns), names, keys), keys)
        total = parts.groupBy(*keys.names[:-1]).agg(F.sum(WEIGHT).alias(WEIGHT))
        table = total.limit(MOST_GROUPS + 1).toArrow()
    if table.num_rows > MOST_GROUPS:
        raise InputError(
            f"{', '.join(columns)} take more than {MOST_GROUPS:,} distinct combinations of values: are there numbers "
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
                weights = weights_of(batch)
                found = part(pa.RecordBatch.from_arrays([batch.column(n) for n in names], names=columns), weights)
            yield from found.cast(keys).to_batches()

    return run


def weights_of(batch: pa.RecordBatch) -> Ints:
    """How often each row occurs: the column of weights, or once."""
    if WEIGHT in batch.schema.names:
        return np.asarray(batch.column(WEIGHT), np.int64)
    return np.ones(batch.num_rows, np.int64)


def column(name: str) -> SparkColumn:
    """A column by its whole name, dots and backticks included."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def plain_columns(names: Sequence[str], prefix: str = "c") -> list[SparkColumn]:
    """Columns under names of our own, c0, c1, …: no dots, no clash, no letter case."""
    return [column(name).alias(f"{prefix}{i}") for i, name in enumerate(names)]


def grouped(frame: Frame, names: Sequence[str]) -> Frame:
    """Distinct values of columns c0, c1, … with how often they occur. Text is compared byte by byte: a collation
    would give one of several spellings, and not always the same one."""
    from pyspark.sql import functions as F

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
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(schema)
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
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        found = OURS.findall(str(error))
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None:
            raise
        raise kind(found[-1][1]) from None
