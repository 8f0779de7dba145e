"""Delimited text as a source, from files and streams, and cells that a spreadsheet would run as formulas.

Arrow's own messages quote rows, so none of them is passed on.
"""

from __future__ import annotations

import atexit
import csv
import io
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import At, DataError
from sfumato.libraries import pyarrow
from sfumato.sources.dialect import COMMENT, ENCODING, SPOKEN, Dialect, Said, dialect_of
from sfumato.sources.places import AGAIN, Where, opened, size_of
from sfumato.sources.source import Source
from sfumato.sources.values import text_bytes

if TYPE_CHECKING:
    from pyarrow.csv import InvalidRow

STDIN = "standard input"
BLOCK_BYTES = 1 << 20  # of a file read at a time
ELSE = f"Say which encoding it has ({ENCODING}), or convert it to UTF-8."


def csv_source(where: Where, delimiter: str, packing: str | None, said: Said) -> Source:
    """A file of delimited text, packed or not, that can be opened again and again."""
    meter = Meter(size_of(where))

    def unpacked() -> BinaryIO:
        meter.raw = raw = opened(where)
        found: BinaryIO = raw if packing is None else pa.CompressedInputStream(raw, packing)
        return found

    with unpacked() as stream:
        dialect, _ = dialect_of(stream, where.name, delimiter, said)
    table = Text(where.name, dialect)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            stream = unpacked()
        except OSError:
            raise DataError("could not be opened again: was it moved?", next=AGAIN, where=where.name) from None
        for batch in table.batches(stream, [*coded, *kept], unpacked):
            meter.advance()
            yield batch

    return Source(where.name, table.names, read, where, share=lambda: meter.share, reading=dialect.reading)


def stream_source(stream: BinaryIO, delimiter: str = ",", said: Said | None = None) -> Source:
    """Delimited text that comes once, through a pipe."""
    dialect, head = dialect_of(stream, STDIN, delimiter, said or Said())
    table, whole = Text(STDIN, dialect), Joined(head, stream)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return table.batches(pa.PythonFile(whole, "r"), [*coded, *kept])

    return Source(STDIN, table.names, read, once=True, reading=dialect.reading)


@dataclass(slots=True)
class Meter:
    """How much of a file has been read, packed or not."""

    size: int
    raw: pa.NativeFile = None
    share: float = 0.0

    def advance(self) -> None:
        if self.size and not self.raw.closed:
            self.share = min(self.raw.tell() / self.size, 1.0)


class Joined(io.RawIOBase):
    """Bytes that were read already, and the stream they came from."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.closed:
            return b""
        if self.head:
            part = self.head if size < 0 else self.head[:size]
            self.head = self.head[len(part) :]
            return part if size >= 0 else part + bytes(self.rest.read())
        return bytes(self.rest.read(size))


_READING: WeakSet[Generator[pa.RecordBatch]] = WeakSet()  # closed before the interpreter ends
PARTING = 0.2  # seconds for Arrow's threads to let go of a stream that was closed: they need the interpreter for it


@atexit.register
def _none_left_reading() -> None:
    left = list(_READING)
    for found in left:
        with suppress(ValueError):  # another thread is reading it
            found.close()
    if left:
        time.sleep(PARTING)


def _drained(stream: BinaryIO, reader: pa.RecordBatchReader) -> None:
    """Nothing reads any more. Arrow reads ahead in threads of its own, and one that returns to Python while the
    interpreter ends aborts the whole process: they are let run into the end of what is now a closed stream."""
    stream.close()
    with suppress(pa.ArrowInvalid, OSError, ValueError):
        for _ in reader:
            pass


@dataclass(frozen=True, slots=True)
class Text:
    """Rows of delimited text: every column as text, empty fields as missing, formulas without their guard; whatever
    else a field holds stays as it is. Lines that begin with # and do not have the fields of a row are comments."""

    name: str
    dialect: Dialect

    @property
    def columns(self) -> tuple[str, ...]:
        return self.dialect.columns

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(unguarded, self.columns))

    def batches(
        self, stream: BinaryIO, wanted: list[str], again: Callable[[], BinaryIO] = io.BytesIO
    ) -> Iterator[pa.RecordBatch]:
        """The columns asked for; `again` opens the text once more, where that can be done, to say where it is wrong."""
        found = self._batches(stream, wanted, again)
        _READING.add(found)
        return found

    def _batches(
        self, stream: BinaryIO, wanted: list[str], again: Callable[[], BinaryIO]
    ) -> Generator[pa.RecordBatch]:
        as_written = dict(zip(self.names, self.columns, strict=True))
        try:
            with stream:
                reader = self._reader(stream, [as_written[name] for name in wanted])
                try:
                    for batch in reader:
                        yield pa.RecordBatch.from_arrays([unguard(c) for c in batch.columns], names=wanted)
                finally:
                    _drained(stream, reader)
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise self._error(str(error), again) from None
        except UnicodeDecodeError:
            spoken = SPOKEN.get(self.dialect.encoding, self.dialect.encoding)
            raise DataError(f"is not written in {spoken} throughout", next=ELSE, where=self.name) from None
        except OSError:
            raise DataError("could not be read to its end: it is damaged or cut short", next=AGAIN,
                            where=self.name) from None

    def _reader(self, stream: BinaryIO, columns: list[str]) -> pa.RecordBatchReader:
        return pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(
                block_size=BLOCK_BYTES, encoding=self.dialect.encoding, skip_rows=self.dialect.skipped
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.dialect.delimiter, newlines_in_values=True, invalid_row_handler=_passed_over
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in columns}, include_columns=columns,
                strings_can_be_null=True, null_values=[""],
            ),
        )

    def _uneven(self, stream: BinaryIO) -> int:
        """The line on which the first record of another width begins, which Arrow's threads do not know; 0: unknown."""
        with stream, suppress(csv.Error, OSError):
            text = io.TextIOWrapper(stream, self.dialect.encoding, errors="replace", newline="")
            records = csv.reader(islice(text, self.dialect.skipped, None), delimiter=self.dialect.delimiter)
            passed = self.dialect.skipped
            for record in records:
                if record and len(record) != len(self.columns) and not record[0].startswith(COMMENT):
                    return passed + 1
                passed = self.dialect.skipped + records.line_num
        return 0

    def _error(self, text: str, again: Callable[[], BinaryIO]) -> DataError:
        """What went wrong, without the row that Arrow quotes. Arrow tells it in words only."""
        shape = re.search(r"Expected (\d+) columns, got (\d+)", text)
        if shape:
            at = At(table=self.name, line=self._uneven(again()))
            found = f"{shape[1]} fields expected, {shape[2]} found"
            return DataError(found, next="Check quotes and delimiters.", where=at)
        if "UTF8" in text or "UTF-8" in text:
            place = re.search(r"CSV column #(\d+)", text)
            column = self.columns[int(place[1])] if place and int(place[1]) < len(self.columns) else None
            return DataError("a value is not UTF-8 text", next=ELSE, where=At(column, row=0, table=self.name))
        if "straddling" in text:
            long = f"a row is longer than {BLOCK_BYTES:,} bytes"
            return DataError(long, next="Is a quote left open?", where=At(row=0, table=self.name))
        return DataError("could not be parsed as CSV", next="Check quotes and delimiters.", where=self.name)


def _passed_over(row: InvalidRow) -> str:
    return "skip" if row.text.startswith(COMMENT) else "error"


# --- text that a spreadsheet would run when it opens a CSV file, and the apostrophe that stops it ---------------------
# A cell is guarded by an apostrophe in front if, behind any apostrophes of its own, it begins as a formula does and is
# not just a signed number or a sign. That set is closed under putting an apostrophe in front, so taking one away from
# the cells that have one and are in it undoes exactly what was done, and touches nothing else.


GUARD = "'"
STARTS = "=+\\-@\\t\\r\\n＝＋－＠"  # also in full width, which spreadsheets read alike
FORMULA = f"^'*[{STARTS}]"
NUMBER = r"^'*[+\-](([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?)?$"
FIRST_BYTES = np.zeros(256, bool)  # of every such cell; the wide ones share theirs
FIRST_BYTES[[*b"=+-@\t\r\n'", 0xEF]] = True
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER[:-1] + r"\Z")


def is_formula(text: str) -> bool:
    """Whether a cell would be run, or looks as if it had been guarded.

    >>> [is_formula(x) for x in ("=1+1", "-5", "-5e3", "+", "@x", "'=1", "'tis", "-x")]
    [True, False, False, False, True, True, False, True]
    """
    return _FORMULA.match(text) is not None and _NUMBER.match(text) is None


def guarded(text: str) -> str:
    """The cell as it is written.

    >>> guarded("=cmd|' /C calc'!A0"), guarded("-5"), guarded("'=1")
    ("'=cmd|' /C calc'!A0", '-5', "''=1")
    """
    return GUARD + text if is_formula(text) else text


def unguarded(text: str) -> str:
    """The cell as it was.

    >>> unguarded(guarded("=1")), unguarded("'tis"), unguarded("'-5")
    ('=1', "'tis", "'-5")
    """
    return text[1:] if text.startswith(GUARD) and is_formula(text) else text


def guard(column: pa.Array) -> pa.Array:
    """A column of text with every formula guarded."""
    if not FIRST_BYTES[_first_bytes(column)].any():
        return column
    before, after = (pa.scalar(text, column.type) for text in (GUARD, ""))
    return pc.if_else(_formulas(column), pc.binary_join_element_wise(before, column, after), column)


def unguard(column: pa.Array) -> pa.Array:
    """A column of text as it was before it was guarded."""
    if not (_first_bytes(column) == ord(GUARD)).any():
        return column
    hit = pc.and_(_formulas(column), pc.starts_with(column, GUARD))
    return pc.if_else(hit, pc.utf8_slice_codeunits(column, 1), column)


def _formulas(column: pa.Array) -> pa.Array:
    return pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER))


def _first_bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The first byte of every cell; of an empty one that of the next, which only makes for a second look."""
    ends, held = text_bytes(column)
    return np.take(held, ends[:-1], mode="clip") if held.size else held
