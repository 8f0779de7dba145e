"""sfumato ledger and compose: what has been released about whom, and what several releases tell together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import columns, document, pairs, progress, story
from sfumato.cli.options import force_option, json_option
from sfumato.decimals import at_most

if TYPE_CHECKING:
    from sfumato.composing.composition import Level
    from sfumato.frames import Record
    from sfumato.ledgers.entries import Entry

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
    from sfumato.ledgers import Ledger

    entries = Ledger(path, create=False).entries(people)
    if as_json:
        document({"ledger": path, "releases": [_document(e) for e in entries]})
        return
    if not entries:
        story("No release has been entered.")
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
    from sfumato.ledgers import Ledger
    from sfumato.ledgers.booking import evidence

    book = Ledger(path, create=False)
    entry = book.entry(number)
    if as_json:
        document(_document(entry))
        return
    delta = book.delta(entry.people)
    marks = "none: the rows could be read only once" if entry.fingerprints is None else (
        ", ".join(f"{name} {mark[:12]}…" for name, mark in entry.fingerprints.items())
    )
    rest = f"; it repeats the answers of release {entry.repeats}" if entry.repeats else ""
    pairs([
        ("people", entry.people), ("state", entry.state + rest), ("reserved", entry.reserved_at),
        *([("settled", entry.settled_at)] if entry.settled_at else [("on the disk", evidence(entry).value)]),
        ("promised", entry.claim or "nothing"), ("alone", _number(entry.level)),
        ("together", f"{_number(entry.composed)} ({entry.notion.upper()})"),
        *([("chance of a label that tells", f"at most δ = {at_most(delta)}")] if delta else []),
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
    from sfumato.ledgers import Ledger

    entry = Ledger(path, create=False).settle(number, delivered)
    if as_json:
        document(_document(entry))
    else:
        story(f"Release {entry.id} about {entry.people!r} is {entry.state} ({entry.note}).")


def _document(entry: Entry) -> Record:
    return {name: getattr(entry, name) for name in type(entry).__slots__}


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
    from sfumato.composing import compose as composed
    from sfumato.mechanism import load

    loaded = [load(file) for file in files] * times
    with progress(f"composing {len(loaded)} releases"):
        whole = composed(*loaded)
    if out is not None:
        whole.mechanism.save(out, force=force)
    if as_json:
        document({
            "releases": len(loaded), "exact": whole.exact, "outputs": whole.mechanism.outputs if whole.exact else None,
            "levels": [_row(x) for x in whole.levels], "file": out, "sentence": whole.sentence,
        })
        return
    names = ("about the releases", "together", "sum", "the sum is")
    columns(names, [
        (x.title, at_most(x.level), at_most(x.sum), "a bound" if x.adds else "no bound") for x in whole.levels
    ])
    how = "exact" if whole.exact else "bounds, for the joint outputs are too many to list"
    story(f"{len(loaded)} releases of the same rows; the levels are {how}.")
    story(f"{whole.sentence[0].upper()}{whole.sentence[1:]}")
    if out is not None:
        story(f"saved: {out}")


def _row(x: Level) -> Record:
    within = x.claim.within
    return {
        "notion": x.claim.notion, "within": None if within is None else within.kind, "alpha": x.claim.alpha,
        "beta": x.claim.beta, "level": x.level, "sum": x.sum, "each": x.each, "sum_is_a_bound": x.adds,
    }
