"""The page of a survey, in the words of a language, which draws on the device; and the line of text that it sends."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import numpy as np

from sfumato.errors import InputError, unknown
from sfumato.frames import digest, embedded, environment, part_of
from sfumato.mechanism import Bundle, Mechanism, Promise
from sfumato.mechanism.law import joint_code, record_codes

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.survey.asking import Survey

HOME = "languages"  # folder of languages that come with the package


class Language(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every sentence of a survey page; braces are filled in by the page. A file of words replaces some or all."""

    language: str = "en"
    direction: str = "ltr"
    lead: str = (
        "Your answers are changed at random on this device before anything is sent. Nobody can be sure from what is "
        "sent what you said, not even those who ask. From many such answers they can still tell how many people said "
        "what."
    )
    protection: str = "What protects you"
    checking: str = "Checking the promise on this device …"
    proved: str = "Proved on this device just now, from the whole numbers that draw your answer:"
    refused: str = "This page does not keep its promise, so it asks nothing ({reason})."
    unsafe: str = "The browser offers no cryptography here. Open the page over https, or save it and open the file."
    belief: str = (
        "Somebody who thinks two records of answers equally likely can be at most {n} in 100 sure which it was, after "
        "seeing what is sent."
    )
    belief_secret: str = (
        "Somebody who thinks two values of {names} equally likely can be at most {n} in 100 sure which it was, after "
        "seeing what is sent, whatever else they know about people like you."
    )
    belief_waves: str = "If you are asked again and again, and all is put together: at most {n} in 100."
    dots: str = "{n} of 100 dots are filled; 50 would be a coin toss."
    nothing_known: str = "What is sent may tell somebody with certainty."
    check: str = "Check it yourself"
    ratio: str = "No answer is more than {ratio} times as likely from one record as from another (ε = {epsilon} nats)."
    ratio_secret: str = "About {names}: no more than {ratio} times (ε = {epsilon} nats), for any distribution."
    save: str = "Save the mechanism file"
    questions: str = "Questions"
    choose: str = "Choose"
    missing: str = "No answer"
    make: str = "Draw what will be sent"
    incomplete: str = "Please answer: {names}."
    said: str = "You said"
    sends: str = "What is sent"
    one: str = "“{value}”"
    several: str = "the set {values}"
    empty: str = "the empty set"
    symbol: str = "the sign {sign}, drawn most often for {values}"
    no_turn: str = "nothing: the lot fell on another question"
    lot: str = (
        "This was drawn by lot; it may or may not be what you said. If you say the same again, the same is drawn: "
        "trying again tells nothing new."
    )
    forgetful: str = "The browser keeps nothing here: please answer only once."
    send: str = "Send"
    sending: str = "Sending …"
    sent: str = "It has arrived. Thank you."
    already: str = "An answer was given from this device before; this is what it was. Giving it again changes nothing."
    used: str = "This invitation has been used: an answer has arrived with it."
    later: str = "Too many answers arrive just now. Please try again in a minute."
    failed: str = "It did not arrive. Try again, or pass on the line below."
    copy: str = "Copy as text"
    copied: str = "Copied. Whoever collects the answers can take this line."
    line: str = "The line that is sent"
    code: str = "Show as QR code"
    code_label: str = "QR code of the line that is sent"
    back: str = "Change my answers"
    other: str = "Somebody else answers now"
    script: str = "This page draws your answer on your device and needs JavaScript for it."


def words_in(language: str | os.PathLike[str]) -> Language:
    """The words of a language that comes with the package, or of a file in TOML."""
    if str(language) == "en":
        return Language()
    listed = files(__package__).joinpath(HOME).iterdir()
    own = {f.name.removesuffix(".toml"): f for f in listed if f.name.endswith(".toml")}
    if str(language) in own:
        return _words(own[str(language)].read_text("utf-8"), str(language))
    path = Path(language)
    if not path.exists():
        raise unknown("a language, nor a file of words", str(language), ["en", *sorted(own)])
    return _words(path.read_text("utf-8"), str(language))


def _words(text: str, where: str) -> Language:
    try:
        return msgspec.convert(tomllib.loads(text), Language)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"is no file of words: {error}", where=where) from None


# --- one HTML file that needs nothing else, whose policy lets it speak to the collector alone -------------------------


FEW_CHOICES = 8  # choices that are shown one below the other; more are a list to open
LARGEST_PAGE = 300_000  # bytes of a page that phones load without waiting
LAWS = ("cells", "table", "constant", "conditional", "layout", "blocks", "unary")


def page_of(survey: Survey, words: Language, collector: str | None = None) -> str:
    """The HTML of a survey; `collector` is where answers are posted when it is not the page's own server."""
    for part in survey.mechanism.parts:
        if part.law.kind not in LAWS:
            raise InputError(
                f"a page does not draw from a law of kind {part.law.kind!r}", next="Use a bundle of its parts."
            )
    own = (part_of(__package__, f"{name}.js") for name in ("sampler", "qr", "page"))
    script, style = "\n".join([part_of("sfumato_kernel", "verifier.js"), *own]), part_of(__package__, "page.css")
    out = str(environment(__package__).get_template("page.html").render(
        s=survey, w=words, few=FEW_CHOICES, style=style, script=script, data=_data(survey, words, collector),
        policy=policy_of(script, style, collector),
    ))
    if len(out.encode()) > LARGEST_PAGE:
        raise InputError(
            f"the page has {len(out.encode()):,} bytes, more than {LARGEST_PAGE:,}, which phones load without waiting",
            next="Use fewer labels, or ask questions apart.",
        )
    return out


def policy_of(script: str, style: str, collector: str | None) -> str:
    """Nothing but this script and this style, and no place to send to but the collector."""
    origin = ""
    if collector is not None:
        where = urlsplit(collector)
        if where.scheme not in ("http", "https") or not where.netloc or set(collector) & set("'\"<>; \t\n"):
            raise InputError("the collector must be an address like https://survey.example/answer", value=collector)
        origin = f" {where.scheme}://{where.netloc}"
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; "
        f"connect-src 'self'{origin}; base-uri 'none'; form-action 'none'"
    )


def _data(survey: Survey, words: Language, collector: str | None) -> str:
    """What the script works from; files are text: no weight becomes a float."""
    waves, mechanism = survey.waves, survey.mechanism
    return embedded({
        "id": survey_id(mechanism), "wave": survey.wave, "collector": collector, "words": msgspec.to_builtins(words),
        "questions": [
            {"name": q.name, "text": q.text or q.name, "secret": q.name in mechanism.secret.names,
             "shown": q.shown or [words.missing if x is None else x for x in q.labels]} for q in survey.questions
        ],
        "parts": [_file(part) for part in mechanism.parts], "file": _file(mechanism),
        "turns": [str(w) for w in mechanism.turns] if isinstance(mechanism, Bundle) and mechanism.turns else None,
        "claim": _claim(survey),
        "waves": None if waves is None else {
            "permanent": _file(waves.permanent), "instantaneous": _file(waves.instantaneous)
        },
    })


def _claim(survey: Survey) -> Record | None:
    """What the page must prove before it asks: the level of the record, or of the secret for any distribution, be it
    the first promise or a cap beside one over a set."""
    claim = survey.mechanism.claim
    if claim is None:
        return None
    if isinstance(claim, Promise):
        about: Record = {"about": "record" if survey.whole else "secret", "epsilon": claim.epsilon}
        return about if claim.assuming == "nothing" else None
    for one in (claim, *claim.also):
        anywhere = one.notion in ("rldp", "lip") and one.within is not None and one.within.kind == "anything"
        if one.notion == "ldp" or anywhere:
            return {"about": "record" if one.notion == "ldp" else "secret", "epsilon": one.epsilon}
    return None


def _file(mechanism: Mechanism | Bundle) -> str:
    return msgspec.json.encode(mechanism.record).decode()


# --- answers on the wire: one line of text, whether it is posted, copied or read from a QR code -----------------------
#     sfumato:1:<survey>:<token>:<answer>
#
# `survey` are the first 16 hexadecimal digits of the mechanism's checksum, `token` 22 letters of an invitation (or of
# chance, where nobody is invited), `answer` what was drawn, part by part, with points between: an output's number, or
# zeros and ones for a set; nothing for a part that had no turn.


SURVEY = 16  # hexadecimal digits: 64 bits tell surveys apart
TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")  # 128 bits and a little
LINE = re.compile(rf"sfumato:1:([0-9a-f]{{{SURVEY}}}):({TOKEN.pattern}):([0-9.]{{1,100000}})")
Drawn = tuple[int | str | None, ...]  # what each part drew


class MalformedAnswer(InputError):
    """A text that is no answer to this survey."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer to one survey looks like."""

    survey: str
    outputs: tuple[int, ...]  # of each part; 0 where an answer is a set
    widths: tuple[int, ...]  # zeros and ones of a set; 0 elsewhere
    turns: bool

    @classmethod
    def of(cls, mechanism: Mechanism | Bundle) -> Form:
        parts = mechanism.parts
        sets = [p.law.meaning == "subset" for p in parts]
        return cls(
            survey_id(mechanism), tuple(0 if s else p.outputs for p, s in zip(parts, sets, strict=True)),
            tuple(p.inputs if s else 0 for p, s in zip(parts, sets, strict=True)),
            isinstance(mechanism, Bundle) and mechanism.turns is not None,
        )

    @property
    def longest(self) -> int:
        """Characters of the longest answer."""
        digits = [w or len(str(n - 1)) for n, w in zip(self.outputs, self.widths, strict=True)]
        return len("sfumato:1:::") + SURVEY + 22 + sum(digits) + len(digits) - 1

    def read(self, text: str) -> tuple[str, str]:
        """The token and the answer of a line, or `MalformedAnswer`; the text is never repeated."""
        found = LINE.fullmatch(text) if len(text) <= self.longest else None
        if found is None:
            raise MalformedAnswer("this is no answer: it must be one line sfumato:1:survey:token:answer.")
        survey, token, answer = found.groups()
        if survey != self.survey:
            raise MalformedAnswer("this is an answer to another survey.")
        fields = answer.split(".")
        fits = len(fields) == len(self.outputs) and all(map(self._fits, fields, self.outputs, self.widths))
        given = sum(map(bool, fields))
        if not fits or given != (1 if self.turns else len(fields)):
            raise MalformedAnswer("this answer is none that the mechanism can draw.")
        return token, answer

    @staticmethod
    def _fits(field: str, outputs: int, width: int) -> bool:
        if field == "" or width:
            return field == "" or (len(field) == width and set(field) <= {"0", "1"})
        return field.isdigit() and str(int(field)) == field and int(field) < outputs

    def line(self, token: str, drawn: Drawn) -> str:
        """The line of an answer."""
        return f"sfumato:1:{self.survey}:{token}:" + ".".join("" if y is None else str(y) for y in drawn)


def survey_id(mechanism: Mechanism | Bundle) -> str:
    record = mechanism.record
    return str(record.checksum).removeprefix("sha256:")[:SURVEY]


def lines(mechanism: Mechanism | Bundle, tokens: Sequence[str], *values: object, **named: object) -> list[str]:
    """The lines that scripts send for some records, one for each token; drawn with the system's entropy."""
    parts, form = mechanism.parts, Form.of(mechanism)
    columns = {c.name: c for part in parts for c in part.reading}
    found, _ = record_codes(tuple(columns.values()), values, named)
    n = len(next(iter(found.values())))
    if len(tokens) != n:
        raise InputError(f"there are {n} records, but {len(tokens)} tokens: each needs one of its own.")
    turns = None
    if isinstance(mechanism, Bundle) and mechanism.turns is not None:
        turns = mechanism.drawn_turns(np.frombuffer(os.urandom(8 * n), np.uint64))
    rows: list[list[int | str | None]] = [[None] * len(parts) for _ in range(n)]
    for i, part in enumerate(parts):
        at = np.arange(n) if turns is None else np.flatnonzero(turns == i)
        codes = joint_code([(found[c.name][at], c.size) for c in part.reading])
        words = np.frombuffer(os.urandom(8 * part.law.words * len(at)), np.uint64).reshape(len(at), part.law.words)
        for row, y in zip(at, part.law.draw(codes, words), strict=True):
            rows[row][i] = "".join(map(str, y)) if form.widths[i] else int(y)
    return [form.line(token, tuple(row)) for token, row in zip(tokens, rows, strict=True)]
