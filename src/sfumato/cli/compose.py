"""sfumato compose: what several releases of the same people tell together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import columns, document, progress, story
from sfumato.cli.options import force_option, json_option
from sfumato.decimals import at_most

if TYPE_CHECKING:
    from sfumato.composing.composition import Level
    from sfumato.frames import Record


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
