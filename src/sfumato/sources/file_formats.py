"""Files and folders as sources, by their suffix: text, Parquet, spreadsheets, and files of Stata, SPSS and SAS."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from sfumato.errors import At, DataError, InputError, option, unknown
from sfumato.libraries import pyarrow, pyreadstat, python_calamine
from sfumato.sources.delimited import csv_source
from sfumato.sources.dialect import Said
from sfumato.sources.meaning import Meaning, looked
from sfumato.sources.places import (
    AGAIN,
    TEXT_FORMS,
    Where,
    below,
    files_below,
    kind_of,
    opened,
    size_of,
    suffix_of,
    text_forms,
)
from sfumato.sources.source import BATCH_ROWS, Source, table_source

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

TEXT = TEXT_FORMS | text_forms({".txt": ",", ".dat": ",", ".psv": "|", ".tab": "\t"})  # read, but not written
KNOWN = (
    ".csv, .tsv or .txt (also packed: .csv.gz, .csv.zst, .csv.bz2), .parquet, .xlsx or .ods, .dta, .sav or .sas7bdat"
)
OUT = "Leave it out."


def file_source(where: Where, said: Said, sheet: str | None = None) -> Source:
    """The file or folder as a source, after its header has been read."""
    try:
        if kind_of(where) == "folder":
            return folder_source(where)
        suffix = suffix_of(where)
        if suffix not in (*TEXT, ".parquet", *SHEETS, *READERS):
            raise InputError(f"cannot tell the format of {where.name} from its suffix {suffix!r}", next=f"Use {KNOWN}.")
        if size_of(where) == 0 and kind_of(where) == "file":
            raise InputError("is empty: it has neither a header nor rows", where=where.name)
        if sheet is not None and suffix not in SHEETS:
            raise InputError(f"{option('--sheet', 'sheet=')} is for spreadsheets, and {where.name} is none", next=OUT)
        if said.delimiter is not None and suffix not in TEXT:
            raise InputError(f"{option('--delimiter', 'delimiter=')} is for text, and {where.name} is none", next=OUT)
        if (said.decimal or said.dates) and suffix not in (*TEXT, *SHEETS):
            both = f"{option('--decimal', 'decimal=')} and {option('--dates', 'dates=')}"
            raise InputError(f"{both} are for text, and {where.name} has types", next="Leave them out.")
        if suffix in SHEETS:
            return sheet_source(where, sheet, said)
        if suffix in READERS:
            return statistical_source(where, said.encoding, said.na)
        if suffix == ".parquet":
            return _parquet_source([FilePart.of(where, where.name, {})], where)
        return csv_source(where, *TEXT[suffix], said)
    except OSError as error:
        raise InputError(f"could not be read: {error.strerror or 'the file is damaged'}", where=where) from None


# --- one Parquet file, or a folder of them with or without hive partitions (year=2026/part-0.parquet) -----------------


NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
Key = str | int | None


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """One file, with the columns that its folders state."""

    where: Where
    name: str  # as messages call it
    schema: pa.Schema
    rows: int
    keys: dict[str, Key]

    @classmethod
    def of(cls, where: Where, name: str, keys: dict[str, Key]) -> FilePart:
        with _file(where, name) as file:
            return cls(where, name, file.schema_arrow, file.metadata.num_rows, keys)

    def batches(self, coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *kept]
        stored = [n for n in wanted if n not in self.keys]
        text = [n for n in coded if n in stored and _plain(self.schema.field(n).type) == pa.string()]
        try:
            with _file(self.where, self.name, read_dictionary=text) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=stored):
                    yield self._with_keys(batch, wanted) if len(stored) < len(wanted) else batch.select(wanted)
        except (pa.ArrowInvalid, OSError):
            raise DataError("could not be read to its end: the file is damaged", next=AGAIN, where=self.name) from None

    def _with_keys(self, batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
        rows = batch.num_rows
        arrays = [
            pa.repeat(pa.scalar(self.keys[n], self.schema.field(n).type), rows) if n in self.keys else batch.column(n)
            for n in wanted
        ]
        return pa.RecordBatch.from_arrays(arrays, names=wanted)


@contextlib.contextmanager
def _file(where: Where, name: str, **options: list[str]) -> Iterator[ParquetFile]:
    with opened(where) as raw:
        try:
            file = pyarrow.parquet.ParquetFile(raw, **options)
        except pa.ArrowInvalid:
            raise InputError("is not a Parquet file, or it is damaged", next=AGAIN, where=name) from None
        yield file


def folder_source(where: Where) -> Source:
    """Every Parquet file of a folder, in the order of their paths."""
    found = files_below(where)
    if not found:
        raise InputError("is a folder without Parquet files", next="Give a file.", where=where)
    odd = [parts for parts in found if not parts[-1].lower().endswith(".parquet")]
    if odd:
        raise InputError(
            f"is a folder with other files than Parquet ones, such as {'/'.join(odd[0])}",
            next="Give one file, or a folder in which every file ends in .parquet.", where=where,
        )
    keys = _keys(found, where.name)
    parts = [
        FilePart.of(below(where, at), f"{where.name}/{'/'.join(at)}", own) for at, own in zip(found, keys, strict=True)
    ]
    return _parquet_source([_with_fields(p, keys) for p in parts], where)


def _keys(found: list[tuple[str, ...]], name: str) -> list[dict[str, Key]]:
    """What the folders state about each file: whole numbers where all are, else text."""
    raw = [dict(part.split("=", 1) for part in parts[:-1] if "=" in part) for parts in found]
    for own, parts in zip(raw, found, strict=True):
        if list(own) != list(raw[0]):
            raise InputError(
                f"the folder {name} is partitioned in two ways: by {', '.join(raw[0]) or 'nothing'} and, at "
                f"{'/'.join(parts)}, by {', '.join(own) or 'nothing'}", next="Give one of them.",
            )
    out: list[dict[str, Key]] = [{} for _ in raw]
    for key in raw[0]:
        values = [None if own[key] == NULL_PARTITION else unquote(own[key]) for own in raw]
        whole = all(v is None or WHOLE_NUMBER.fullmatch(v) for v in values)
        for own_out, v in zip(out, values, strict=True):
            own_out[unquote(key)] = v if v is None or not whole else int(v)
    return out


def _with_fields(part: FilePart, keys: list[dict[str, Key]]) -> FilePart:
    """The part with the types of what its folders state, which win over a column of that name in the file."""
    schema = part.schema
    for key in part.keys:
        kind = pa.int64() if any(isinstance(own[key], int) for own in keys) else pa.string()
        at = schema.get_field_index(key)
        schema = schema.append(pa.field(key, kind)) if at < 0 else schema.set(at, pa.field(key, kind))
    return replace(part, schema=schema)


def _parquet_source(parts: list[FilePart], where: Where) -> Source:
    first = parts[0]

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in parts[1:]:
            _check_alike(first, part, coded, kept)
        for part in parts:
            yield from part.batches(coded, kept)

    rows, metadata = sum(p.rows for p in parts), first.schema.metadata or {}
    return Source(where.name, tuple(first.schema.names), read, where, metadata=metadata, rows=rows)


def _check_alike(first: FilePart, part: FilePart, coded: Sequence[str], kept: Sequence[str]) -> None:
    """Refuse a folder whose files differ in a column that is read; how coded text is stored makes no difference."""
    for name in (*coded, *kept):
        what = f"is in {first.name} but not in {part.name}"
        if name in part.schema.names:
            kinds = [p.schema.field(name).type for p in (first, part)]
            one, other = (_plain(kind) if name in coded else kind for kind in kinds)
            what = "" if one == other else f"is {one} in {first.name} but {other} in {part.name}"
        if what:
            again = "Write the folder anew with one schema, or give the files one by one."
            raise InputError(what, next=again, where=At(name))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without regard to how text is stored."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if kind in (pa.large_string(), pa.string_view()) else kind


# --- files of other programmes: spreadsheets, Stata, SPSS and SAS with their labels -----------------------------------


SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
BLANK = (None, "")


def _sheet(where: Where, sheet: str | None) -> tuple[str, list[str], Sequence[Sequence[object]]]:
    """The name of the sheet that is read, those of the others, and its lines that are not blank."""
    try:
        with opened(where) as file:
            book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            raise unknown(f"a sheet of {where.name}", sheet, names, "sheets")
        chosen = names[0] if sheet is None else sheet
        lines = [row for row in book.get_sheet_by_name(chosen).to_python() if any(x not in BLANK for x in row)]
    except (python_calamine.CalamineError, IndexError):
        raise InputError("is not a workbook, or it is damaged or locked by a password", where=where.name,
                         next="Save it anew without a password, or as .csv.") from None
    if not lines:
        raise InputError(f"the sheet {chosen!r} of {where.name} is empty: its first line must name the columns.")
    return chosen, [name for name in names if name != chosen], lines


def sheet_source(where: Where, sheet: str | None, said: Said) -> Source:
    """One sheet of a workbook: the one named, or the first. The first line that is not blank names the columns."""
    chosen, others, lines = _sheet(where, sheet)
    width = max(i + 1 for row in lines for i, x in enumerate(row) if x not in BLANK)
    columns = [_text(x) or "" for x in lines[0][:width]]
    texts = [[_text(x) or "" for x in row[:width]] for row in lines[1:]]
    table = pa.table([_cells([row[i] for row in lines[1:]]) for i in range(width)], names=columns)
    reading = looked(columns, texts, said.na, comma=True, decimal=said.decimal, dates=said.dates)
    unsaid = others and sheet is None
    told = (f"the sheet {chosen!r} is read (others: {', '.join(others)})",) if unsaid else ()

    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What is counted as the text of each cell by itself; what is kept with the type of its column."""
        texts = {name: pa.array(map(_text, table.column(name).to_pylist()), pa.string()) for name in coded}
        wanted = pa.table({**texts, **{name: table.column(name) for name in kept}})
        yield from wanted.to_batches(max_chunksize=BATCH_ROWS)

    return replace(
        table_source(table, where.name), read=read, path=where, reading=replace(reading, said=(*told, *reading.said))
    )


def _text(cell: object) -> str | None:
    """A cell as a label: whole numbers without a point, dates as ISO writes them."""
    if cell in BLANK:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat()
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell)


def _cells(cells: Sequence[object]) -> pa.Array:
    """Numbers where all are, dates where all are, else text."""
    held = [x for x in cells if x not in BLANK]
    numbers = [x for x in held if isinstance(x, (int, float)) and not isinstance(x, bool)]
    if held and len(numbers) == len(held):
        kind = int if all(float(x).is_integer() for x in numbers) else float
        known = iter(numbers)
        return pa.array([None if x in BLANK else kind(next(known)) for x in cells])
    if held and all(type(x) is datetime.date for x in held):
        return pa.array([None if x in BLANK else x for x in cells])
    return pa.array([_text(x) for x in cells], pa.string())


READERS = {
    ".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def statistical_source(where: Where, encoding: str | None, na: tuple[str, ...] | None) -> Source:
    """A file of Stata, SPSS or SAS. Values are read by their labels, user-defined missing ones as missing."""
    suffix = Path(where.name).suffix.lower()
    with _local(where) as path:
        try:
            columns, told = getattr(pyreadstat, READERS[suffix])(path, output_format="dict", encoding=encoding)
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
            raise InputError(f"is not a file of {suffix[1:]}, or it is damaged", next=AGAIN, where=where.name) from None
    labels = told.variable_value_labels
    said = (f"values are read by their labels in {', '.join(sorted(labels))}",) if labels else ()
    table = pa.table({name: _column(values, labels.get(name)) for name, values in columns.items()})
    return replace(table_source(table, where.name), path=where, reading=Meaning(na or ("",), said=said))


def _column(values: pa.Array, labels: Mapping[object, str] | None) -> pa.Array:
    """As Arrow has it, or as text with the label of each value that has one. Whole numbers stay whole."""
    if labels:
        held = [None if x is None or x != x else x for x in values]
        return pa.array([str(labels[x]) if x in labels else None if x is None else _text(x) for x in held], pa.string())
    made = pa.array(values, from_pandas=True)
    if pa.types.is_floating(made.type) and all(x is None or x.is_integer() for x in made.to_pylist()):
        return made.cast(pa.int64())
    return made


@contextlib.contextmanager
def _local(where: Where) -> Iterator[str]:
    """The path of a file, copied from a store for as long as it is read."""
    if isinstance(where, Path):
        yield str(where)
        return
    with tempfile.NamedTemporaryFile(suffix=Path(where.name).suffix) as file, opened(where) as raw:
        file.write(raw.read())
        file.flush()
        yield file.name
