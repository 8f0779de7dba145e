"""What the texts of options mean: names of columns, places, methods, bins, labels and numbers."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, split_arg_string

from sfumato.alphabet import DATE_PARTS, MISSING
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.releasing.wishes import Values

Options = dict[str, Any]  # as click hands them over, by name
Many = Sequence[tuple[str, ...]]  # names of an option that may be repeated


class Names(click.ParamType[tuple[str, ...]]):
    """Column names separated by commas; a name that holds a comma goes in double quotes."""

    name = "col,col"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = [x.strip() for x in next(csv.reader([value], skipinitialspace=True), [])]
        if not found or not all(found):
            self.fail(f"{value!r} does not name columns; write NAME,NAME", param, ctx)
        return tuple(found)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Columns of the table on the command line."""
        before, _, last = incomplete.rpartition(",")
        lead = f"{before}," if before else ""
        known = _columns_on_the_line()
        return [CompletionItem(lead + c) for c in known if c.startswith(last) and c not in before.split(",")]


def _columns_on_the_line() -> tuple[str, ...]:
    """Columns of the first table among the words typed so far; click has not parsed them while one is incomplete."""
    from sfumato.sources import open_source

    for word in split_arg_string(os.environ.get("COMP_WORDS", "")):
        path = Path(word).expanduser()
        if path.is_file():
            try:
                return open_source(path).columns
            except SfumatoError:
                continue
    return ()


class Location(click.Path):
    """A file or folder of this machine, '-' for a pipe, or an address such as s3://bucket/people.parquet."""

    name = "path"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or "://" not in value:
            return super().convert(value, param, ctx)
        from sfumato.sources import located

        return located(value)


class Method(click.ParamType[str]):
    """A name from sf.methods(); checked by the designer, so that --help needs no import."""

    name = "method"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from sfumato.designers import methods

        return [CompletionItem(m) for m in methods() if m.startswith(incomplete)]


def joined(parts: Many) -> tuple[str, ...]:
    """An option that may be repeated: --useful a,b --useful c."""
    return tuple(name for part in parts for name in part)


def bins_of(texts: Sequence[str]) -> dict[str, int | str | list[float]] | None:
    """COL=5 is five quantile bins, COL=30;65 are edges, COL=30; is one edge, COL=year is a part of dates.

    >>> bins_of(["age=30;65", "income=4", "seen=month"])
    {'age': [30.0, 65.0], 'income': 4, 'seen': 'month'}
    """
    out: dict[str, int | str | list[float]] = {}
    for text in texts:
        name, _, rule = text.rpartition("=")
        try:
            edges = [float(x) for x in rule.split(";") if x.strip()] if ";" in rule else None
            out[name] = edges if edges is not None else rule if rule in DATE_PARTS else int(rule)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(
                f"{text!r}: write COL=5 for five bins of about equal size, COL=30;65 for edges, or COL=year, quarter, "
                "month or weekday for dates.", param_hint="--bins",
            )
    return out or None


def rare_of(texts: Sequence[str]) -> float | dict[str, float] | None:
    """COL=20 for one column, 20 for all.

    >>> rare_of(["job=20"]), rare_of(["20"])
    ({'job': 20.0}, 20.0)
    """
    out: dict[str, float] = {}
    for text in texts:
        name, _, least = text.rpartition("=")
        try:
            out[name] = float(least)
        except ValueError:
            raise click.BadParameter(
                f"{text!r}: write COL=20 to group labels with fewer than 20 rows, or 20 for every column.",
                param_hint="--rare",
            ) from None
    if "" in out and len(out) > 1:
        raise click.BadParameter("give one number for all columns, or COL=number for some.", param_hint="--rare")
    return out.get("", out) or None


def unseen_of(texts: Sequence[str]) -> str | dict[str, str] | None:
    """COL=LABEL for one column, LABEL for every column that has it.

    >>> unseen_of(["job=none"]), unseen_of(["none"])
    ({'job': 'none'}, 'none')
    """
    out = {name: label for name, _, label in (text.partition("=") for text in texts)}
    alone = [name for name, label in out.items() if not label]
    if alone and len(out) > 1:
        raise click.BadParameter("give one label for all columns, or COL=LABEL for some.", param_hint="--unseen")
    return alone[0] if alone else out or None


def labels_of(texts: Sequence[str]) -> dict[str, list[str | None]] | None:
    """COL=A;B;C are all labels of a column; (missing) is the label of missing values.

    >>> labels_of(["town=A;B;(missing)"])
    {'town': ['A', 'B', None]}
    """
    out: dict[str, list[str | None]] = {}
    for text in texts:
        name, _, given = text.partition("=")
        labels = [None if x == MISSING else x for x in given.split(";") if x]
        if not name or not labels:
            raise click.BadParameter(f"{text!r}: write COL=A;B;C, all labels of the column.", param_hint="--labels")
        out[name] = labels
    return out or None


def values_of(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> Values | None:
    """Numbers separated by commas, or LABEL=NUMBER for each label.

    >>> values_of(None, None, "low=1,high=2"), values_of(None, None, "1,2")
    ({'low': 1.0, 'high': 2.0}, (1.0, 2.0))
    """
    if text is None:
        return None
    try:
        if "=" not in text:
            return tuple(float(x) for x in text.split(","))
        named = (part.rpartition("=") for part in next(csv.reader([text], skipinitialspace=True)))
        return {name.strip(): float(number) for name, _, number in named}
    except ValueError:
        raise click.BadParameter(f"{text!r}: write 1,2,3 or low=1,mid=2,high=3.", ctx, param) from None
