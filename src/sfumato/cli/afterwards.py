"""sfumato report, synthesise, compose and ledger: what is made of releases afterwards."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import certification, drawing, estimation, ledgers, releasing, reporting
from sfumato.atomic import check_target
from sfumato.cli.console import columns, document, pairs, progress, show_answer, story
from sfumato.cli.estimate import checked_confidence
from sfumato.cli.options import Location, decode_option, force_option, json_option, mechanism_option, table_source
from sfumato.decimals import LEVEL, at_most, capitalised, level, with_unit

if TYPE_CHECKING:
    from sfumato.composing.composition import Level
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.sources import Where


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--released", type=click.Path(path_type=Path), metavar="TABLE",
              help="The released table; its manifest is read if it lies beside it.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="PAGE.html", help="Where the page goes.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the intervals of a variable.")
@click.option("--title", help="The heading of the page.")
@force_option
@json_option
def report(
    file: Path, released: Path | None, out: Path, confidence: float, title: str | None, force: bool, as_json: bool
) -> None:
    """Write the public report of a mechanism FILE and, with --released, of what was released with it.

    It needs nothing else, so the page of a release can be made again by anyone and compared byte by byte. The proof
    is worked out anew; the page says so if it fails, and the command then ends with 5.

    \b
    Examples:
      sfumato report released.mechanism.json --released released.csv --out page.html
      sfumato report m.json --out m.html
    """
    checked_confidence(confidence)
    mechanism = sf.load(file)
    for given in (file, released):
        check_target(out, given, force=force)
    with progress("certifying the mechanism"):
        proof, wrong = (None, None) if mechanism.claim is None else certification.judged(mechanism, file)
    with progress("estimating") if released is not None else contextlib.nullcontext():
        found, manifest = (None, None) if released is None else estimation.read_release(released, mechanism)
    with progress("writing the report"):
        reporting.write_reports(
            out, mechanism, proof, found, manifest=manifest, title=title, level=confidence, file=file.name, force=force
        )
    holds = proof is not None and wrong is None
    show_answer({
        "file": file, "released": released, "rows": None if found is None else found.n,
        "level": None if proof is None else proof.level, "holds": holds, "files": {"report": out},
    } if as_json else [
        ("report", str(out)), ("made from", f"{file}{'' if released is None else f' and {released}'}"),
        *([("proved", level(proof.level, LEVEL))] if proof is not None and holds else []),
    ])
    if wrong is not None:
        raise wrong


@click.command()
@click.argument("released", type=Location())
@click.option("--rows", type=click.IntRange(1), required=True, help="Records to draw.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE",
              help="Where they go: .csv, .tsv or .parquet. NAME.manifest.json beside it says that they are synthetic.")
@mechanism_option
@decode_option
@click.option("--seed", type=int, help="Draw the same records again.")
@force_option
def synthesise(
    released: Where, rows: int, out: Path, mechanism: Where | None, decode: str | None, seed: int | None, force: bool
) -> None:
    """Draw records of the original columns from the distribution estimated from a RELEASED table.

    Of a bundle they follow a model of all columns that has the estimated tables of two columns which tell most. Nobody
    is among them: each is drawn from the estimate, whose errors are in all of them. They are for trying out
    programmes; intervals come from sfumato estimate.

    \b
    Example:
      sfumato synthesise released.csv --rows 10000 --out synthetic.csv
    """
    law = drawing.mechanism_of(released, mechanism)
    files = releasing.Files.beside(out, mechanism=False, report=False, inputs=[released, mechanism], force=force)
    with progress(f"estimating from {released.name}"):
        found = sf.estimate(table_source(released), law, decode=decode)
    table = releasing.synthesised(found, law, rows, files, seed=seed, force=force)
    story(f"{rows:,} synthetic records with {', '.join(table.column_names)}: {out}. {estimation.NOTE}")


ledger_option = click.option(
    "--ledger", "path", type=click.Path(path_type=Path), default="sfumato.ledger", show_default=True, metavar="FILE",
    help="The ledger.",
)


@click.group()
def ledger() -> None:
    """Show and settle what has been released about whom. `sfumato release --people NAME` makes entries.

    \b
    Examples:
      sfumato ledger list --people 'cohort 7'
      sfumato ledger show 3
      sfumato ledger settle 3
    """


@ledger.command("list")
@ledger_option
@click.option("--people", metavar="NAME", help="Only releases about these.")
@json_option
def list_(path: Path, people: str | None, as_json: bool) -> None:
    """Every release: about whom, its level, and the level of all together when it was reserved."""
    entries = sf.Ledger(path, create=False).entries(people)
    if as_json:
        document({"ledger": path, "releases": [asdict(e) for e in entries]})
        return
    if not entries:
        story("No release has been entered." if people is None else f"No release about {people!r} has been entered.")
        return
    columns(
        ("nr", "people", "reserved", "state", "output", "alone", "together", "budget"),
        [(str(e.id), e.people, e.reserved_at[:16].replace("T", " "), e.state + (" (repeats)" if e.repeats else ""),
          "" if e.target is None else Path(e.target).name, _number(e.level), _number(e.composed), _number(e.budget))
         for e in entries],
        numbers=3,
    )
    still = [str(e.id) for e in entries if e.state == "reserved"]
    if still:
        story(f"Reserved, counted and not settled: {', '.join(still)}. Unless under way: sfumato ledger settle NR.")


@ledger.command()
@ledger_option
@click.argument("number", type=int, metavar="NR")
@json_option
def show(path: Path, number: int, as_json: bool) -> None:
    """One release, with everything the ledger knows of it."""
    book = sf.Ledger(path, create=False)
    entry = book.entry(number)
    if as_json:
        document(asdict(entry))
        return
    own, delta = certification.drawn_for([book.mechanism(entry.mechanism)])[1], book.delta(entry.people)
    marks = "none: the rows could be read only once" if entry.fingerprints is None else (
        ", ".join(f"{name} {mark[:12]}…" for name, mark in entry.fingerprints.items())
    )
    rest = f"; it repeats the answers of release {entry.repeats}" if entry.repeats else ""
    pairs([
        ("people", entry.people), ("state", entry.state + rest), ("reserved", entry.reserved_at),
        *([("settled", entry.settled_at)] if entry.settled_at else [("on the disk", ledgers.evidence(entry).value)]),
        ("promised", entry.claim or "nothing"), ("alone", _number(entry.level)),
        ("together", f"{_number(entry.composed)} ({entry.notion.upper()})"),
        *([("chance of a label that tells", f"at most δ = {at_most(own)} by this release, and {at_most(delta)} by all "
            "about these people that count")] if own or delta else []),
        ("budget", _number(entry.budget)), ("mechanism", entry.mechanism),
        ("output", entry.target or "given to a program"),
        ("fingerprints", marks), ("people by", entry.person or "no column: fingerprints are no evidence of values"),
        ("in the manifest", entry.token),
        *([("note", entry.note)] if entry.note else []),
    ])


@ledger.command()
@ledger_option
@click.argument("number", type=int, metavar="NR")
@click.option("--delivered/--void", default=None, help="Say it yourself where the disk cannot tell.")
@json_option
def settle(path: Path, number: int, delivered: bool | None, as_json: bool) -> None:
    """Say what became of a reservation whose process was killed; from what lies on the disk, if that tells."""
    entry = sf.Ledger(path, create=False).settle(number, delivered)
    if as_json:
        document(asdict(entry))
    else:
        story(f"Release {entry.id} about {entry.people!r} is {entry.state} ({entry.note}).")


def _number(x: float | None) -> str:
    return "" if x is None else at_most(x)


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE…")
@click.option("--times", type=click.IntRange(1), default=1, show_default=True,
              help="How often all of these are released.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Save the joint mechanism, with its levels as claims: verify proves them again.")
@force_option
@json_option
def compose(files: tuple[Path, ...], times: int, out: Path | None, force: bool, as_json: bool) -> None:
    """Prove what the releases of several mechanism FILEs tell together, when the same rows go through all of them.

    Noise is independent, inputs are shared. Levels are exact while the joint outputs can be listed, and bounds beyond.
    The sum of the single levels stands beside them: under RLDP over a set and LIP it is no bound.

    \b
    Examples:
      sfumato compose january.mechanism.json june.mechanism.json
      sfumato compose weekly.mechanism.json --times 52 --out year.json
    """
    loaded = [sf.load(file) for file in files] * times
    with progress(f"composing {len(loaded)} releases"):
        whole = sf.compose(*loaded)
    if out is not None:
        whole.mechanism.save(out, force=force)
    if as_json:
        document({
            "releases": len(loaded), "exact": whole.exact, "outputs": whole.mechanism.outputs if whole.exact else None,
            "levels": [_row(x) for x in whole.levels], "file": out, "sentence": whole.sentence,
        })
        return
    _show_composed(whole, loaded)
    if out is not None:
        story(f"saved: {out}")


def _show_composed(whole: sf.Composition, loaded: list[Mechanism | Bundle]) -> None:
    columns(("about the releases", "together", "sum", "the sum is"), [
        (x.title, at_most(x.level), at_most(x.sum), "a bound" if x.adds else "no bound") for x in whole.levels
    ])
    story(f"{with_unit(str(len(loaded)), 'release')} of the same rows; the levels are {_basis(whole)}.")
    story(capitalised(whole.sentence))
    if len({made.secret.names for made in loaded}) < len({made.secret for made in loaded}):
        names = ", ".join(loaded[0].secret.names)
        story(f"Labels of {names} differ between the releases, so that levels only add up. Releases that list the same "
              "ones (sfumato release --labels) are proved together.")


def _basis(whole: sf.Composition) -> str:
    """Whether the levels of a composition are known exactly."""
    if not whole.exact:
        return "bounds: joint outputs are too many to list, or labels differ"
    return "exact" if all(x.exact for x in whole.levels) else (
        "exact, but for the first, which adds levels and is a bound")


def _row(x: Level) -> Record:
    within = x.claim.within
    return {
        "notion": x.claim.notion, "within": None if within is None else within.kind, "alpha": x.claim.alpha,
        "beta": x.claim.beta, "level": x.level, "sum": x.sum, "each": x.each, "sum_is_a_bound": x.adds,
    }
