"""Everything sfumato raises on purpose: what is wrong, which value, what to do next and where, as fields."""

from __future__ import annotations

import difflib
import enum
import math
import numbers
import os
import re
import shlex
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from sfumato import __version__

_OPTION = re.compile("\x02([^\x02\x03]*)\x1f([^\x02\x03]*)\x03")


def option(shell: str, python: str) -> str:
    """A way out that is spelled otherwise on the command line than in Python, for `spelled` to choose.

    >>> text = option("--force", "force=True")
    >>> spelled(text), spelled(text, shell=True)
    ('force=True', '--force')
    """
    return f"\x02{shell}\x1f{python}\x03"


def spelled(text: str, *, shell: bool = False) -> str:
    """A text with its options as Python writes them, or as a shell does."""
    return _OPTION.sub(r"\1" if shell else r"\2", "" + text)  # plain text, also of a Note


class Note(str):
    """A sentence for whoever asked: printed, its options are as Python writes them; `spelled` writes a shell's."""

    __slots__ = ()

    def __str__(self) -> str:
        return spelled(self)

    def __repr__(self) -> str:
        return repr(spelled(self))


def binned(name: str, bins: object = 10) -> str:
    """How the bins of a column are said, as it can be typed.

    >>> spelled(binned("day of visit", [30, 65]), shell=True)
    "--bins 'day of visit=30;65'"
    """
    told = f"{name}={';'.join(map(str, bins)) if isinstance(bins, list) else bins}"
    return option(f"--bins {shlex.quote(told)}", f"bins={{{name!r}: {bins!r}}}")


def grouped(name: str, least: int = 20) -> str:
    """How labels of a column that few rows have are put together."""
    return option(f"--rare {shlex.quote(f'{name}={least}')}", f"rare={{{name!r}: {least}}}")


def called_public(name: str) -> str:
    """How the labels of a column are called public."""
    return option(f"--public-labels {shlex.quote(name)}", f"public=[{name!r}]")


LIMIT_OF_TIME = option("--time-limit", "time_limit")
AS_CATEGORY = option("--missing category", "missing='category'")
WHOLE = ("scipy", "highspy", "clarabel", "jinja2", "rich")  # what designs and makes pages; not needed to release
EXTRAS = {"starlette": "studio", "uvicorn": "studio", "matplotlib": "figures", "pyreadstat": "statistics"}


class Unsaid(enum.Enum):
    """Stands for a value that an error does not have, in other processes too; None may be one."""

    UNSAID = enum.auto()


UNSAID = Unsaid.UNSAID
LONGEST_VALUE = 80  # characters of a value that a sentence can carry


@dataclass(frozen=True, slots=True)
class At:
    """A place in a table: a column, and the number of a row, from 1, where it is about one (0: nobody knows which).

    >>> print(At("age", row=3), "|", At("age"), "|", At(table="people.csv", line=7))
    column 'age', row 3: | column 'age' | people.csv, line 7:
    """

    column: str | None = None
    row: int | None = None
    table: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        column = None if self.column is None else f"column {self.column!r}"
        told = [self.table, column, f"row {self.row}" if self.row else None, f"line {self.line}" if self.line else None]
        counted = self.row is not None or self.line is not None
        return ", ".join(x for x in told if x is not None) + (":" if counted else "")


class Named(Protocol):
    """A place that can be told: a path, or an address in a store."""

    @property
    def name(self) -> str: ...


Spot = At | str | os.PathLike[str] | Named | None


class SfumatoError(Exception):
    """A problem the caller can act on, kept as fields; `str` makes a text of them.

    `what` is wrong, with the `value` that was given, what to do `next`, and `where`: in a file, or At a column and row.
    The place leads and is the subject of what is wrong; the value follows it.

    >>> str(InputError("has edges that do not increase", value=[3, 1], next="Sort them.", where=At("age")))
    "column 'age' has edges that do not increase, got [3, 1]. Sort them."
    """

    exit_code = 1

    def __init__(self, what: str = "", *, value: object = UNSAID, next: str = "", where: Spot = None) -> None:
        super().__init__(what)
        self.value = value
        self.where = where if where is None or isinstance(where, At) else str(where)
        self._what, self._next = what, next

    @property
    def what(self) -> str:
        """What is wrong, without its place and value."""
        return spelled(self._what)

    @property
    def next(self) -> str:
        """What can be done about it."""
        return spelled(self._next)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, shell: bool = False) -> str:
        """All fields in sentences, with options as Python or as a shell spells them."""
        return spelled(" ".join(x for x in (_ended(self._sentence()), _ended(self._next)) if x), shell=shell)

    def _sentence(self) -> str:
        lead = "" if self.where is None else f"{self.where} "
        return lead + self._what + ("" if self.value is UNSAID else f", got {shown(self.value)}")

    def fields(self) -> dict[str, str | int | None]:
        """The fields as a document can hold them, options as a shell spells them."""
        at = self.where if isinstance(self.where, At) else At(table=self.where)
        return {
            "text": self.text(shell=True), "sentence": spelled(_ended(self._sentence()), shell=True),
            "what": spelled(self._what, shell=True), "next": spelled(_ended(self._next), shell=True),
            "value": None if self.value is UNSAID else shown(self.value),
            "table": at.table, "column": at.column, "row": at.row,
        }

    def followed_by(self, sentence: str) -> Self:
        """The same error with one more sentence."""
        more = f"{_ended(self._next)} {sentence}".strip()
        return type(self)(self._what, value=self.value, next=more, where=self.where)

    def without_row(self) -> Self:
        """The same error where rows have no numbers."""
        at = replace(self.where, row=0) if isinstance(self.where, At) and self.where.row else self.where
        return type(self)(self._what, value=self.value, next=self._next, where=at)


def _ended(sentence: str) -> str:
    return sentence if not sentence or sentence.endswith((".", "?", ".)")) else f"{sentence}."


def shown(value: object) -> str:
    """A value in a sentence.

    >>> shown("a"), shown(-1.0), shown(None)
    ("'a'", '-1', 'None')
    """
    if isinstance(value, (numbers.Integral, os.PathLike)):
        return str(value)
    text = f"{value:.12g}" if isinstance(value, numbers.Real) else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


class InputError(SfumatoError, ValueError):
    """An argument, a column or a file does not fit what was asked."""

    exit_code = 2


class MissingPackage(InputError, ImportError):
    """Something was asked for that another package does, and it is not installed."""

    @classmethod
    def after(cls, error: ModuleNotFoundError) -> MissingPackage | None:
        """What to say when a library could not be imported; None where the error is about something else."""
        name = (error.name or "").partition(".")[0]
        way = f"Run pip install 'sfumato[{EXTRAS[name]}]'." if name in EXTRAS else (
            "Run pip install sfumato. (sfumato-release answers, releases, estimates and verifies; it neither designs "
            "nor makes pages.)"
        )
        return cls(f"this needs {name}, which is not installed", next=way) if name in (*WHOLE, *EXTRAS) else None


class UnknownName(InputError):
    """A name that is not among the known ones: its value leads the sentence."""

    def _sentence(self) -> str:
        return f"{shown(self.value)} {self._what}"


class DataError(InputError):
    """A row does not fit the declared alphabet. Names column and row number, never the content."""

    exit_code = 3


class FileFormatError(SfumatoError, ValueError):
    """A mechanism file is not what it says it is."""

    exit_code = 4


class ClaimError(SfumatoError):
    """A privacy claim does not hold, or could not be proved."""

    exit_code = 5


class BudgetError(ClaimError):
    """A release would exceed what is left of a budget; nothing was released."""


class OutputError(SfumatoError, OSError):
    """The output could not be written; nothing was left behind."""

    exit_code = 6


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """"Did you mean 'race'?" when some known name is near, else nothing."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str], called: str = "known") -> UnknownName:
    """The error for a name that is not among the known ones, with the nearest one."""
    known = list(known)
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return UnknownName(f"is not {what} ({called}: {shown})", value=name, next=did_you_mean(name, known))


def bug(error: BaseException) -> SfumatoError:
    """What may be said of an error that nobody raised on purpose: neither its text nor its traceback, since both may
    quote values of private rows."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {os.path.basename(last[0].filename)}, line {last[0].lineno}" if last else ""
    return SfumatoError(f"a bug in sfumato {__version__}: {type(error).__name__}{where}")


def out_of_memory() -> SfumatoError:
    """What is said when the machine has no room."""
    return SfumatoError("there is not enough memory", next="Use fewer useful columns, or coarser bins.")


LARGEST_EPSILON = 50.0  # nats to design for: weights that sum to 2^56 cannot tell chances below e^-38.8 from none


def is_number(x: object) -> bool:
    """Whether it is a finite number, and no text or truth value."""
    return isinstance(x, numbers.Real) and not isinstance(x, bool) and math.isfinite(x)


def checked_epsilon(epsilon: float) -> float:
    """ε as a float, if it is a finite number of nats, zero or more."""
    try:
        value = float(epsilon)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError("epsilon must be a finite number of nats, zero or more", value=epsilon)
    return value


def designed_epsilon(epsilon: float) -> float:
    """ε as a float, if a mechanism can be designed for it: one that is sealed in integers."""
    value = checked_epsilon(epsilon)
    if value > LARGEST_EPSILON:
        raise InputError(
            f"an epsilon this large protects nothing; mechanisms are designed up to {LARGEST_EPSILON:g}", value=value,
            next="Usual levels are 0.1 to 4.",
        )
    return value
