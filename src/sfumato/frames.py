"""Framed: records as frames of whichever library the reader has, and as a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from sfumato.errors import InputError, Named

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa



@runtime_checkable
class Arrayed(Protocol):
    """An array, or a scalar of one."""

    def tolist(self) -> Any: ...


Datum: TypeAlias = "bool | int | float | str | Named | Arrayed | Sequence[Datum] | Mapping[str, Datum] | None"
Record: TypeAlias = "dict[str, Datum]"  # a row of a table, or a document that programs read
SHOWN = 60  # records in a notebook


class Framed:
    """What has records() can be a data frame."""

    __slots__ = ()

    def records(self) -> Iterable[Record]:
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """The records as an Arrow table."""
        import pyarrow as pa

        rows = list(self.records())
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: [_cell(row.get(name)) for row in rows] for name in names})

    def to_pandas(self) -> pd.DataFrame:
        """The records as a pandas frame."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The records as a Polars frame."""
        made: pl.DataFrame = _needed("polars").from_arrow(self.to_arrow())
        return made

    def _repr_html_(self) -> str:
        return titled(repr(self).splitlines()[0], tabled(self.records()))


def _needed(name: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError("is not installed", next=f"Run pip install {name}, or use .to_arrow().", where=name) from None


def _cell(value: Datum) -> Datum:
    if isinstance(value, (list, tuple, dict)):
        return str(value)
    return float("inf") if value == "inf" else value


def titled(title: str, *parts: str) -> str:
    """A heading with what stands below it."""
    return f"<div><p><b>{html.escape(title.strip('<>'))}</b></p>{''.join(parts)}</div>"


def tabled(records: Iterable[Mapping[str, Datum]]) -> str:
    """Records as a table of HTML, the first of many."""
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    cells = (["<td>" + html.escape(_shown(row.get(name))) + "</td>" for name in names] for row in rows[:SHOWN])
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    more = f"<p>… and {len(rows) - SHOWN:,} more</p>" if len(rows) > SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Datum) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
