"""The page of a survey, in the words of a language: one file that draws on the device."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from sfumato.errors import InputError, unknown
from sfumato.mechanism import Bundle, Mechanism, Promise
from sfumato.mechanism.bundle import any_record
from sfumato.survey.answer_lines import parts_of, survey_id

if TYPE_CHECKING:
    from jinja2 import Template

    from sfumato.frames import Record
    from sfumato.survey.asking import Survey


# --- the words of a page, in English unless a file says otherwise -----------------------------------------------------


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


FEW = 8  # choices that are shown one below the other; more are a list to open
LARGEST = 300_000  # bytes of a page that phones load without waiting
LAWS = ("cells", "table", "constant", "conditional", "layout", "blocks", "unary")


def page_of(survey: Survey, words: Language, collector: str | None = None) -> str:
    """The HTML of a survey; `collector` is where answers are posted when it is not the page's own server."""
    for part in parts_of(survey.mechanism):
        if part.law.kind not in LAWS:
            raise InputError(
                f"a page does not draw from a law of kind {part.law.kind!r}", next="Use a bundle of its parts."
            )
    script = "\n".join(_scripts())
    style = _text("page.css")
    out = str(_template().render(
        s=survey, w=words, few=FEW, style=style, script=script, data=_data(survey, words, collector),
        policy=policy_of(script, style, collector),
    ))
    if len(out.encode()) > LARGEST:
        raise InputError(
            f"the page has {len(out.encode()):,} bytes, more than the {LARGEST:,} that phones load without waiting",
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
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"connect-src 'self'{origin}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(survey: Survey, words: Language, collector: str | None) -> str:
    """What the script works from, as JSON that cannot end its element; files are text: no weight becomes a float."""
    waves = survey.waves
    mechanism = survey.mechanism
    text = json.dumps({
        "id": survey_id(mechanism), "wave": survey.wave, "collector": collector, "words": msgspec.to_builtins(words),
        "questions": [
            {"name": q.name, "text": q.text or q.name, "secret": q.name in mechanism.secret.names,
             "shown": q.shown or [words.missing if x is None else x for x in q.labels]} for q in survey.questions
        ],
        "parts": [_file(part) for part in parts_of(mechanism)], "file": _file(mechanism),
        "turns": [str(w) for w in mechanism.turns] if isinstance(mechanism, Bundle) and mechanism.turns else None,
        "claim": _claim(survey),
        "waves": None if waves is None else {
            "permanent": _file(waves.permanent), "instantaneous": _file(waves.instantaneous)
        },
    }, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


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
    return msgspec.json.encode(any_record(mechanism)).decode()


def _scripts() -> list[str]:
    import sfumato_kernel

    verifier = files(sfumato_kernel).joinpath("verifier.js").read_text("utf-8")
    return [verifier, *(_text(f"{name}.js") for name in ("sampler", "qr", "page"))]


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(_text("page.html"))
