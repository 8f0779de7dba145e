"""sfumato design: a mechanism file without a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.console import document, pairs
from sfumato.cli.options import (
    Names,
    bundling,
    counting,
    designing,
    force_option,
    format_option,
    joined,
    json_option,
    table_argument,
)
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.sources import Where


@click.command()
@table_argument
@click.option("--secret", type=Names(), multiple=True, required=True, help="The column(s) to protect.")
@click.option("--useful", type=Names(), multiple=True,
              help="The columns to keep informative. Without it: every other categorical column that fits.")
@click.option("--epsilon", type=float, required=True, help="The privacy level in nats; smaller protects more.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The mechanism file.")
@click.option("--counts", metavar="COL", help="TABLE is a table of counts: this column says how many people a row is.")
@click.option("--source", "origin", type=click.Choice(["private", "reference"]), default="private", show_default=True,
              help="What TABLE is: its counts will be in the mechanism file.")
@designing
@counting
@format_option
@bundling
@force_option
@json_option
def design(
    table: Where, secret: Any, useful: Any, out: Path, counts: str | None, origin: str, form: str | None, force: bool,
    as_json: bool, **wishes: Any,
) -> None:
    """Design a mechanism from TABLE, certify it and save it.

    \b
    Examples:
      sfumato design census.csv --source reference --secret income --useful age,sex \\
          --epsilon 1 --out m.json
      sfumato design cells.csv --counts people --secret sex --useful race --epsilon 0.5 --out m.json
    """
    from sfumato.atomic import check_target, drafts
    from sfumato.cli.files import fill, publish
    from sfumato.cli.plan import design_notice, planned
    from sfumato.cli.release import wishes_of
    from sfumato.cli.road import encoded
    from sfumato.cli.telling import plan_document, promise

    wished = wishes_of(joined(secret), joined(useful), wishes)
    check_target(out, table if isinstance(table, Path) else None, force=force)
    plan = _planned_bundle(table, wished, counts, form, origin, quiet=as_json)
    if plan is None:
        joint, wished = joint_of(table, wished, counts, form, quiet=as_json)
        plan = planned(joint, wished, origin)
    design_notice(plan.mechanism, str(out), table.name)
    told = {**plan_document(plan), "files": {"mechanism": out}, "notes": list(plan.notes)}
    lines = [*promise(plan), *(("note", note) for note in plan.notes), ("mechanism", str(out))]
    with drafts(out) as (draft,):
        fill(draft, encoded(plan.mechanism))
        publish({"mechanism": draft}, replace=force)
    if as_json:
        document(told)
    else:
        pairs(lines)


def _planned_bundle(
    table: Where, wished: Any, counts: str | None, form: str | None, origin: str, *, quiet: bool
) -> Any:
    """The plan of a bundle, when one is wanted or needed."""
    from sfumato.cli.bundled import planned_bundle
    from sfumato.cli.pipes import is_pipe, table_source
    from sfumato.cli.release import as_bundle

    if wished.columns != "bundle" and (counts is not None or is_pipe(table)):
        return None
    if counts is not None or is_pipe(table):
        raise InputError("a bundle is designed from rows that are read more than once; leave out --counts and -.")
    source = table_source(table, form)
    bundled = as_bundle(source, wished, [], source.columns, quiet=quiet)
    return None if bundled is None else planned_bundle(source, bundled, origin)


def joint_of(table: Where, wished: Any, counts: str | None, form: str | None, *, quiet: bool) -> tuple[Any, Any]:
    """The counts of a table of people, or of a table of cells."""
    from sfumato.alphabet import find_column
    from sfumato.cli.parts import counted
    from sfumato.cli.pipes import table_source
    from sfumato.cli.plan import tabulated
    from sfumato.cli.release import with_useful

    source = table_source(table, form)
    source = source.settled(source.columns)  # several passes are made; what comes through a pipe is held in memory
    if counts is not None:
        find_column(counts, source.columns, source.name)
        if wished.rare is not None or any(isinstance(b, int) for b in (wished.bins or {}).values()):
            raise InputError(
                "with --counts, group labels and bin columns before counting, or give edges (--bins COL=30;65)."
            )
    wished = with_useful(source, wished, [counts] if counts else [], source.columns, quiet=quiet)
    joint = tabulated(source, wished, cells=counts is not None)
    return (joint if counts is None else counted(source, joint, {}, counts)), wished
