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
from typing import Any

from sfumato.drawing.manifest import SPARK_KEY, Told
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle_file import any_record
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import worker
from sfumato.releasing.spark.by_id import answered, check_names, check_order, check_repeatable
from sfumato.releasing.spark.digest import digest
from sfumato.releasing.spark.folder import write_folder
from sfumato.releasing.spark.reading import answer_keys, encoded, job_of, kept_fields, output_names, shuffle_parts
from sfumato.sources.spark_frames import WEIGHT, clear_errors, map_in_arrow

PIECE = 1 << 16  # equal released rows that stay together


def spark_release(flow: Flow, to: str | os.PathLike[str] | None, *, force: bool) -> Any:
    """The released rows as a lazy Spark data frame, or written to a folder of Parquet files."""
    with clear_errors():
        if flow.kept or flow.id:
            check_repeatable(flow)
        if flow.id:
            check_order(flow)
            check_names(flow)
        if to is None:
            return _rows(flow)
        return write_folder(flow, lambda: _answers(flow), lambda: _rows(flow), to, force=force)


def _answers(flow: Flow) -> Any:
    """Released values with how often they occur, spread over parts by what they are: columns k…, y…, n."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    job, kept, parts = job_of(flow), kept_fields(flow), shuffle_parts(flow)
    cells = encoded(flow)
    if kept:
        cells = cells.withColumn("d", digest(kept))
    cells = cells.groupBy(*job.names, *job.codes).agg(F.sum(WEIGHT).alias(WEIGHT))
    if job.inputs > 1:
        rest = {name: StructField(name, LongType()) for name in job.codes[1:]}
        cells = cells.withColumn("p", digest({**kept, **rest}))
    cells = _pieces(cells, worker.BLOCK, "start", "size")
    if not kept and not isinstance(flow.mechanism, Bundle):  # a few large cells would be left in one part: few bytes
        cells = cells.repartition(parts, *job.codes, "start")
    keys = answer_keys(flow)
    fields = [StructField("d", BinaryType())] if kept else []
    fields += [StructField(name, field.dataType) for name, field in kept.items()]
    fields += [StructField(name, StringType()) for name in keys]
    drawn = map_in_arrow(cells, partial(worker.draw, job), StructType([*fields, StructField(WEIGHT, LongType())]))
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


def _rows(flow: Flow) -> Any:
    """The counted answers as rows, lazily, with the source's names and types."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if flow.id:
        rows = answered(flow)
    else:
        counts = _answers(flow)
        rows = map_in_arrow(counts, worker.expand, StructType(counts.schema.fields[:-1]))
    told = Told(any_record(flow.mechanism).checksum, flow.decode, flow.stream.description)
    fields, ours = kept_fields(flow), {SPARK_KEY: told._asdict()}
    return rows.select(*(
        F.col(inner).alias(name, metadata=fields[inner].metadata if inner in fields else ours)
        for inner, name in output_names(flow)
    ))
