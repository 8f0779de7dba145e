"""Files of statistics programmes as sources: Stata, SPSS and SAS, with the labels of their values (pyreadstat)."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import InputError
from sfumato.sources.places import Where, opened
from sfumato.sources.reading import Reading
from sfumato.sources.source import Source, table_source

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
            f"{where.name} needs the package pyreadstat: pip install 'sfumato[statistics]', or save it as CSV."
        ) from None
    suffix = Path(where.name).suffix.lower()
    with _local(where) as path:
        try:
            columns, told = getattr(pyreadstat, READERS[suffix])(
                path, output_format="dict", encoding=encoding
            )
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
            raise InputError(f"{where.name} is not a file of {suffix[1:]}, or it is damaged.") from None
    labels = told.variable_value_labels
    said = (f"values are read by their labels in {', '.join(sorted(labels))}",) if labels else ()
    table = pa.table({name: _column(values, labels.get(name)) for name, values in columns.items()})
    return replace(table_source(table, where.name), path=where, reading=Reading(na or ("",), said=said))


def _column(values: Any, labels: Any) -> pa.Array:
    """As Arrow has it, or as text with the label of each value that has one. Whole numbers stay whole."""
    if labels:
        held = [None if x is None or x != x else x for x in values]
        return pa.array([None if x is None else str(labels.get(x, _label(x))) for x in held], pa.string())
    made = pa.array(values, from_pandas=True)
    if pa.types.is_floating(made.type) and all(x is None or x.is_integer() for x in made.to_pylist()):
        return made.cast(pa.int64())
    return made


def _label(value: Any) -> str:
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
