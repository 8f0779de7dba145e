"""Rows from task to task: Arrow tables cut by a number of each row, shuffled by Spark as few large pieces.

Spark moves rows one by one; for a table of a few numbers that costs more than all the rest of a release. So a task
sorts what it has into buckets, and hands Spark one piece of bytes for each; a later task gets all pieces of a part,
bucket by bucket, of which it holds one at a time. It is Spark's own shuffle that moves them: lost pieces are computed
again, and no file system needs to be shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Ints

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

PIECES = pa.schema([("bucket", pa.int64()), ("rows", pa.binary())])
BUCKETS = 16  # of a part: a worker holds one of them at a time
HELD_ROWS, HELD_BYTES = 1 << 20, 1 << 26  # of a task, before it cuts them
Numbers = npt.NDArray[np.uint64]  # spread evenly over all words
Numbered = tuple[pa.RecordBatch, Numbers]


def exchanged(pieces: Frame, parts: int) -> Frame:
    """The pieces where they belong, in the order of buckets."""
    from pyspark.sql import functions as F

    moved = pieces.repartitionById(parts, F.expr(f"cast(bucket div {BUCKETS} as int)"))
    return moved.sortWithinPartitions("bucket")


def cut(rows: Iterable[Numbered], parts: int, *, wholly: bool = False) -> Iterator[pa.RecordBatch]:
    """In a worker: rows, each with its number, as pieces of buckets.

    A task that is run again must make the same pieces: rows that may come in another order are sorted `wholly`.
    """
    buckets = parts * BUCKETS
    kind: type = np.uint16 if buckets <= 1 << 16 else np.int64  # the former are sorted in one pass
    for table, numbers in _gathered(rows):
        bucket = ((numbers >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(numbers) if wholly else np.argsort(bucket.astype(kind), kind="stable")
        together = table.take(pa.array(order))
        yield from _pieces(together.combine_chunks(), np.cumsum(np.bincount(bucket, minlength=buckets)))


def _pieces(rows: pa.Table, ends: Ints) -> Iterator[pa.RecordBatch]:
    found = np.flatnonzero(np.diff(ends, prepend=0))
    starts = np.concatenate([[0], ends])[found]
    for bucket, start, stop in zip(found.tolist(), starts.tolist(), ends[found].tolist(), strict=True):
        yield pa.record_batch({"bucket": [bucket], "rows": [_packed(rows.slice(start, stop - start))]}, schema=PIECES)


def joined(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """In a worker: all rows of one bucket after the other."""
    for held in bucket_by_bucket(pieces):
        yield pa.concat_tables([pa.ipc.open_stream(x).read_all() for x in held]).combine_chunks()


def bucket_by_bucket(pieces: Iterable[pa.RecordBatch]) -> Iterator[list[pa.Buffer]]:
    """In a worker: the bytes of all pieces of one bucket after the other."""
    held = (batch.select(["bucket", "rows"]).columns for batch in pieces)
    each = (piece for buckets, rows in held for piece in zip(buckets.to_pylist(), rows, strict=True))
    for _, own in groupby(each, key=lambda piece: piece[0]):
        yield [x.as_buffer() for _, x in own]


def first_of(bucket: int, parts: int) -> np.uint64:
    """The least number that belongs to a bucket."""
    return np.uint64(-(-(bucket << 32) // (parts * BUCKETS)) << 32)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _gathered(rows: Iterable[Numbered]) -> Iterator[tuple[pa.Table, Numbers]]:
    held: list[Numbered] = []
    for batch, numbers in rows:
        held.append((batch, numbers))
        if sum(b.num_rows for b, _ in held) >= HELD_ROWS or sum(b.nbytes for b, _ in held) >= HELD_BYTES:
            yield pa.Table.from_batches([b for b, _ in held]), np.concatenate([n for _, n in held])
            held = []
    if held:
        yield pa.Table.from_batches([b for b, _ in held]), np.concatenate([n for _, n in held])
