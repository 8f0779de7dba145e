"""The page of a survey: one HTML file that needs nothing else, whose policy lets it speak to the collector alone."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from sfumato.errors import InputError
from sfumato.mechanism import Bundle, Mechanism, Promise
from sfumato.mechanism.bundle_file import any_record
from sfumato.survey.answers import parts_of, survey_id
from sfumato.survey.words import Language

if TYPE_CHECKING:
    from jinja2 import Template

    from sfumato.frames import Record
    from sfumato.survey.asking import Survey

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
