"""Parts of a table: a random one to design on, the rest to release; and counts under given alphabets."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Floats
from sfumato.errors import At, DataError, InputError
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism
from sfumato.sources import Source

if TYPE_CHECKING:
    from sfumato.drawing.randomness import WordSource


def split(source: Source, fraction: float, seed: int | None = None) -> tuple[Source, Source]:
    """Two sources that share no row: each row goes to the first with probability `fraction`.

    Which rows these are follows from the row number and a key of the system's entropy, so both parts can be
    streamed, in as many passes as it takes, and nobody can tell afterwards who was in which.
    """
    if not 0 < fraction < 1:
        raise InputError("split must be a fraction between 0 and 1", value=fraction)
    from sfumato.drawing.randomness import Stream

    stream, edge = Stream.of(seed), np.uint64(int(fraction * 2**64))
    return _part(source, stream, edge, first=True), _part(source, stream, edge, first=False)


def _part(source: Source, stream: WordSource, edge: np.uint64, *, first: bool) -> Source:
    from sfumato.drawing.randomness import Lane

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source.read(coded, kept):
            words = np.empty(batch.num_rows, np.uint64)
            stream.words(row, words, lane=Lane.SPLIT())
            row += batch.num_rows
            yield batch.filter(pa.array((words < edge) == first))

    part = "set aside for the design" if first else "to be released"
    return replace(source, name=f"{source.name} (the part {part})", read=read, rows=None)


def watched(source: Source, tell: Callable[[int], None]) -> Source:
    """The same source, telling how many rows have been read in each pass."""
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in source.read(coded, kept):
            rows += batch.num_rows
            tell(rows)
            yield batch

    return replace(source, read=read)


def counted(source: Source, like: Mechanism | Joint, names: dict[str, str]) -> Joint:
    """The table of counts under the alphabets of a mechanism or a joint; `names` gives the source's column names."""
    wanted = [names.get(n, n) for n in (*like.secret.names, *like.useful.names)]
    own = [*like.secret.names, *like.useful.names]
    totals, row = np.zeros(like.secret.size * like.useful.size, np.int64), 0
    for batch in source.batches(wanted):
        part = batch.select(wanted).rename_columns(own)
        codes = like.secret.encode(part, first_row=row) * like.useful.size + like.useful.encode(part, first_row=row)
        totals += np.bincount(codes, minlength=len(totals))
        row += batch.num_rows
    return Joint.from_counts(totals.reshape(like.secret.size, like.useful.size), like.secret, like.useful)


def counted_tables(source: Source, bundle: Bundle, names: dict[str, str]) -> dict[tuple[str, ...], Floats]:
    """The true table of every column of a bundle and of every two, as shares, in one pass."""
    from sfumato.bundles.counting import joint_codes

    columns = list({c.name: c for part in bundle.parts for c in bundle.reading(part)}.values())
    groups = [*((c,) for c in columns), *combinations(columns, 2)]
    totals = [np.zeros(math.prod(c.size for c in group), np.int64) for group in groups]
    row = 0
    for batch in source.batches([names.get(c.name, c.name) for c in columns]):
        codes = {c.name: c.encode(batch.column(names.get(c.name, c.name)), first_row=row) for c in columns}
        row += batch.num_rows
        for total, group in zip(totals, groups, strict=True):
            total += np.bincount(joint_codes(group, codes, batch.num_rows), minlength=len(total))
    found = {tuple(c.name for c in group): total / row for group, total in zip(groups, totals, strict=True)}
    return {key: p.reshape([c.size for c in group]) for (key, p), group in zip(found.items(), groups, strict=True)}


@contextlib.contextmanager
def counting_within(part: bool) -> Iterator[None]:
    """Row numbers of a part of the table are not those of the file: say so."""
    try:
        yield
    except DataError as error:
        if not part or not isinstance(error.where, At) or error.where.row is None:
            raise
        raise error.followed_by("(After a split, rows are counted within their part.)") from None
