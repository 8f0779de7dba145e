"""sfumato design and plan: a mechanism file without a release, and what a release will be worth before it is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.console import Answer, Screen, columns, document, notice, show_answer, story
from sfumato.cli.option_texts import Location, Many, Names, joined
from sfumato.cli.options import (
    Grouped,
    bundling,
    counting,
    designing,
    force_option,
    format_option,
    json_option,
    read_as,
    reading,
    table_argument,
    table_source,
    wishes_of,
)
from sfumato.errors import InputError, spelled

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.sources import Where


@click.command(cls=Grouped)
@table_argument
@click.option("--secret", type=Names(), multiple=True, required=True, help="The column(s) to protect.")
@click.option("--useful", type=Names(), multiple=True,
              help="The columns to keep informative. Without it: as many as are worth something, the smallest first.")
@click.option("--epsilon", type=float, required=True, help="The privacy level in nats; smaller protects more.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The mechanism file.")
@click.option("--budget", type=float, metavar="EPSILON", help="With --releases: what they shall stay within together.")
@click.option("--source", "origin", type=click.Choice(["private", "reference"]), default="private", show_default=True,
              help="What TABLE is: exact counts of a reference will be in the mechanism file.")
@designing
@counting
@reading
@format_option
@bundling
@force_option
@json_option
def design(
    table: Where, secret: Many, useful: Many, out: Path, budget: float | None, origin: str, form: str | None,
    force: bool, as_json: bool, **wishes: Any,
) -> None:
    """Design a mechanism from TABLE, certify it and save it.

    \b
    Examples:
      sfumato design census.csv --source reference --secret income --useful age,sex \\
          --epsilon 1 --out m.json
      sfumato design cells.csv --counts people --secret sex --useful race --epsilon 0.5 --out m.json
    """
    from sfumato.atomic import check_target
    from sfumato.cli.wording import mechanism_document, promise
    from sfumato.releasing.planning import planned

    read = read_as(wishes)
    wished = wishes_of(joined(secret), joined(useful), {**wishes, "planned": budget}, private=origin == "private")
    check_target(out, table if isinstance(table, Path) else None, force=force)
    plan = planned(table_source(table, form, **read), wished, origin=origin, listener=Screen(quiet=as_json))
    for told in plan.notices(str(out)):
        notice(told)
    made, proof = plan.mechanism, plan.certificate
    notes = [spelled(note, shell=True) for note in plan.notes]
    if as_json:
        answer: Answer = {**mechanism_document(made, proof), "files": {"mechanism": out}, "notes": notes}
    else:
        answer = [*promise(made, proof), *(("note", note) for note in notes), ("mechanism", str(out))]
    plan.keep()
    made.save(out, force=force)
    show_answer(answer)


@click.command(cls=Grouped)
@table_argument
@click.option("--secret", type=Names(), multiple=True, required=True, help="The column(s) to protect.")
@click.option("--useful", type=Names(), multiple=True,
              help="The columns to keep informative. Without it: as many as are worth something, the smallest first.")
@click.option("--epsilon", type=float, required=True, help="The privacy level in nats; smaller protects more.")
@click.option("--design-from", type=Location(), metavar="FILE", help="Design from this reference table.")
@designing
@counting
@reading
@bundling
@format_option
@json_option
def plan(
    table: Where, secret: Many, useful: Many, design_from: Where | None, form: str | None, as_json: bool, **wishes: Any
) -> None:
    """Say what estimates from a release of TABLE will be worth: errors, rows, and what would help. Noisy counts, where
    they are drawn for it, are kept beside TABLE for the release.

    \b
    Example:
      sfumato plan people.csv --secret diagnosis --epsilon 1
    """
    from sfumato.releasing.planning import planned

    read = read_as(wishes)
    wished = wishes_of(joined(secret), joined(useful), wishes, private=design_from is None)
    made = planned(
        table_source(table, form, **read), wished, reference=design_from, listener=Screen(quiet=as_json)
    )
    told = made.foreseen()
    if told is None:
        raise InputError("what the release will be worth is not known before its rows are counted.")
    made.keep()
    if as_json:
        helps: list[Record] = [{"what": h.what, "times": h.times} for h in told.ways]
        parts: list[Record] = [
            {"table": p.name, "values": p.values, "points": p.points, "rows": p.rows} for p in told.parts
        ]
        notes = [spelled(note, shell=True) for note in made.notes]
        document({"rows": told.n, "share": told.share, "parts": parts, "helps": helps, "notes": notes})
        return
    story(f"What whoever estimates from {told.n:,} released rows will know, by {made.mechanism.method}:\n")
    rows = [[p.name, str(p.values), p.error, f"{p.rows:,.0f}"] for p in told.parts]
    columns(["", "values", "a share, 19 times in 20", "worth unprotected rows"], rows, numbers=3)
    story(f"\nFor a column, on average, it is worth {told.share:.1%} of its rows" + (
        ": less than 1 %, so that a release needs --anyway." if told.little else "."))
    if told.ways:
        story("What would make the ± smaller:")
    for one in told.ways:
        story(f"  {one.what}: {one.times:.2g} times as large")
