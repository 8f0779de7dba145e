"""Tables that are counted already: each row stands for as many people as a column says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sfumato.alphabet import find_column
from sfumato.arrow import numbers_of
from sfumato.errors import At, DataError
from sfumato.sources.meaning import Meaning
from sfumato.sources.source import BATCH_ROWS, Source


def expanded(source: Source, counts: str) -> Source:
    """The people behind a table of counts, one row each, made as they are read."""
    find_column(counts, source.columns, source.name)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source.batches([*coded, *(() if counts in coded else (counts,))], kept):
            people = _people(batch.column(counts), counts, row)
            row += batch.num_rows
            chosen, ends = batch.select([*coded, *kept]), np.cumsum(people)
            for start in range(0, int(ends[-1]) if len(ends) else 0, BATCH_ROWS):
                at = np.searchsorted(ends, np.arange(start, min(start + BATCH_ROWS, int(ends[-1]))), side="right")
                yield chosen.take(pa.array(at))

    left = tuple(name for name in source.columns if name != counts)
    said = tuple(x for x in source.reading.said if "number of people in each row" not in x)
    return replace(source, columns=left, read=read, rows=None, share=None, reading=Meaning(said=said))


def _people(values: pa.Array, name: str, first_row: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found = numbers_of(values, name, first_row)
    bad = np.flatnonzero(~((found >= 0) & (found == np.floor(found))))
    if bad.size:
        row = first_row + int(bad[0]) + 1
        raise DataError("a count must be a whole number, zero or more", where=At(name, row=row))
    return found.astype(np.int64)
