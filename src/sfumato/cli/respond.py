"""sfumato respond: randomised answers for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from sfumato.errors import DataError, InputError

if TYPE_CHECKING:
    from sfumato.frames import Record


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
    from sfumato.mechanism import load

    law = load(mechanism)
    if (records is None) == (not values):
        raise InputError("give COLUMN=VALUE for each question, or --records FILE.")
    if records is not None:
        if memo is not None or token is not None:
            raise InputError("--memo and --token are for one respondent", next="Give one record with them.")
        for answer in law.respond([_object(line, i) for i, line in enumerate(records) if line.strip()]):
            click.echo(json.dumps(answer, ensure_ascii=False))
        return
    record = dict(_pair(text) for text in values)
    if token is not None:
        from sfumato.survey import lines

        if memo is not None:
            raise InputError("a line is drawn once and sent once: --token and --memo do not go together.")
        click.echo(lines(law, [token], record)[0])
        return
    told = law.respond(record) if memo is None else law.respond(record, memo=_key(memo))
    click.echo(json.dumps(told, ensure_ascii=False))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("write each value as COLUMN=VALUE.")
    return name, value


def _object(line: str, i: int) -> Record:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError(f"line {i + 1} is no JSON object with a value for each column.")
    return found


def _key(path: Path) -> bytes:
    """The key in a file that its owner alone can read."""
    import os
    import secrets

    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    try:
        return bytes.fromhex(path.read_text().strip())
    except ValueError:
        raise InputError("holds no key: 64 hexadecimal digits, as sfumato writes it", where=path) from None
