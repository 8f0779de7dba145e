"""The Spark engine: a release whose noise repeats with every recomputed, speculative or second run of a task.

A release is a function of one secret key and of the multiset of rows, or of the files that rows are read from: the
noise of a row is found by its place (`drawing.digests`). So nothing depends on the order in which files are listed,
shuffles arrive or tasks are retried, and two actions on one lazy result see the same noise. Rows with names are
answered where they are (`by_id`), those that keep columns and those of bundles are moved by what they are (`by_place`).
Where nothing is kept of one mechanism's inputs they are counted: how often does each input occur? Answers are counted
again, and the counts are written out as rows, through the driver if they are few (`driver`), else as here.

The order of what comes out is a matter of privacy too. Rows that were grouped or sorted by their input would tell it by
where they stand. After the draw everything is therefore regrouped by what is released and by nothing else: which part a
row is in, and where it stands in it, is computed from released values alone.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering, by_id, by_place, worker
from sfumato.releasing.spark.by_id import check_order, check_repeatable
from sfumato.releasing.spark.folder import Written, write_folder
from sfumato.releasing.spark.reading import answer_keys, as_columns, check_kinds, encoded, job_of, shuffle_parts
from sfumato.sources.spark_frames import WEIGHT, clear_errors, map_in_arrow

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

PIECE = 1 << 16  # equal released rows that stay together


def spark_release(flow: Flow, to: str | os.PathLike[str] | None, *, force: bool) -> Frame | Written:
    """The released rows as a lazy Spark data frame, or written to a folder of Parquet files."""
    with clear_errors():
        if flow.kept or flow.id:
            check_repeatable(flow)
            check_kinds(flow)
        if flow.id:
            check_order(flow)
        if to is None:
            return _rows(flow)
        return write_folder(flow, lambda: _answers(flow), lambda: _rows(flow), to, force=force)


def _answers(flow: Flow) -> Frame:
    """Released values of a mechanism that keeps nothing, with how often they occur, spread over parts by what they are:
    columns y…, n."""
    from pyspark.sql import functions as F

    job, parts, keys = job_of(flow), shuffle_parts(flow), answer_keys(flow)
    cells = encoded(flow).groupBy("x0").agg(F.sum(WEIGHT).alias(WEIGHT))
    cells = _pieces(cells, worker.BLOCK, "start", "size").repartition(parts, "x0", "start")
    schema = pa.schema([*((name, pa.string()) for name in keys), (WEIGHT, pa.int64())])
    drawn = map_in_arrow(cells, partial(answering.draw, job), schema)
    drawn = _pieces(drawn.groupBy(*keys).agg(F.sum(WEIGHT).alias(WEIGHT)), PIECE, "start", "size")
    place = F.pmod(F.xxhash64(*keys), F.lit(parts)) + F.expr(f"start div {PIECE}")
    drawn = drawn.repartitionById(parts, F.pmod(place, F.lit(parts)).cast("int"))
    return drawn.sortWithinPartitions(*keys, "start").select(*keys, "size")


def _pieces(cells: Frame, rows: int, start: str, size: str) -> Frame:
    """Counts cut into pieces of at most so many rows."""
    from pyspark.sql import functions as F

    cut = cells.withColumn(start, F.explode(F.sequence(F.lit(0), F.col(WEIGHT) - 1, F.lit(rows))))
    return cut.withColumn(size, F.least(F.lit(rows), F.col(WEIGHT) - F.col(start)))


def _rows(flow: Flow) -> Frame:
    """The released rows, lazily, with the source's names and types."""
    from pyspark.sql.types import StructType

    if flow.id:
        by_id.check_names(flow)
        return as_columns(flow, by_id.answered(flow))
    if by_place.suits(flow):
        return as_columns(flow, by_place.answered(flow))
    counts = _answers(flow)
    return as_columns(flow, map_in_arrow(counts, answering.expand, StructType(counts.schema.fields[:-1])))
