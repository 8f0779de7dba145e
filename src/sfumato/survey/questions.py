"""Questions: what a survey asks, from a small file, from a mechanism, or from words on the command line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sfumato.alphabet import Alphabet, Column
from sfumato.errors import InputError


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question with the labels that an answer chooses from; `shown` are the texts beside the choices."""

    name: str
    labels: tuple[str | None, ...]
    text: str = ""
    shown: tuple[str, ...] = ()
    sensitive: bool = True

    def __post_init__(self) -> None:
        if len(self.labels) < 2:
            raise InputError(f"question {self.name!r} needs two labels or more.")
        if self.shown and len(self.shown) != len(self.labels):
            raise InputError(f"question {self.name!r} has {len(self.labels)} labels, but {len(self.shown)} texts.")
        _ = self.column

    @property
    def column(self) -> Column:
        return Column.of(self.name, self.labels)


class SurveyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a survey, in TOML. Levels are in nats: `epsilon`, or `once` and `forever` for repeated waves."""

    question: tuple[Question, ...]
    title: str = "Survey"
    introduction: str = ""
    epsilon: float | None = None
    once: float | None = None
    forever: float | None = None
    protects: str = "record"
    asks: str = "auto"


def read_questions(path: str | os.PathLike[str]) -> SurveyFile:
    """The content of a survey file."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"the survey file {path} could not be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is no TOML file: {error}", where=path) from None
    try:
        return msgspec.convert(content, SurveyFile)
    except msgspec.ValidationError as error:
        raise InputError(
            f"is no survey file: {error}", next="Each [[question]] has a name and labels.", where=path
        ) from None


def asked(text: str) -> Question:
    """A question from the command line.

    >>> asked("drug: yes, no").labels
    ('yes', 'no')
    """
    name, colon, labels = text.partition(":")
    if not (name.strip() and colon):
        raise InputError(f"{text!r} is no question", next="Write 'NAME: LABEL, LABEL, …'.")
    return Question(name.strip(), tuple(x.strip() for x in labels.split(",")))


def questions_of(columns: Sequence[Column], secret: Sequence[str]) -> tuple[Question, ...]:
    """The questions that fill a mechanism's columns."""
    return tuple(Question(c.name, c.labels, sensitive=c.name in secret) for c in columns)


def alphabet_of(questions: Sequence[Question]) -> Alphabet:
    return Alphabet(tuple(q.column for q in questions))
