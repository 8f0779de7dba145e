"""Reading: what the text of a source means: which spellings are missing values, numbers and dates, by column.

A source hands over what is written. Here it is given its meaning, once for the whole file and from its beginning, so
that counting and releasing agree; columns that are kept pass untouched. A released table is read verbatim.

What is found out rests on all rows looked at, so that a single record could change how the others are read. It is
therefore named (`Guess`), with how to say it: said once, each row is read by itself, and private tables ask for that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import option

NA = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", ".", "-")  # missing, unless na= says otherwise
GAPS = " '’\u00a0\u202f"  # between groups of three digits, beside commas and dots
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NUMBERS = {  # (thousands, decimal) → how such numbers look
    (",", "."): r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?",
    (".", ","): r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?",
    (GAPS, "."): rf"[+-]?(\d{{1,3}}([{GAPS}]\d{{3}})+|\d+)(\.\d+)?",
    (GAPS, ","): rf"[+-]?(\d{{1,3}}([{GAPS}]\d{{3}})+|\d+)(,\d+)?",
}
TIME = r"(?:[ T]\d{1,2}:\d{2}.*)?"
DATES = {  # order of the parts → how such dates look
    "ymd": rf"(?P<y>\d{{4}})[-./](?P<m>0?[1-9]|1[0-2])[-./](?P<d>0?[1-9]|[12]\d|3[01]){TIME}",
    "dmy": rf"(?P<d>0?[1-9]|[12]\d|3[01])[-./](?P<m>0?[1-9]|1[0-2])[-./](?P<y>\d{{4}}){TIME}",
    "mdy": rf"(?P<m>0?[1-9]|1[0-2])[-/](?P<d>0?[1-9]|[12]\d|3[01])[-/](?P<y>\d{{4}}){TIME}",
}
_NUMBERS = {style: re.compile(look) for style, look in NUMBERS.items()}
_DATES = {order: re.compile(look) for order, look in DATES.items()}
Style = tuple[str, str]
BY_MARK: dict[str, Style] = {".": ("," + GAPS, "."), ",": ("." + GAPS, ",")}  # of decimals, where it is said
NUMBERS |= {style: rf"[+-]?(\d{{1,3}}([{style[0]}]\d{{3}})+|\d+)([{mark}]\d+)?" for mark, style in BY_MARK.items()}


@dataclass(frozen=True, slots=True)
class Guess:
    """Something about a file that rests on its rows, and the option of `open_source` that says it.

    >>> from sfumato.errors import spelled
    >>> spelled(Guess("numbers with decimal commas", "decimal", ",").saying, shell=True)
    '--decimal ,'
    """

    what: str
    name: str
    value: str
    column: str | None = None  # None: of the whole file

    @property
    def saying(self) -> str:
        return option(f"--{self.name} {shlex.quote(self.value)}", f"{self.name}={self.value!r}")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a source's text.

    >>> meant = Meaning(("", "NA"), {"pay": (".", ",")}).meant(pa.array(["1.234,5", "NA", "?"]), "pay")
    >>> meant.to_pylist()
    ['1234.5', None, '?']
    """

    na: tuple[str, ...] = ()
    numbers: Mapping[str, Style] = field(default_factory=dict)  # column → (thousands, decimal)
    dates: Mapping[str, str] = field(default_factory=dict)  # column → the order of day, month and year
    said: tuple[str, ...] = ()  # what was found out about the file, for whoever gave it
    guessed: tuple[Guess, ...] = ()  # what of it rests on the rows

    def meant(self, values: pa.Array, name: str) -> pa.Array:
        """A column of text in plain spelling: missing values null, numbers with a decimal point, dates as 2026-01-31.

        What does not fit the spelling of its column stays as it is; nothing is read as a number that looks like none.
        """
        if pa.types.is_dictionary(values.type):
            inner = self.meant(values.dictionary, name)
            if inner is values.dictionary:
                return values
            plain = inner.dictionary_encode() if inner.null_count == 0 else None
            return inner.take(values.indices) if plain is None or len(plain.dictionary) < len(inner) else (
                pa.DictionaryArray.from_arrays(values.indices, inner)
            )
        if values.type not in (pa.string(), pa.large_string()):
            return values
        if self.na:
            absent = pc.is_in(values, value_set=pa.array(self.na, values.type))
            if pc.any(absent).as_py():
                values = pc.if_else(absent, pa.scalar(None, values.type), values)
        if name in self.numbers:
            values = _as_number(values, self.numbers[name])
        return _as_date(values, self.dates[name]) if name in self.dates else values


VERBATIM = Meaning()


def _as_number(values: pa.Array, style: Style) -> pa.Array:
    thousands, decimal = style
    fits = pc.match_substring_regex(values, f"^({NUMBERS[style]})$")
    bare = pc.replace_substring_regex(values, f"[{thousands}]", "")
    return pc.if_else(fits, pc.replace_substring(bare, decimal, "."), values)


def _as_date(values: pa.Array, order: str) -> pa.Array:
    """Dates as ISO writes them; only distinct ones are looked at."""
    coded = values.dictionary_encode()
    plain = [None if x is None else iso(x, order) or x for x in coded.dictionary.to_pylist()]
    return pa.array(plain, values.type).take(coded.indices)


def iso(text: str, order: str) -> str | None:
    """A date as ISO writes it, without its time; None where it is no date in this order.

    >>> iso("3.4.2026", "dmy"), iso("2026-04-03T10:00", "ymd"), iso("40/1/2026", "dmy")
    ('2026-04-03', '2026-04-03', None)
    """
    found = _DATES[order].fullmatch(text.strip())
    return None if found is None else f"{found['y']}-{int(found['m']):02}-{int(found['d']):02}"


def looked(
    columns: Sequence[str], records: Sequence[Sequence[str]], na: Iterable[str] | None, *, comma: bool,
    decimal: str | None = None, dates: str | None = None,
) -> Meaning:
    """What was said about the spelling of a file, and what its first records tell about each column beyond.

    `comma` says that fields are divided by commas, so that a comma within one is less likely to be a decimal mark:
    it decides where 1,234 is all there is to go by and no other column tells.
    """
    listed = tuple(dict.fromkeys(("", *(NA if na is None else na))))
    seen = [{r[i] for r in records if i < len(r)} for i in range(len(columns))]
    values = dict(zip(columns, (held - set(listed) for held in seen), strict=True))
    numbers = _numbers(values, comma) if decimal is None else {}
    orders = {name: order for name, held in values.items() if (order := _order(held))} if dates is None else {}
    found = {x for held in seen for x in held} & set(listed) - {""}
    guessed = (
        *(Guess(f"numbers with {MARKS[style[1]]}", "decimal", style[1], name) for name, style in numbers.items()),
        *(Guess(f"dates as {ORDERS[order]}", "dates", order, name) for name, order in orders.items()),
    )
    said = (*_said(guessed), *_absent([x for x in listed if x in found]), *_counting(columns, records))
    return Meaning(
        listed, numbers if decimal is None else dict.fromkeys(columns, BY_MARK[decimal]),
        orders if dates is None else dict.fromkeys(columns, dates), said, guessed,
    )


def _numbers(values: Mapping[str, set[str]], comma: bool) -> dict[str, Style]:
    """The columns whose values are all numbers of one spelling that is not plain."""
    fits = {name: _styles(held) for name, held in values.items()}
    marks = [{decimal for _, decimal in styles} for styles in fits.values()]
    sure = set().union(*(found for found in marks if len(found) == 1))  # marks of decimals that nothing else explains
    likelier = next(iter(sure)) if len(sure) == 1 else "." if comma else ","
    numbers = {
        name: next((style for style in styles if style[1] == likelier), styles[0])
        for name, styles in fits.items() if styles
    }
    if sure == {","}:  # 1.234 in a file of decimal commas has a group of three digits
        numbers |= {name: (".", ",") for name, held in values.items() if _grouped(held)}
    return numbers


def _styles(values: set[str]) -> list[Style]:
    """The spellings that all values fit; none where they are plain numbers, or no numbers."""
    if not values or all(PLAIN.fullmatch(x) for x in values):
        return []
    return [style for style, look in _NUMBERS.items() if all(look.fullmatch(x) for x in values)]


def _grouped(values: set[str]) -> bool:
    return bool(values) and all(_NUMBERS[".", ","].fullmatch(x) for x in values) and any("." in x for x in values)


def _order(values: set[str]) -> str | None:
    """The order that fits all values, if it is the only one or day and month cannot be told apart by any other."""
    fits = [order for order, look in _DATES.items() if values and all(look.fullmatch(x.strip()) for x in values)]
    if len(fits) == 1 and any(iso(x, fits[0]) != x for x in values):
        return fits[0]
    return None


MARKS = {",": "decimal commas", ".": "thousands separators"}
ORDERS = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}


def _said(guessed: Sequence[Guess]) -> Iterator[str]:
    for what in dict.fromkeys(x.what for x in guessed):
        yield f"{', '.join(x.column or '' for x in guessed if x.what == what)}: {what}"


def _absent(na: Sequence[str]) -> list[str]:
    return [f"missing values are written {', '.join(map(repr, na))} ({option('--na', 'na=')})"] if na else []


COUNTING = re.compile(r"n|freq(uenc(y|ies))?|counts?|people|persons|weights?|number|total|anzahl|aantal|nombre", re.I)


def _counting(columns: Sequence[str], records: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """A column that looks like a number of people: its name says so, it is whole, and all other columns are a key."""
    for i, name in enumerate(columns):
        if not COUNTING.fullmatch(name.strip()) or min(len(records), len(columns)) < 2:
            continue
        rest = {(*r[:i], *r[i + 1 :]) for r in records}
        whole = all(i < len(r) and re.fullmatch(r"\d+(\.0*)?", r[i]) for r in records)
        if whole and len(rest) == len(records) and len({r[i] for r in records}) > 1:
            said = option(f"--counts {name!r}", f"counts={name!r}")
            return (f"column {name!r} looks like a number of people in each row: if it is, say {said}",)
    return ()
