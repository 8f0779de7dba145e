"""Options that several commands share: what their texts mean, and the wishes and sources that they make."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem, split_arg_string

import sfumato as sf
from sfumato import releasing, sources
from sfumato.decimals import MISSING
from sfumato.errors import InputError, SfumatoError
from sfumato.libraries import pyarrow as pa

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.releasing.wishes import BinWish, Values, Wishes
    from sfumato.sources import Source
    from sfumato.sources.places import Where


F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
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
    for word in split_arg_string(os.environ.get("COMP_WORDS", "")):
        path = Path(word).expanduser()
        if path.is_file():
            try:
                return sf.open_source(path).columns
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

        return sources.located(value)


class Method(click.ParamType[str]):
    """A name from sf.methods(); checked by the designer, so that --help needs no import."""
    name = "method"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(m) for m in sf.methods() if m.startswith(incomplete)]


def joined(parts: Many) -> tuple[str, ...]:
    """An option that may be repeated: --useful a,b --useful c."""
    return tuple(name for part in parts for name in part)


def _rules(texts: Sequence[str], read: Callable[[str], R], named: str, hint: str) -> dict[str, R]:
    """COL=RULE, by column; a rule without a column stands under no name."""
    out = {}
    for text in texts:
        name, _, rule = text.rpartition("=")
        try:
            out[name] = read(rule)
        except ValueError:
            raise click.BadParameter(f"{text!r}: {hint}", param_hint=named) from None
    return out


def bins_of(texts: Sequence[str]) -> dict[str, BinWish] | None:
    """COL=5 is five quantile bins, COL=30;65 are edges, COL=30; is one edge, COL=year is a part of dates.

    >>> bins_of(["age=30;65", "income=4", "seen=month"])
    {'age': [30.0, 65.0], 'income': 4, 'seen': 'month'}
    """
    def rule(text: str) -> BinWish:
        if ";" in text:
            return [float(x) for x in text.split(";") if x.strip()]
        return text if text in sources.DATE_PARTS else int(text)

    hint = ("write COL=5 for five bins of about equal size, COL=30;65 for edges, or COL=year, quarter, month or "
            "weekday for dates.")
    if nameless := [text for text in texts if not text.rpartition("=")[0]]:
        raise click.BadParameter(f"{nameless[0]!r}: {hint}", param_hint="--bins")
    return _rules(texts, rule, "--bins", hint) or None


def rare_of(texts: Sequence[str]) -> float | dict[str, float] | None:
    """COL=20 for one column, 20 for all.

    >>> rare_of(["job=20"]), rare_of(["20"])
    ({'job': 20.0}, 20.0)
    """
    hint = "write COL=20 to group labels with fewer than 20 rows, or 20 for every column."
    out = _rules(texts, float, "--rare", hint)
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


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one, in their order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


values_option = click.option(
    "--values", metavar="low=1,high=2", callback=values_of,
    help="The number that each useful value stands for, for the method distortion and for means.  [default: what "
    "labels spell, or the middles of bins]",
)

# How columns become categories.
counting = together(
    click.option("--bins", multiple=True, metavar="COL=5|COL=30;65|COL=year", help="Bin a numeric column: a number of "
                 "quantile bins, or edges; dates: year, quarter, month or weekday."),
    click.option("--numbers", type=click.Choice(["bins", "labels"]), default="bins", show_default=True,
                 help="Whether columns of many numbers are cut into bins of about equal size where --bins does not say "
                 "how, or each number is a label."),
    click.option("--labels", multiple=True, metavar="COL=A;B;C", help="All labels of a column, fixed before a row is "
                 "seen, as a confidence needs them; others go to --unseen, or are refused."),
    click.option("--rare", multiple=True, metavar="COL=20", help="Group labels with fewer rows as 'other'."),
    click.option("--unseen", multiple=True, metavar="COL=LABEL", help="The label that takes values which the design "
                 "data do not have (released by --design-from, --split or --mechanism)."),
    click.option("--missing", type=click.Choice(["category", "refuse"]), default="category", show_default=True,
                 help="Whether missing values are a category of their own or an error."),
)

public_option = click.option(
    "--public-labels", "public", type=Names(), multiple=True, metavar="COL,COL|all", help="Columns whose labels, and "
    "whether some are missing, everybody knows. Of others only those are let into a release that many people have (a "
    "stable histogram, paid from --epsilon), unless --labels lists them or --design is exact.",
)

# How a mechanism is designed.
designing = together(
    click.option("--design", type=click.Choice(["auto", "noisy", "exact", "any"]), help="From counts of TABLE with "
                 "noise, from its exact counts, from none (for any distribution), or from noisy counts or none, "
                 "whichever suits its size.  [default: auto; exact where that is asked for elsewhere]"),
    click.option("--design-epsilon", type=float, metavar="EPSILON", help="The part of --epsilon that noisy counts "
                 "take.  [default: chosen by the numbers of rows and labels]"),
    click.option("--counts-in", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
                 help="The folder where noisy counts and labels are kept, so that they are paid for once.  [default: "
                 "that of TABLE]"),
    public_option,
    click.option("--delta", type=float, default=1e-9, show_default=True, help="The chance that a label that is not "
                 "public tells of one person."),
    click.option("--at-most", metavar="NATS|none", help="What somebody may learn who knows a person's useful values, "
                 "whatever the distribution: a second promise.  [default: 3, or twice --epsilon]"),
    click.option("--releases", type=click.IntRange(1), metavar="K", help="Plan K such releases, which together stay "
                 "within --budget for any distribution: sets --at-most."),
    click.option("--method", type=Method(), default="auto", show_default=True,
                 help="How to design: auto compares what fits and says why."),
    click.option("--aim", type=click.Choice(["estimates", "information", "either"]), help="Of auto: the least errors "
                 "of whoever estimates from the release, or the most bits of a record.  [default: estimates, also "
                 "called either]"),
    click.option("--confidence", type=float, default=0.95, show_default=True,
                 help="Of the ball of distributions around the counts, in all of which the promise holds."),
    click.option("--notion", type=click.Choice(["rldp", "lip", "pml", "ldp"]), default="rldp", show_default=True,
                 help="Of privacy: about the secret for every distribution in the ball, about it at the counts alone, "
                 "that no belief about it rises too far in the ball (the method pml), or about the whole record "
                 "whatever the distribution."),
    click.option("--reads", type=click.Choice(["both", "useful"]), default="both", show_default=True,
                 help="Whether the mechanism sees the secret, or the useful columns alone."),
    click.option("--distance", type=click.Choice(["squared", "absolute", "hamming"]),
                 help="For the method distortion, which auto takes for it: what the release should be near in.  "
                 "[default: squared]"),
    values_option,
    click.option("--outputs", type=click.Choice(["labels", "representatives", "chosen"]),
                 help="For the method distortion: release labels, the numbers they stand for, or numbers chosen to be "
                 "nearest.  [default: labels]"),
    click.option("--time-limit", type=float, metavar="SECONDS", help="For methods that search."),
    click.option("--gap", type=click.FloatRange(min=0, min_open=True), metavar="SHARE",
                 help="For methods that search: stop when the value is proved to be this close to the best."),
)

# How many columns are put under one promise.
bundling = together(
    click.option("--columns", type=click.Choice(["auto", "one", "bundle"]), default="auto", show_default=True,
                 help="One mechanism for a single table of all columns, or a bundle of mechanisms for any number of "
                 "columns; auto takes a bundle for three or more --useful columns where it is expected to be worth "
                 "more, or their table is too large."),
    click.option("--assuming", type=click.Choice(["nothing", "tables", "star", "tree"]), default="nothing",
                 show_default=True, help="What the promise of a bundle rests on: nothing; small tables in confidence "
                 "balls; columns independent given the secret; columns that form a tree."),
    click.option("--tables", type=Names(), multiple=True, metavar="A,B", help="A table of one or two columns that a "
                 "bundle is for; may be repeated.  [default: all]"),
)

# How the text of a table is read, where that should not be found out.
reading = together(
    click.option("--na", multiple=True, metavar="TEXT", help="What missing values are written as, instead of empty, "
                 "NA, N/A, n/a, #N/A, NaN, nan, NULL, null, . and -; may be repeated."),
    click.option("--counts", metavar="COL", help="TABLE is a table of counts: this column says how many people a row "
                 "is."),
    click.option("--delimiter", metavar="CHAR", help="Between fields.  [default: found out]"),
    click.option("--encoding", metavar="NAME", help="Of text.  [default: found out]"),
    click.option("--decimal", type=click.Choice([".", ","]), help="The mark of decimals.  [default: found out]"),
    click.option("--dates", type=click.Choice(["dmy", "mdy", "ymd"]), help="The order of day, month and year.  "
                 "[default: found out]"),
    click.option("--sheet", metavar="NAME", help="Of a workbook.  [default: the first]"),
)

secret_option = click.option("--secret", type=Names(), multiple=True, required=True, help="The column(s) to protect.")
useful_option = click.option("--useful", type=Names(), multiple=True, help="The columns to keep informative. Without "
                             "it: as many as are worth something, the smallest first.")
epsilon_option = click.option("--epsilon", type=float, required=True, help="The privacy level in nats; smaller "
                              "protects more.")
asking = together(secret_option, useful_option, epsilon_option)
table_argument = click.argument("table", type=Location(), metavar="TABLE")
format_option = click.option("--format", "form", type=click.Choice(["csv", "tsv", "arrow"]), help="Of what comes and "
                             "goes through a pipe (-); arrow is Arrow's stream format.  [default: csv]")
wishing = together(designing, counting, bundling, reading, format_option)
mechanism_option = click.option("--mechanism", type=Location(), metavar="FILE", help="The mechanism file of the "
                                "release.  [default: the one beside RELEASED]")
decode_option = click.option("--decode", type=click.Choice(["symbols", "likely", "sample"]), help="How the rows were "
                             "written, when there is no manifest beside them.")
force_option = click.option("--force", is_flag=True, help="Replace output files that exist.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of prose.")


def is_pipe(where: Where | None) -> bool:
    """Whether an argument means standard input or output."""
    return str(where) == "-"


def read_as(given: Options) -> Record:
    """Takes the options of `reading` out of those given, as `open_source` has them; empty ones are found out."""
    return {name: value for name in sources.READING if (value := given.pop(name, None))}


def table_source(where: Where, form: str | None = None, **read: Any) -> Source:
    """A table on the command line: a file, a folder, an address, or '-' for standard input, which is read once."""

    if not is_pipe(where):
        return sf.open_source(where, **read)
    counts, na = read.get("counts"), read.get("na")
    if form != "arrow":
        said = sources.Said(read.get("delimiter"), read.get("encoding"), na, read.get("decimal"), read.get("dates"))
        comes = sources.stream_source(sys.stdin.buffer, {"csv": ",", "tsv": "\t"}[form or "csv"], said)
        return sf.open_source(comes, counts=counts)
    try:
        opened = sf.open_source(pa.ipc.open_stream(sys.stdin.buffer), na=na, counts=counts)
        return replace(opened, name="standard input")
    except pa.ArrowInvalid:
        odd = "standard input is not a stream of Arrow's"
        raise InputError(odd, next="Is it CSV? Then leave out --format.") from None


def wishes_of(secret: tuple[str, ...], useful: tuple[str, ...], design: Options, *, private: bool = True) -> Wishes:
    """Options as text, read. A private table is told exactly only where that is asked for by name."""
    texts = {
        "bins": bins_of(design["bins"]), "rare": rare_of(design["rare"]), "unseen": unseen_of(design["unseen"]),
        "labels": labels_of(design["labels"]), "public": joined(design.get("public", ())),
    }
    return releasing.completed(secret, useful, private=private, **{**design, **texts})
