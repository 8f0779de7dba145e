"""Tables that are counted already: each row stands for as many people as a column says."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Ints, find_column
from sfumato.arrow import numbers_of
from sfumato.errors import At, DataError
from sfumato.sources.meaning import Meaning
from sfumato.sources.source import BATCH_ROWS, Source


def expanded(source: Source, counts: str) -> Source:
    """The people behind a table of counts, one row each, made as they are read and in a random order.

    In the order of the table one person more in a cell would move everybody behind it: released rows, which stand in
    the order of the people, would then tell of each cell how many it holds.
    """
    find_column(counts, source.columns, source.name)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *(() if counts in coded else (counts,))]
        batches = list(source.batches(wanted, kept))
        cells = pa.Table.from_batches(batches).combine_chunks()
        people = _people(cells.column(counts).combine_chunks(), counts)
        chosen = cells.select([*coded, *kept])
        for at in in_random_order(people, BATCH_ROWS):
            yield from chosen.take(pa.array(at)).combine_chunks().to_batches()

    left = tuple(name for name in source.columns if name != counts)
    said = tuple(x for x in source.reading.said if "number of people in each row" not in x)
    reading = Meaning(said=said, guessed=source.reading.guessed)
    return replace(source, columns=left, read=read, rows=None, share=None, reading=reading)


def in_random_order(people: Ints, most: int) -> Iterator[Ints]:
    """Every person's cell once, `most` at a time, every order alike.

    Each batch is drawn without replacement from those who are left, by the system's randomness.
    """
    left = people.copy()
    while (total := int(left.sum())) > 0:
        found = np.searchsorted(np.cumsum(left), _distinct(min(most, total), total), side="right")
        left -= np.bincount(found, minlength=len(left))
        yield found


def _distinct(many: int, below: int) -> Ints:
    """Different whole numbers below a limit, every sequence of them alike but for 2⁻⁶⁴ of the limit."""
    if 2 * many > below:
        return np.argsort(_words(below), kind="stable")[:many].astype(np.int64)
    found = np.empty(0, np.int64)
    while len(found) < many:
        found = np.concatenate([found, (_words(many) % np.uint64(below)).astype(np.int64)])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
    return found[:many]


def _words(many: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(secrets.token_bytes(8 * many), np.uint64)


def _people(values: pa.Array, name: str) -> Ints:
    found = numbers_of(values, name, 0)
    bad = np.flatnonzero(~((found >= 0) & (found == np.floor(found))))
    if bad.size:
        row = int(bad[0]) + 1
        raise DataError("a count must be a whole number, zero or more", where=At(name, row=row))
    return found.astype(np.int64)
