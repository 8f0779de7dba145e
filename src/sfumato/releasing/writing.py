"""Writing: batches to CSV, Parquet or Arrow, one file or a folder of partitions."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import CONTROL
from sfumato.atomic import as_output_error
from sfumato.errors import At, DataError, InputError, Spot, option
from sfumato.libraries import pyarrow
from sfumato.sources.delimited import guard
from sfumato.sources.file_formats import NULL_PARTITION
from sfumato.sources.places import TEXT_FORMS, Where, suffix_of
from sfumato.sources.values import text_bytes
from sfumato.tolerances import BYTES_AT_ONCE, ROWS_AT_ONCE

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pyarrow import NativeFile
    from pyarrow.parquet import ParquetWriter

TEXTS = (pa.string(), pa.large_string())
READY_PIECES = 1 << 16  # combinations of labels that are kept ready as text
Open: TypeAlias = "Callable[[str], NativeFile]"  # the name of a file in a folder ('': the only one) → its stream


class Writer(Protocol):
    """Takes batches of one schema; `close` writes what is left."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


Made = Callable[[Open, pa.Schema], Writer]


@contextlib.contextmanager
def output(made: Made, opened: Open, target: Spot = None) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """A function that writes batches; the writer is made for the first one, and closed whatever happens.

    Errors of the system are put into words about `target`; without one they are the caller's to explain.
    """
    writers: list[Writer] = []

    def worded(work: Callable[[], None]) -> None:
        with contextlib.nullcontext() if target is None else as_output_error(target):
            work()

    def write(batch: pa.RecordBatch) -> None:
        if not writers:
            worded(lambda: writers.append(made(opened, batch.schema)))
        worded(lambda: writers[0].write(batch))

    try:
        yield write
        for writer in writers:
            worded(writer.close)
    except BaseException:
        for writer in writers:
            with contextlib.suppress(Exception):
                writer.close()
        raise


class ParquetOutput:
    """Parquet with pyarrow's default settings; row groups are gathered over batches."""
    def __init__(self, opened: Open, schema: pa.Schema, name: str = "") -> None:
        self.file: NativeFile = opened(name)
        self.writer: ParquetWriter = pyarrow.parquet.ParquetWriter(self.file, schema)
        self.waiting: list[pa.RecordBatch] = []

    @property
    def held(self) -> int:
        """Bytes that wait to be written."""
        return sum(b.nbytes for b in self.waiting)

    def write(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        if sum(b.num_rows for b in self.waiting) >= ROWS_AT_ONCE or self.held >= BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting))
            self.waiting = []

    def close(self) -> None:
        self.flush()
        self.writer.close()
        self.file.close()


class CsvOutput:
    """CSV in UTF-8 with a header; fields are quoted where they must be, missing values are empty.

    Unless it is to be raw, cells that a spreadsheet would run have an apostrophe in front, and text that would steer a
    terminal is refused. Coded columns have few labels: pieces of lines are looked up, not built.
    """

    def __init__(
        self, opened: Open, schema: pa.Schema, delimiter: str, packing: str | None = None, raw: bool = False
    ) -> None:
        _check_text(schema)
        self.rows, self.delimiter, self.raw, self.alone = 0, delimiter, raw, len(schema.names) == 1
        # By where columns begin that are written together: their dictionaries, and the texts of all combinations.
        self.ready: dict[int, tuple[list[pa.Array], pa.Array]] = {}
        self.inner: NativeFile = opened("")
        self.file: NativeFile = self.inner if packing is None else pa.CompressedOutputStream(self.inner, packing)
        names = self._fields(pa.array(schema.names, pa.string())).to_pylist()
        self.file.write(f"{delimiter.join(names)}\n".encode())

    def write(self, batch: pa.RecordBatch) -> None:
        if not self.raw:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                _check_steering(name, column, self.rows)
        self.rows += batch.num_rows
        parts: list[pa.Array] = []
        columns, at = batch.columns, 0
        while at < len(columns):
            run = _run(columns, at)
            first, at = at, at + max(1, len(run))
            end = "\n" if at == len(columns) else self.delimiter
            parts += [self._coded(first, run, end)] if run else [self._fields(columns[first]), end]
        self.file.write(_data(_joined(parts)))

    def close(self) -> None:
        self.file.close()
        if self.inner is not self.file:
            self.inner.close()

    def _coded(self, first: int, run: list[pa.Array], end: str) -> pa.Array:
        codes = None
        for column in run:
            size = len(column.dictionary)
            own = np.asarray(pc.fill_null(column.indices, size) if column.null_count else column.indices)
            codes = own if codes is None else codes * np.int32(size + 1) + own
        held = [column.dictionary for column in run]
        known = self.ready.get(first, ([], None))[0]
        if len(known) != len(held) or not all(map(pa.Array.equals, known, held)):
            fields = [self._fields(pa.array([*labels.to_pylist(), None], pa.string())).to_pylist() for labels in held]
            texts = [self.delimiter.join(x) + end for x in itertools.product(*fields)]
            self.ready[first] = held, pa.array(texts, pa.string())
        return self.ready[first][1].take(pa.array(codes))

    def _fields(self, column: pa.Array) -> pa.Array:
        """Values as they are written. In a table of one column a missing one is a pair of quotes: no line may be empty.
        """
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        text = column if column.type in TEXTS else pc.cast(column, pa.string())
        text = pc.fill_null(text, "") if text.null_count else text
        if not self.raw and column.type in (*TEXTS, pa.string_view()):  # a number is no formula
            text = guard(text)
        raw = _data(text)
        if any((raw == mark).any() for mark in (*b'"\n\r', *self.delimiter.encode())):
            hit = pc.match_substring_regex(text, f'[{self.delimiter}"\\n\\r]')
            quoted = _joined(['"', pc.replace_substring(text, '"', '""'), '"'])
            text = pc.if_else(hit, quoted, text)
        if self.alone:
            text = pc.if_else(pc.equal(text, ""), pa.scalar('""', text.type), text)
        return text


def _run(columns: list[pa.Array], at: int) -> list[pa.Array]:
    """Neighbouring coded columns from `at` on whose combinations are few enough to keep ready."""
    run: list[pa.Array] = []
    pieces = 1
    for column in columns[at:]:
        if not pa.types.is_dictionary(column.type) or column.type.value_type != pa.string():
            break
        pieces *= len(column.dictionary) + 1
        if pieces > READY_PIECES:
            break
        run.append(column)
    return run


def _check_text(schema: pa.Schema) -> None:
    """Refuse columns that CSV has no way to hold, before anything is written."""
    for field in schema:
        kind = _kind(field.type)
        odd = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
        if any(is_so(kind) for is_so in odd) or kind == pa.binary_view():
            raise InputError(
                f"holds {kind}, which CSV cannot hold", next="Write .parquet, or do not keep it.", where=At(field.name)
            )


def _kind(column: pa.DataType) -> pa.DataType:
    return column.value_type if pa.types.is_dictionary(column) else column


def _check_steering(name: str, column: pa.Array, first_row: int) -> None:
    """Refuse text with control characters, which may steer the terminal on which the file is looked at."""
    if _kind(column.type) not in TEXTS:
        return
    held = column.dictionary if pa.types.is_dictionary(column.type) else column
    raw = _data(held)
    if not ((raw < 32).any() or (raw == 127).any() or (raw == 0xC2).any()):  # 0xC2 begins those from U+0080 on
        return
    whole = column.dictionary_decode() if held is not column else column
    hit = np.flatnonzero(np.asarray(pc.match_substring_regex(pc.fill_null(whole, ""), CONTROL.pattern)))
    if len(hit):
        raise DataError(
            "the text has a control character, which may steer a terminal",
            next=f"Remove it, or write cells as they are ({option('--raw-cells', 'raw_cells=True')}).",
            where=At(name, row=first_row + int(hit[0]) + 1),
        )


def _joined(parts: list[pa.Array]) -> pa.Array:
    """Parts of every line put together; a part is an array, or one text for all lines."""
    if len(parts) == 1:
        return parts[0]
    size = sum(p.nbytes for p in parts if not isinstance(p, str))
    wide = size > 1 << 30 or any(not isinstance(p, str) and p.type == pa.large_string() for p in parts)
    kind = pa.large_string() if wide else pa.string()
    same = [pa.scalar(p, kind) if isinstance(p, str) else p.cast(kind) for p in (*parts, "")]
    return pc.binary_join_element_wise(*same)


def _data(text: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a text array, one value after the other."""
    ends, held = text_bytes(text)
    return held[ends[0] : ends[-1]]


class ArrowOutput:
    """Arrow's stream format, for the next program in a pipe."""

    def __init__(self, opened: Open, schema: pa.Schema) -> None:
        self.file: NativeFile = opened("")
        self.writer: pa.RecordBatchStreamWriter = pa.ipc.new_stream(self.file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)

    def close(self) -> None:
        self.writer.close()
        self.file.close()


class Through(io.RawIOBase):
    """A stream of another's as a file that is flushed with every write and never closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        self.stream.write(data)
        self.stream.flush()
        return memoryview(data).nbytes


def _csv(suffix: str, raw: bool = False) -> Made:
    return lambda opened, schema: CsvOutput(opened, schema, *TEXT_FORMS[suffix], raw)


def stream_writer(form: str, raw: bool = False) -> Made:
    """How to write into a pipe."""
    return ArrowOutput if form == "arrow" else _csv(f".{form}", raw)


def is_folder(target: Where, partition: Sequence[str] = ()) -> bool:
    """Whether a target is to be a folder of Parquet files: it has partitions, or a name without a suffix."""
    return bool(partition) or not target.suffixes


def writer_for(target: Where, partition: Sequence[str] = (), *, raw: bool = False) -> Made:
    """How to write a target, by its suffix; CSV with cells as they are if `raw`."""
    if is_folder(target, partition):
        return lambda opened, schema: PartitionedOutput(opened, schema, tuple(partition))
    suffix = suffix_of(target)
    if suffix not in (".parquet", *TEXT_FORMS):
        known = ", ".join(sorted([".parquet", *TEXT_FORMS]))
        raise InputError(
            f"cannot write {target.name}: the suffix must be one of {known}, or none for a folder of Parquet files."
        )
    return ParquetOutput if suffix == ".parquet" else _csv(suffix, raw)


# --- a folder of Parquet files, by hive's names (year=2026/part-0.parquet) where columns are given --------------------


MOST_PARTITIONS = 1024  # files that may be open at once
FILE_ROWS = 1 << 25  # of a file in a folder without partitions


class PartitionedOutput:
    """One file for each combination of values of the partition columns, which are left out of the files."""

    def __init__(self, opened: Open, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        for name in columns:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or pa.types.is_floating(kind):
                raise InputError(
                    f"holds {kind}", next="Partition by text, whole numbers, dates or booleans.", where=At(name)
                )
        if columns and set(columns) == set(schema.names):
            raise InputError("at least one column must be left to write: not all of them can be partitions.")
        self.opened, self.columns = opened, columns
        self.rest = pa.schema([f for f in schema if f.name not in columns])
        self.files: dict[str, ParquetOutput] = {}
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not self.columns:
            self._whole(batch)
            return
        keys, rest = [_names(batch.column(c), c) for c in self.columns], batch.select(self.rest.names)
        places = pc.dictionary_encode(pc.binary_join_element_wise(*keys, "/") if len(keys) > 1 else keys[0])
        order = np.argsort(places.indices.to_numpy(), kind="stable")
        counts = np.bincount(places.indices.to_numpy(), minlength=len(places.dictionary))
        sorted_rows, start = rest.take(pa.array(order)), 0
        for place, count in zip(places.dictionary.to_pylist(), counts.tolist(), strict=True):
            self._file(f"{place}/part-0.parquet").write(sorted_rows.slice(start, count))
            start += count
        while sum(f.held for f in self.files.values()) > BYTES_AT_ONCE:  # all files together hold what one may
            max(self.files.values(), key=lambda f: f.held).flush()

    def _whole(self, batch: pa.RecordBatch) -> None:
        self._file(f"part-{self.rows // FILE_ROWS}.parquet").write(batch)
        before, self.rows = self.rows, self.rows + batch.num_rows
        if before // FILE_ROWS != self.rows // FILE_ROWS:
            self.close()

    def _file(self, name: str) -> ParquetOutput:
        if name not in self.files:
            if len(self.files) >= MOST_PARTITIONS:
                raise InputError(
                    f"there are more than {MOST_PARTITIONS:,} partitions by {', '.join(self.columns)}",
                    next="Partition by columns with fewer values.",
                )
            self.files[name] = ParquetOutput(self.opened, self.rest, name)
        return self.files[name]

    def close(self) -> None:
        files, self.files = self.files, {}
        with contextlib.ExitStack() as stack:  # all of them, also when one cannot be closed
            for file in files.values():
                stack.callback(file.close)


def _names(values: pa.Array, column: str) -> pa.Array:
    """'column=value' as hive writes it."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    coded = pc.cast(values, pa.string()).dictionary_encode()
    texts = [f"{quote(column)}={quote(x, safe='') or NULL_PARTITION}" for x in coded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(coded.indices), f"{quote(column)}={NULL_PARTITION}")
