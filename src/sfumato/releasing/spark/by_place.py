"""A Spark release of rows that are mostly different, by what they keep or by the many columns of a bundle.

Rows of one place (kept columns and input) are brought together, so that each can be told its number among its equals
and find its noise by it (`drawing/digests`). Rows of files have a number already (`scanning`), which no other row has
and no computation changes: their place is the number and the input, and they draw where they are read. Then every row
draws where it shall stand: a word of its own that nothing else depends on, so that its position tells nothing, neither
of its input nor of anything but chance. An exchange of a few numbers a row beside what is kept for each of the two; the
result is a function of the key and the multiset of rows, or of the key and the files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.mechanism import Bundle
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering
from sfumato.releasing.spark.exchange import PIECES, cut, exchanged, joined
from sfumato.releasing.spark.reading import Opened, answer_schema, job_of, rows_of, shuffle_parts
from sfumato.releasing.spark.worker import Batches, Job
from sfumato.sources.spark_frames import map_in_arrow

if TYPE_CHECKING:
    from sfumato.sources.source import Frame


def suits(flow: Flow) -> bool:
    """Whether equal rows are few; where nothing is kept of one mechanism's inputs, they are many, and counted."""
    return bool(flow.kept) or isinstance(flow.mechanism, Bundle)


def answered(flow: Flow) -> Frame:
    """Released rows, lazily: columns k…, y…"""
    return map_in_arrow(_standing(flow), partial(_put_plainly, job_of(flow)), answer_schema(flow))


def written(flow: Flow, write: Callable[[Batches], Batches], told: pa.Schema) -> pa.Table:
    """What `write` tells of the rows that every task wrote."""
    return map_in_arrow(_standing(flow), partial(_put_and_write, job_of(flow), write), told).toArrow()


def _standing(flow: Flow) -> Frame:
    """Released rows in pieces, each in the part where it shall stand."""
    (frame, opened), parts = rows_of(flow), shuffle_parts(flow)
    if opened is not iter:  # of files
        answer = partial(_answer, job_of(flow, numbered=True), opened, parts)
        return exchanged(map_in_arrow(frame, answer, PIECES), parts)
    job = job_of(flow)
    placed = exchanged(map_in_arrow(frame, partial(_place, job, parts), PIECES), parts)
    return exchanged(map_in_arrow(placed, partial(_draw, job, parts), PIECES), parts)


def _answer(job: Job, opened: Opened, parts: int, batches: Batches) -> Batches:
    return cut(answering.stand(job, opened(batches)), parts)


def _place(job: Job, parts: int, batches: Batches) -> Batches:
    return cut(answering.numbered(job, batches), parts, wholly=True)


def _draw(job: Job, parts: int, batches: Batches) -> Batches:
    return cut(answering.draw_rows(job, joined(batches)), parts)


def _put_plainly(job: Job, batches: Batches) -> Batches:
    return map(answering.plain, answering.ordered(job, joined(batches)))


def _put_and_write(job: Job, write: Callable[[Batches], Batches], batches: Batches) -> Batches:
    return write(answering.ordered(job, joined(batches)))
