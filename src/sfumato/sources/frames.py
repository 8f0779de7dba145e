"""Data frames and DuckDB relations as sources; neither pandas, Polars nor DuckDB is imported here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sfumato.errors import DataError, InputError
from sfumato.sources.source import BATCH_ROWS, Source


def frame_source(frame: Any) -> Source:
    """A pandas or Polars frame, eager or lazy; a lazy one is collected for the columns asked for."""
    import narwhals as nw

    kind = f"the {type(frame).__module__.split('.')[0]} frame"
    lazy = hasattr(frame, "collect_schema") and hasattr(frame, "collect")
    if not lazy and not hasattr(frame, "columns"):
        raise InputError(f"{kind} is a {type(frame).__name__}; give a frame with named columns.")
    columns = tuple(frame.collect_schema().names() if lazy else frame.columns)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        wanted = [*coded, *kept]
        part: Any = nw.from_native(frame).select(wanted)
        if lazy:
            part = part.collect("pyarrow")
        arrays = [_arrow_column(part[name], name) for name in wanted]
        return pa.table(arrays, names=wanted).to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]

    return Source(kind, columns, read)


def _arrow_column(series: Any, name: str) -> pa.Array | pa.ChunkedArray:
    try:
        values = series.to_arrow()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        kinds = sorted({type(x).__name__ for x in series.to_list() if x is not None and x == x})
        raise DataError(
            f"column {name!r} mixes values of different types ({', '.join(kinds)}). "
            "Convert it to one type first, for example to text."
        ) from None
    return values


def relation_source(relation: Any) -> Source:
    """A DuckDB relation, streamed; the query runs once for each reading."""
    if not hasattr(relation, "columns") or not hasattr(relation, "project"):
        kind = type(relation).__name__
        raise InputError(f"a DuckDB {kind} has no rows; give a relation, such as con.sql('…').")

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        part = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in (*coded, *kept)))
        stream = part.to_arrow_reader if hasattr(part, "to_arrow_reader") else part.fetch_arrow_reader
        yield from stream(BATCH_ROWS)

    return Source("the DuckDB relation", tuple(relation.columns), read)
