"""Files and folders as sources, by their suffix; those of spreadsheets (calamine), Stata, SPSS and SAS (pyreadstat)."""

from __future__ import annotations

import datetime
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sfumato.errors import InputError, unknown
from sfumato.sources.delimited import csv_source
from sfumato.sources.dialect import Said
from sfumato.sources.meaning import Meaning, looked
from sfumato.sources.parquet import folder_source, parquet_source
from sfumato.sources.places import Where, kind_of, opened, size_of
from sfumato.sources.source import BATCH_ROWS, Source, table_source

PACKINGS = {"": None, ".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}  # suffix → Arrow's name
DELIMITERS = {f"{kind}{packed}": mark for kind, mark in ((".csv", ","), (".tsv", "\t")) for packed in PACKINGS}
OTHERS = {".txt": ",", ".dat": ",", ".psv": "|", ".tab": "\t"}  # read, but not written
TEXT = DELIMITERS | {f"{kind}{packed}": mark for kind, mark in OTHERS.items() for packed in PACKINGS}
KNOWN = (
    ".csv, .tsv or .txt (also packed: .csv.gz, .csv.zst, .csv.bz2), .parquet, .xlsx or .ods, .dta, .sav or .sas7bdat"
)


def suffix_of(path: Where) -> str:
    """The suffix that says the format: '.csv', '.csv.gz', '.parquet', …

    >>> from pathlib import Path
    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    parts = [s.lower() for s in path.suffixes]
    packed = parts[-1:] and parts[-1] in PACKINGS
    return "".join(parts[-2:]) if packed else "".join(parts[-1:])


def packing_of(suffix: str) -> str | None:
    """Arrow's name for how a CSV file is packed, or None.

    >>> packing_of(".csv.zst"), packing_of(".csv")
    ('zstd', None)
    """
    return PACKINGS.get("." + suffix.rpartition(".")[2])


def file_source(where: Where, said: Said | None = None, sheet: str | None = None) -> Source:
    """The file or folder as a source, after its header has been read."""
    said = said or Said()
    try:
        if kind_of(where) == "folder":
            return folder_source(where)
        suffix = suffix_of(where)
        if suffix not in (*TEXT, ".parquet", *SHEETS, *READERS):
            raise InputError(f"cannot tell the format of {where.name} from its suffix {suffix!r}", next=f"Use {KNOWN}.")
        if size_of(where) == 0 and kind_of(where) == "file":
            raise InputError("is empty: it has neither a header nor rows", where=where.name)
        if sheet is not None and suffix not in SHEETS:
            raise InputError(f"sheet= is for spreadsheets, and {where.name} is none.")
        if said.delimiter is not None and suffix not in TEXT:
            raise InputError(f"delimiter= is for text, and {where.name} is none.")
        if (said.decimal or said.dates) and suffix not in (*TEXT, *SHEETS):
            raise InputError(f"decimal= and dates= are for text, and {where.name} has types.")
        if suffix in SHEETS:
            return sheet_source(where, sheet, said)
        if suffix in READERS:
            return statistical_source(where, said.encoding, said.na)
        if suffix == ".parquet":
            return parquet_source(where)
        return csv_source(
            where.name, lambda: opened(where), TEXT[suffix], packing=packing_of(suffix), path=where,
            size=size_of(where), said=said,
        )
    except OSError as error:
        raise InputError(f"could not be read: {error.strerror or 'the file is damaged'}", where=where) from None


# --- files of other programmes: spreadsheets (calamine), Stata, SPSS and SAS with their labels (pyreadstat) -----------


SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
BLANK = (None, "")
UNSAID = Said()


def sheet_source(where: Where, sheet: str | None = None, said: Said = UNSAID) -> Source:
    """One sheet of a workbook: the one named, or the first. The first line that is not blank names the columns."""
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        with opened(where) as file:
            book = CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            raise unknown(f"a sheet of {where.name}", sheet, names, "sheets")
        chosen = names[0] if sheet is None else sheet
        lines = [row for row in book.get_sheet_by_name(chosen).to_python() if any(x not in BLANK for x in row)]
    except (CalamineError, IndexError):
        raise InputError("is not a workbook, or it is damaged or locked by a password", where=where.name) from None
    if not lines:
        raise InputError(f"the sheet {chosen!r} of {where.name} is empty: its first line must name the columns.")
    width = max(i + 1 for row in lines for i, x in enumerate(row) if x not in BLANK)
    columns = [_text(x) or "" for x in lines[0][:width]]
    cells = [[_text(x) for x in row[:width]] for row in lines[1:]]
    table = pa.table(
        [_cells([row[i] for row in lines[1:]]) for i in range(width)], schema=None, names=columns
    )
    texts = [[x or "" for x in row] for row in cells]
    reading = looked(columns, texts, said.na, comma=True, decimal=said.decimal, dates=said.dates)
    told = (f"the sheet {chosen!r} is read (others: {', '.join(n for n in names if n != chosen)})",) if (
        len(names) > 1 and sheet is None
    ) else ()

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


# --- stata, SPSS and SAS, with the labels of their values (pyreadstat) ------------------------------------------------


READERS = {
    ".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def statistical_source(where: Where, encoding: str | None = None, na: tuple[str, ...] | None = None) -> Source:
    """A file of Stata, SPSS or SAS. Values are read by their labels, user-defined missing ones as missing."""
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            "needs the package pyreadstat", next="Run pip install 'sfumato[statistics]', or save it as CSV.",
            where=where.name,
        ) from None
    suffix = Path(where.name).suffix.lower()
    with _local(where) as path:
        try:
            columns, told = getattr(pyreadstat, READERS[suffix])(
                path, output_format="dict", encoding=encoding
            )
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
            raise InputError(f"is not a file of {suffix[1:]}, or it is damaged", where=where.name) from None
    labels = told.variable_value_labels
    said = (f"values are read by their labels in {', '.join(sorted(labels))}",) if labels else ()
    table = pa.table({name: _column(values, labels.get(name)) for name, values in columns.items()})
    return replace(table_source(table, where.name), path=where, reading=Meaning(na or ("",), said=said))


def _column(values: pa.Array, labels: Mapping[object, str] | None) -> pa.Array:
    """As Arrow has it, or as text with the label of each value that has one. Whole numbers stay whole."""
    if labels:
        held = [None if x is None or x != x else x for x in values]
        return pa.array([None if x is None else str(labels.get(x, _label(x))) for x in held], pa.string())
    made = pa.array(values, from_pandas=True)
    if pa.types.is_floating(made.type) and all(x is None or x.is_integer() for x in made.to_pylist()):
        return made.cast(pa.int64())
    return made


def _label(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class _local:
    """The path of a file, copied from a store for as long as it is read."""
    def __init__(self, where: Where) -> None:
        self.where, self.copy = where, ""

    def __enter__(self) -> str:
        if isinstance(self.where, Path):
            return str(self.where)
        with tempfile.NamedTemporaryFile(suffix=Path(self.where.name).suffix, delete=False) as file, opened(
            self.where
        ) as raw:
            file.write(raw.read())
        self.copy = file.name
        return self.copy

    def __exit__(self, *_: object) -> None:
        if self.copy:
            os.unlink(self.copy)
