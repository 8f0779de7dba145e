"""sfumato collect: randomised answers come in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from sfumato.cli.console import document, pairs, story
from sfumato.cli.options import force_option, json_option
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collecting.collected import Store
    from sfumato.mechanism import Bundle, Mechanism

mechanism_argument = click.argument("mechanism", type=click.Path(path_type=Path))
store_option = click.option(
    "--store", type=click.Path(path_type=Path), metavar="FILE",
    help="Where answers are kept.  [default: survey.mechanism.json → survey.answers.sqlite]",
)


@click.group()
def collect() -> None:
    """Collect answers that were randomised by the respondents' own devices.

    \b
    Examples:
      sfumato collect invite survey.mechanism.json --count 500 --link https://survey.example/ --out invitations.csv
      sfumato collect serve survey.mechanism.json
      sfumato collect export survey.mechanism.json --out answers.csv
      sfumato estimate answers.csv
    """


@collect.command()
@mechanism_argument
@store_option
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE",
              help="The page to serve.  [default: the one beside]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8765, show_default=True)
@click.option("--rate", type=click.IntRange(1), default=60, show_default=True,
              help="Answers a minute from one address.")
def serve(mechanism: Path, store: Path | None, page: Path | None, host: str, port: int, rate: int) -> None:
    """Serve the page, take answers, and show running estimates."""
    try:
        from sfumato.collecting.intake import Collector
        from sfumato.collecting.intake import serve as run
    except ImportError:
        raise InputError("the intake needs starlette and uvicorn", next="Run pip install 'sfumato[collect]'.") from None
    page = _page_beside(mechanism) if page is None else page
    content = page.read_bytes() if page.is_file() else None
    with _opened(mechanism, store) as (made, opened):
        pairs([("page", f"http://{host}:{port}/" if content else "none: answers are posted to /answer"),
               ("estimates", f"http://{host}:{port}/estimates?key={opened.key}"),
               ("store", str(_store(mechanism, store)))])
        run(Collector(made, opened, content, rate=rate), host=host, port=port)


@collect.command()
@mechanism_argument
@store_option
@click.option("--count", type=click.IntRange(1), required=True, help="How many invitations.")
@click.option("--link", default="", metavar="URL", help="The address of the page; invitations become links to it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where the invitations go.")
@force_option
def invite(mechanism: Path, store: Path | None, count: int, link: str, out: Path, force: bool) -> None:
    """Make invitations, each for one answer. Only their hashes are stored."""
    from sfumato.atomic import check_target, drafts

    check_target(out, None, force=force)
    with _opened(mechanism, store) as (_, opened):
        tokens = opened.invite(count)
    lines = ["invitation", *(f"{link}#t={token}" if link else token for token in tokens)]
    with drafts(out) as (draft,):
        draft.fill(("\n".join(lines) + "\n").encode(), private=True)
        draft.settle()
        draft.publish(replace=force)
    story(f"{count:,} invitations: {out}. Whoever sends them should not be whoever reads the answers.")


@collect.command()
@mechanism_argument
@click.argument("lines", type=click.File("r", errors="replace"))
@store_option
@json_option
def add(mechanism: Path, lines: TextIO, store: Path | None, as_json: bool) -> None:
    """Add answers that came as text or were read from QR codes: a file of LINES, or - for stdin."""
    from collections import Counter

    from sfumato.survey import Form, MalformedAnswer

    good, outcomes = [], Counter[str]()
    with _opened(mechanism, store) as (made, opened):
        form = Form.of(made)
        for line in filter(None, (x.strip() for x in lines)):
            try:
                good.append(form.read(line))
            except MalformedAnswer:
                outcomes["malformed"] += 1
        outcomes.update(opened.accept(good))
    if as_json:
        document({name: outcomes[name] for name in ("taken", "used", "uninvited", "malformed")})
        return
    story(", ".join(f"{outcomes[name]:,} {name}" for name in ("taken", "used", "uninvited", "malformed")) + ".")


@collect.command()
@mechanism_argument
@store_option
@click.option("--out", type=click.Path(path_type=Path), default="answers.csv", show_default=True, metavar="FILE",
              help="A .csv, .tsv or .parquet table; the mechanism file is written beside it.")
@force_option
@json_option
def export(mechanism: Path, store: Path | None, out: Path, force: bool, as_json: bool) -> None:
    """Write the answers as a table that `sfumato estimate` takes, without any order of arrival."""
    from sfumato.collecting.collected import export as exported

    with _opened(mechanism, store, fresh=False) as (made, opened):
        counts = opened.counts()
    exported(counts, made, out, force=force)
    n = sum(counts.values())
    if as_json:
        document({"table": out, "rows": n})
        return
    story(f"{n:,} answers: {out}. Estimate with: sfumato estimate {out}")


@contextlib.contextmanager
def _opened(mechanism: Path, store: Path | None, *, fresh: bool = True) -> Iterator[tuple[Mechanism | Bundle, Store]]:
    """The mechanism and the store of its answers."""
    from sfumato.collecting import Store
    from sfumato.mechanism import load
    from sfumato.survey.answer_lines import survey_id

    made = load(mechanism)
    with contextlib.closing(Store(_store(mechanism, store), survey_id(made), fresh=fresh)) as opened:
        yield made, opened


def _stem(mechanism: Path) -> str:
    return mechanism.name.removesuffix(".json").removesuffix(".mechanism")


def _store(mechanism: Path, store: Path | None) -> Path:
    return mechanism.with_name(f"{_stem(mechanism)}.answers.sqlite") if store is None else store


def _page_beside(mechanism: Path) -> Path:
    return mechanism.with_name(f"{_stem(mechanism)}.html")
