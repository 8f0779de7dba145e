"""Everything sfumato raises on purpose: what is wrong, which value, what to do next."""

from __future__ import annotations

import difflib
import math
import os
import re
import shlex
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, Self

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
    return _OPTION.sub(r"\1" if shell else r"\2", text)


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


AS_CATEGORY = option("--missing category", "missing='category'")
WHOLE = ("scipy", "highspy", "clarabel", "jinja2", "rich")  # what designs and makes pages; not needed to release


class SfumatoError(Exception):
    """A problem the caller can act on; the message says how.

    `row` is the number of the row it is about, from 1, where it is about one.
    """

    exit_code = 1

    def __init__(self, message: str = "", *rest: Any, row: int | None = None) -> None:
        super().__init__(message, *rest)
        self.row = row

    def __str__(self) -> str:
        return spelled(str(self.args[0])) if self.args else ""

    @property
    def on_the_command_line(self) -> str:
        """The message with options as a shell spells them."""
        return spelled(str(self.args[0]), shell=True) if self.args else ""

    def followed_by(self, sentence: str) -> Self:
        """The same error with one more sentence."""
        return type(self)(f"{self.args[0]} {sentence}", row=self.row)


class InputError(SfumatoError, ValueError):
    """An argument, a column or a file does not fit what was asked."""

    exit_code = 2


class MissingPackage(SfumatoError, ImportError):
    """Something was asked for that another package does, and it is not installed."""

    exit_code = 2

    @classmethod
    def after(cls, error: ModuleNotFoundError) -> MissingPackage | None:
        """What to say when one of WHOLE could not be imported; None where the error is about something else."""
        name = (error.name or "").partition(".")[0]
        return None if name not in WHOLE else cls(
            f"this needs {name}, which is not installed: pip install sfumato. (sfumato-release answers, releases, "
            "estimates and verifies; it neither designs nor makes pages.)"
        )


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
    """ Did you mean 'race'?" when some known name is near, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones, with the nearest one."""
    known = list(known)
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return InputError(f"{name!r} is not {what} (known: {shown}).{did_you_mean(name, known)}")


def bug(error: BaseException) -> str:
    """What may be said of an error that nobody raised on purpose: neither its text nor its traceback, since both may
    quote values of private rows."""
    from sfumato import __version__

    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {os.path.basename(last[0].filename)}, line {last[0].lineno}" if last else ""
    return f"a bug in sfumato {__version__}: {type(error).__name__}{where}"


LARGEST_EPSILON = 50.0  # nats to design for: weights that sum to 2^56 cannot tell chances below e^-38.8 from none


def checked_epsilon(epsilon: float) -> float:
    """ε as a float, if it is a finite number of nats, zero or more."""
    try:
        value = float(epsilon)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"epsilon must be a finite number of nats, zero or more, got {epsilon!r}.")
    return value


def designed_epsilon(epsilon: float) -> float:
    """ε as a float, if a mechanism can be designed for it: one that is sealed in integers."""
    value = checked_epsilon(epsilon)
    if value > LARGEST_EPSILON:
        raise InputError(
            f"epsilon = {value:g} nats protects nothing; mechanisms are designed up to {LARGEST_EPSILON:g}, and usual "
            "levels are 0.1 to 4."
        )
    return value
