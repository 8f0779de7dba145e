"""sfumato design: a mechanism file without a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.console import Answer, Screen, notice, show_answer
from sfumato.cli.help_groups import Grouped
from sfumato.cli.options import (
    Many,
    Names,
    bundling,
    counting,
    designing,
    force_option,
    format_option,
    joined,
    json_option,
    read_as,
    reading,
    table_argument,
    table_source,
    wishes_of,
)
from sfumato.errors import spelled

if TYPE_CHECKING:
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
