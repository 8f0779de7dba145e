"""sfumato release: from a private table to files that may be given away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.console import document, listed, pairs, story
from sfumato.cli.options import (
    Names,
    Wishes,
    bins_of,
    counting,
    designing,
    force_option,
    joined,
    json_option,
    rare_of,
    table_argument,
)
from sfumato.errors import InputError, checked_epsilon, did_you_mean

if TYPE_CHECKING:
    from sfumato.cli.plan import Plan
    from sfumato.sources import Source

DESIGN_OPTIONS = (
    "epsilon", "method", "confidence", "notion", "reads", "time_limit",
    "distance", "values", "outputs", "bins", "rare", "missing", "design_from",
    "split",
)


@click.command()
@table_argument
@click.option("--secret", type=Names(), multiple=True, help="The column(s) to protect.")
@click.option("--epsilon", type=float, help="The privacy level in nats, zero or more; smaller protects more.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE",
              help="The released table: .csv, .tsv, .csv.gz or .parquet.")
@click.option("--useful", type=Names(), multiple=True,
              help="The columns to keep informative. Without it: every other categorical column that fits.")
@click.option("--keep", type=Names(), multiple=True, help="Columns to pass through untouched; they are not protected.")
@designing
@counting
@click.option("--design-from", type=click.Path(path_type=Path), metavar="FILE",
              help="Design from this reference table, so that no private row enters the mechanism file.")
@click.option("--split", type=float, metavar="FRACTION",
              help="Design on a random part of the rows, which is then not released.")
@click.option("--mechanism", type=click.Path(path_type=Path), metavar="FILE",
              help="Use this mechanism file instead of designing one.")
@click.option("--decode", type=click.Choice(["symbols", "likely", "sample"]), default="symbols", show_default=True,
              help="Write outputs as they are, as the likeliest original values, or as draws from the posterior "
              "(these follow the design distribution, and echo it where the rows do not).")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE",
              help="Where the public report goes.  [default: beside the table]")
@click.option("--private-report", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write a report that compares with the true table. Not for publication.")
@click.option("--seed", type=int, help="For tests only: the manifest will say 'not for release'.")
@force_option
@json_option
@click.pass_context
def release(
    ctx: click.Context, /, table: Path, out: Path, secret: Any, useful: Any, keep: Any, design_from: Path | None,
    split: float | None, mechanism: Path | None, decode: str, report: Path | None, private_report: Path | None,
    seed: int | None, force: bool, as_json: bool, **design: Any,
) -> None:
    """Release TABLE with the secret protected: count, design, certify, randomise, estimate, report.

    Writes the released table and, beside it, NAME.mechanism.json (the randomisation, its claim and the data it was
    designed from: anyone can verify it), NAME.manifest.json and NAME.report.html. All files appear, or none.
    Columns that are neither secret, useful nor kept are left out.

    \b
    Examples:
      sfumato release people.csv --secret diagnosis --epsilon 1 --out released.csv
      sfumato release people.parquet --secret diagnosis,income --useful age,sex \\
          --bins 'age=30;65' --epsilon 0.5 --split 0.1 --out released.parquet
      sfumato release new.csv --mechanism released.mechanism.json --out new2.csv
    """
    from sfumato.alphabet import find_column
    from sfumato.cli.files import Files
    from sfumato.cli.plan import design_notice
    from sfumato.cli.road import Wanted, counting_within, released
    from sfumato.releasing.writing import writer_for
    from sfumato.sources import open_source

    wishes = _wishes(ctx, joined(secret), joined(useful), mechanism, design)
    if design_from is not None and split is not None:
        raise click.UsageError("--design-from and --split exclude each other: the reference is the design data.")
    writer_for(out)
    source = open_source(table)
    files = Files.beside(out, mechanism=mechanism is None, report=report, private_report=private_report)
    files.check([p for p in (table, design_from, mechanism) if p is not None and p.exists()], force=force)
    for name in joined(keep):
        find_column(name, source.columns, source.name)
    wanted = Wanted(decode, joined(keep), seed=seed, force=force)
    with counting_within(split is not None):
        if wishes is None:
            assert mechanism is not None
            plan, wanted = _fitting(mechanism, source, wanted, joined(secret), joined(useful))
        else:
            plan, source = _designed(source, wishes, wanted.keep, design_from, split, seed, quiet=as_json)
            design_notice(plan.mechanism, str(files.mechanism), table.name)
        done = released(source, plan, files, wanted)
    if as_json:
        document(done.document)
    else:
        pairs(done.lines)


def _wishes(
    ctx: click.Context, secret: tuple[str, ...], useful: tuple[str, ...], mechanism: Path | None, design: dict[str, Any]
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
    checked_epsilon(design["epsilon"])
    return Wishes(secret, useful, **{**design, "bins": bins_of(design["bins"]), "rare": rare_of(design["rare"])})


def _designed(
    source: Source, wishes: Wishes, keep: Sequence[str], design_from: Path | None, split: float | None,
    seed: int | None, *, quiet: bool,
) -> tuple[Plan, Source]:
    """The plan, and the rows that are left to release."""
    from sfumato.cli.parts import split as parted
    from sfumato.cli.plan import planned, tabulated
    from sfumato.sources import open_source

    basis, rest, origin = source, source, "private"
    if design_from is not None:
        basis, origin = open_source(design_from), "reference"
    elif split is not None:
        (basis, rest), origin = parted(source, split, seed), "split"
    wishes = with_useful(basis, wishes, keep, source.columns, quiet=quiet)
    return planned(tabulated(basis, wishes), wishes, origin), rest


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
            "choose others with --useful).", err=True,
        )
    taken = {*wishes.secret, *choice.useful}
    rare = {k: v for k, v in wishes.rare.items() if k in taken} if isinstance(wishes.rare, dict) else wishes.rare
    bins = {k: v for k, v in (wishes.bins or {}).items() if k in taken or k not in other}
    return replace(wishes, useful=choice.useful, bins=bins or None, rare=rare)


def _fitting(
    path: Path, source: Source, wanted: Any, secret: tuple[str, ...], useful: tuple[str, ...]
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
