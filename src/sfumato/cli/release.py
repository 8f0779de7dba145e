"""sfumato release: from a private table to files that may be given away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.console import document, listed, pairs, story
from sfumato.cli.options import (
    Location,
    Names,
    Wishes,
    bins_of,
    bundling,
    counting,
    designing,
    force_option,
    format_option,
    joined,
    json_option,
    labels_of,
    rare_of,
    table_argument,
    unseen_of,
)
from sfumato.errors import InputError, designed_epsilon, did_you_mean

if TYPE_CHECKING:
    from sfumato.cli.plan import Plan
    from sfumato.sources import Source, Where

MANY_COLUMNS = 5  # useful columns from which on their table may be too large for one mechanism
DESIGN_OPTIONS = (
    "epsilon", "method", "aim", "confidence", "notion", "reads", "time_limit", "gap",
    "distance", "values", "outputs", "bins", "labels", "rare", "missing", "unseen", "design_from",
    "split", "columns", "assuming",
)
LEDGER_OPTIONS = ("people", "budget", "ledger", "same_values", "memoise", "person")


@click.command()
@table_argument
@click.option("--secret", type=Names(), multiple=True, help="The column(s) to protect.")
@click.option("--epsilon", type=float, help="The privacy level in nats, zero or more; smaller protects more.")
@click.option("--out", required=True, type=Location(), metavar="FILE",
              help="The released table: .csv, .tsv (also packed: .csv.gz, .csv.zst, .csv.bz2), .parquet, or a name "
              "without suffix for a folder of Parquet files; here or at an address (s3://…); '-' for a pipe.")
@click.option("--useful", type=Names(), multiple=True,
              help="The columns to keep informative. Without it: every other categorical column that fits.")
@click.option("--keep", type=Names(), multiple=True, help="Columns to pass through untouched; they are not protected.")
@click.option("--partition", type=Names(), multiple=True,
              help="Write a folder of Parquet files, divided by these columns of the released table.")
@designing
@counting
@bundling
@click.option("--design-from", type=Location(), metavar="FILE",
              help="Design from this reference table, so that no private row enters the mechanism file.")
@click.option("--split", type=float, metavar="FRACTION",
              help="Design on a random part of the rows, which is then not released.")
@click.option("--mechanism", type=Location(), metavar="FILE",
              help="Use this mechanism file instead of designing one.")
@click.option("--decode", type=click.Choice(["symbols", "likely", "sample"]), default="symbols", show_default=True,
              help="Write outputs as they are, as the likeliest original values, or as draws from the posterior "
              "(these follow the design distribution, and echo it where the rows do not).")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE",
              help="Where the public report goes.  [default: beside the table]")
@click.option("--private-report", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write a report that compares with the true table. Not for publication.")
@format_option
@click.option("--people", metavar="NAME", help="Whose data these are: the release is entered in the ledger under it.")
@click.option("--budget", type=float, metavar="EPSILON",
              help="Refuse if all releases about these people together would exceed it.")
@click.option("--ledger", type=click.Path(path_type=Path), metavar="FILE",
              help="The ledger.  [default: sfumato.ledger beside the table, when --people or --budget is given]")
@click.option("--same-values", is_flag=True, help="Declare that people who were in earlier releases have unchanged "
              "values, where the ledger cannot see it: rows were added or removed, or nobody is named (--person).")
@click.option("--memoise", metavar="COL", help="Remember answers: who has the same COL, the same values and the same "
              "mechanism gets the same answer again. Needs a ledger, whose key they follow from.")
@click.option("--person", metavar="COL", help="The column that names everybody once and for good: the ledger then sees "
              "whether values are unchanged.  [default: that of --memoise]")
@click.option("--raw-cells", is_flag=True, help="Write cells of CSV as they are. Without it those that a spreadsheet "
              "would run as a formula have an apostrophe in front, which sfumato takes away when it reads them.")
@click.option("--seed", type=int, help="For tests only: the manifest will say 'not for release'.")
@force_option
@json_option
@click.pass_context
def release(
    ctx: click.Context, /, table: Where, out: Where, secret: Any, useful: Any, keep: Any, partition: Any,
    design_from: Where | None, split: float | None, mechanism: Where | None, decode: str, report: Path | None,
    private_report: Path | None, form: str | None, people: str | None, budget: float | None, ledger: Path | None,
    same_values: bool, memoise: str | None, person: str | None, raw_cells: bool, seed: int | None, force: bool,
    as_json: bool, **design: Any,
) -> None:
    """Release TABLE with the secret protected: count, design, certify, randomise, estimate, report.

    Writes the released table and, beside it, NAME.mechanism.json (the randomisation, its claim and the data it was
    designed from: anyone can verify it), NAME.manifest.json and NAME.report.html. All files appear, or none.
    Columns that are neither secret, useful nor kept are left out.

    TABLE and --out may be '-': rows go from pipe to pipe with a given --mechanism, and nothing else is written. A pipe
    cannot be all or nothing.

    \b
    Examples:
      sfumato release people.csv --secret diagnosis --epsilon 1 --out released.csv
      sfumato release people.parquet --secret diagnosis,income --useful age,sex \\
          --bins 'age=30;65' --epsilon 0.5 --split 0.1 --out released.parquet
      sfumato release new.csv --mechanism released.mechanism.json --out new2.csv
      zcat new.csv.gz | sfumato release - --mechanism m.json --out - | gzip > new2.csv.gz
      sfumato release people.csv --secret diagnosis --epsilon 0.5 --out june.csv \\
          --people 'cohort 7' --budget 2
    """
    from sfumato.alphabet import find_column
    from sfumato.cli.files import Files
    from sfumato.cli.pipes import is_pipe, streamed, table_source
    from sfumato.cli.plan import design_notice
    from sfumato.cli.road import Wanted, counting_within, released
    from sfumato.releasing.writing import writer_for

    wishes = _wishes(ctx, joined(secret), joined(useful), mechanism, design)
    if design_from is not None and split is not None:
        raise click.UsageError("--design-from and --split exclude each other: the reference is the design data.")
    _check_pipes(ctx, is_pipe(table), is_pipe(out))
    files = Files.beside(
        out, mechanism=mechanism is None, report=report, private_report=private_report, partition=joined(partition),
        raw_cells=raw_cells,
    )
    if not is_pipe(out):
        writer_for(out, files.partition)  # says now if the suffix is not known
    source = table_source(table, form)
    for name in joined(keep):
        find_column(name, source.columns, source.name)
    entered = _entered(table, ledger, people, budget, same_values, memoise, person)
    wanted = Wanted(decode, joined(keep), seed=seed, force=force, entered=entered, raw_cells=raw_cells)
    if is_pipe(out):
        assert mechanism is not None
        streamed(source, *_fitting(mechanism, source, wanted, joined(secret), joined(useful)), form)
        return
    files.check([p for p in (table, design_from, mechanism) if p is not None and p.exists()], force=force)
    with counting_within(split is not None):
        if wishes is None:
            assert mechanism is not None
            plan, wanted = _fitting(mechanism, source, wanted, joined(secret), joined(useful))
        else:
            plan, source = _designed(source, wishes, wanted.keep, design_from, split, seed, quiet=as_json)
            design_notice(plan.mechanism, str(files.mechanism), table.name)
        files = _without_pages(files, plan, report, private_report)
        done = released(source, plan, files, wanted)
    if as_json:
        document(done.document)
    else:
        pairs(done.lines)


def _entered(
    table: Where, ledger: Path | None, people: str | None, budget: float | None, same_values: bool,
    memoise: str | None, person: str | None,
) -> Any:
    """The place in the ledger that was asked for, if any."""
    from sfumato.cli.road import Entered

    if all(x is None for x in (ledger, people, budget, memoise, person)) and not same_values:
        return None
    if ledger is None:
        if not isinstance(table, Path):
            raise click.UsageError("the ledger of a table in a store has no place beside it: say --ledger FILE.")
        ledger = table.with_name("sfumato.ledger")
    return Entered(ledger, people, budget, same_values, memoise, person)


def _check_pipes(ctx: click.Context, comes: bool, goes: bool) -> None:
    """What standard input and output cannot do."""
    given = {n for n in ctx.params if ctx.get_parameter_source(n) == click.core.ParameterSource.COMMANDLINE}
    if "form" in given and not (comes or goes):
        raise click.UsageError("--format is for standard input and output (-); files say theirs by their suffix.")
    if comes and ("private_report" in given or not given & {"mechanism", "design_from"}):
        raise click.UsageError(
            "standard input (-) can be read only once: give a --mechanism or --design-from, and no --private-report."
        )
    if goes and "mechanism" not in given:
        raise click.UsageError(
            "a pipe has no place for the files of a design: make them with sfumato design, and give --mechanism FILE."
        )
    beside = sorted(given & {"report", "private_report", "partition", "as_json", "force", *LEDGER_OPTIONS})
    if goes and beside:
        names = listed([f"--{'json' if n == 'as_json' else n.replace('_', '-')}" for n in beside])
        raise click.UsageError(f"with --out - nothing but rows is written; leave out {names}.")


def _wishes(
    ctx: click.Context, secret: tuple[str, ...], useful: tuple[str, ...], mechanism: Where | None,
    design: dict[str, Any],
) -> Wishes | None:
    """What to design, or None when a mechanism is given."""
    if mechanism is not None:
        given = [n for n in DESIGN_OPTIONS if ctx.get_parameter_source(n) == click.core.ParameterSource.COMMANDLINE]
        if given:
            names = listed([f"--{n.replace('_', '-')}" for n in given])
            raise click.UsageError(f"--mechanism is a finished design; leave out {names}.")
        return None
    if not secret:
        raise click.UsageError("say which column is secret (--secret COL), or give a --mechanism.")
    if design["epsilon"] is None:
        raise click.UsageError("say how strong the promise is (--epsilon 1), or give a --mechanism.")
    return wishes_of(secret, useful, design)


def wishes_of(secret: tuple[str, ...], useful: tuple[str, ...], design: dict[str, Any]) -> Wishes:
    """Options as text, checked and read."""
    designed_epsilon(design["epsilon"])
    read = {
        "bins": bins_of(design["bins"]), "rare": rare_of(design["rare"]), "unseen": unseen_of(design["unseen"]),
        "labels": labels_of(design["labels"]),
    }
    return Wishes(secret, useful, **{**design, **read})


def _designed(
    source: Source, wishes: Wishes, keep: Sequence[str], design_from: Where | None, split: float | None,
    seed: int | None, *, quiet: bool,
) -> tuple[Plan, Source]:
    """The plan, and the rows that are left to release."""
    from sfumato.cli.bundled import planned_bundle
    from sfumato.cli.parts import split as parted
    from sfumato.cli.plan import planned, tabulated
    from sfumato.sources import open_source

    basis, rest, origin = source, source, "private"
    if design_from is not None:
        basis, origin = open_source(design_from), "reference"
    elif split is not None:
        (basis, rest), origin = parted(source, split, seed), "split"
    bundled = as_bundle(basis, wishes, keep, source.columns, quiet=quiet)
    if bundled is not None:
        return planned_bundle(basis, bundled, origin), rest
    wishes = with_useful(basis, wishes, keep, source.columns, quiet=quiet)
    return planned(tabulated(basis, wishes), wishes, origin), rest


def as_bundle(
    basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str], *, quiet: bool = False
) -> Wishes | None:
    """The wishes for a bundle, or None when one mechanism will do; said on stderr."""
    from sfumato.alphabet import find_column
    from sfumato.cli.bundled import every_column, fits_one_table

    for name in (*wishes.secret, *wishes.useful):
        find_column(name, basis.columns, basis.name)
    if wishes.columns == "one" or (wishes.columns == "auto" and wishes.assuming == "nothing" and (
        len(wishes.useful) < MANY_COLUMNS or fits_one_table(basis, wishes)
    )):
        if wishes.assuming != "nothing":
            raise click.UsageError("--assuming is for a bundle; leave out --columns one.")
        return None
    wishes = every_column(basis, wishes, keep, known)
    if not quiet:
        story(f"A bundle of mechanisms for {listed(wishes.useful)} (--columns one for a single table).", err=True)
    return wishes


def _without_pages(files: Any, plan: Plan, report: Path | None, private_report: Path | None) -> Any:
    """The report is about a single mechanism; for a bundle there is none."""
    from sfumato.mechanism import Bundle

    if not isinstance(plan.mechanism, Bundle):
        return files
    if report is not None or private_report is not None:
        raise click.UsageError("there is no report about a bundle yet; leave out --report and --private-report.")
    return replace(files, report=None)


def with_useful(
    basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str], *, quiet: bool = False
) -> Wishes:
    """The wishes with useful columns chosen, and the choice said on stderr, when none were named."""
    from sfumato.alphabet import find_column
    from sfumato.cli.columns import useful_columns

    for name in (*wishes.secret, *wishes.useful):
        find_column(name, basis.columns, basis.name)
    if wishes.useful:
        return wishes
    other = [c for c in basis.columns if c in known and c not in wishes.secret and c not in keep]
    choice = useful_columns(basis, wishes, other)
    if not quiet:
        story(
            f"Useful columns: {listed(choice.useful)} (every categorical column that fits into {choice.limit:,} cells; "
            "choose others with --useful, or take all with --columns bundle).", err=True,
        )
    taken = {*wishes.secret, *choice.useful}
    rare = {k: v for k, v in wishes.rare.items() if k in taken} if isinstance(wishes.rare, dict) else wishes.rare
    bins = {k: v for k, v in (wishes.bins or {}).items() if k in taken or k not in other}
    unseen = wishes.unseen
    if isinstance(unseen, dict):
        unseen = {k: v for k, v in unseen.items() if k in taken or k not in other} or None
    labels = {k: v for k, v in (wishes.labels or {}).items() if k in taken or k not in other} or None
    return replace(wishes, useful=choice.useful, bins=bins or None, rare=rare, unseen=unseen, labels=labels)


def _fitting(
    path: Where, source: Source, wanted: Any, secret: tuple[str, ...], useful: tuple[str, ...]
) -> tuple[Plan, Any]:
    """The given mechanism, if the table has its columns."""
    from sfumato.cli.plan import given

    plan = given(path)
    m = plan.mechanism
    for option, names, own in (("--secret", secret, m.secret.names), ("--useful", useful, m.useful.names)):
        needed = names or (own if option == "--useful" or m.reads == "both" else ())
        for name in needed:
            if name not in source.columns:
                shown = ", ".join(source.columns[:20]) + (", …" if len(source.columns) > 20 else "")
                raise InputError(
                    f"{path.name} is a mechanism for the columns {listed([*m.secret.names, *m.useful.names])}, but "
                    f"{name!r} is not a column of {source.name} (columns: {shown})."
                    f"{did_you_mean(name, source.columns)} If the table calls it otherwise, say so with {option}."
                )
    return plan, replace(wanted, secret=secret or None, useful=useful or None)
