"""What tasks on Spark know of a release: the job, how its rows become codes, and how these draw their answers.

The mechanism travels as the bytes of its file inside the job and is read once in each Python worker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Alphabet, Array, Column, Ints
from sfumato.drawing.decoding import decoder, reading
from sfumato.drawing.randomness import Blocks, Digests, Lane, Placed, Stream
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA, BundleSampler, Sampler, words_of
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import made_of
from sfumato.mechanism.law import Words
from sfumato.sources.data_frames import WEIGHT, weights_of, worker_errors

TASK_BLOCK = 1 << 18  # rows drawn or written at a time
MOST_CODES = 1 << 62  # values of an input code
NUMBER = "p"  # the column of the number of a row in files
Batches = Iterator[pa.RecordBatch]
Opened = Callable[[Batches], Batches]  # what a worker does to get, from batches of a frame, those of the rows
Write = Callable[[Batches], Batches]  # rows into a file, and what is told of it
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker must know. The key is the secret of the release: it undoes the noise, so it is never shown."""

    mechanism: bytes  # or the bundle
    key: bytes = field(repr=False)
    decode: str
    kept: int  # the number of kept columns k0, k1, …
    named: int = 0  # and of columns i0, i1, … that name a row
    inputs: int = 1  # columns x0, x1, … that hold the code of a record: a bundle's may not fit into one
    compared: tuple[str, ...] = ()  # columns of a secret that is promised about and not read, after those that are
    numbered: bool = False  # whether rows are told apart by their number in files

    @property
    def names(self) -> list[str]:
        """The columns that pass through untouched."""
        return [f"k{i}" for i in range(self.kept)]

    @property
    def codes(self) -> list[str]:
        """The columns of the input code."""
        return [f"x{i}" for i in range(self.inputs)]

    @property
    def telling(self) -> list[str]:
        """The columns that tell a row from others of its input: its number in files, its names, or what is kept."""
        return [NUMBER] if self.numbered else [f"i{i}" for i in range(self.named)] or self.names


@functools.lru_cache(4)
def _made(data: bytes) -> Mechanism | Bundle:
    return made_of(data)


def coded_apart(made: Mechanism | Bundle) -> list[Alphabet]:
    """The columns that are read, in as few groups as have codes of 62 bits."""
    groups: list[list[Column]] = [[]]
    for column in reading(made):
        if Alphabet.of(*groups[-1], column).size > MOST_CODES:
            groups.append([])
        groups[-1].append(column)
    return [Alphabet.of(*group) for group in groups]


@dataclass(slots=True)
class Inputs:
    """Rows as codes: of each column that is read, and of all of them in few words [group, row]."""

    groups: list[Alphabet]
    words: Ints
    each: dict[str, Codes] | None = None

    @classmethod
    def of(cls, groups: list[Alphabet], each: dict[str, Codes]) -> Inputs:
        words = [_joined(group, each) for group in groups]
        return cls(groups, words[0][None] if len(words) == 1 else np.stack(words), each)

    @property
    def columns(self) -> dict[str, Codes]:
        """The codes of each column by its name."""
        if self.each is None:
            self.each = {}
            for group, own in zip(self.groups, self.words, strict=True):
                digits = np.unravel_index(own, [c.size for c in group.columns])
                self.each |= {c.name: d.astype(np.int32) for c, d in zip(group.columns, digits, strict=True)}
        return self.each


def _joined(group: Alphabet, each: dict[str, Codes]) -> Ints:
    first, *others = group.columns
    total = each[first.name].astype(np.int64)
    for column in others:
        total *= column.size
        total += each[column.name]
    return total


def encode(job: Job, opened: Opened, batches: Batches) -> Batches:
    """Rows as input codes x0 with how often each occurs: once for a task where codes are few, else for a batch."""
    groups = coded_apart(_made(job.mechanism))
    few = groups[0].size <= TASK_BLOCK
    totals = np.zeros(groups[0].size if few else 0, np.int64)
    for batch in opened(batches):
        [codes], weights = inputs_of(job, groups, batch).words, weights_of(batch)
        if few:
            np.add.at(totals, codes, weights)
        else:
            yield _weighed(*summed(codes, weights))
    found = np.flatnonzero(totals)
    yield _weighed(found, totals[found])


def summed(codes: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """Different codes in ascending order, each with the sum of its weights."""
    found, inverse = np.unique(codes, return_inverse=True)
    totals = np.zeros(len(found), np.int64)
    np.add.at(totals, inverse, weights)
    return found, totals


def _weighed(codes: Ints, totals: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(codes, pa.int64()), pa.array(totals)], names=["x0", WEIGHT])


def inputs_of(job: Job, groups: list[Alphabet], batch: pa.RecordBatch) -> Inputs:
    """The input codes of rows, from the columns c0, c1, … that are read. Whoever's secret has a label that the promise
    does not know is refused, read or not."""
    columns = [column for group in groups for column in group.columns]
    secret = {c.name: c for c in _made(job.mechanism).secret.columns}
    with worker_errors():
        for i, name in enumerate(job.compared, len(columns)):
            secret[name].encode(batch.column(f"c{i}"))
        return Inputs.of(groups, {c.name: c.encode(batch.column(f"c{i}")) for i, c in enumerate(columns)})


@functools.lru_cache(4)
def _sampler(data: bytes) -> BundleSampler:
    """Of a bundle, made once in a worker: it draws from words that it is given, never from a stream of its own."""
    made = _made(data)
    assert isinstance(made, Bundle)
    return BundleSampler(made, Stream.of())


class PlacedDraws:
    """The draws of one release in a worker: rows by their places."""

    def __init__(self, job: Job) -> None:
        self.job, self.made = job, _made(job.mechanism)
        self.placed = Placed(job.key, words_of(self.made) if isinstance(self.made, Bundle) else self.made.law.words)
        self.sampler = _sampler(job.mechanism) if isinstance(self.made, Bundle) else Sampler(self.made.law, self.placed)
        self.decoder = decoder(self.made, job.decode, self.placed)
        self.groups = coded_apart(self.made)
        self.telling = Digests(job.key, "numbers" if job.numbered else "names")
        self.rows = 0

    def inputs(self, batch: pa.RecordBatch) -> Inputs:
        """The input codes of rows."""
        return inputs_of(self.job, self.groups, batch)

    def named(self, batch: pa.RecordBatch) -> Blocks:
        """The digests of what tells rows of one input apart."""
        return self.telling.of([batch.column(n) for n in self.job.telling])

    def drawn(self, inputs: Inputs) -> Array:
        """Outputs of the rows of the present block; the words of a bundle are those of places, one after the other."""
        if isinstance(self.sampler, BundleSampler):
            return self.sampler.drawn(inputs.columns, self.placed.side_by_side())
        assert isinstance(self.made, Mechanism)
        kind: type = np.int64 if self.made.inputs > np.iinfo(np.int32).max else np.int32
        return self.sampler.draw(inputs.words[0].astype(kind), 0)

    def answers(self, digests: Blocks, copies: Ints, inputs: Inputs) -> list[pa.Array]:
        """The released columns of rows at these places."""
        self.expect(len(copies))
        self.placed.settle(digests, copies)
        return self.decoder.arrays(self.drawn(inputs), 0)

    def expect(self, rows: int) -> None:
        """Load numba once it pays: a worker has several tasks like this one, and numba in its memory for all."""
        self.rows += rows
        if self.rows >= ROWS_WORTH_NUMBA // 4:
            self.sampler.compile()

    @property
    def words(self) -> list[pa.Array | None]:
        """Of each released column the texts that its answers are numbers of, if they are."""
        nothing = Inputs(self.groups, np.zeros((self.job.inputs, 0), np.int64))
        labels = self.answers(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64), nothing)
        return [x.dictionary if pa.types.is_dictionary(x.type) else None for x in labels]

    def standing(self, rows: int) -> Words:
        """Where these rows stand among all: a word that nothing else depends on."""
        out = np.empty(rows, np.uint64)
        self.placed.words(0, out, lane=Lane.ORDER())
        return out
