"""sfumato demo, studio and reproduce: the whole road on real counts or in a browser, and the figures of the papers."""

from __future__ import annotations

import ast
import importlib.resources
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import drawing, estimation, releasing
from sfumato import reproduce as papers
from sfumato import studio as studios
from sfumato.atomic import check_target, make_folder, write_all
from sfumato.cli.console import Screen, columns, document, heading, pairs, progress, story
from sfumato.cli.options import force_option, json_option
from sfumato.cli.release import release_document, release_lines
from sfumato.decimals import LEVEL, level, percent
from sfumato.errors import InputError, unknown
from sfumato.libraries import pyarrow
from sfumato.processes import listening

if TYPE_CHECKING:
    from sfumato.estimation.result import Estimate
    from sfumato.frames import Record
    from sfumato.joint import Joint


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("sfumato-demo"),
              show_default=True, metavar="DIR", help="The folder for the files; made if it does not exist.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The privacy level in nats.")
@force_option
@json_option
def demo(out: Path, epsilon: float, force: bool, as_json: bool) -> None:
    """Walk the whole road on 32,561 people of the 1994 US census (sex is the secret, race is useful).

    Writes the table, releases it, verifies the proof from the file, estimates the truth from the released rows and
    compares: every file is left in the folder to look at.

    \b
    Example:
      sfumato demo --out demo
    """
    wishes = releasing.completed(("sex",), ("race",), epsilon=epsilon, public=(releasing.EVERY,))
    table, private = out / "adult.csv", out / "released.private-report.html"
    make_folder(out)
    check_target(table, None, force=force)
    files = releasing.Files.beside(
        out / "released.csv", private_report=private, tables=True, inputs=[table], force=force
    )

    def tell(title: str, text: str) -> None:
        if title and not as_json:
            heading(f"\n{title}")
        if not as_json:
            story(text)

    tell("1. A private table", f"{table}: 32,561 people, their sex and race, with the counts of the UCI Adult data.")
    _write_table(table, force)
    tell("2. Release it so that nobody's sex can be inferred",
         f"sfumato release {table} --secret sex --useful race --public-labels {releasing.EVERY} --epsilon {epsilon:g} "
         f"--out {files.table}")
    options = releasing.DrawOptions(drawing.GUESS)
    order = releasing.Order(sf.open_source(table), files, wishes, options, anyway=True, force=force)  # at any level
    with order.released(Screen(quiet=as_json)) as done:
        lines = release_lines(done)
    if not as_json:
        pairs(lines)
    tell("3. Anyone can check the promise, from the file alone", f"sfumato verify {files.mechanism}")
    proof = sf.verify(out / "released.mechanism.json")
    tell("", f"The claim holds: {level(proof.level, LEVEL)}, proved again from the integers in the file.")
    tell("4. What the released rows still tell", f"sfumato estimate {files.table}")
    assert isinstance(done.estimate, estimation.Estimate)  # of a single mechanism
    rows = list(_compared(done.estimate, sf.datasets.adult("sex", "race")))
    if as_json:
        document({**release_document(done), "estimate": rows, "demo_table": table})
        return
    cells = [[percent(x) if isinstance(x, float) else str(x or "not told") for x in row.values()] for row in rows]
    columns(["column", "value", "truth", "estimate", "from", "to"], cells, numbers=4)
    tell("5. Look at it", f"{files.report} is the page for everyone, {files.tables} opens in a spreadsheet; "
         f"{files.private_report} compares with the truth and is not for publication.")


def _write_table(path: Path, force: bool) -> None:
    text = io.BytesIO()
    pyarrow.csv.write_csv(sf.datasets.rows(sf.datasets.adult("sex", "race"), seed=1994), text)
    if not path.exists() or path.read_bytes() != text.getvalue():  # what was told of the same rows stays told
        write_all({path: text.getvalue()}, replace=force)


def _compared(found: Estimate, truth: Joint) -> Iterator[Record]:
    """Estimate beside truth for every value of both variables."""
    for side, true in ((found.secret, truth.p_secret), (found.useful, truth.p_useful)):
        assert side is not None  # a mechanism that reads the secret
        low, high = side.interval(0.95)
        for i in range(side.p.size):
            yield {
                "column": ", ".join(side.alphabet.names), "value": side.alphabet.text(i), "truth": float(true[i]),
                "estimate": float(side.p[i]) if side.inversion.identified[i] else None, "low": float(low[i]),
                "high": float(high[i]),
            }


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="Where to listen on 127.0.0.1.  [default: any free one]")
@click.option("--no-browser", is_flag=True, help="Print the address, and do not open it.")
@click.option("--ledger", type=click.Path(path_type=Path), metavar="FILE",
              help="The ledger that releases are entered in.  [default: sfumato.ledger beside TABLE]")
def studio(table: Path | None, port: int | None, no_browser: bool, ledger: Path | None) -> None:
    """Open the studio in a browser: look at TABLE, choose columns, choose ε by what it means, release, analyse.

    It serves this machine alone, to the browser that opens the printed address first, until Ctrl-C. What is dropped
    into it lies in a private folder that is removed at the end; nothing is sent anywhere.

    \b
    Example:
      sfumato studio people.csv
    """
    if table is not None and not table.exists():
        raise InputError("could not be read: No such file or directory", where=table)

    def ready(address: str) -> None:
        click.echo(address)  # on a line of its own, whole
        story("The address works once, in this browser alone. Ctrl-C stops the studio and removes what it held.")
        if not no_browser:
            click.launch(address)

    studios.serve(studios.Studio(None if table is None else table.absolute(), ledger), listening(port), ready)


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
    if not names:
        return document({"figures": list(papers.FIGURES)}) if as_json else _list(papers.FIGURES)
    names = tuple(papers.FIGURES) if names == ("all",) else names
    if strange := [name for name in names if name not in papers.FIGURES]:
        raise unknown("a figure", strange[0], papers.FIGURES)
    told: dict[str, str] = {}
    for name in names:
        with progress(f"{name} ({len(told) + 1} of {len(names)})"):
            told[name] = papers.reproduce(name, out, full=full)
        if not as_json:
            click.echo(told[name])
    if page is not None:
        papers.write_page(page, told, out)
    return document({"out": out, "verdicts": told}) if as_json else None


def _list(figures: dict[str, str]) -> None:
    """Names with what they are, for somebody who looks; names alone for a pipe, so that they can be given back."""
    if not sys.stdout.isatty():
        click.echo("\n".join(figures))
        return
    pairs([(name, _title(home)) for name, home in figures.items()])


def _title(home: str) -> str:
    """The first line of a function's docstring, read without running its module."""
    module, _, function = home.partition(":")
    text = importlib.resources.files("sfumato.reproduce").joinpath(f"{module}.py").read_text("utf-8")
    made = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == function)
    return (ast.get_docstring(made) or "").split("\n")[0]
