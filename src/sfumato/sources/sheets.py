"""Spreadsheets as sources: .xlsx, .xls, .xlsb and .ods, read with calamine. Cells keep their types."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfumato.errors import InputError, did_you_mean
from sfumato.sources.places import Where, opened
from sfumato.sources.reading import looked
from sfumato.sources.source import Source, table_source

SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
BLANK = (None, "")


def sheet_source(where: Where, sheet: str | None = None, na: tuple[str, ...] | None = None) -> Source:
    """One sheet of a workbook: the one named, or the first. The first line that is not blank names the columns."""
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        with opened(where) as file:
            book = CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            near = did_you_mean(sheet, names)
            raise InputError(f"{sheet!r} is not a sheet of {where.name} ({', '.join(names)}).{near}")
        chosen = names[0] if sheet is None else sheet
        lines = [row for row in book.get_sheet_by_name(chosen).to_python() if any(x not in BLANK for x in row)]
    except (CalamineError, IndexError):
        raise InputError(f"{where.name} is not a workbook, or it is damaged or locked by a password.") from None
    if not lines:
        raise InputError(f"the sheet {chosen!r} of {where.name} is empty: its first line must name the columns.")
    width = max(i + 1 for row in lines for i, x in enumerate(row) if x not in BLANK)
    columns = [_text(x) or "" for x in lines[0][:width]]
    cells = [[_text(x) for x in row[:width]] for row in lines[1:]]
    table = pa.table(
        [_column([row[i] for row in lines[1:]]) for i in range(width)], schema=None, names=columns
    )
    reading = looked(columns, [[x or "" for x in row] for row in cells], na, comma=True)
    told = (f"the sheet {chosen!r} is read (others: {', '.join(n for n in names if n != chosen)})",) if (
        len(names) > 1 and sheet is None
    ) else ()
    return replace(
        table_source(table, where.name), path=where, reading=replace(reading, said=(*told, *reading.said))
    )


def _text(cell: Any) -> str | None:
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


def _column(cells: Sequence[Any]) -> pa.Array:
    """Numbers where all are, dates where all are, else text."""
    held = [x for x in cells if x not in BLANK]
    if held and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in held):
        whole = all(float(x).is_integer() for x in held)
        return pa.array([None if x in BLANK else int(x) if whole else float(x) for x in cells])
    if held and all(type(x) is datetime.date for x in held):
        return pa.array([None if x in BLANK else x for x in cells])
    return pa.array([_text(x) for x in cells], pa.string())
