"""The Spark engine: a release whose noise repeats with every recomputed, speculative or second run of a task.

A release is a function of one secret key and of the multiset of rows. Rows are counted: how often does each input x
occur with each value of the kept columns? The noise of the j-th row of such a cell is found by its place (`placed`),
answers are counted again, and the counts are written out as rows. So nothing depends on the order in which files are
listed, shuffles arrive or tasks are retried, and two actions on one lazy result see the same noise.

The order of what comes out is a matter of privacy too. Rows that were grouped or sorted by their input would tell it by
where they stand. After the draw everything is therefore regrouped by what is released (kept columns and answers) and by
nothing else: which part a row is in, and where it stands in it, is computed from released values alone.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple

import msgspec

from sfumato.mechanism.file import record_of
from sfumato.releasing import spark_work
from sfumato.releasing.engine import Flow, Release
from sfumato.releasing.spark_digest import digest
from sfumato.releasing.spark_folder import write_folder
from sfumato.sources.spark import WEIGHT, clear_errors, column, grouped, map_in_arrow, plain_columns

PIECE = 1 << 16  # equal released rows that stay together
METADATA = "sfumato"  # under this name released columns tell how they came about


class Told(NamedTuple):
    """What the columns of a released Spark frame say about themselves."""

    mechanism: str  # the checksum of the mechanism file
    decode: str
    randomness: str


def spark_release(flow: Flow, to: str | os.PathLike[str] | None, *, force: bool) -> Release | Any:
    """The released rows as a lazy Spark data frame, or written to a folder of Parquet files."""
    with clear_errors():
        counts = _answers(flow)
        if to is None:
            return _rows(flow, counts)
        return write_folder(flow, counts, lambda: _rows(flow, counts), to, force=force)


def _answers(flow: Flow) -> Any:
    """Released values with how often they occur, spread over parts by what they are: columns d, k…, y…, n."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    job = spark_work.Job(
        msgspec.json.encode(record_of(flow.mechanism)), flow.stream.key, flow.decode, len(flow.kept)
    )
    kept = kept_fields(flow)
    long = [StructField(name, LongType()) for name in ("x", WEIGHT)]
    passed = [StructField(name, field.dataType) for name, field in kept.items()]
    cells = map_in_arrow(_input(flow), partial(spark_work.encode, job), StructType([*passed, *long]))
    if kept:
        cells = cells.withColumn("d", digest(kept))
    parts = int(flow.source.cluster.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    cells = cells.groupBy(*job.names, "x").agg(F.sum(WEIGHT).alias(WEIGHT))
    cells = _pieces(cells, spark_work.BLOCK, "start", "size")
    if not kept:  # a few large cells would be left in one part, because they are few bytes
        cells = cells.repartition(parts, "x", "start")
    keys = [f"y{i}" for i in range(len(flow.decoder.columns))]
    digests = [StructField("d", BinaryType())] if kept else []
    answers = StructType([*digests, *passed, *(StructField(k, StringType()) for k in keys), long[1]])
    drawn = map_in_arrow(cells, partial(spark_work.draw, job), answers)
    drawn = drawn.groupBy(*job.names, *keys).agg(F.sum(WEIGHT).alias(WEIGHT))
    first = ["d"] if kept else []
    drawn = _pieces(drawn, PIECE, "start", "size")
    place = F.pmod(F.xxhash64(*first, *keys), F.lit(parts)) + F.expr(f"start div {PIECE}")
    drawn = drawn.repartitionById(parts, F.pmod(place, F.lit(parts)).cast("int"))
    return drawn.sortWithinPartitions(*first, *keys, "start").select(*job.names[1:], *keys, "size")


def _pieces(cells: Any, rows: int, start: str, size: str) -> Any:
    """Counts cut into pieces of at most so many rows."""
    from pyspark.sql import functions as F

    cut = cells.withColumn(start, F.explode(F.sequence(F.lit(0), F.col(WEIGHT) - 1, F.lit(rows))))
    return cut.withColumn(size, F.least(F.lit(rows), F.col(WEIGHT) - F.col(start)))


def _input(flow: Flow) -> Any:
    """The columns that are read, as c0, c1, …, and kept ones as k0, k1, …; distinct values with their number where
    there are few."""
    frame, coded = flow.source.cluster, list(flow.coded.values())
    binned = any(c.cuts is not None for a in (flow.mechanism.secret, flow.mechanism.useful) for c in a.columns)
    if flow.kept or binned:
        return frame.select(*plain_columns(coded), *plain_columns(flow.kept, "k"))
    return grouped(frame, coded)


def kept_fields(flow: Flow) -> dict[str, Any]:
    """Kept columns by their internal names, with their fields in the source's schema."""
    fields = flow.source.cluster.select(*(column(name) for name in flow.kept)).schema.fields if flow.kept else []
    return {f"k{i}": field for i, field in enumerate(fields)}


def _rows(flow: Flow, counts: Any) -> Any:
    """The counted answers as rows, lazily, with the source's names and types."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    rows = map_in_arrow(counts, spark_work.expand, StructType(counts.schema.fields[:-1]))
    named = output_names(flow, counts.columns[:-1])
    told = Told(record_of(flow.mechanism).checksum, flow.decode, flow.stream.description)
    fields, ours = kept_fields(flow), {METADATA: told._asdict()}
    return rows.select(*(
        F.col(inner).alias(name, metadata=fields[inner].metadata if inner in fields else ours)
        for inner, name in named
    ))


def told_by(frame: Any) -> Told | None:
    """What a frame's columns tell, if it was released by this engine and nobody dropped it."""
    said = [field.metadata[METADATA] for field in frame.schema.fields if METADATA in (field.metadata or {})]
    return Told(**said[0]) if said else None


def output_names(flow: Flow, inner: list[str]) -> list[tuple[str, str]]:
    """(internal name, released name) in the order of the released table. Inside, kept columns come first."""
    kept, answers = inner[: len(flow.kept)], inner[len(flow.kept) :]
    named = list(zip([*answers, *kept], [*(c.name for c in flow.decoder.columns), *flow.kept], strict=True))
    return [named[i] for i in flow.order]
