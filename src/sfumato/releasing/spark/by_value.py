"""A Spark release of rows without names: those that are mostly different are moved by what they are, others counted.

The noise of a row is that of its place, (x, j), x what it is and j its number among its equals (`randomness`), and so
the same whichever way is taken. Where a row stands tells nothing of its input, neither here nor there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Ints
from sfumato.libraries import spark_functions as F
from sfumato.mechanism import Bundle
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering, tasks
from sfumato.releasing.spark.answering import PIECES, cut, exchanged, joined
from sfumato.releasing.spark.reading import (
    answer_keys,
    answer_schema,
    encoded,
    job_of,
    rows_of,
    shuffle_parts,
)
from sfumato.releasing.spark.tasks import Batches, Job, Opened, Write
from sfumato.sources.data_frames import WEIGHT, map_in_arrow
from sfumato.tolerances import ROWS_AT_ONCE

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

def moves(flow: Flow) -> bool:
    """Whether equal rows are few; where nothing is kept of one mechanism's inputs, they are many, and counted."""
    return bool(flow.kept) or isinstance(flow.mechanism, Bundle)


def answered(flow: Flow) -> Frame:
    """Released rows, lazily: columns k…, y…"""
    if moves(flow):
        return map_in_arrow(_standing(flow), partial(_put_plainly, job_of(flow)), answer_schema(flow))
    return map_in_arrow(_answers(flow), answering.expand, answer_schema(flow))


def written(flow: Flow, write: Write, told: pa.Schema) -> pa.Table:
    """What `write` tells of the rows that every task wrote; no rows if there are none to release."""
    if moves(flow):
        return map_in_arrow(_standing(flow), partial(_put_and_write, job_of(flow), write), told).toArrow()
    write = partial(_expand_and_write, write)
    return _dealt_out(flow, write, told) if few(flow) else map_in_arrow(_answers(flow), write, told).toArrow()


# --- rows that are mostly different, by what they keep or by the many columns of a bundle -----------------------------
# Rows of one place (kept columns and input) are brought together, so that each can be told its number among its equals
# and find its noise by it (`randomness`). Rows of files have a number already (`reading`), which no other row has
# and no computation changes: their place is the number and the input, and they draw where they are read. Then every row
# draws where it shall stand: a word of its own that nothing else depends on, so that its position tells nothing,
# neither of its input nor of anything but chance. An exchange of a few numbers a row beside what is kept for each of
# the two; the result is a function of the key and the multiset of rows, or of the key and the files.


def _standing(flow: Flow) -> Frame:
    """Released rows in pieces, each in the part where it shall stand."""
    rows, parts = rows_of(flow), shuffle_parts(flow)
    if rows.scan is not None:
        answer = partial(_answer, job_of(flow, numbered=True), rows.opened, parts)
        return exchanged(map_in_arrow(rows.frame, answer, PIECES), parts)
    job = job_of(flow)
    placed = exchanged(map_in_arrow(rows.frame, partial(_place, job, parts), PIECES), parts)
    return exchanged(map_in_arrow(placed, partial(_draw, job, parts), PIECES), parts)


def _answer(job: Job, opened: Opened, parts: int, batches: Batches) -> Batches:
    return cut(answering.stand(job, opened(batches)), parts)


def _place(job: Job, parts: int, batches: Batches) -> Batches:
    return cut(answering.numbered(job, batches), parts, wholly=True)


def _draw(job: Job, parts: int, batches: Batches) -> Batches:
    return cut(answering.draw_rows(job, joined(batches)), parts)


def _put_plainly(job: Job, batches: Batches) -> Batches:
    return map(answering.plain, answering.ordered(job, joined(batches)))


def _put_and_write(job: Job, write: Write, batches: Batches) -> Batches:
    return write(answering.ordered(job, joined(batches)))


# --- rows of which many are equal are their counts: how often does each input occur? Answers are counted again --------
# The order of what comes out is a matter of privacy too. Rows that were grouped or sorted by their input would tell it
# by where they stand. After the draw everything is therefore regrouped by what is released and by nothing else: which
# part a row is in, and where it stands in it, is computed from released values alone.


PIECE = 1 << 16  # equal released rows that stay together


def _answers(flow: Flow) -> Frame:
    """Released values of a mechanism that keeps nothing, with how often they occur, spread over parts by what they are:
    columns y…, n."""
    job, parts, keys = job_of(flow), shuffle_parts(flow), answer_keys(flow)
    cells = encoded(flow).groupBy("x0").agg(F.sum(WEIGHT).alias(WEIGHT))
    cells = _pieces(cells, tasks.TASK_BLOCK).repartition(parts, "x0", "start")
    drawn = map_in_arrow(cells, partial(answering.draw, job), _tallies(keys))
    drawn = _pieces(drawn.groupBy(*keys).agg(F.sum(WEIGHT).alias(WEIGHT)), PIECE)
    place = F.pmod(F.xxhash64(*keys), F.lit(parts)) + F.expr(f"start div {PIECE}")
    drawn = drawn.repartitionById(parts, F.pmod(place, F.lit(parts)).cast("int"))
    return drawn.sortWithinPartitions(*keys, "start").select(*keys, "size")


def _pieces(cells: Frame, rows: int) -> Frame:
    """Counts cut into pieces of at most so many rows, by their start and size."""
    cut = cells.withColumn("start", F.explode(F.sequence(F.lit(0), F.col(WEIGHT) - 1, F.lit(rows))))
    return cut.withColumn("size", F.least(F.lit(rows), F.col(WEIGHT) - F.col("start")))


def _tallies(keys: list[str]) -> pa.Schema:
    """Released values with how often each came."""
    return pa.schema([*((name, pa.string()) for name in keys), (WEIGHT, pa.int64())])


def _expand_and_write(write: Write, batches: Batches) -> Batches:
    """In a worker: counted answers to rows, and these to a file."""
    return write(answering.expand(_as_codes(batches)))


def _as_codes(batches: Batches) -> Batches:
    """The same batches with answers as dictionaries: repeated and written as numbers, as the local engine does."""
    for batch in batches:
        *answers, counts = batch.columns
        yield pa.RecordBatch.from_arrays([*(a.dictionary_encode() for a in answers), counts], names=batch.schema.names)


# --- few distinct values: two sums pass through the driver, rows and noise stay on the cluster ------------------------
# Without kept columns a table is its counts: how often does each input occur? These are few numbers, so the driver
# deals them out: each task draws the noise of an equal share of the rows and gives back how often each answer came; the
# sums of these, which are what is released, are dealt out again to be written as rows. Three plain jobs with one
# shuffle in all, instead of one job with five.
#
# The noise is the same as that of the long plan, since it belongs to places (x, j) and not to tasks. Every task of the
# second and third job is a function of what the driver holds, so a repeated one repeats its work. Parts are cut from
# the sums of answers alone, so where a row stands tells nothing of the inputs.


FEW_SENT = 1 << 12  # inputs, and outputs: what all tasks send to the driver stays small


def few(flow: Flow) -> bool:
    """Whether inputs and answers are few enough to pass through the driver."""
    mechanism = flow.mechanism
    if isinstance(mechanism, Bundle):
        return False
    return bool(mechanism.law.meaning != "subset" and max(mechanism.inputs, mechanism.outputs) <= FEW_SENT)


def _dealt_out(flow: Flow, write: Write, told: pa.Schema) -> pa.Table:
    codes, counts = _inputs(flow)
    if not len(codes):
        return told.empty_table()
    parts = min(shuffle_parts(flow), -(-int(counts.sum()) // ROWS_AT_ONCE))
    keys = answer_keys(flow)
    answers = _dealt(flow, parts, partial(_draw_shares, job_of(flow), codes, counts, parts), _tallies(keys))
    totals = _summed(answers, keys).sort_by([(k, "ascending") for k in keys])
    return _dealt(flow, parts, partial(_write_shares, write, totals, parts), told)


def _inputs(flow: Flow) -> tuple[Ints, Ints]:
    """The distinct inputs with their numbers of rows, in ascending order."""
    found = encoded(flow).toArrow()
    return tasks.summed(*(np.asarray(found.column(name), np.int64) for name in ("x0", WEIGHT)))


def _dealt(flow: Flow, parts: int, work: Callable[[Batches], Batches], schema: pa.Schema) -> pa.Table:
    """The results of a task for each of the numbers 0, …, parts − 1."""
    numbers = flow.source.cluster.sparkSession.range(0, parts, 1, parts)
    return map_in_arrow(numbers, work, schema).toArrow()


def _draw_shares(job: Job, codes: Ints, counts: Ints, parts: int, batches: Batches) -> Batches:
    """In a worker: the answers of one share of the rows, with how often each came."""
    total = int(counts.sum())
    for batch in batches:
        for share in batch.column(0).to_pylist():
            cells = _cells(codes, counts, total * share // parts, total * (share + 1) // parts)
            drawn = pa.Table.from_batches(list(answering.draw(job, iter([cells]))))
            yield from _summed(drawn, drawn.column_names[:-1]).combine_chunks().to_batches()


def _cells(codes: Ints, counts: Ints, low: int, high: int) -> pa.RecordBatch:
    """The rows low … high − 1, counted in the order of their codes, as pieces (x0, start, size) of at most BLOCK."""
    ends = np.cumsum(counts)
    begins = ends - counts
    first, last = np.clip(low - begins, 0, counts), np.clip(high - begins, 0, counts)
    pieces = -(-(last - first) // tasks.TASK_BLOCK)
    which = np.repeat(np.arange(len(codes)), pieces)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = first[which] + turn * tasks.TASK_BLOCK
    size = np.minimum(tasks.TASK_BLOCK, last[which] - start)
    return pa.record_batch({"x0": codes[which], "start": start, "size": size})


def _write_shares(write: Write, totals: pa.Table, parts: int, batches: Batches) -> Batches:
    """In a worker: an equal share of every released value, written as rows."""
    counts = np.asarray(totals.column(WEIGHT), np.int64)
    for batch in batches:
        for share in batch.column(0).to_pylist():
            own = counts * (share + 1) // parts - counts * share // parts
            dealt = totals.set_column(totals.num_columns - 1, WEIGHT, pa.array(own))
            yield from write(iter(dealt.combine_chunks().to_batches()))


def _summed(answers: pa.Table, keys: list[str]) -> pa.Table:
    """Distinct answers with the sums of their counts, in the last column."""
    sums = answers.group_by(keys, use_threads=False).aggregate([(WEIGHT, "sum")])
    return sums.select([*keys, f"{WEIGHT}_sum"]).rename_columns([*keys, WEIGHT])
