"""What Spark's workers do in a release: rows to codes, counted cells to answers, counted answers to rows.

The mechanism travels as the bytes of its file inside the job and is read once in each Python worker.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sfumato.alphabet import Alphabet, Ints
from sfumato.drawing.decoding import Decoder, decoder
from sfumato.drawing.placed import DIGEST, MOST_COPIES, Placed
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA, Sampler
from sfumato.mechanism.file import MechanismRecord, mechanism_of
from sfumato.mechanism.mechanism import Mechanism
from sfumato.sources.spark import WEIGHT, weights_of, worker_errors

BLOCK = 1 << 18  # rows drawn or written at a time
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker must know. The key is the secret of the release: it undoes the noise, so it is never shown."""

    mechanism: bytes
    key: bytes = field(repr=False)
    decode: str
    kept: int  # the number of kept columns k0, k1, …

    @property
    def names(self) -> list[str]:
        """The columns that pass through untouched, with the digest that stands for them."""
        return ["d", *(f"k{i}" for i in range(self.kept))] if self.kept else []


@functools.lru_cache(4)
def _mechanism(data: bytes) -> Mechanism:
    return mechanism_of(msgspec.json.decode(data, type=MechanismRecord))


def encode(job: Job, batches: Batches) -> Batches:
    """Rows as input codes x with their weight n; the kept columns as they are."""
    alphabet, kept = _alphabet(_mechanism(job.mechanism)), [f"k{i}" for i in range(job.kept)]
    for batch in batches:
        codes, weights = _codes(alphabet, batch), weights_of(batch)
        if not kept:
            codes, inverse = np.unique(codes, return_inverse=True)
            totals = np.zeros(len(codes), np.int64)
            np.add.at(totals, inverse, weights)
            weights = totals
        arrays = [*(batch.column(n) for n in kept), pa.array(codes), pa.array(weights)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*kept, "x", WEIGHT])


def draw(job: Job, batches: Batches) -> Batches:
    """Stretches of equal rows (x, start, size) as answers with how often each came."""
    mechanism = _mechanism(job.mechanism)
    placed = Placed(job.key, mechanism.law.words)
    sampler, turned = Sampler(mechanism.law, placed), decoder(mechanism, job.decode, placed)
    kind: Any = np.int64 if mechanism.inputs > np.iinfo(np.int32).max else np.int32
    for batch in batches:
        codes, starts, sizes = (np.asarray(batch.column(n), np.int64) for n in ("x", "start", "size"))
        digests = _digests(batch.column("d")) if job.kept else None
        if sizes.sum() >= ROWS_WORTH_NUMBA // 4:  # a worker draws several such batches, with numba in its memory
            sampler.compile()
        for low, high in _stretches(sizes):
            which = np.repeat(np.arange(low, high), sizes[low:high])
            ends = np.cumsum(sizes[low:high])
            within = np.arange(len(which)) - np.repeat(ends - sizes[low:high], sizes[low:high])
            copies = starts[which] + within
            assert copies.max(initial=0) < MOST_COPIES
            placed.settle(None if digests is None else digests[which].tobytes(), codes[which], copies)
            drawn = sampler.draw(codes[which].astype(kind), 0)
            yield _answers(job, batch, turned, drawn, which)


def answer(job: Job, batches: Batches) -> Batches:
    """Rows with a digest of their own, `d`, as kept columns and answers, row by row. The noise is that of the place
    (d, x, 0), so it is the same in whichever task and as often as the row is computed."""
    mechanism = _mechanism(job.mechanism)
    placed = Placed(job.key, mechanism.law.words)
    sampler, turned = Sampler(mechanism.law, placed), decoder(mechanism, job.decode, placed)
    kind: Any = np.int64 if mechanism.inputs > np.iinfo(np.int32).max else np.int32
    alphabet, kept = _alphabet(mechanism), job.names[1:]
    for batch in batches:
        codes = _codes(alphabet, batch)
        placed.settle(_digests(batch.column("d")).tobytes(), codes, np.zeros(len(codes), np.int64))
        labels = turned.arrays(sampler.draw(codes.astype(kind), 0), 0)
        arrays = [*(batch.column(n) for n in kept), *(x.cast(pa.string()) for x in labels)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*kept, *(f"y{i}" for i in range(len(labels)))])


def _alphabet(mechanism: Mechanism) -> Alphabet:
    """The columns that the mechanism reads, c0, c1, …"""
    return Alphabet.of(*(mechanism.secret.columns if mechanism.reads == "both" else ()), *mechanism.useful.columns)


def _codes(alphabet: Alphabet, batch: pa.RecordBatch) -> Any:
    coded = [batch.column(f"c{i}") for i in range(len(alphabet.columns))]
    with worker_errors():
        return alphabet.encode(pa.RecordBatch.from_arrays(coded, names=list(alphabet.names)))


def _answers(job: Job, batch: pa.RecordBatch, turned: Decoder, drawn: Any, which: Ints) -> pa.RecordBatch:
    """The answers of a stretch, equal ones of one source row put together."""
    outputs = _mechanism(job.mechanism).outputs
    counts = None
    if drawn.ndim == 1 and job.decode != "sample" and outputs < 1 << 31:  # one label for each output: count these
        which, drawn, counts = _counted_pairs(which, drawn, outputs)
    labels = turned.arrays(drawn, 0)
    keys = [f"y{i}" for i in range(len(labels))]
    if counts is None:
        table = pa.table([pa.array(which), *labels], names=["row", *keys])
        table = table.group_by(["row", *keys], use_threads=False).aggregate([([], "count_all")]).combine_chunks()
        which, *labels, counts = (c.combine_chunks() for c in table.columns)
    kept = [batch.column(n).take(pa.array(which)) for n in job.names]
    arrays = [*kept, *(x.cast(pa.string()) for x in labels), pa.array(counts)]
    return pa.RecordBatch.from_arrays(arrays, names=[*job.names, *keys, WEIGHT])


def _counted_pairs(which: Ints, drawn: Any, outputs: int) -> tuple[Ints, Any, Ints]:
    """Distinct pairs of row and output with how often they occur. The rows are neighbours in ascending order."""
    low, span = int(which[0]), (int(which[-1]) - int(which[0]) + 1) * outputs
    pairs = (which - low) * outputs + drawn
    if span <= 4 * BLOCK:
        counts = np.bincount(pairs, minlength=span)
        pairs = np.flatnonzero(counts)
        counts = counts[pairs]
    else:
        pairs, counts = np.unique(pairs, return_counts=True)
    return pairs // outputs + low, (pairs % outputs).astype(np.int32), counts


def expand(batches: Batches) -> Batches:
    """Released rows from answers with counts (the last column), evenly mixed within a batch.

    The order is a fixed scramble of what is released anyway: it carries nothing of the inputs, and the beginning of a
    part looks like the rest of it.
    """
    scramble = np.random.default_rng(0)  # of order only: no noise depends on it
    for batch in batches:
        counts = np.asarray(batch.column(batch.num_columns - 1), np.int64)
        rows = batch.select(list(range(batch.num_columns - 1)))
        rounds = max(1, -(-int(counts.sum()) // BLOCK))
        for turn in range(rounds):
            share = counts * (turn + 1) // rounds - counts * turn // rounds
            which = np.repeat(np.arange(len(counts)), share)
            scramble.shuffle(which)
            if len(which):
                yield rows.take(pa.array(which))


def as_codes(batches: Batches) -> Batches:
    """The same batches with answers as dictionaries: repeated and written as numbers, as the local engine does.
    Spark itself takes no dictionaries back."""
    for batch in batches:
        arrays = [
            a.dictionary_encode() if n.startswith("y") else a
            for n, a in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _digests(column: pa.Array) -> Any:
    fixed = column.cast(pa.binary(DIGEST))
    data = np.frombuffer(fixed.buffers()[1], np.uint8)
    return data[fixed.offset * DIGEST : (fixed.offset + len(fixed)) * DIGEST].reshape(-1, DIGEST)


def _stretches(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Runs of rows of about BLOCK copies each."""
    ends, low = np.cumsum(sizes), 0
    while low < len(sizes):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
        yield low, high
        low = high
