"""Source: a table that can be read in batches, whatever holds it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.alphabet import find_column
from sfumato.errors import DataError, InputError

BATCH_ROWS = 1 << 17  # large enough to forget the cost of a call, small enough to keep memory flat
Reader = Callable[[Sequence[str], Sequence[str]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows by column name. `read(coded, kept)` gives batches: coded columns as text or dictionaries where the
    source has a choice, kept columns as they are."""

    name: str  # as messages call it
    columns: tuple[str, ...]
    read: Reader
    path: Path | None = None
    once: bool = False  # it can be read only once
    sums: Any = None  # where rows live on a cluster: (columns, part, keys, few=) → keys with their summed weights
    cluster: Any = None  # the cluster's own frame

    def __post_init__(self) -> None:
        odd = [c for c in self.columns if not isinstance(c, str)]
        if odd:
            raise InputError(f"{self.name}: column names must be text, got {odd[0]!r}. Rename them first.")
        twice = [c for c, k in Counter(self.columns).items() if k > 1]
        if twice:
            raise InputError(f"{self.name} has more than one column named {twice[0]!r}; names must differ.")

    def batches(self, coded: Sequence[str], kept: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Batches with the columns asked for; an error if one does not exist or there are no rows."""
        for name in (*coded, *kept):
            find_column(name, self.columns, self.name)
        rows = 0
        for batch in self.read(coded, kept):
            if batch.num_rows:
                rows += batch.num_rows
                yield batch
        if not rows:
            raise DataError(f"{self.name} has no rows: there is nothing to tabulate or release.")

    def settled(self, columns: Sequence[str]) -> Source:
        """A source that can be read again; what can be read only once is held in memory."""
        if not self.once:
            return self
        return table_source(pa.Table.from_batches(list(self.batches(columns))), self.name)


def open_source(source: Any) -> Source:
    """A path to .csv, .tsv, .csv.gz or .parquet, a pandas or Polars frame, an Arrow table, batch or reader,
    a DuckDB relation or a Spark data frame, as a Source.

    >>> open_source(pa.table({"sex": ["F", "M"]})).columns
    ('sex',)
    """
    for fits, opened in OPENERS:
        if fits(source):
            return opened(source)
    kind = type(source)
    raise InputError(
        f"cannot read rows from a {kind.__module__}.{kind.__qualname__}: give a path to a .csv, .tsv, "
        ".csv.gz or .parquet file, a pandas or Polars frame, an Arrow table, batch or reader, a DuckDB "
        "relation or a Spark data frame."
    )


def table_source(table: pa.Table, name: str = "the table") -> Source:
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        return table.select([*coded, *kept]).to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]

    return Source(name, tuple(table.column_names), read)


def _batch_source(batch: pa.RecordBatch) -> Source:
    return table_source(pa.Table.from_batches([batch]), "the record batch")


def _reader_source(reader: pa.RecordBatchReader) -> Source:
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield batch.select([*coded, *kept])

    return Source("the record batch reader", tuple(reader.schema.names), read, once=True)


def _path_source(path: Any) -> Source:
    from sfumato.sources.files import file_source

    return file_source(Path(path))


def _source_itself(source: Source) -> Source:
    return source


def _relation_source(relation: Any) -> Source:
    from sfumato.sources.frames import relation_source

    return relation_source(relation)


def _frame_source(frame: Any) -> Source:
    from sfumato.sources.frames import frame_source

    return frame_source(frame)


def _spark_source(frame: Any) -> Source:
    from sfumato.sources.spark import spark_source

    return spark_source(frame)


def _of_package(*names: str) -> Callable[[Any], bool]:
    return lambda source: any(k.__module__.split(".")[0].lstrip("_") in names for k in type(source).mro())


OPENERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Source]], ...] = (
    (lambda x: isinstance(x, Source), _source_itself),
    (lambda x: isinstance(x, (str, os.PathLike)), _path_source),
    (lambda x: isinstance(x, pa.Table), table_source),
    (lambda x: isinstance(x, pa.RecordBatch), _batch_source),
    (lambda x: isinstance(x, pa.RecordBatchReader), _reader_source),
    (_of_package("pyspark"), _spark_source),
    (_of_package("duckdb"), _relation_source),
    (_of_package("pandas", "polars", "modin", "cudf"), _frame_source),
)
