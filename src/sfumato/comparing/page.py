"""The page of a comparison: three methods recommended, two panels, and a table, in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

from sfumato.comparing.pictures import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, WIDTH, error_picture, kept_picture
from sfumato.comparing.recommending import advice, recommended
from sfumato.comparing.results import Comparison, Point
from sfumato.comparing.running import ENTRANTS, PLAIN
from sfumato.designers.choose import METHODS

BIT = math.log(2)
SCALES = {
    "plain-grr": "Randomised response of the whole record, as it is used elsewhere: it promises more, and keeps less.",
    "plain-oue": "Unary encoding of the whole record, as it is used elsewhere: it promises more, and keeps less.",
    "plain-olh": "Local hashing of the whole record, as it is used elsewhere; a formula, nothing is released with it.",
    "precise-useful": "A table of probabilities from which the useful columns can be estimated as well as possible.",
}


def page(found: Comparison, at: float) -> str:
    """The page, with the advice and the table at one ε."""
    chosen = recommended(found.at(at))
    script = _text("compare.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    missing = {m.method: m.why for m in reversed(found.missing)}
    return str(_template().render(
        joint=found.joint, n=found.n, at=at, colours=COLOURS, script=script, script_hash=f"sha256-{digest}",
        methods=[(name, _advised(found, at, name), sentence(name)) for name in chosen], data=_data(found, chosen),
        errors=error_picture(found, at), kept=_own(kept_picture(found, at)), rows=_rows(found.at(at), chosen),
        missing=missing.items(), levels=len(found.epsilons),
        chosen=found.epsilons.index(at) if at in found.epsilons else 0,
    ))


def sentence(name: str) -> str:
    """What a method does, in one sentence."""
    return SCALES.get(name) or METHODS.get(name, "")


def _advised(found: Comparison, at: float, name: str) -> str:
    """What a method is recommended for, with the reason."""
    told = [f"{a.aim}: {a.reason}" for a in advice(found.at(at)) if a.method == name]
    return (". ".join(told) or "Also with this promise, and next in what it keeps") + "."


def _data(found: Comparison, chosen: tuple[str, ...]) -> str:
    """What the script says at each level, for the recommended methods."""

    def told(name: str, epsilon: float) -> list[str]:
        p = next((p for p in found.of(name) if p.epsilon == epsilon), None)
        return ["–", "–"] if p is None else [_bits(p), _points(p, "useful")]

    content = {
        "epsilons": list(found.epsilons), "methods": list(chosen), "left": LEFT, "right": WIDTH - RIGHT, "width": WIDTH,
        "bottom": HEIGHT - BOTTOM,
        "told": [[told(name, e) for name in chosen] for e in found.epsilons],
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _own(svg: str) -> str:
    """Ids of their own for a further picture on the page."""
    return svg.replace("chart-", "chart-kept-")


def _rows(points: tuple[Point, ...], chosen: tuple[str, ...]) -> list[dict[str, Any]]:
    """The table: recommended ones first, then the others by what they keep, then other promises."""

    def rank(p: Point) -> tuple[bool, int, bool, float]:
        place = chosen.index(p.method) if p.method in chosen else len(chosen)
        return not ENTRANTS[p.method].comparable, place, p.method in PLAIN, -(p.kept or 0.0)

    return [
        {
            "name": p.method, "what": sentence(p.method), "kept": _bits(p), "useful": _points(p, "useful"),
            "joint": _points(p, "joint"), "promise": p.promise,
            "colour": chosen.index(p.method) if p.method in chosen else None,
        } for p in sorted(points, key=rank)
    ]


def _bits(p: Point) -> str:
    return "–" if p.kept is None else f"{p.kept / BIT:.2f}"


def _points(p: Point, of: str) -> str:
    error = p.error(of)
    return "not fixed" if math.isinf(error) else f"± {100 * error:.2g}"


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_text("compare.html"))
