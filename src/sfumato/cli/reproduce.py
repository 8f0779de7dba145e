"""sfumato reproduce: figures of the papers, as data and as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.console import columns, document, story
from sfumato.cli.options import json_option
from sfumato.errors import InputError


@click.command()
@click.argument("name", required=False)
@click.option("--out", type=click.Path(path_type=Path), default=Path(), metavar="FOLDER",
              help="Where the files go.  [default: here]")
@click.option("--mechanism", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the figure for this mechanism file, where the figure is about one.")
@json_option
def reproduce(name: str | None, out: Path, mechanism: Path | None, as_json: bool) -> None:
    """Make a figure of the papers, by NAME; without one, list them.

    \b
    Examples:
      sfumato reproduce
      sfumato reproduce 004-fig1 --out figures
      sfumato reproduce 004-fig1 --mechanism released.mechanism.json
    """
    from sfumato.reproduce import FIGURES, make

    if name is None:
        if as_json:
            document({"figures": {key: text for key, (_, text) in FIGURES.items()}})
        else:
            columns(["name", "what it shows"], [[key, text] for key, (_, text) in FIGURES.items()])
        return
    options = {}
    if mechanism is not None:
        from sfumato.mechanism import load

        options["mechanism"] = load(mechanism)
    out.mkdir(parents=True, exist_ok=True)
    try:
        files = make(name, out, **options)
    except TypeError as error:
        if "mechanism" not in str(error):
            raise
        raise InputError(f"{name} is not about a single mechanism: leave --mechanism out.") from None
    if as_json:
        document({"figure": name, "files": files})
        return
    story(f"{name}: {FIGURES[name][1]}")
    for file in files:
        story(str(file))
