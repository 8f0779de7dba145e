"""What Spark's workers do with batches: cells to answers, rows to answers, answers to rows in their order; and how rows
go from task to task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Array, Ints
from sfumato.drawing.randomness import Blocks, in_order
from sfumato.libraries import spark_functions as F
from sfumato.mechanism import Mechanism
from sfumato.releasing.spark.tasks import TASK_BLOCK, Batches, Inputs, Job, PlacedDraws
from sfumato.sources.data_frames import WEIGHT
from sfumato.tolerances import BYTES_AT_ONCE, ROWS_AT_ONCE

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

PIECES = pa.schema([("bucket", pa.int64()), ("rows", pa.binary())])
BUCKETS = 16  # of a part: a worker holds one of them at a time
Numbers = npt.NDArray[np.uint64]  # spread evenly over all words
Numbered = tuple[pa.RecordBatch, Numbers]


def draw(job: Job, batches: Batches) -> Batches:
    """Stretches of equal rows (x0, start, size) of a mechanism as answers with how often each came."""
    own = PlacedDraws(job)
    for batch in batches:
        starts, sizes = (np.asarray(batch.column(n), np.int64) for n in ("start", "size"))
        codes = np.asarray(batch.column("x0"), np.int64)
        digests = own.placed.digests(None, codes[None])
        own.expect(int(sizes.sum()))
        for low, high in _stretches(sizes):
            which = np.repeat(np.arange(low, high), sizes[low:high])
            ends = np.cumsum(sizes[low:high])
            within = np.arange(len(which)) - np.repeat(ends - sizes[low:high], sizes[low:high])
            own.placed.settle(digests, starts[which] + within, which)
            yield _tallied(job, own, own.drawn(Inputs(own.groups, codes[None, which])))


def answer(job: Job, batches: Batches) -> Iterator[tuple[pa.RecordBatch, Blocks]]:
    """Rows as kept columns and answers, row by row, and the digests of their names. The noise is that of the place of
    the name and the input, so it is the same in whichever task and as often as the row is computed."""
    own = PlacedDraws(job)
    for batch in batches:
        labels, names = _answers(own, batch)
        yield _released(job, [batch.column(n) for n in job.names], labels), names


def stand(job: Job, batches: Batches) -> Iterator[Numbered]:
    """The same of rows that have a number in files, with where they are to stand."""
    own = PlacedDraws(job)
    for batch in batches:
        labels, _ = _answers(own, batch)
        yield _standing(job, own, batch, labels)


def _answers(own: PlacedDraws, batch: pa.RecordBatch) -> tuple[list[pa.Array], Blocks]:
    inputs, names = own.inputs(batch), own.named(batch)
    return own.answers(own.placed.digests(names, inputs.words), np.zeros(batch.num_rows, np.int64), inputs), names


def numbered(job: Job, batches: Batches) -> Iterator[Numbered]:
    """Rows with the digest of their place, m0 and m1, and input codes; the first word of the digest is their number."""
    own = PlacedDraws(job)
    for batch in batches:
        codes = own.inputs(batch).words
        digests = own.placed.digests(own.named(batch) if job.telling else None, codes)
        arrays = [*map(pa.array, (*digests.T, *codes)), *(batch.column(n) for n in job.names)]
        yield pa.RecordBatch.from_arrays(arrays, names=["m0", "m1", *job.codes, *job.names]), digests[:, 0]


def draw_rows(job: Job, tables: Iterator[pa.Table]) -> Iterator[Numbered]:
    """Those rows, all of one place in one table, as kept columns and answers, with where they are to stand."""
    own = PlacedDraws(job)
    for table in tables:
        digests = np.stack([np.asarray(table.column(n)) for n in ("m0", "m1")], 1)
        order, copies = in_order(digests)
        for start in range(0, len(order), TASK_BLOCK):
            at, copy = order[start : start + TASK_BLOCK], copies[start : start + TASK_BLOCK]
            rows = table.take(pa.array(at)).combine_chunks().to_batches()[0]
            codes = np.stack([np.asarray(rows.column(n)) for n in job.codes])
            yield _standing(job, own, rows, own.answers(digests[at], copy, Inputs(own.groups, codes)))


def _standing(job: Job, own: PlacedDraws, rows: pa.RecordBatch, labels: Sequence[pa.Array]) -> Numbered:
    """Answers as numbers of words, which travel with the job, and where each row shall stand, r."""
    told = [_narrow(x) if pa.types.is_dictionary(x.type) else x for x in labels]
    standing = own.standing(rows.num_rows)
    return _released(job, [rows.column(n) for n in job.names], told, r=pa.array(standing)), standing


def _narrow(labels: pa.DictionaryArray) -> pa.Array:
    """Numbers of words in as few bytes as hold them."""
    kind = next(k for k in (pa.uint8(), pa.uint16(), pa.int32()) if len(labels.dictionary) <= 1 << k.bit_width)
    return labels.indices.cast(kind)


def ordered(job: Job, tables: Iterator[pa.Table]) -> Batches:
    """Released rows in the order of where they stand, r."""
    words = PlacedDraws(job).words
    for table in tables:
        order = pa.array(np.argsort(np.asarray(table.column("r"))))
        for batch in table.take(order).combine_chunks().to_batches():
            told = [(batch.column(f"y{i}"), own) for i, own in enumerate(words)]
            labels = [x if own is None else pa.DictionaryArray.from_arrays(x.cast(pa.int32()), own) for x, own in told]
            yield _released(job, [batch.column(n) for n in job.names], labels)


def _released(job: Job, kept: Sequence[pa.Array], labels: Sequence[pa.Array], **more: pa.Array) -> pa.RecordBatch:
    names = [*job.names, *(f"y{i}" for i in range(len(labels))), *more]
    return pa.RecordBatch.from_arrays([*kept, *labels, *more.values()], names=names)


def _tallied(job: Job, own: PlacedDraws, drawn: Array) -> pa.RecordBatch:
    """Answers that came, with how often each did."""
    assert isinstance(own.made, Mechanism)
    if drawn.ndim == 1 and job.decode != "sample" and own.made.outputs < 1 << 31:  # one label for each output
        drawn, counts = np.unique(drawn, return_counts=True) if own.made.outputs > TASK_BLOCK else _counted(drawn)
        labels = own.decoder.arrays(drawn.astype(np.int32), 0)
        return plain(_released(job, [], labels, **{WEIGHT: pa.array(counts)}))
    batch = plain(_released(job, [], own.decoder.arrays(drawn, 0)))
    table = pa.table(batch).group_by(batch.schema.names, use_threads=False).aggregate([([], "count_all")])
    return table.rename_columns([*batch.schema.names, WEIGHT]).combine_chunks().to_batches()[0]


def _counted(drawn: Array) -> tuple[Ints, Ints]:
    counts = np.bincount(drawn)
    found = np.flatnonzero(counts)
    return found, counts[found]


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with answers as text: Spark itself takes no dictionaries back."""
    arrays = [
        a.cast(pa.string()) if n.startswith("y") else a for n, a in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def expand(batches: Batches) -> Batches:
    """Released rows from answers with counts (the last column), evenly mixed within a batch.

    The order is a fixed scramble of what is released anyway: it carries nothing of the inputs, and the beginning of a
    part looks like the rest of it.
    """
    scramble = np.random.default_rng(0)  # of order only: no noise depends on it
    for batch in batches:
        counts = np.asarray(batch.column(batch.num_columns - 1), np.int64)
        rows = batch.select(list(range(batch.num_columns - 1)))
        rounds = max(1, -(-int(counts.sum()) // TASK_BLOCK))
        for turn in range(rounds):
            share = counts * (turn + 1) // rounds - counts * turn // rounds
            which = np.repeat(np.arange(len(counts)), share)
            scramble.shuffle(which)
            if len(which):
                yield rows.take(pa.array(which))


def _stretches(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Runs of rows of about TASK_BLOCK copies each."""
    ends, low = np.cumsum(sizes), 0
    while low < len(sizes):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + TASK_BLOCK, side="right")))
        yield low, high
        low = high


# --- rows from task to task: Arrow tables cut by a number of each row, shuffled by Spark as few large pieces ----------
# Spark moves rows one by one; for a table of a few numbers that costs more than all the rest of a release. So a task
# sorts what it has into buckets, and hands Spark one piece of bytes for each; a later task gets all pieces of a part,
# bucket by bucket, of which it holds one at a time. It is Spark's own shuffle that moves them: lost pieces are computed
# again, and no file system needs to be shared.


def exchanged(pieces: Frame, parts: int) -> Frame:
    """The pieces where they belong, in the order of buckets."""
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
        yield from _cut_pieces(together.combine_chunks(), np.cumsum(np.bincount(bucket, minlength=buckets)))


def _cut_pieces(rows: pa.Table, ends: Ints) -> Iterator[pa.RecordBatch]:
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
        if sum(b.num_rows for b, _ in held) >= ROWS_AT_ONCE or sum(b.nbytes for b, _ in held) >= BYTES_AT_ONCE:
            yield pa.Table.from_batches([b for b, _ in held]), np.concatenate([n for _, n in held])
            held = []
    if held:
        yield pa.Table.from_batches([b for b, _ in held]), np.concatenate([n for _, n in held])
