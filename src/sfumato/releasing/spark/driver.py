"""A Spark release of few distinct values: two sums pass through the driver, rows and noise stay on the cluster.

Without kept columns a table is its counts: how often does each input occur? These are few numbers, so the driver deals
them out: each task draws the noise of an equal share of the rows and gives back how often each answer came; the sums
of these, which are what is released, are dealt out again to be written as rows. Three plain jobs with one shuffle in
all, instead of one job with five.

The noise is the same as that of the long plan, since it belongs to places (x, j) and not to tasks. Every task of the
second and third job is a function of what the driver holds, so a repeated one repeats its work. Parts are cut from
the sums of answers alone, so where a row stands tells nothing of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Ints
from sfumato.mechanism import Bundle
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering, worker
from sfumato.releasing.spark.reading import answer_keys, encoded, job_of, shuffle_parts
from sfumato.releasing.spark.worker import Batches, Job
from sfumato.sources.spark_frames import WEIGHT, map_in_arrow

FEW = 1 << 12  # inputs, and outputs: what all tasks send to the driver stays small
SHARE = 1 << 20  # rows that are worth a task of their own
Writing = Callable[[Batches], Batches]  # (released values with counts) → what was written


def suits(flow: Flow) -> bool:
    """Whether inputs and answers are few enough to pass through the driver."""
    mechanism = flow.mechanism
    if isinstance(mechanism, Bundle):
        return False
    return bool(mechanism.law.meaning != "subset" and max(mechanism.inputs, mechanism.outputs) <= FEW)


def written(flow: Flow, writing: Writing, told: pa.Schema) -> pa.Table:
    """What the tasks that wrote the rows tell about it; no rows if there are none to release."""
    codes, counts = _inputs(flow)
    if not len(codes):
        return told.empty_table()
    parts = min(shuffle_parts(flow), -(-int(counts.sum()) // SHARE))
    keys = answer_keys(flow)
    schema = pa.schema([*((k, pa.string()) for k in keys), (WEIGHT, pa.int64())])
    answers = _dealt(flow, parts, partial(_draw_shares, job_of(flow), codes, counts, parts), schema)
    totals = _summed(answers, keys).sort_by([(k, "ascending") for k in keys])
    return _dealt(flow, parts, partial(_write_shares, writing, totals, parts), told)


def _inputs(flow: Flow) -> tuple[Ints, Ints]:
    """The distinct inputs with their numbers of rows, in ascending order."""
    found = encoded(flow).toArrow()
    codes, inverse = np.unique(np.asarray(found.column("x0"), np.int64), return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    np.add.at(counts, inverse, np.asarray(found.column(WEIGHT), np.int64))
    return codes, counts


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
    pieces = -(-(last - first) // worker.BLOCK)
    which = np.repeat(np.arange(len(codes)), pieces)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = first[which] + turn * worker.BLOCK
    size = np.minimum(worker.BLOCK, last[which] - start)
    return pa.record_batch({"x0": codes[which], "start": start, "size": size})


def _write_shares(writing: Writing, totals: pa.Table, parts: int, batches: Batches) -> Batches:
    """In a worker: an equal share of every released value, written as rows."""
    counts = np.asarray(totals.column(WEIGHT), np.int64)
    for batch in batches:
        for share in batch.column(0).to_pylist():
            own = counts * (share + 1) // parts - counts * share // parts
            dealt = totals.set_column(totals.num_columns - 1, WEIGHT, pa.array(own))
            yield from writing(iter(dealt.combine_chunks().to_batches()))


def _summed(answers: pa.Table, keys: list[str]) -> pa.Table:
    """Distinct answers with the sums of their counts, in the last column."""
    sums = answers.group_by(keys, use_threads=False).aggregate([(WEIGHT, "sum")])
    return sums.select([*keys, f"{WEIGHT}_sum"]).rename_columns([*keys, WEIGHT])
