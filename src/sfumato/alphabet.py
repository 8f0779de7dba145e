"""Alphabets: the values a variable can take, and how raw columns become codes."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato import sources
from sfumato.decimals import MISSING
from sfumato.errors import At, DataError, InputError, option, unknown

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BigInts = npt.NDArray[np.object_]  # of Python's own numbers, which have no end
Array = npt.NDArray[Any]  # of numbers of any kind
Real = float | Floats  # one number or many, each for itself
Label = str | None  # None: the value is missing
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DATE_PARTS = ("year", "quarter", "month", "weekday")  # what a date may be taken for
SUMS = ("total", "all", "sum", "subtotal", "overall", "grand total")  # labels of rows that add up others
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # may steer a terminal; tabs and line ends do not


@dataclass(frozen=True, slots=True)
class Column:
    """How the raw values of one column become codes 0 … size − 1.

    A label None makes missing values a category of their own. `other` takes every value that is not listed, missing
    ones too where they have no label; without it such values are refused.
    `cuts` bins a numeric column into (−∞, c₁), [c₁, c₂), …, [c_k, ∞).
    `dtype` says whether '1.0' and '1' (number) or 'True' and 'true' (boolean) are the same label, as they are
    when one column comes once from CSV and once from Parquet, or which part of a date is the label (year, quarter,
    month, weekday).

    >>> Column.of("age", cuts=[30, 65]).labels
    ('< 30', '30 to < 65', '≥ 65')
    """

    name: str
    labels: tuple[Label, ...]
    other: str | None = None
    cuts: tuple[float, ...] | None = None
    dtype: str = "string"
    size: int = field(init=False, repr=False, compare=False)  # how many labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.labels))
        seen = set(self.labels)
        steering = CONTROL.search("".join([self.name, *(x for x in self.labels if x is not None)]))
        if steering:
            raise InputError(
                f"has the control character U+{ord(steering[0]):04X}, which may steer a terminal",
                next="Remove it from its name and labels.", where=At(self.name),
            )
        if not self.labels:
            raise InputError("has no values", next="Leave it out.", where=At(self.name))
        if len(seen) != len(self.labels):
            raise InputError("lists a label twice", next="List each once.", where=At(self.name))
        if self.other is not None and self.other not in seen:
            known = ", ".join(map(str, self.labels[:12]))
            raise InputError(f"has no label {self.other!r} to catch all others", next=f"Name one of {known}.",
                             where=At(self.name))
        if self.cuts is not None:
            cuts = np.asarray(self.cuts, float)
            if not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) <= 0):
                raise InputError("needs finite and increasing bin edges", value=self.cuts, next="Sort them.",
                                 where=At(self.name))
            if len([x for x in self.labels if x is not None]) != len(cuts) + 1:
                raise InputError(f"has {len(cuts)} edges, which make {len(cuts) + 1} bins", where=At(self.name))

    @classmethod
    def of(
        cls, name: str, labels: Iterable[object] | None = None, *, cuts: Sequence[float] | None = None,
        missing: bool = False, other: str | None = None, dtype: str = "string",
    ) -> Column:
        """A column from its labels, or from the inner edges of its bins."""
        if cuts is not None:
            shown = [np.format_float_positional(c, trim="-") for c in cuts]
            inner = [f"{a} to < {b}" for a, b in pairwise(shown)]
            labels = [f"< {shown[0]}", *inner, f"≥ {shown[-1]}"] if shown else ["any"]
        values = [None if x is None else str(x) for x in labels or ()]
        if missing and None not in values:
            values.append(None)
        return cls(name, tuple(values), other, None if cuts is None else tuple(float(c) for c in cuts), dtype)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Labels that look alike, or like a sum of others: most often slips of the keyboard, or rows of totals.

        >>> Column.of("town", ["Delft", "delft ", "Total"]).doubts[0]
        "column 'town': the labels 'Delft' and 'delft ' differ only in case or spaces"
        """
        alike: dict[str, list[str]] = {}
        for label in self.labels if self.cuts is None else ():
            if label is not None:
                alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
        same = [f"column {self.name!r}: the labels {x[0]!r} and {x[1]!r} differ only in case or spaces"
                for x in alike.values() if len(x) > 1]
        sums = [f"column {self.name!r} has the label {alike[x][0]!r}: if its rows add up others, remove them"
                for x in SUMS if x in alike and len(alike) > 2]
        return (*same, *sums)

    def code(self, value: object) -> int:
        """The code of one raw value, for a respondent's record. The error never repeats the value."""
        absent = value is None or (isinstance(value, float) and math.isnan(value))
        if self.cuts is not None and not absent:
            try:
                return int(np.searchsorted(np.asarray(self.cuts), float(str(value)), side="right"))
            except (TypeError, ValueError):
                raise DataError("holds numbers; this value is not one", next="Give a number.",
                                where=At(self.name)) from None
        label = None if absent else str(value)
        if label in self.labels:
            return self.labels.index(label)
        if label is not None and self.dtype != "string":
            known = [None if x is None else spelled(x, self.dtype) for x in self.labels]
            if spelled(label, self.dtype) in known:
                return known.index(spelled(label, self.dtype))
        if self.other is not None:
            return self.labels.index(self.other)
        kind = "a missing value" if absent else "a value that is not in the mechanism's alphabet"
        shown = ", ".join(str(x) for x in self.labels[:12] if x is not None)
        raise DataError(f"{kind} (labels: {shown}{', …' if self.size > 12 else ''})", where=At(self.name, row=0))

    def encode(self, values: pa.Array | pa.ChunkedArray, *, first_row: int = 0) -> npt.NDArray[np.int32]:
        """Codes of a whole Arrow column; the first value that does not fit is named by its row number."""
        return sources.encode_column(self, values, first_row)


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The values of a variable made of one or several columns; codes run in row-major order.

    >>> Alphabet.of(Column.of("sex", ["F", "M"]), Column.of("race", ["A", "B"])).label(3)
    ('M', 'B')
    """

    columns: tuple[Column, ...]
    size: int = field(init=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = tuple(c.name for c in self.columns)
        if len(set(names)) != len(names):
            raise InputError(f"a column is named twice in {list(names)}", next="Name each once.")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "size", math.prod(c.size for c in self.columns))

    @classmethod
    def of(cls, *columns: Column) -> Alphabet:
        return cls(tuple(columns))

    @classmethod
    def written(cls, *alphabets: Alphabet) -> Alphabet:
        """The columns of several as a released table has them: bins by their text, and nothing but what is listed."""
        return cls(tuple(replace(c, cuts=None, other=None) for alphabet in alphabets for c in alphabet.columns))

    @classmethod
    def named(cls, name: str, labels: Labels) -> Alphabet:
        """An alphabet from whatever a caller calls labels: a list, a count, a Column or an Alphabet."""
        if isinstance(labels, Alphabet):
            return labels
        if isinstance(labels, Column):
            return cls.of(labels)
        return cls.of(Column.of(name, range(labels) if isinstance(labels, int) else labels))

    def digits(self, code: int) -> tuple[int, ...]:
        """The code of each column in a joint code."""
        out: list[int] = []
        for column in reversed(self.columns):
            code, digit = divmod(code, column.size)
            out.append(digit)
        return tuple(reversed(out))

    def label(self, code: int) -> tuple[Label, ...]:
        return tuple(c.labels[d] for c, d in zip(self.columns, self.digits(code), strict=True))

    def text(self, code: int) -> str:
        """The label as one string for people."""
        return " · ".join(MISSING if x is None else x for x in self.label(code))

    @property
    def labels(self) -> tuple[Label | tuple[Label, ...], ...]:
        """Every label in order: plain for one column, tuples for several."""
        if len(self.columns) == 1:
            return self.columns[0].labels
        return tuple(self.label(i) for i in range(self.size))

    def numbers(self) -> Floats | None:
        """The numbers that the labels of a single column spell, or that stand for its bins; None where there are none.

        A bin is represented by its middle; an outer bin by a point as far beyond its edge as half of its neighbour is
        wide.

        >>> Alphabet.of(Column.of("age", cuts=[20, 40, 60])).numbers().tolist()
        [10.0, 30.0, 50.0, 70.0]
        """
        column = self.columns[0]
        if len(self.columns) != 1 or None in column.labels or (column.cuts is not None and len(column.cuts) < 2):
            return None
        if column.cuts is not None:
            first, last = 2 * column.cuts[0] - column.cuts[1], 2 * column.cuts[-1] - column.cuts[-2]
            edges = np.array([first, *column.cuts, last])
            return np.asarray((edges[1:] + edges[:-1]) / 2)
        try:
            found = np.array([float(str(x)) for x in column.labels])
        except ValueError:
            return None
        return found if np.all(np.isfinite(found)) else None

    def numbered(self, values: Sequence[float] | Mapping[str, float]) -> list[float]:
        """Numbers in the order of the labels, by which they may be given.

        >>> Alphabet.of(Column.of("dose", ["low", "high"])).numbered({"high": 2, "low": 1})
        [1, 2]
        """
        if not isinstance(values, Mapping):
            return list(values)
        labels = [self.text(i) for i in range(self.size)]
        if set(values) != set(labels):
            off = sorted(set(labels) - set(values)) or sorted(set(values) - set(labels))
            what = "has no number for" if set(labels) - set(values) else "names what is no useful value:"
            raise InputError(
                f"{option('--values', 'values')} {what} {', '.join(map(repr, off[:5]))} (useful values: "
                f"{', '.join(labels[:20])})."
            )
        return [values[label] for label in labels]

    def code(self, value: object) -> int:
        """The code of a value: plain for one column, a sequence of as many values as there are columns."""
        values = (value,) if len(self.columns) == 1 and not isinstance(value, tuple) else value
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != len(self.columns):
            raise InputError(f"give one value for each of {', '.join(self.names)}.")
        code = 0
        for column, item in zip(self.columns, values, strict=True):
            code = code * column.size + column.code(item)
        return code

    def encode(self, table: pa.Table | pa.RecordBatch, *, first_row: int = 0) -> npt.NDArray[np.int64]:
        """Joint codes of an Arrow table or record batch that holds the columns by name."""
        total: npt.NDArray[np.int64] | None = None
        for column in self.columns:
            codes = column.encode(table.column(column.name), first_row=first_row).astype(np.int64)
            total = codes if total is None else total * column.size + codes
        assert total is not None
        return total


def spelled(text: str, dtype: str) -> str:
    """The one spelling of a value that may be written in several ways; other text stays as it is.

    >>> spelled("1.0", "number"), spelled("True", "boolean"), spelled("01", "string"), spelled("2026-02-01", "weekday")
    ('1', 'true', '01', 'Sunday')
    """
    if dtype in DATE_PARTS:
        return _part_of(text, dtype)
    if dtype == "boolean":
        return text.strip().lower()
    if dtype == "number":
        try:
            return str(int(text))
        except ValueError:
            pass
        try:
            value = float(text)
        except ValueError:
            return text
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return text


def _part_of(text: str, part: str) -> str:
    """The year (2026), quarter (2026-Q1), month (2026-01) or weekday of a date as ISO writes it; else the text."""
    try:
        day = datetime.date.fromisoformat(text[:10])
    except ValueError:
        return text
    told = {"year": f"{day:%Y}", "quarter": f"{day:%Y}-Q{(day.month + 2) // 3}", "month": f"{day:%Y-%m}"}
    return told.get(part) or WEEKDAYS[day.weekday()]


Labels = Iterable[object] | Alphabet | Column | int  # whatever a caller calls labels


def find_column(name: str, columns: Sequence[str], where: str) -> str:
    """The column by its name, or an error that suggests the nearest."""
    if name in columns:
        return name
    error = unknown(f"a column of {where}", name, columns, "columns")
    whole = next((c for c in columns if "," in c and name in map(str.strip, c.split(","))), None)
    raise error if whole is None else error.followed_by(
        f"The column {whole!r} has a comma in its name" + option(f": quote it twice, as in '\"{whole}\"'", "") + "."
    )


def given_up(array: Array) -> Array:
    """An array that its maker will not write to: `read_only` need not copy it."""
    array.flags.writeable = False
    return array


def read_only(array: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
    """A private, contiguous copy that nobody can write to, or the array itself if that is one already."""
    if isinstance(array, np.ndarray) and array.base is None and array.dtype == dtype and (
        array.flags.c_contiguous and not array.flags.writeable
    ):
        return array
    out = np.array(array, dtype=dtype, order="C", copy=True)
    out.flags.writeable = False
    return out
