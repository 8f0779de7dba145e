"""CSV as a source, from files and streams. Arrow's own messages quote rows, so none of them is passed on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.errors import DataError, InputError
from sfumato.sources.formulas import unguard, unguarded
from sfumato.sources.places import Where
from sfumato.sources.source import Source

BLOCK_BYTES = 1 << 20  # of a CSV file read at a time
HEAD_BYTES = 1 << 16  # read at a time until the header is whole
LONGEST_HEADER = 1 << 24
CONVERT = "Convert the file to UTF-8 first, for example with iconv."


def csv_source(
    name: str, opened: Callable[[], Any], delimiter: str, *, packing: str | None = None, path: Where | None = None,
    size: int | None = None,
) -> Source:
    """A file of CSV that can be opened again and again."""
    meter = Meter(size)

    def unpacked() -> Any:
        meter.raw = opened()
        return meter.raw if packing is None else pa.CompressedInputStream(meter.raw, packing)

    with unpacked() as stream:
        columns, _ = header_of(stream, delimiter, name)
    table = Text(name, columns, delimiter)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            stream = unpacked()
        except OSError:
            raise DataError(f"{name} could not be opened again: was it moved?") from None
        for batch in table.batches(stream, [*coded, *kept]):
            meter.advance()
            yield batch

    return Source(name, table.names, read, path, share=None if size is None else lambda: meter.share)


def stream_source(stream: Any, delimiter: str = ",", name: str = "standard input") -> Source:
    """CSV that comes once, through a pipe."""
    columns, head = header_of(stream, delimiter, name)
    table, whole = Text(name, columns, delimiter), Joined(head, stream)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return table.batches(pa.PythonFile(whole, "r"), [*coded, *kept])

    return Source(name, table.names, read, once=True)


@dataclass(slots=True)
class Meter:
    """How much of a file has been read, packed or not."""

    size: int | None
    raw: Any = None
    share: float = 0.0

    def advance(self) -> None:
        if self.size and not self.raw.closed:
            self.share = min(self.raw.tell() / self.size, 1.0)


class Joined(io.RawIOBase):
    """Bytes that were read already, and the stream they came from."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.head:
            part = self.head if size < 0 else self.head[:size]
            self.head = self.head[len(part) :]
            return part if size >= 0 else part + bytes(self.rest.read())
        return bytes(self.rest.read(size))


def header_of(stream: Any, delimiter: str, name: str) -> tuple[tuple[str, ...], bytes]:
    """The names in the first record, and what had to be read to see it whole. Nothing behind it is decoded."""
    data, end = b"", -1
    take = getattr(stream, "read1", stream.read)  # what has come through a pipe, without waiting for more
    try:
        while end < 0 and len(data) < LONGEST_HEADER:
            part = bytes(take(HEAD_BYTES))
            data += part
            end = _end_of_record(data) if part else len(data)
    except OSError:
        raise InputError(f"{name} could not be read: the file is damaged or cut short.") from None
    if not data:
        raise InputError(f"{name} is empty: it has neither a header nor rows.")
    if end < 0:
        raise InputError(f"the header of {name} does not end within {LONGEST_HEADER:,} bytes. Is a quote left open?")
    try:
        text = data[:end].decode("utf-8-sig")
        row = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"the header of {name} is not UTF-8 text. {CONVERT}") from None
    if not row:
        raise InputError(f"{name} is empty: its first line must name the columns.")
    return tuple(row), data


def _end_of_record(data: bytes) -> int:
    """Where the first line break outside quotes is, or −1."""
    for found in re.finditer(rb"[\r\n]", data):
        if data.count(b'"', 0, found.start()) % 2 == 0:
            return found.start()
    return -1


@dataclass(frozen=True, slots=True)
class Text:
    """Rows of CSV: every column as text, empty fields as missing, formulas without their guard; whatever else a field
    holds stays as it is."""

    name: str
    columns: tuple[str, ...]  # as they are written
    delimiter: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(unguarded, self.columns))

    def batches(self, stream: Any, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv as arrow_csv

        as_written = dict(zip(self.names, self.columns, strict=True))
        written = [as_written[name] for name in wanted]
        try:
            with stream:
                for batch in arrow_csv.open_csv(
                    stream,
                    read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
                    parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    convert_options=arrow_csv.ConvertOptions(
                        column_types={name: pa.string() for name in written}, include_columns=written,
                        strings_can_be_null=True, null_values=[""],
                    ),
                ):
                    yield pa.RecordBatch.from_arrays([unguard(c) for c in batch.columns], names=wanted)
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise self._error(str(error)) from None
        except OSError:
            raise DataError(f"{self.name} could not be read to its end: it is damaged or cut short.") from None

    def _error(self, text: str) -> DataError:
        """What went wrong, without the row that Arrow quotes."""
        shape = re.search(r"Expected (\d+) columns, got (\d+)", text)
        if shape:
            row = re.search(r"Row #(\d+)", text)
            where = f", line {row[1]}" if row else ""
            found = f"{shape[1]} fields expected, {shape[2]} found"
            return DataError(f"{self.name}{where}: {found}. Check quotes and delimiters.")
        if "UTF8" in text or "UTF-8" in text:
            at = re.search(r"CSV column #(\d+)", text)
            where = f", column {self.columns[int(at[1])]!r}" if at and int(at[1]) < len(self.columns) else ""
            return DataError(f"{self.name}{where}: a value is not UTF-8 text. {CONVERT}")
        if "straddling" in text:
            return DataError(f"{self.name}: a row is longer than {BLOCK_BYTES:,} bytes. Is a quote left open?")
        return DataError(f"{self.name} could not be parsed as CSV. Check quotes and delimiters.")
