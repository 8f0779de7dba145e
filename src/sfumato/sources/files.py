"""CSV and Parquet files as sources. Arrow's own messages quote rows, so none of them is passed on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import DataError, InputError
from sfumato.sources.source import BATCH_ROWS, Source

BLOCK_BYTES = 1 << 20  # of a CSV file read at a time
DELIMITERS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}


def suffix_of(path: Path) -> str:
    """The suffix that says the format: '.csv', '.csv.gz', '.parquet', …

    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    parts = [s.lower() for s in path.suffixes]
    return "".join(parts[-2:]) if parts[-1:] == [".gz"] else "".join(parts[-1:])


def file_source(path: Path) -> Source:
    """The file as a source, after its header has been read."""
    suffix = suffix_of(path)
    if suffix not in (*DELIMITERS, ".parquet"):
        raise InputError(
            f"cannot tell the format of {path.name} from its suffix {suffix!r}: "
            "use .csv, .tsv, .csv.gz or .parquet."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; give one file.")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path.name} is empty: it has neither a header nor rows.")
        return _parquet_source(path) if suffix == ".parquet" else _csv_source(path, DELIMITERS[suffix])
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror or 'the file is damaged'}.") from None


def _csv_source(path: Path, delimiter: str) -> Source:
    columns = _header(path, delimiter)

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return _csv_batches(path, delimiter, [*coded, *kept])

    return Source(path.name, columns, read, path)


def _header(path: Path, delimiter: str) -> tuple[str, ...]:
    try:
        with pa.input_stream(str(path)) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
            row = next(csv.reader(text, delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            f"the header of {path.name} is not UTF-8 text. "
            "Convert the file to UTF-8 first, for example with iconv."
        ) from None
    if not row:
        raise InputError(f"{path.name} is empty: its first line must name the columns.")
    return tuple(row)


def _csv_batches(path: Path, delimiter: str, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """Every column as text, empty fields as missing; whatever else a field holds stays as it is."""
    from pyarrow import csv as arrow_csv

    try:
        reader = arrow_csv.open_csv(
            str(path),
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in wanted}, include_columns=wanted,
                strings_can_be_null=True, null_values=[""],
            ),
        )
        yield from reader
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise _csv_error(str(error), path.name, wanted) from None
    except OSError:
        raise DataError(f"{path.name} could not be read to its end: the file is damaged.") from None


def _csv_error(text: str, name: str, wanted: list[str]) -> DataError:
    """What went wrong, without the row that Arrow quotes."""
    shape = re.search(r"Expected (\d+) columns, got (\d+)", text)
    if shape:
        row = re.search(r"Row #(\d+)", text)
        where = f", line {row[1]}" if row else ""
        found = f"{shape[1]} fields expected, {shape[2]} found"
        return DataError(f"{name}{where}: {found}. Check quotes and delimiters.")
    if "UTF8" in text or "UTF-8" in text:
        at = re.search(r"CSV column #(\d+)", text)
        where = f", column {wanted[int(at[1])]!r}" if at and int(at[1]) < len(wanted) else ""
        return DataError(f"{name}{where}: not UTF-8 text. Convert the file first, for example with iconv.")
    if "straddling" in text:
        return DataError(f"{name}: a row is longer than {BLOCK_BYTES:,} bytes. Is a quote left open?")
    return DataError(f"{name} could not be parsed as CSV. Check quotes and delimiters.")


def _parquet_source(path: Path) -> Source:
    from pyarrow import parquet

    def opened(**options: Any) -> Any:
        try:
            return parquet.ParquetFile(str(path), **options)
        except pa.ArrowInvalid:
            raise InputError(f"{path.name} is not a Parquet file, or it is damaged.") from None

    with opened() as file:
        schema = file.schema_arrow

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        text = [n for n in coded if schema.field(n).type in (pa.string(), pa.large_string())]
        try:
            with opened(read_dictionary=text) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[*coded, *kept]):
                    yield batch.select([*coded, *kept])
        except (pa.ArrowInvalid, OSError):
            raise DataError(f"{path.name} could not be read to its end: the file is damaged.") from None

    return Source(path.name, tuple(schema.names), read, path)
