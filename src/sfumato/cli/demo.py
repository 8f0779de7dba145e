"""sfumato demo: the whole road on real counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sfumato.cli.console import Screen, columns, document, heading, notice, pairs, story
from sfumato.cli.options import force_option, json_option
from sfumato.decimals import LEVEL, level, percent
from sfumato.errors import OutputError


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
    from sfumato.cli.wording import release_document, release_lines
    from sfumato.datasets import adult
    from sfumato.drawing.decoding import GUESS
    from sfumato.releasing import Session, Wishes
    from sfumato.releasing.files import Files
    from sfumato.releasing.flow import DrawOptions
    from sfumato.releasing.wishes import EVERY, usual_cap

    wishes = Wishes(("sex",), ("race",), epsilon, design="auto", at_most=usual_cap(epsilon), public=(EVERY,))
    table = out / "adult.csv"
    files = Files.beside(out / "released.csv", private_report=out / "released.private-report.html", tables=True)
    _folder(out, [table, *files.written.values()], force)
    tell = _silent if as_json else _tell
    tell("1. A private table", f"{table}: 32,561 people, their sex and race, with the counts of the UCI Adult data.")
    _write_table(table, force)
    tell("2. Release it so that nobody's sex can be inferred",
         f"sfumato release {table} --secret sex --useful race --public-labels {EVERY} --epsilon {epsilon:g} "
         f"--out {files.table}")
    session = Session.open(table, Screen(quiet=as_json)).design(wishes)
    plan: Any = session.plan
    mechanism = plan.mechanism
    for told in plan.notices(str(files.mechanism)):
        notice(told)
    with session.check(DrawOptions(GUESS)).written(files, force=force) as done:
        lines = release_lines(mechanism, done)
    if not as_json:
        pairs(lines)
    tell("3. Anyone can check the promise, from the file alone", f"sfumato verify {files.mechanism}")
    proof = _verified(files.mechanism)
    tell("", f"The claim holds: {level(proof.level, LEVEL)}, proved again from the integers in the file.")
    tell("4. What the released rows still tell", f"sfumato estimate {files.table}")
    rows = _compared(done.estimate, adult("sex", "race"))
    if as_json:
        document({**release_document(mechanism, done), "estimate": rows, "demo_table": table})
        return
    _show(rows)
    tell("5. Look at it", f"{files.report} is the page for everyone, {files.tables} opens in a spreadsheet; "
         f"{files.private_report} compares with the truth and is not for publication.")


def _silent(title: str, text: str) -> None:
    pass


def _tell(title: str, text: str) -> None:
    if title:
        heading(f"\n{title}")
    story(text)


def _folder(out: Path, targets: list[Any], force: bool) -> None:
    """The folder, when nothing in it is in the way."""
    there = [path for path in targets if path.exists()]
    if there and not force:
        raise OutputError(
            "exists", next="Choose another folder with --out, or replace the files with --force.", where=there[0]
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} could not be made: {error.strerror}.") from None


def _write_table(path: Path, force: bool) -> None:
    import io

    from pyarrow import csv

    from sfumato.datasets import adult, rows
    from sfumato.releasing.targets import write_all

    text = io.BytesIO()
    csv.write_csv(rows(adult("sex", "race"), seed=1994), text)
    write_all({path: text.getvalue()}, replace=force)


def _verified(path: Any) -> Any:
    from sfumato.certification import verify

    return verify(path)


def _compared(found: Any, truth: Any) -> list[dict[str, Any]]:
    """Estimate beside truth for every value of both variables."""
    out = []
    for side, true in ((found.secret, truth.p_secret), (found.useful, truth.p_useful)):
        low, high = side.interval(0.95)
        for i in range(side.p.size):
            out.append({
                "column": ", ".join(side.alphabet.names), "value": side.alphabet.text(i), "truth": float(true[i]),
                "estimate": float(side.p[i]) if side.inversion.identified[i] else None,
                "low": float(low[i]), "high": float(high[i]),
            })
    return out


def _show(rows: list[dict[str, Any]]) -> None:
    figures = ("truth", "estimate", "low", "high")
    cells = [[r["column"], r["value"], *("not told" if r[k] is None else percent(r[k]) for k in figures)] for r in rows]
    columns(["column", "value", "truth", "estimate", "from", "to"], cells, numbers=4)
