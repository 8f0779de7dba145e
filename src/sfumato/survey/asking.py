"""Asking: questions, from a file or from words, and the survey they make."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sfumato.alphabet import Alphabet, Column
from sfumato.atomic import check_target, write_all
from sfumato.errors import InputError
from sfumato.mechanism import Bundle, Mechanism, known
from sfumato.survey.survey_page import page_of, parts_of, words_in

if TYPE_CHECKING:
    from sfumato.composing import Waves


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


def alphabet_of(questions: Sequence[Question]) -> Alphabet:
    return Alphabet(tuple(q.column for q in questions))


@dataclass(frozen=True, eq=False)
class Survey:
    """Questions with the sealed mechanism through which they are answered, on the respondent's own device."""

    questions: tuple[Question, ...]
    mechanism: Mechanism | Bundle
    title: str = "Survey"
    introduction: str = ""
    waves: Waves | None = None
    wave: str = ""  # the name of this wave, where people are asked again
    note: str = ""  # why this mechanism
    whole: bool = False  # whether a bundle's promise is about the whole record

    def __post_init__(self) -> None:
        columns = {c.name: c.labels for part in parts_of(self.mechanism) for c in part.reading}
        if {q.name: q.labels for q in self.questions} != columns:
            raise InputError(f"the questions must be the columns that the mechanism reads: {', '.join(columns)}.")

    @classmethod
    def of_labels(
        cls, questions: Mapping[str, Iterable[str]] | Sequence[Question], epsilon: float | None = None, *,
        protects: str = "record", asks: str = "auto", once: float | None = None, forever: float | None = None,
        wave: str = "", title: str = "Survey", introduction: str = "",
    ) -> Survey:
        """A survey from labels alone: no table is needed, and the promise holds for everybody.

        epsilon is the level of all answers together; protects='sensitive' promises it about the questions marked so.
        once and forever, instead, are the levels of one wave and of any number of them.

        >>> Survey.of_labels({"drug": ["yes", "no"]}, 1.0).mechanism.method
        'grr'
        """
        from sfumato.composing import waves
        from sfumato.survey.survey_design import design_for

        asked = tuple(
            Question(name, tuple(labels)) for name, labels in questions.items()
        ) if isinstance(questions, Mapping) else tuple(questions)
        if not asked:
            raise InputError("a survey needs one question or more.")
        if once is not None and forever is not None and epsilon is None:
            two = waves(alphabet_of(asked), once=once, forever=forever)
            return cls(asked, two.mechanism, title, introduction, two, wave or "1")
        if epsilon is None or once is not None or forever is not None:
            raise InputError("say epsilon=, or both once= and forever= for repeated waves.")
        if wave:
            raise InputError(
                "a wave is named where people are asked again", next="Say once= and forever=, not epsilon=."
            )
        made = design_for(asked, epsilon, protects=protects, asks=asks)
        return cls(asked, made.mechanism, title, introduction, note=made.note, whole=isinstance(made.mechanism, Bundle))

    @classmethod
    def of_mechanism(cls, mechanism: object, *, title: str = "Survey", introduction: str = "") -> Survey:
        """The survey that fills a mechanism's columns."""
        made = known(mechanism)
        columns = {c.name: c.labels for part in parts_of(made) for c in part.reading}
        asked = (Question(name, labels, sensitive=name in made.secret.names) for name, labels in columns.items())
        return cls(tuple(asked), made, title, introduction)

    @classmethod
    def read(cls, path: str | os.PathLike[str], **wished: Any) -> Survey:
        """The survey in a file: questions in TOML, or a mechanism in JSON. What is wished goes before what is written;
        for a mechanism only a title can be."""
        given = {name: value for name, value in wished.items() if value not in (None, "")}
        if str(path).endswith(".json"):
            if odd := sorted(set(given) - {"title", "introduction"}):
                raise InputError(f"a mechanism is what it is; {', '.join(odd)} can only be said for questions.")
            return cls.of_mechanism(path, **given)
        found = msgspec.structs.asdict(read_questions(path))
        return cls.of_labels(found.pop("question"), **{**found, **given})

    def page(self, *, language: str | os.PathLike[str] = "en", collector: str | None = None) -> str:
        """The HTML page; `language` is one that comes with sfumato, or a file of words."""
        return page_of(self, words_in(language), collector)

    def save(
        self, path: str | os.PathLike[str], *, language: str | os.PathLike[str] = "en", collector: str | None = None,
        force: bool = False,
    ) -> tuple[Path, Path]:
        """Write the page, and beside it the mechanism file that collecting and estimating take."""
        page = Path(path)
        text = self.page(language=language, collector=collector)
        check_target(page, None, force=force)
        mechanism = self.mechanism.save(mechanism_beside(page), force=force)
        write_all({page: text.encode()}, replace=force)
        return page, mechanism


def mechanism_beside(page: Path) -> Path:
    """survey.html → survey.mechanism.json."""
    return page.with_name(f"{page.name.removesuffix('.html')}.mechanism.json")
