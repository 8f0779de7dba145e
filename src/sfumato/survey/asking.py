"""Asking: questions, from a file or from words, the survey they make, and its mechanism, from labels alone.

The mechanism holds for whoever will answer. Questions are answered *together* (one draw for all), *apart* (a draw for
each, whose levels add up) or *in turn* (each respondent draws one question and answers only that), whichever has the
least errors of the one-question tables that can be estimated, by ε and the numbers of labels.
"""

from __future__ import annotations

import contextlib
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.atomic import check_target, write_all
from sfumato.certification import seal
from sfumato.composing import Waves, waves
from sfumato.composing.answers import Answer
from sfumato.designers import design
from sfumato.designers.closed_forms import grr_response as response
from sfumato.errors import InputError, designed_epsilon, option, unknown
from sfumato.estimation.inversion import sums
from sfumato.estimation.models import model_of
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Law, Mechanism, Promise, Table, Unary, known
from sfumato.mechanism.law import MOST_BITS as TURN_BITS
from sfumato.mechanism.subset_laws import ORDERS
from sfumato.survey.survey_page import page_of, words_in
from sfumato.tolerances import SQUARE as COVARIANCE_CELLS
from sfumato.uncertainty import Anything

EPSILON, ONCE, FOREVER = (option(f"--{name}", f"{name}=") for name in ("epsilon", "once", "forever"))
AGAIN = "a wave is named where people are asked again"


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


def questions_of(given: Mapping[str, Iterable[str]] | Sequence[Question]) -> tuple[Question, ...]:
    """Questions, or names with the labels of each."""
    if not given:
        raise InputError("a survey needs one question or more.")
    if not isinstance(given, Mapping):
        return tuple(given)
    return tuple(Question(name, tuple(labels)) for name, labels in given.items())


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
        columns = {c.name: c.labels for part in self.mechanism.parts for c in part.reading}
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
        asked = questions_of(questions)
        if once is not None and forever is not None and epsilon is None:
            two = waves(alphabet_of(asked), once=once, forever=forever)
            return cls(asked, two.mechanism, title, introduction, two, wave or "1")
        if epsilon is None or once is not None or forever is not None:
            raise InputError(f"say {EPSILON}, or both {ONCE} and {FOREVER} for repeated waves.")
        if wave:
            raise InputError(AGAIN, next=f"Say {ONCE} and {FOREVER}, not {EPSILON}.")
        made = design_for(asked, epsilon, protects=protects, asks=asks)
        return cls(asked, made.mechanism, title, introduction, note=made.note, whole=isinstance(made.mechanism, Bundle))

    @classmethod
    def of_mechanism(cls, mechanism: object, *, title: str = "Survey", introduction: str = "") -> Survey:
        """The survey that fills a mechanism's columns."""
        made = known(mechanism)
        columns = {c.name: c.labels for part in made.parts for c in part.reading}
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


NOBODY = Alphabet(())
PAGE_CELLS = 5_000  # weights of a listed law that a page carries: about 90 kB
ASKS = ("auto", "together", "apart", "in turn")
PROTECTS = ("record", "sensitive")
TOO_MANY = "the questions have too many combinations of answers to be answered together"


@dataclass(frozen=True, eq=False)
class Chosen:
    """A mechanism, the root mean square standard error of its one-question tables times √n, and why it was chosen."""

    mechanism: Mechanism | Bundle
    error: float
    note: str = ""


def design_for(questions: Sequence[Question], epsilon: float, *, protects: str, asks: str) -> Chosen:
    """The mechanism for some questions: ε-LDP about the whole record, or ε about the sensitive ones alone.

    'auto' takes the better of together and apart, from which tables of two questions can be estimated as well;
    'in turn' estimates single questions better still, and no two of them.
    """
    if designed_epsilon(epsilon) <= 0:
        raise InputError("epsilon must be above zero: at zero an answer says nothing.")
    for what, given, those in (("a way of asking", asks, ASKS), ("what can be protected", protects, PROTECTS)):
        if given not in those:
            raise unknown(what, given, those)
    if protects == "sensitive" and not all(q.sensitive for q in questions):
        if asks not in ("auto", "together"):
            raise InputError("sensitive questions are protected beside others only when all are answered together.")
        return _best(_about_secret(questions, epsilon))
    if len(questions) == 1:
        return _best(_alone(alphabet_of(questions), epsilon))
    ways = {"together": _together, "apart": _apart, "in turn": _in_turn}
    chosen = ("together", "apart") if asks == "auto" else (asks,)
    made = {name: way for name in chosen if (way := ways[name](questions, epsilon)) is not None}
    if not made:
        raise InputError(TOO_MANY, next="Ask them apart.")
    best = min(made, key=lambda name: made[name].error)
    told = ", ".join(f"{name} {x.error:.3g}" for name, x in made.items())
    return replace(made[best], note=f"answered {best} (standard error of one question, times √n: {told})")


def _best(mechanisms: Iterable[Mechanism]) -> Chosen:
    made = sorted(map(_measured, mechanisms), key=lambda x: x.error)
    told, name = ", ".join(f"{x.mechanism.method} {x.error:.3g}" for x in made[:4]), made[0].mechanism.method
    return replace(made[0], note=f"{name} has the least standard error of one question (times √n: {told})")


def _together(questions: Sequence[Question], epsilon: float) -> Chosen | None:
    alphabet = alphabet_of(questions)
    return None if alphabet.size > COVARIANCE_CELLS else _best(_alone(alphabet, epsilon))


def _apart(questions: Sequence[Question], epsilon: float) -> Chosen:
    parts = _parts(questions, epsilon / len(questions))
    return Chosen(_bundled(parts, None, epsilon), math.sqrt(float(np.mean([x.error**2 for x in parts]))))


def _in_turn(questions: Sequence[Question], epsilon: float) -> Chosen:
    parts, (share, left) = _parts(questions, epsilon), divmod(2**TURN_BITS, len(questions))
    turns = tuple(share + (i < left) for i in range(len(questions)))
    return Chosen(_bundled(parts, turns, epsilon), math.sqrt(sum(x.error**2 for x in parts)))


def _bundled(parts: Sequence[Chosen], turns: tuple[int, ...] | None, epsilon: float) -> Bundle:
    made = tuple(x.mechanism for x in parts if isinstance(x.mechanism, Mechanism))
    return Bundle(made, made[0].secret, turns, Promise(epsilon))


def _parts(questions: Sequence[Question], epsilon: float) -> list[Chosen]:
    """One mechanism for each question. A bundle promises about one secret: the question with fewest labels. Nothing is
    assumed about the columns, so it is the product of the ratios of all parts: the level of the record."""
    first = min(questions, key=lambda q: len(q.labels))
    secret = alphabet_of([first])
    out = []
    for q in (first, *(q for q in questions if q is not first)):
        k, own = len(q.labels), q is first
        laws = [(law, name) for law, name in _laws(k, epsilon, own) if law.words == 1]
        sides = (secret, NOBODY, "both") if own else (secret, alphabet_of([q]), "useful")
        out.append(_best(_sealed(law, *sides, name, Claim("ldp", epsilon)) for law, name in laws))
    return out


def _alone(alphabet: Alphabet, epsilon: float) -> Iterator[Mechanism]:
    for law, name in _laws(alphabet.size, epsilon, False):
        made = _sealed(law, NOBODY, alphabet, "useful", name, Claim("ldp", epsilon))
        yield replace(made, answers=_subset_names(alphabet, made.law)) if name == "subset" else made


def _laws(k: int, epsilon: float, secret: bool) -> Iterator[tuple[Law, str]]:
    """Closed forms at the LDP level ε over k values, which are those of the secret or of the useful variable."""
    e = math.exp(epsilon)
    rows, useful = (k, 1) if secret else (1, k)
    yield response(rows, useful, math.expm1(epsilon)), "grr"
    if not secret:
        yield Unary(1, k, 0.5, 1 / (e + 1)), "oue"
        yield from ((law, "blocks") for law in _blocks(1, k, epsilon))
    size = max(1, round(k / (e + 1)))  # of the sets: Ye and Barg 2018
    if size > 1 and math.comb(k, size) * k <= PAGE_CELLS:
        q = np.array([[e if x in held else 1.0 for x in range(k)] for held in combinations(range(k), size)])
        yield Table(q / q.sum(0), rows), "subset"


def _blocks(rows: int, useful: int, epsilon: float) -> Iterator[Law]:
    """Answers with blocks of useful values, of every order that there is for so many."""
    for order in ORDERS:
        if useful > order + 1:
            with contextlib.suppress(InputError):  # no blocks of this order
                yield Answer(rows, useful, epsilon, order).law()


def _about_secret(questions: Sequence[Question], epsilon: float) -> Iterator[Mechanism]:
    """ε about the sensitive questions for any distribution; the others are told as openly as that allows."""
    secret, useful = (alphabet_of([q for q in questions if q.sensitive is side]) for side in (True, False))
    within = Anything(Joint.uniform(secret, useful))
    for method in ("srr", "grr"):
        yield replace(design(within, epsilon, method).mechanism, source="unstated")
    for law in _blocks(secret.size, useful.size, epsilon):
        if law.outputs * secret.size * useful.size <= 40 * PAGE_CELLS:
            made = _sealed(law, secret, useful, "both", "blocks", Claim("rldp", epsilon, within))
            yield replace(made, joint=within.joint)


def _sealed(law: Law, secret: Alphabet, useful: Alphabet, reads: str, method: str, claim: Claim) -> Mechanism:
    return seal(Mechanism(law, secret, useful, reads, method), claim)[0]


def _measured(mechanism: Mechanism) -> Chosen:
    """With the error of each question's table at the uniform distribution, from the covariance of the inverse."""
    p = np.full(mechanism.inputs, 1 / mechanism.inputs)
    model = model_of(mechanism)
    inverse = model.invert(model.forward(p), 1)
    if not inverse.identified.all():
        return Chosen(mechanism, math.inf)
    tables = np.concatenate([sums(mechanism.reading, [column.name]) for column in mechanism.reading])
    return Chosen(mechanism, math.sqrt(float(np.mean(np.einsum("ij,jk,ik->i", tables, inverse.covariance(), tables)))))


def _subset_names(alphabet: Alphabet, law: Law) -> Column:
    """What the sets of subset selection are called: their members."""
    size = next(w for w in range(1, alphabet.size + 1) if math.comb(alphabet.size, w) == law.outputs)
    held = combinations(range(alphabet.size), size)
    return Column.of("answer", [" | ".join(alphabet.text(x) for x in own) for own in held])
