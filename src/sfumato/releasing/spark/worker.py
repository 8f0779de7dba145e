"""What Spark's workers do in a release: rows to codes, counted cells to answers, counted answers to rows.

The mechanism travels as the bytes of its file inside the job and is read once in each Python worker.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Alphabet, Column, Ints
from sfumato.drawing.bundle_draws import BundleSampler, words_of
from sfumato.drawing.decoding import Decoder
from sfumato.drawing.placed import DIGEST, MOST_COPIES, Placed
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA, Sampler
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle_file import made_of
from sfumato.releasing.flow import decoding_of
from sfumato.sources.spark_frames import WEIGHT, weights_of, worker_errors

BLOCK = 1 << 18  # rows drawn or written at a time
MOST_CODES = 1 << 62  # values of an input code
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker must know. The key is the secret of the release: it undoes the noise, so it is never shown."""

    mechanism: bytes  # or the bundle
    key: bytes = field(repr=False)
    decode: str
    kept: int  # the number of kept columns k0, k1, …
    inputs: int = 1  # columns x0, x1, … that hold the code of a record: a bundle's may not fit into one
    compared: tuple[str, ...] = ()  # columns of a secret that is promised about and not read, after those that are

    @property
    def names(self) -> list[str]:
        """The columns that pass through untouched, with the digest that stands for them."""
        return ["d", *(f"k{i}" for i in range(self.kept))] if self.kept else []

    @property
    def codes(self) -> list[str]:
        """The columns of the input code."""
        return [f"x{i}" for i in range(self.inputs)]

    @property
    def place(self) -> str | None:
        """The column with the digest of what the first code does not say of a record's place, if there is more.

        It is of private values where codes are several, so it is dropped as soon as a record has its answer.
        """
        return "p" if self.inputs > 1 else "d" if self.kept else None


@functools.lru_cache(4)
def _made(data: bytes) -> Mechanism | Bundle:
    return made_of(data)


def reading(made: Mechanism | Bundle) -> tuple[Column, ...]:
    """The columns that are read, in the order of the input code."""
    return (*(made.secret.columns if made.reads == "both" else ()), *made.useful.columns)


def coded_apart(made: Mechanism | Bundle) -> list[Alphabet]:
    """The columns that are read, in as few groups as have codes of 62 bits."""
    groups: list[list[Column]] = [[]]
    for column in reading(made):
        if Alphabet.of(*groups[-1], column).size > MOST_CODES:
            groups.append([])
        groups[-1].append(column)
    return [Alphabet.of(*group) for group in groups]


def encode(job: Job, batches: Batches) -> Batches:
    """Rows as input codes x… with their weight n; the kept columns as they are."""
    made = _made(job.mechanism)
    groups, kept = coded_apart(made), [f"k{i}" for i in range(job.kept)]
    for batch in batches:
        codes, weights = _codes(job, groups, batch), weights_of(batch)
        if not kept and len(codes) == 1:
            codes[0], inverse = np.unique(codes[0], return_inverse=True)
            totals = np.zeros(len(codes[0]), np.int64)
            np.add.at(totals, inverse, weights)
            weights = totals
        arrays = [*(batch.column(n) for n in kept), *(pa.array(c, pa.int64()) for c in codes), pa.array(weights)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*kept, *job.codes, WEIGHT])


@dataclass(slots=True)
class _Drawn:
    """A mechanism's draws at places, from its input codes [group, row]."""

    made: Mechanism
    placed: Placed
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = Sampler(self.made.law, self.placed)

    def __call__(self, codes: Ints) -> Any:
        kind: Any = np.int64 if self.made.inputs > np.iinfo(np.int32).max else np.int32
        return self.sampler.draw(codes[0].astype(kind), 0)


@dataclass(slots=True)
class _DrawnBundle:
    """A bundle's: the words of a record are those of its place, one after the other."""

    made: Bundle
    placed: Placed
    sampler: BundleSampler

    def __call__(self, codes: Ints) -> Any:
        each: dict[str, Any] = {}
        for group, own in zip(coded_apart(self.made), codes, strict=True):
            digits = np.unravel_index(own, [c.size for c in group.columns])
            each |= {c.name: d.astype(np.int32) for c, d in zip(group.columns, digits, strict=True)}
        words = np.empty(codes.shape[1] * self.sampler.words, np.uint64)
        self.placed.words(0, words)
        return self.sampler.drawn(each, np.ascontiguousarray(words.reshape(codes.shape[1], -1).T))


@functools.lru_cache(4)
def _sampler(data: bytes) -> BundleSampler:
    """Of a bundle, made once in a worker: it draws from words that it is given, never from a stream of its own."""
    made = _made(data)
    assert isinstance(made, Bundle)
    return BundleSampler(made, Stream.of())


def _drawing(job: Job, made: Mechanism | Bundle) -> tuple[Any, Placed]:
    if isinstance(made, Bundle):
        placed = Placed(job.key, words_of(made))
        return _DrawnBundle(made, placed, _sampler(job.mechanism)), placed
    placed = Placed(job.key, made.law.words)
    return _Drawn(made, placed), placed


def draw(job: Job, batches: Batches) -> Batches:
    """Stretches of equal rows (x…, start, size) as answers with how often each came."""
    made = _made(job.mechanism)
    own, placed = _drawing(job, made)
    turned = decoding_of(made, job.decode, placed)
    for batch in batches:
        starts, sizes = (np.asarray(batch.column(n), np.int64) for n in ("start", "size"))
        codes = np.stack([np.asarray(batch.column(n), np.int64) for n in job.codes])
        digests = None if job.place is None else _digests(batch.column(job.place))
        if sizes.sum() >= ROWS_WORTH_NUMBA // 4:  # a worker draws several such batches, with numba in its memory
            own.sampler.compile()
        for low, high in _stretches(sizes):
            which = np.repeat(np.arange(low, high), sizes[low:high])
            ends = np.cumsum(sizes[low:high])
            within = np.arange(len(which)) - np.repeat(ends - sizes[low:high], sizes[low:high])
            copies = starts[which] + within
            assert copies.max(initial=0) < MOST_COPIES
            placed.settle(None if digests is None else digests[which].tobytes(), codes[0][which], copies)
            yield _answers(job, batch, turned, own(codes[:, which]), which)


def answer(job: Job, batches: Batches) -> Batches:
    """Rows with a digest of their own, `d`, as kept columns and answers, row by row. The noise is that of the place
    (d, x, 0), so it is the same in whichever task and as often as the row is computed."""
    made = _made(job.mechanism)
    own, placed = _drawing(job, made)
    groups, turned, kept = coded_apart(made), decoding_of(made, job.decode, placed), job.names[1:]
    for batch in batches:
        codes = np.stack([np.asarray(c, np.int64) for c in _codes(job, groups, batch)])
        placed.settle(_digests(batch.column("d")).tobytes(), codes[0], np.zeros(codes.shape[1], np.int64))
        labels = turned.arrays(own(codes), 0)
        arrays = [*(batch.column(n) for n in kept), *(x.cast(pa.string()) for x in labels)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*kept, *(f"y{i}" for i in range(len(labels)))])


def _codes(job: Job, groups: list[Alphabet], batch: pa.RecordBatch) -> list[Any]:
    """The input codes of rows, from the columns c0, c1, … that are read. Whoever's secret has a label that the promise
    does not know is refused, read or not."""
    names = [name for group in groups for name in group.names]
    coded = pa.RecordBatch.from_arrays([batch.column(f"c{i}") for i in range(len(names))], names=names)
    secret = {c.name: c for c in _made(job.mechanism).secret.columns}
    with worker_errors():
        for i, name in enumerate(job.compared, len(names)):
            secret[name].encode(batch.column(f"c{i}"))
        return [group.encode(coded) for group in groups]


def _answers(job: Job, batch: pa.RecordBatch, turned: Decoder, drawn: Any, which: Ints) -> pa.RecordBatch:
    """The answers of a stretch, equal ones of one source row put together."""
    made, counts = _made(job.mechanism), None
    if isinstance(made, Mechanism) and drawn.ndim == 1 and job.decode != "sample" and made.outputs < 1 << 31:
        which, drawn, counts = _counted_pairs(which, drawn, made.outputs)  # one label for each output: count these
    labels = turned.arrays(drawn, 0)
    keys = [f"y{i}" for i in range(len(labels))]
    if counts is None and not job.names:  # nothing is kept: equal answers are alike, whichever row they are of
        table = pa.table(labels, names=keys).group_by(keys, use_threads=False).aggregate([([], "count_all")])
        *labels, counts = (c.combine_chunks() for c in table.combine_chunks().columns)
    elif counts is None:
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
