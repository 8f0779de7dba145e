"""Writing: batches of a released table as Parquet or CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sfumato.errors import InputError
from sfumato.releasing.csv_text import CsvText
from sfumato.sources.files import DELIMITERS, suffix_of

GROUP_ROWS = 1 << 20  # rows of a Parquet row group
GROUP_BYTES = 1 << 26  # and the most bytes it holds before it is written


class Writer(Protocol):
    """Takes batches of one schema; `close` writes what is left."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class ParquetOutput:
    """Parquet with pyarrow's default settings; row groups are gathered over batches."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        from pyarrow import parquet

        self.file: Any = pa.OSFile(path, "wb")
        self.writer: Any = parquet.ParquetWriter(self.file, schema)
        self.waiting: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        rows, size = sum(b.num_rows for b in self.waiting), sum(b.nbytes for b in self.waiting)
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting))
            self.waiting = []

    def close(self) -> None:
        self._flush()
        self.writer.close()
        self.file.close()


class CsvOutput:
    """CSV in UTF-8 with a header; fields are quoted where they must be, missing values are empty."""

    def __init__(self, path: str, schema: pa.Schema, delimiter: str, *, packed: bool) -> None:
        self.raw: Any = pa.OSFile(path, "wb")
        self.file: Any = pa.CompressedOutputStream(self.raw, "gzip") if packed else self.raw
        self.text = CsvText(delimiter, len(schema.names))
        self.file.write(self.text.header(schema.names))

    def write(self, batch: pa.RecordBatch) -> None:
        self.file.write(self.text.lines(batch))

    def close(self) -> None:
        self.file.close()
        if self.raw is not self.file:
            self.raw.close()


def _csv(suffix: str) -> Callable[[str, pa.Schema], Writer]:
    return lambda path, schema: CsvOutput(path, schema, DELIMITERS[suffix], packed=suffix.endswith(".gz"))


WRITERS: dict[str, Callable[[str, pa.Schema], Writer]] = {
    ".parquet": ParquetOutput, **{suffix: _csv(suffix) for suffix in DELIMITERS}
}


def writer_for(target: Path) -> Callable[[str, pa.Schema], Writer]:
    """How to write a file, by its suffix."""
    suffix = suffix_of(target)
    if suffix not in WRITERS:
        known = ", ".join(sorted(WRITERS))
        raise InputError(f"cannot write {target.name}: the suffix must be one of {known}.")
    return WRITERS[suffix]
