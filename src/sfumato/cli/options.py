"""Options that several commands share, by what they are about, and the wishes and sources that they make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sfumato.cli.option_texts import (
    Location,
    Method,
    Names,
    Options,
    bins_of,
    joined,
    labels_of,
    rare_of,
    unseen_of,
    values_of,
)
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.releasing.wishes import Wishes
    from sfumato.sources import Source
    from sfumato.sources.places import Where

F = TypeVar("F", bound=Callable[..., Any])
METHODS_HELP = "How to design: auto compares what fits and says why."


values_option = click.option(
    "--values", metavar="low=1,high=2", callback=values_of,
    help="The number that each useful value stands for, for the method distortion and for means.  [default: what "
    "labels spell, or the middles of bins]",
)


def counting(command: F) -> F:
    """How columns become categories."""
    for option in reversed((
        click.option("--bins", multiple=True, metavar="COL=5|COL=30;65|COL=year", help="Bin a numeric column: a number "
                     "of quantile bins, or edges; dates: year, quarter, month or weekday."),
        click.option("--numbers", type=click.Choice(["bins", "labels"]), default="bins", show_default=True,
                     help="Whether columns of many numbers are cut into bins of about equal size where --bins does not "
                     "say how, or each number is a label."),
        click.option("--labels", multiple=True, metavar="COL=A;B;C", help="All labels of a column, fixed before a row "
                     "is seen, as a confidence needs them; others go to --unseen, or are refused."),
        click.option("--rare", multiple=True, metavar="COL=20", help="Group labels with fewer rows as 'other'."),
        click.option("--unseen", multiple=True, metavar="COL=LABEL", help="The label that takes values which the "
                     "design data do not have (with --design-from, --split, or a later --mechanism)."),
        click.option("--missing", type=click.Choice(["category", "refuse"]), default="category", show_default=True,
                     help="Whether missing values are a category of their own or an error."),
    )):
        command = option(command)
    return command


def designing(command: F) -> F:
    """How a mechanism is designed."""
    for option in reversed((
        click.option("--design", type=click.Choice(["auto", "noisy", "exact", "any"]), help="From counts of TABLE with "
                     "noise, from its exact counts, from none (for any distribution), or from noisy counts or none, "
                     "whichever suits its size.  [default: auto; exact where that is asked for elsewhere]"),
        click.option("--design-epsilon", type=float, metavar="EPSILON", help="The part of --epsilon that noisy counts "
                     "take.  [default: chosen by the numbers of rows and labels]"),
        click.option("--public-labels", "public", type=Names(), multiple=True, metavar="COL,COL|all", help="Columns "
                     "whose labels, and whether some are missing, everybody knows. Of others only those are let in "
                     "that many people have (a stable histogram, paid from --epsilon), unless --labels lists them "
                     "or --design is exact."),
        click.option("--delta", type=float, default=1e-9, show_default=True, help="The chance that a label that is not "
                     "public tells of one person."),
        click.option("--at-most", metavar="NATS|none", help="What somebody may learn who knows a person's useful "
                     "values, whatever the distribution: a second promise.  [default: 3, or twice --epsilon]"),
        click.option("--releases", type=click.IntRange(1), metavar="K", help="Plan K such releases, which together "
                     "stay within --budget for any distribution: sets --at-most."),
        click.option("--method", type=Method(), default="auto", show_default=True, help=METHODS_HELP),
        click.option("--aim", type=click.Choice(["estimates", "information", "either"]), help="Of auto: the least "
                     "errors of whoever estimates from the release, or the most bits of a record.  [default: "
                     "estimates, also called either]"),
        click.option("--confidence", type=float, default=0.95, show_default=True,
                     help="Of the ball of distributions around the counts, in all of which the promise holds."),
        click.option("--notion", type=click.Choice(["rldp", "lip", "pml", "ldp"]), default="rldp", show_default=True,
                     help="Of privacy: about the secret for every distribution in the ball, about it at the counts "
                     "alone, that no belief about it rises too far in the ball (the method pml), or about the whole "
                     "record whatever the distribution."),
        click.option("--reads", type=click.Choice(["both", "useful"]), default="both", show_default=True,
                     help="Whether the mechanism sees the secret, or the useful columns alone."),
        click.option("--distance", type=click.Choice(["squared", "absolute", "hamming"]),
                     help="For the method distortion, which auto takes for it: what the release should be near in.  "
                     "[default: squared]"),
        values_option,
        click.option("--outputs", type=click.Choice(["labels", "representatives", "chosen"]),
                     help="For the method distortion: release labels, the numbers they stand for, or numbers chosen to "
                     "be nearest.  [default: labels]"),
        click.option("--time-limit", type=float, metavar="SECONDS", help="For methods that search."),
        click.option("--gap", type=click.FloatRange(min=0, min_open=True), metavar="SHARE",
                     help="For methods that search: stop when the value is proved to be this close to the best."),
    )):
        command = option(command)
    return command


def bundling(command: F) -> F:
    """How many columns are put under one promise."""
    for option in reversed((
        click.option("--columns", type=click.Choice(["auto", "one", "bundle"]), default="auto", show_default=True,
                     help="One mechanism for a single table of all columns, or a bundle of mechanisms for any number "
                     "of columns; auto takes a bundle for three or more --useful columns where it is expected to be "
                     "worth more, or their table is too large."),
        click.option("--assuming", type=click.Choice(["nothing", "tables", "star", "tree"]), default="nothing",
                     show_default=True, help="What the promise of a bundle rests on: nothing; small tables in "
                     "confidence balls; columns independent given the secret; columns that form a tree."),
        click.option("--tables", type=Names(), multiple=True, metavar="A,B", help="A table of one or two columns that "
                     "a bundle is for; may be repeated.  [default: all]"),
    )):
        command = option(command)
    return command


PIPE = "-"


def is_pipe(where: Where | None) -> bool:
    """Whether an argument means standard input or output."""
    return str(where) == PIPE


def reading(command: F) -> F:
    """How the text of a table is read, where that should not be found out."""
    for option in reversed((
        click.option("--na", multiple=True, metavar="TEXT", help="What missing values are written as, instead of "
                     "empty, NA, N/A, n/a, #N/A, NaN, nan, NULL, null, . and -; may be repeated."),
        click.option("--counts", metavar="COL", help="TABLE is a table of counts: this column says how many people a "
                     "row is."),
        click.option("--delimiter", metavar="CHAR", help="Between fields.  [default: found out]"),
        click.option("--encoding", metavar="NAME", help="Of text.  [default: found out]"),
        click.option("--decimal", type=click.Choice([".", ","]), help="The mark of decimals.  [default: found out]"),
        click.option("--dates", type=click.Choice(["dmy", "mdy", "ymd"]), help="The order of day, month and year.  "
                     "[default: found out]"),
        click.option("--sheet", metavar="NAME", help="Of a workbook.  [default: the first]"),
    )):
        command = option(command)
    return command


def read_as(given: Options) -> Record:
    """Takes the options of `reading` out of those given, as `open_source` has them."""
    from sfumato.sources.dialect import READING, reading_of

    return reading_of({name: given.pop(name, None) for name in READING})


def table_source(where: Where, form: str | None = None, **read: Any) -> Source:
    """A table on the command line: a file, a folder, an address, or '-' for standard input, which is read once."""
    import pyarrow as pa

    from sfumato.sources import open_source
    from sfumato.sources.delimited import stream_source
    from sfumato.sources.dialect import Said

    if not is_pipe(where):
        return open_source(where, **read)
    counts, na = read.get("counts"), read.get("na")
    if form != "arrow":
        said = Said(read.get("delimiter"), read.get("encoding"), na, read.get("decimal"), read.get("dates"))
        comes = stream_source(sys.stdin.buffer, {"csv": ",", "tsv": "\t"}[form or "csv"], said)
        return open_source(comes, counts=counts)
    try:
        opened = open_source(pa.ipc.open_stream(sys.stdin.buffer), na=na, counts=counts)
        return replace(opened, name="standard input")
    except pa.ArrowInvalid:
        raise InputError(
            "standard input is not a stream of Arrow's", next="Is it CSV? Then leave out --format."
        ) from None


def wishes_of(
    secret: tuple[str, ...], useful: tuple[str, ...], design: Options, *, private: bool = True
) -> Wishes:
    """Options as text, read. A private table is told exactly only where that is asked for by name."""
    from sfumato.releasing.wishes import completed

    texts = {
        "bins": bins_of(design["bins"]), "rare": rare_of(design["rare"]), "unseen": unseen_of(design["unseen"]),
        "labels": labels_of(design["labels"]), "public": joined(design.get("public", ())),
    }
    return completed(secret, useful, private=private, **{**design, **texts})


table_argument = click.argument("table", type=Location(), metavar="TABLE")
format_option = click.option("--format", "form", type=click.Choice(["csv", "tsv", "arrow"]), help="Of what comes and "
                             "goes through a pipe (-); arrow is Arrow's stream format.  [default: csv]")
force_option = click.option("--force", is_flag=True, help="Replace output files that exist.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of prose.")


GROUPS = {
    "Columns and files": (
        "secret", "useful", "keep", "out", "partition", "decode", "raw_cells", "form", "counts", "source", "origin",
        "mechanism", "report", "private_report", "publisher",
    ),
    "The promise": ("epsilon", "at_most", "notion", "confidence", "reads", "releases"),
    "What the mechanism is designed from": (
        "design", "design_epsilon", "design_from", "split", "public", "delta",
    ),
    "How it is designed": (
        "method", "aim", "time_limit", "gap", "distance", "values", "outputs", "columns", "assuming",
    ),
    "How values are read": (
        "bins", "labels", "rare", "missing", "unseen", "numbers", "na", "delimiter", "encoding", "decimal",
        "dates", "sheet",
    ),
    "Releasing more than once": ("people", "budget", "ledger", "same_values", "memoise", "person"),
}


class Grouped(click.Command):
    """A command whose options are listed in GROUPS; those in none come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = {str(p.name): record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None}
        for title, names in GROUPS.items():
            found = [left.pop(name) for name in names if name in left]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        if left:
            with formatter.section("Other options"):
                formatter.write_dl(list(left.values()))
