"""sfumato reproduce: a figure of a paper, with its data and a verdict."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import click

from sfumato.cli.console import document, pairs, progress
from sfumato.cli.options import json_option
from sfumato.errors import unknown


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduced"), show_default=True,
              help="The folder for data and pictures.")
@click.option("--full", is_flag=True, help="As many tables and points as the paper, instead of a quick look.")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Also write captions, verdicts and pictures as a Markdown page.")
@json_option
def reproduce(names: tuple[str, ...], out: Path, full: bool, page: Path | None, as_json: bool) -> None:
    """Reproduce figures of the papers by NAME, or list them when none is given.

    Writes CSV data and, where matplotlib is installed, a picture for each, and prints one verdict line against the
    printed numbers.

    \b
    Examples:
      sfumato reproduce
      sfumato reproduce 000-fig2 001-fig3 --out figures
      sfumato reproduce all --out docs/figures --page docs/reproduced.md
    """
    from sfumato.reproduce import FIGURES
    from sfumato.reproduce import reproduce as run

    if not names:
        if as_json:
            document({"figures": list(FIGURES)})
        else:
            _list(FIGURES)
        return
    names = tuple(FIGURES) if names == ("all",) else names
    for name in names:
        if name not in FIGURES:
            raise unknown("a figure", name, FIGURES)
    told: dict[str, str] = {}
    for name in names:
        with progress(f"{name} ({len(told) + 1} of {len(names)})"):
            told[name] = run(name, out, full=full)
        if not as_json:
            click.echo(told[name])
    if page is not None:
        from sfumato.reproduce.drawing import write_page

        write_page(page, told, out)
    if as_json:
        document({"out": out, "verdicts": told})


def _list(figures: dict[str, str]) -> None:
    """Names with what they are, for somebody who looks; names alone for a pipe, so that they can be given back."""
    if not sys.stdout.isatty():
        click.echo("\n".join(figures))
        return
    pairs([(name, _title(module)) for name, module in figures.items()])


def _title(module: str) -> str:
    """The first line of a module's docstring, read without running it."""
    found = importlib.util.find_spec(module)
    text = Path(found.origin).read_text("utf-8") if found is not None and found.origin else ""
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
