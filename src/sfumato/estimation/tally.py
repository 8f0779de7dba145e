"""Tally: how often each output occurs among released rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Alphabet, Floats, Ints, find_column
from sfumato.drawing.manifest import (
    METADATA_KEY,
    Manifest,
    Told,
    decoded_manifest,
    manifest_path,
    read_manifest,
    told_by,
)
from sfumato.errors import DataError, InputError
from sfumato.mechanism import Mechanism
from sfumato.sources import Source, open_source
from sfumato.sources.places import whole_size

if TYPE_CHECKING:
    import numpy.typing as npt

    from sfumato.sources.source import TableLike


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts by output (ones by bit for subsets), the number of rows, and how they had been decoded."""

    counts: Floats
    n: int
    decode: str


def tally(
    source: TableLike | npt.ArrayLike, mechanism: Mechanism, *, decode: str | None = None, n: int | None = None
) -> Tally:
    """Counts of a released table, or the given counts checked."""
    if isinstance(source, (list, tuple, np.ndarray)):
        return _given(source, mechanism, decode or "symbols", n)
    source = open_source(source).verbatim()
    manifest = manifest_beside(source)
    if manifest is not None:
        _check(manifest, mechanism, decode)
        decode = manifest.decode
    return _counted(source, mechanism, decode or "symbols")


def manifest_beside(source: TableLike | npt.ArrayLike) -> Manifest | Told | None:
    """The manifest of a released table: in the file beside it, or in what a frame or an Arrow table carries."""
    opened = open_source(source)
    if opened.cluster is not None:
        return told_by(opened.cluster)
    if opened.path is None:
        carried = opened.metadata.get(METADATA_KEY)
        return None if carried is None else decoded_manifest(carried, opened.name)
    path = manifest_path(opened.path)
    if not path.exists():
        return None
    manifest = read_manifest(path)
    size = whole_size(opened.path)
    if manifest.size is not None and size != manifest.size:
        raise InputError(
            f"describes a table of {manifest.size} bytes, but {opened.path.name} has {size}: it was changed or "
            "replaced after the release", next="Move the manifest away and say decode= to estimate anyway.",
            where=path.name,
        )
    return manifest


def _check(manifest: Manifest | Told, mechanism: Mechanism, decode: str | None) -> None:
    from sfumato.mechanism.file import record_of

    if mechanism.sealed and record_of(mechanism).checksum != manifest.mechanism:
        raise InputError(
            "the table was released with another mechanism than this one (their checksums differ)",
            next="Load the mechanism file that was written with it.",
        )
    if decode is not None and decode != manifest.decode:
        raise InputError(f"decode is {decode!r}, but the manifest says the rows were written as {manifest.decode!r}.")


def _given(given: npt.ArrayLike, mechanism: Mechanism, decode: str, n: int | None) -> Tally:
    try:
        counts = np.asarray(given, float).ravel()
    except (TypeError, ValueError):
        raise InputError(
            "a list must hold the count of every output, in their order",
            next="Give released rows as a table or its path.",
        ) from None
    if not np.all(np.isfinite(counts)) or np.any(counts < 0):
        raise InputError("counts must be finite numbers, zero or more.")
    if mechanism.law.meaning == "subset" and decode == "symbols":
        if n is None or counts.max(initial=0) > n:
            raise InputError("counts of SUE or OUE are ones by bit", next="Say how many rows there were with n=.")
        return Tally(counts, n, decode)
    total = float(counts.sum())
    if n is not None and abs(total - n) > 0.5:
        raise InputError(f"the counts sum to {total:g}, but n is {n}.")
    return Tally(counts, round(total), decode)


def _counted(source: Source, mechanism: Mechanism, decode: str) -> Tally:
    """Counts of the rows of a table, batch by batch."""
    meaning = mechanism.law.meaning if decode == "symbols" else "cell" if mechanism.law.rows > 1 else "useful"
    columns, size, count = READERS[meaning](mechanism)
    opened = open_source(source)
    if opened.sums is not None:
        for name in columns:
            find_column(name, opened.columns, opened.name)
        return Tally(*_counted_there(opened, columns, size, count, few=meaning != "subset"), decode)
    totals, rows = np.zeros(size, np.int64), 0
    for batch in opened.batches(columns):
        totals += count(batch, rows, None)
        rows += batch.num_rows
    return Tally(totals.astype(float), rows, decode)


Count = Callable[[Any, int, Ints | None], Ints]  # (rows, number of the first, how often each occurs) → totals
Reader = tuple[list[str], int, Count]


def _counted_there(opened: Source, columns: list[str], size: int, count: Count, *, few: bool) -> tuple[Floats, int]:
    """Totals and the number of rows of a table that lives on a cluster; rows are counted under a key of their own."""
    def part(batch: pa.RecordBatch, weights: Ints) -> pa.Table:
        totals = count(batch, 0, weights)
        at = np.flatnonzero(totals)
        return pa.table({"y": np.append(at, -1), "n": np.append(totals[at], weights.sum())})

    assert opened.sums is not None
    found = opened.sums(columns, part, pa.schema([("y", pa.int64()), ("n", pa.int64())]), few=few)
    at, n = (np.asarray(found.column(name)) for name in ("y", "n"))
    totals = np.zeros(size)
    totals[at[at >= 0]] = n[at >= 0]
    return totals, int(n[at < 0].sum())


def _labels(*alphabets: Alphabet) -> Reader:
    """Labels as they were written: bins by their text, and nothing but what the alphabet lists."""
    columns = [replace(c, cuts=None, other=None) for alphabet in alphabets for c in alphabet.columns]
    written = Alphabet.of(*columns)

    def count(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> Ints:
        codes = written.encode(batch, first_row=first_row)
        if weights is None:
            return np.bincount(codes, minlength=written.size)
        totals = np.zeros(written.size, np.int64)
        np.add.at(totals, codes, weights)
        return totals

    return [c.name for c in columns], written.size, count


def _cells(mechanism: Mechanism) -> Reader:
    return _labels(mechanism.secret, mechanism.useful)


def _useful(mechanism: Mechanism) -> Reader:
    return _labels(mechanism.useful)


def _symbols(mechanism: Mechanism) -> Reader:
    return _labels(Alphabet.of(mechanism.symbols))


def _bits(mechanism: Mechanism) -> Reader:
    width = mechanism.inputs

    def count(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> Ints:
        values = batch.column("bits")
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        text = "".join(x or "" for x in values.to_pylist()).encode()
        bits = np.frombuffer(text, np.uint8) - ord("0")
        if bits.size != batch.num_rows * width or bits.max(initial=0) > 1:
            raise DataError(f"column 'bits' must hold {width} zeros and ones in every row.")
        table = bits.reshape(-1, width)
        return np.asarray(table.sum(0, dtype=np.int64) if weights is None else weights @ table)

    return ["bits"], width, count


READERS: dict[str, Callable[[Mechanism], Reader]] = {
    "cell": _cells, "useful": _useful, "symbol": _symbols, "subset": _bits,
}
