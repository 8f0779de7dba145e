"""sfumato survey, respond and collect: questions become a page, answers are randomised on their side, and come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

import sfumato as sf
from sfumato import survey as surveys
from sfumato.atomic import check_target, write_all
from sfumato.cli.console import Answer, document, pairs, show_answer, story
from sfumato.cli.options import force_option, json_option
from sfumato.decimals import BITS, at_most
from sfumato.errors import DataError, InputError
from sfumato.mechanism.law import key_in

if TYPE_CHECKING:
    from sfumato.cli.options import Options
    from sfumato.frames import Record
    from sfumato.survey.asking import Survey


@click.command()
@click.argument("mechanism", type=click.Path(path_type=Path))
@click.argument("values", nargs=-1, metavar="[COLUMN=VALUE]...")
@click.option("--records", type=click.File("r", errors="replace"), metavar="FILE",
              help="Many records, a JSON object in each line; - is stdin.")
@click.option("--memo", type=click.Path(path_type=Path), metavar="FILE",
              help="A key that stays with the respondent: the same record gets the same answer. Made when absent.")
@click.option("--token", help="Print the line that a survey's collector takes, with this invitation.")
def respond(
    mechanism: Path, values: tuple[str, ...], records: TextIO | None, memo: Path | None, token: str | None
) -> None:
    """Draw the randomised answer to one record, as JSON; or to many, one in each line.

    \b
    Examples:
      sfumato respond survey.mechanism.json drug=yes age=34
      sfumato respond survey.mechanism.json --records people.jsonl > answers.jsonl
    """
    law = sf.load(mechanism)
    if (records is None) == (not values):
        raise InputError("give COLUMN=VALUE for each question, or --records FILE.")
    if records is not None and (memo is not None or token is not None):
        raise InputError("--memo and --token are for one respondent", next="Give one record with them.")
    if memo is not None and token is not None:
        raise InputError("a line is drawn once and sent once: --token and --memo do not go together.")
    record = dict(_pair(text) for text in values)
    if token is not None:
        click.echo(surveys.lines(law, [token], record)[0])
        return
    many = None if records is None else [_object(line, i) for i, line in enumerate(records) if line.strip()]
    told = law.respond(record if many is None else many, **({} if memo is None else {"memo": key_in(memo)}))
    for answer in told if many is not None and isinstance(told, list) else [told]:
        click.echo(json.dumps(answer, ensure_ascii=False))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("a value needs the name of its column", next="Write COLUMN=VALUE.")
    return name, value


def _object(line: str, i: int) -> Record:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError(f"line {i + 1} is no JSON object with a value for each column.")
    return found


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--question", "questions", multiple=True, metavar="'NAME: LABEL, LABEL'",
              help="A question, instead of a file; may be given several times.")
@click.option("--epsilon", type=float, help="Level of all answers together, in nats.")
@click.option("--once", type=float, help="With --forever, for repeated waves: the level of one wave.")
@click.option("--forever", type=float, help="The level of any number of waves.")
@click.option("--wave", default="", metavar="NAME", help="The name of this wave.")
@click.option("--ask", "asks", type=click.Choice(["auto", "together", "apart", "in turn"]),
              help="All questions in one draw, a draw for each, or one question by lot.  [default: auto]")
@click.option("--protect", type=click.Choice(["record", "sensitive"]),
              help="Everything, or the sensitive questions alone.")
@click.option("--title", help="What the page is called.")
@click.option("--language", default="en", show_default=True, metavar="LANGUAGE|FILE",
              help="en, de, or a file of words.")
@click.option("--collector", metavar="URL", help="Where answers are posted.  [default: where the page was loaded from]")
@click.option("--out", type=click.Path(path_type=Path), default="survey.html", show_default=True, metavar="FILE",
              help="The page; the mechanism file is written beside it.")
@force_option
@json_option
def survey(
    file: Path | None, questions: tuple[str, ...], epsilon: float | None, once: float | None, forever: float | None,
    wave: str, asks: str | None, protect: str | None, title: str | None, language: str, collector: str | None,
    out: Path, force: bool, as_json: bool,
) -> None:
    """Make the page of a survey from a FILE of questions (.toml), a mechanism file (.json), or --question.

    \b
    Examples:
      sfumato survey --question 'drug: yes, no' --epsilon 1 --out survey.html
      sfumato survey questions.toml --out survey.html --language de
      sfumato survey released.mechanism.json --out survey.html
    """
    wished = {"asks": asks, "protects": protect, "title": title, "once": once, "forever": forever, "wave": wave}
    made = _survey(file, questions, epsilon, {k: v for k, v in wished.items() if v is not None})
    page, mechanism = made.save(out, language=language, collector=collector, force=force)
    show_answer(_made(made, page, mechanism, as_json=as_json))
    if not as_json:
        story(f"\nCollect answers with: sfumato collect serve {mechanism}")


def _made(made: Survey, page: Path, mechanism: Path, *, as_json: bool) -> Answer:
    """What came of a survey's questions."""
    claim, size = made.mechanism.claim, page.stat().st_size
    told = "nothing" if claim is None else claim.sentence
    if as_json:
        return {
            "page": page, "mechanism": mechanism, "bytes": size, "claim": told, "note": made.note,
            "questions": [q.name for q in made.questions], "epsilon": None if claim is None else claim.epsilon,
        }
    return [
        ("page", f"{page} ({size / 1000:.0f} kB)"), ("mechanism", str(mechanism)), ("promises", told),
        *([("chosen", made.note)] if made.note else []), *_waves(made),
    ]


def _survey(file: Path | None, asked: tuple[str, ...], epsilon: float | None, wished: Options) -> Survey:
    if (file is None) == (not asked):
        raise InputError("give a file of questions or a mechanism file, or --question 'NAME: LABEL, LABEL'.")
    if file is None:
        return surveys.Survey.of_labels([surveys.asked(text) for text in asked], epsilon, **wished)
    return surveys.Survey.read(file, epsilon=epsilon, **wished)


def _waves(made: Survey) -> list[tuple[str, str]]:
    if made.waves is None:
        return []
    levels = ", ".join(f"{k}: {at_most(made.waves.level(k), BITS)}" for k in (1, 2, 5, 20, 100))
    forever = at_most(made.waves.forever, BITS)
    return [("waves", f"ε at most, of so many waves: {levels}; of any number: {forever}")]


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
    page = surveys.beside(mechanism, "html") if page is None else page
    content = page.read_bytes() if page.is_file() else None
    with surveys.opened_store(mechanism, store) as (made, opened):
        pairs([("page", f"http://{host}:{port}/" if content else "none: answers are posted to /answer"),
               ("estimates", f"http://{host}:{port}/estimates?key={opened.key}"),
               ("store", str(opened.path))])
        surveys.serve(surveys.Collector(made, opened, content, rate=rate), host=host, port=port)


@collect.command()
@mechanism_argument
@store_option
@click.option("--count", type=click.IntRange(1), required=True, help="How many invitations.")
@click.option("--link", default="", metavar="URL", help="The address of the page; invitations become links to it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where the invitations go.")
@force_option
def invite(mechanism: Path, store: Path | None, count: int, link: str, out: Path, force: bool) -> None:
    """Make invitations, each for one answer. Only their hashes are stored."""
    check_target(out, None, force=force)
    with surveys.opened_store(mechanism, store) as (_, opened):
        tokens = opened.invite(count)
    lines = ["invitation", *(f"{link}#t={token}" if link else token for token in tokens)]
    write_all({out: ("\n".join(lines) + "\n").encode()}, replace=force, private=True)
    story(f"{count:,} invitations: {out}. Whoever sends them should not be whoever reads the answers.")


@collect.command()
@mechanism_argument
@click.argument("lines", type=click.File("r", errors="replace"))
@store_option
@json_option
def add(mechanism: Path, lines: TextIO, store: Path | None, as_json: bool) -> None:
    """Add answers that came as text or were read from QR codes: a file of LINES, or - for stdin."""
    with surveys.opened_store(mechanism, store) as (made, opened):
        told = opened.take(lines, surveys.Form.of(made))
    if as_json:
        document({**told})
    else:
        story(", ".join(f"{n:,} {name}" for name, n in told.items()) + ".")


@collect.command()
@mechanism_argument
@store_option
@click.option("--out", type=click.Path(path_type=Path), default="answers.csv", show_default=True, metavar="FILE",
              help="A .csv, .tsv or .parquet table; the mechanism file is written beside it.")
@force_option
@json_option
def export(mechanism: Path, store: Path | None, out: Path, force: bool, as_json: bool) -> None:
    """Write the answers as a table that `sfumato estimate` takes, without any order of arrival."""

    with surveys.opened_store(mechanism, store, fresh=False) as (made, opened):
        counts = opened.counts()
    surveys.export(counts, made, out, force=force)
    n = sum(counts.values())
    if as_json:
        document({"table": out, "rows": n})
        return
    story(f"{n:,} answers: {out}. Estimate with: sfumato estimate {out}")
