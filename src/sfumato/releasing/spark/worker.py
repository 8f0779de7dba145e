"""What Spark's workers know in a release: the job, how its rows become codes, and how these draw their answers.

The mechanism travels as the bytes of its file inside the job and is read once in each Python worker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Alphabet, Column, Ints
from sfumato.drawing.bundle_draws import BundleSampler, words_of
from sfumato.drawing.digests import Blocks, Digests, Placed
from sfumato.drawing.randomness import Lane, Stream
from sfumato.drawing.sampling import Sampler
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import made_of
from sfumato.mechanism.law import Words
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
    named: int = 0  # and of columns i0, i1, … that name a row
    inputs: int = 1  # columns x0, x1, … that hold the code of a record: a bundle's may not fit into one
    compared: tuple[str, ...] = ()  # columns of a secret that is promised about and not read, after those that are

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
        """The columns that tell a row from others of its input: its names, or what is kept."""
        return [f"i{i}" for i in range(self.named)] or self.names


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
    """Rows as input codes x0 with how often each occurs."""
    groups = coded_apart(_made(job.mechanism))
    for batch in batches:
        [codes] = _codes(job, groups, batch)
        found, inverse = np.unique(codes, return_inverse=True)
        totals = np.zeros(len(found), np.int64)
        np.add.at(totals, inverse, weights_of(batch))
        yield pa.RecordBatch.from_arrays([pa.array(found, pa.int64()), pa.array(totals)], names=["x0", WEIGHT])


def encode_opened(job: Job, opened: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """The same, of rows that are to be read first."""
    return encode(job, opened(batches))


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


@dataclass(slots=True)
class _Drawn:
    """A mechanism's draws at places, from its input codes [group, row]."""

    made: Mechanism
    placed: Placed
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = Sampler(self.made.law, self.placed)

    def __call__(self, codes: Ints) -> Any:
        """Outputs of the rows of the present block."""
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
        return self.sampler.drawn(each, self.placed.side_by_side())


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


class Drawing:
    """The draws of one release in a worker, rows by their places."""

    def __init__(self, job: Job) -> None:
        self.job, self.made = job, _made(job.mechanism)
        self.own, self.placed = _drawing(job, self.made)
        self.decoder = decoding_of(self.made, job.decode, self.placed)
        self.groups = coded_apart(self.made)
        self.telling = Digests(job.key, "names")

    def codes(self, batch: pa.RecordBatch) -> Ints:
        """Input codes [group, row]."""
        return np.stack([np.asarray(c, np.int64) for c in _codes(self.job, self.groups, batch)])

    def named(self, batch: pa.RecordBatch) -> Blocks:
        """The digests of what tells rows of one input apart."""
        return self.telling.of([batch.column(n) for n in self.job.telling])

    def answers(self, digests: Blocks, copies: Ints, codes: Ints) -> list[pa.Array]:
        """The released columns of rows at these places."""
        self.placed.settle(digests, copies)
        return self.decoder.arrays(self.own(codes), 0)

    @property
    def words(self) -> list[pa.Array | None]:
        """Of each released column the texts that its answers are numbers of, if they are."""
        codes = np.zeros((self.job.inputs, 0), np.int64)
        nothing = self.answers(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64), codes)
        return [x.dictionary if pa.types.is_dictionary(x.type) else None for x in nothing]

    def standing(self, rows: int) -> Words:
        """Where these rows stand among all: a word that nothing else depends on."""
        out = np.empty(rows, np.uint64)
        self.placed.words(0, out, lane=Lane.ORDER())
        return out
