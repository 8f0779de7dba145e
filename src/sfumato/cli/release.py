"""sfumato release: from a private table to files that may be given away."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato import drawing, ledgers, releasing, reporting, sources
from sfumato.cli import GROUPS, Grouped
from sfumato.cli.console import Screen, show_answer, story
from sfumato.cli.options import (
    Location,
    Many,
    Names,
    force_option,
    is_pipe,
    joined,
    json_option,
    read_as,
    table_argument,
    table_source,
    useful_option,
    wishes_of,
    wishing,
)
from sfumato.errors import listed, spelled

if TYPE_CHECKING:
    from sfumato.cli.options import Options
    from sfumato.frames import Datum, Record
    from sfumato.releasing import Drawing, Release, Wishes
    from sfumato.releasing.flow import DrawOptions
    from sfumato.sources import Where

NOT_ATOMIC = (
    "Rows go to standard output as they are drawn. A pipe cannot be all or nothing: if this ends with an error, "
    "discard what was written."
)
DESIGN_OPTIONS = (
    *GROUPS["The promise"], *GROUPS["What the mechanism is designed from"], *GROUPS["How it is designed"],
    "bins", "numbers", "labels", "rare", "missing", "unseen", "tables",
)
UNTOLD = {"seed", "people", "ledger", "memoise", "person", "private_report", "force", "as_json", "publisher",
          "counts_in"}


@click.command(cls=Grouped)
@table_argument
@click.option("--secret", type=Names(), multiple=True, help="The column(s) to protect.")
@click.option("--epsilon", type=float, help="The privacy level in nats, zero or more; smaller protects more.")
@click.option("--out", required=True, type=Location(), metavar="FILE",
              help="The released table: .csv, .tsv (also packed: .csv.gz, .csv.zst, .csv.bz2), .parquet, or a name "
              "without suffix for a folder of Parquet files; here or at an address (s3://…); '-' for a pipe.")
@useful_option
@click.option("--keep", type=Names(), multiple=True, help="Columns to pass through untouched; they are not protected.")
@click.option("--partition", type=Names(), multiple=True,
              help="Write a folder of Parquet files, divided by these columns of the released table.")
@wishing
@click.option("--design-from", type=Location(), metavar="FILE",
              help="Design from this reference table, so that no private row enters the mechanism file.")
@click.option("--split", type=float, metavar="FRACTION",
              help="Design on a random part of the rows, which is then not released.")
@click.option("--mechanism", type=Location(), metavar="FILE",
              help="Use this mechanism file instead of designing one.")
@click.option("--decode", type=click.Choice(["guess", "symbols", "likely", "sample"]), default="guess",
              show_default=True, help="Write outputs with the likeliest value of every useful column beside them, as "
              "they are, as the likeliest original values, or as draws from the posterior (these follow the design "
              "distribution, and echo it where the rows do not).")
@click.option("--anyway", is_flag=True, help="Release also what is worth less than 1 % of its rows to whoever "
              "estimates from it.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE",
              help="Where the public report goes.  [default: beside the table]")
@click.option("--private-report", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write a report that compares with the true table. Not for publication.")
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
@click.option("--publisher", metavar="NAME", help="Who answers for the release; the report and the manifest say it.")
@click.option("--seed", type=int, help="For tests only: the manifest will say 'not for release'.")
@force_option
@json_option
@click.pass_context
def release(
    ctx: click.Context, /, table: Where, out: Where, secret: Many, useful: Many, keep: Many, partition: Many,
    design_from: Where | None, split: float | None, mechanism: Where | None, decode: str, report: Path | None,
    private_report: Path | None, form: str | None, people: str | None, budget: float | None, ledger: Path | None,
    same_values: bool, memoise: str | None, person: str | None, raw_cells: bool, publisher: str | None,
    seed: int | None, force: bool, as_json: bool, anyway: bool, **design: object,
) -> None:
    """Release TABLE with the secret protected: count, design, certify, randomise, estimate, report.

    Writes the released table and, beside it, NAME.mechanism.json (the randomisation, its claim and the data it was
    designed from: anyone can verify it), NAME.tables.csv (estimates with intervals, for a spreadsheet),
    NAME.manifest.json and NAME.report.html. All files appear, or none. First it says what estimates will be worth.
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
    read = read_as(design)
    if design_from is not None and split is not None:
        raise click.UsageError("--design-from and --split exclude each other: the reference is the design data.")
    private = design_from is None and split is None
    using = _using(ctx, joined(secret), joined(useful), mechanism, {**design, "planned": budget}, private)
    _check_pipes(ctx, is_pipe(table), is_pipe(out))
    source, screen = table_source(table, form, **read), Screen(quiet=as_json)
    renamed = (None, None) if mechanism is None else (joined(secret) or None, joined(useful) or None)
    options = releasing.DrawOptions(decode, joined(keep), *renamed, seed, drawing.Imprint(publisher, command_line(ctx)))
    if is_pipe(out):
        return _stream(releasing.Order(source, None, using, options).checked(screen), options, form, raw_cells)
    files = releasing.Files.beside(
        out, mechanism=mechanism is None, report=True if report is None else report, private_report=private_report,
        partition=joined(partition), raw_cells=raw_cells, tables=True,
        inputs=[p for p in (table, design_from, mechanism) if p is not None and p.exists()], force=force,
    )
    asked = releasing.Account(None, people, budget, same_values, memoise, person)
    account = ledgers.account_of(asked, ledger, table, planned=design["releases"] is not None)
    order = releasing.Order(source, files, using, options, account, design_from, split, anyway, force=force)
    with order.released(screen) as done:
        told = release_document(done) if as_json else release_lines(done)
    show_answer(told)
    return None


LISTED_FILES = ("table", "tables", "mechanism", "manifest", "report", "private_report")  # in order


def release_lines(done: Release) -> list[tuple[str, str]]:
    """A release for people."""
    manifest = done.manifest
    assert done.mechanism is not None and done.certificate is not None  # no command releases without a claim
    kept = [c.name for c in manifest.columns if c.role == "kept"]
    lines = [
        *reporting.lines_of(done.mechanism, done.certificate),
        ("released", f"{done.rows:,} rows with {listed([c.name for c in manifest.columns])}"),
    ]
    if kept:
        lines.append(("not protected", f"{listed(kept)}: passed through untouched, as asked"))
    if done.left_out:
        lines.append(("left out", listed(done.left_out)))
    if manifest.randomness != "system":
        lines.append(("seeded", "not for release: whoever knows the seed can undo the randomness"))
    lines += [("note", note) for note in done.notes]
    if done.account is not None:
        lines.append(("ledger", ledgers.account_text(done.account)))
    return [*lines, *((name.replace("_", " "), str(done.files[name])) for name in LISTED_FILES if name in done.files)]


def release_document(done: Release) -> Record:
    """A release for programs."""
    manifest = done.manifest
    assert done.mechanism is not None and done.certificate is not None  # no command releases without a claim
    return {
        **reporting.document_of(done.mechanism, done.certificate), "rows": done.rows,
        "columns": [{"name": c.name, "role": c.role} for c in manifest.columns], "left_out": list(done.left_out),
        "decode": manifest.decode, "randomness": manifest.randomness, "files": dict(done.files),
        "notes": [spelled(note, shell=True) for note in done.notes],
        **({} if done.account is None else {"ledger": dict(done.account)}),
    }


def _given(ctx: click.Context) -> dict[str, str]:
    """What was said on the command line, by its name, and how it is spelled."""
    said = click.core.ParameterSource.COMMANDLINE
    return {str(p.name): max(p.opts, key=len) for p in ctx.command.params
            if ctx.get_parameter_source(str(p.name)) == said}


def command_line(ctx: click.Context) -> str:
    """The command as a reader may see it: names of files without folders, nothing that is for its publisher alone."""
    words, given = ["sfumato", ctx.info_name or "release"], _given(ctx)
    for parameter in ctx.command.params:
        name, value = str(parameter.name), ctx.params.get(str(parameter.name))
        if name not in given or name in UNTOLD:
            continue
        option = [given[name]] if isinstance(parameter, click.Option) else []
        if isinstance(parameter, click.Option) and parameter.is_flag:
            words += option
            continue
        several = isinstance(parameter, click.Option) and parameter.multiple
        words += [word for x in (value or () if several else [value]) for word in (*option, _told(x))]
    return shlex.join(words)


def _told(value: Datum) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(_told(x) for x in value)
    if isinstance(value, (Path, sources.Place)):
        return value.name
    return f"{value:g}" if isinstance(value, float) else str(value)


def _stream(checked: Drawing, options: DrawOptions, form: str | None, raw_cells: bool) -> None:
    """Release into standard output; what is said about it goes to stderr."""
    story(NOT_ATOMIC, err=True)
    rows = checked.streamed(sys.stdout.buffer, form or "csv", raw_cells=raw_cells)
    names, claim = listed([c.name for c in checked.flow.columns]), checked.flow.mechanism.claim
    promised = "no privacy is claimed" if claim is None else claim.sentence
    story(f"Released {rows:,} rows with {names}: {promised}.", err=True)
    if options.decode not in ("symbols", "guess"):
        story(f"There is no manifest: whoever estimates from them must say --decode {options.decode}.", err=True)
    if options.seed is not None:
        story("Seeded: not for release, whoever knows the seed can undo the randomness.", err=True)


def _check_pipes(ctx: click.Context, comes: bool, goes: bool) -> None:
    """What standard input and output cannot do."""
    given = _given(ctx)
    if "form" in given and not (comes or goes):
        raise click.UsageError("--format is for standard input and output (-); files say theirs by their suffix.")
    if comes and ("private_report" in given or not given.keys() & {"mechanism", "design_from"}):
        raise click.UsageError(
            "standard input (-) can be read only once: give a --mechanism or --design-from, and no --private-report."
        )
    if goes and "mechanism" not in given:
        raise click.UsageError(
            "a pipe has no place for the files of a design: make them with sfumato design, and give --mechanism FILE."
        )
    files = {"report", "private_report", "partition", "as_json", "force", *GROUPS["Releasing more than once"]}
    if goes and (beside := sorted(given.keys() & files)):
        names = listed([given[name] for name in beside])
        raise click.UsageError(f"with --out - nothing but rows is written; leave out {names}.")


def _using(
    ctx: click.Context, secret: tuple[str, ...], useful: tuple[str, ...], mechanism: Where | None,
    design: Options, private: bool,
) -> Wishes | Where:
    """What to design, or the mechanism that is given."""
    if mechanism is not None:
        given = _given(ctx)
        if odd := [given[name] for name in DESIGN_OPTIONS if name in given]:
            raise click.UsageError(f"--mechanism is a finished design; leave out {listed(odd)}.")
        return mechanism
    if not secret:
        raise click.UsageError("say which column is secret (--secret COL), or give a --mechanism.")
    if design["epsilon"] is None:
        raise click.UsageError("say how strong the promise is (--epsilon 1), or give a --mechanism.")
    return wishes_of(secret, useful, design, private=private)
