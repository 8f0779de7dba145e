"""Reading: from bytes to a checked document. Whatever this file does not describe is refused, and named.

A document is UTF-8 JSON without duplicate keys, with whole numbers below 2^63, decimals that are finite doubles, and no
field that is not listed here. Its checksum is SHA-256 of its own bytes, without the white space outside strings and
without the last member, `checksum`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

LARGEST_FILE = 1 << 26  # bytes
DIGITS = 40  # characters of a number; a double takes 24 and a whole number below 2^63 takes 19
GREATEST = 2**62  # of a weight, a length, a count, and of what they sum to: all that 63 bits hold with room for one sum
DEEPEST = 8  # claims inside claims
MANY = 64  # claims in a file
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
SEAL = re.compile(rb',"checksum":"[^"\\]*"}$')
Check = Callable[[Any, str], Any]
REQUIRED = object()


class Refused(Exception):
    """Not accepted, and why."""


class Malformed(Refused):
    """The bytes do not describe a mechanism."""


class Unproved(Refused):
    """A claim that does not hold, or that could not be proved."""


class Beyond(Refused):
    """Not something this verifier proves."""


def bad(message: str) -> NoReturn:
    raise Malformed(message)


def parsed(data: bytes) -> Any:
    """The JSON document in the bytes, after its size, its numbers, its keys and its checksum were looked at."""
    if len(data) > LARGEST_FILE:
        bad(f"the file has {len(data):,} bytes; at most {LARGEST_FILE:,} are read")
    try:
        found = json.loads(data.decode(), parse_int=_whole, parse_float=_decimal, parse_constant=_constant,
                           object_pairs_hook=_members)
    except RecursionError:
        bad("it is nested too deeply")
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        bad(f"it is no JSON document: {error}")
    if not isinstance(found, dict):
        bad("it is no JSON object")
    return found


def check_seal(data: bytes, document: dict[str, Any]) -> None:
    """Whether the checksum is that of the bytes."""
    compact = SPACE.sub(rb"\1", data)
    bare = SEAL.sub(b"}", compact)
    if bare == compact or document.get("checksum") != "sha256:" + hashlib.sha256(bare).hexdigest():
        bad("it was changed after it was written: the checksum does not match")


def check_parts(data: bytes) -> None:
    """Whether every part of a bundle has the checksum of its own bytes."""
    raw, decoder = SPACE.sub(rb"\1", data).decode(), json.JSONDecoder()
    at = 1
    while True:  # the members of the document, and those of `parts`, in turn
        key, at = decoder.raw_decode(raw, at)
        at += 1
        if key == "parts":
            break
        at = decoder.raw_decode(raw, at)[1] + 1
    while raw[at] != "]":
        part, end = decoder.raw_decode(raw, at + 1)
        check_seal(raw[at + 1:end].encode(), part)
        at = end


def _whole(text: str) -> int:
    return int(text) if len(text) <= DIGITS else bad(f"a number has {len(text):,} digits")


def _decimal(text: str) -> float:
    value = float(text) if len(text) <= DIGITS else bad(f"a number has {len(text):,} digits")
    return value if math.isfinite(value) else bad(f"{text} is no finite number")


def _constant(text: str) -> NoReturn:
    bad(f"{text} is no number")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    return out if len(out) == len(pairs) else bad("an object has two members of one name")


def whole(low: int, high: int) -> Check:
    def check(x: Any, at: str) -> int:
        return x if type(x) is int and low <= x <= high else bad(f"{at} is no whole number from {low} to {high}")
    return check


def real(low: float, high: float) -> Check:
    def check(x: Any, at: str) -> float:
        if type(x) not in (int, float) or not low <= x <= high:
            bad(f"{at} is no number from {low:g} to {high:g}")
        return float(x)
    return check


def text(x: Any, at: str) -> str:
    if not isinstance(x, str) or len(x) > 10_000 or CONTROL.search(x):
        bad(f"{at} holds something else than text without control characters (clean it, or bin it, first)")
    return x


def maybe(inner: Check) -> Check:
    return lambda x, at: None if x is None else inner(x, at)


def among(*names: str) -> Check:
    return lambda x, at: x if isinstance(x, str) and x in names else bad(f"{at} is none of {', '.join(names)}")


def listed(inner: Check, least: int = 1) -> Check:
    def check(x: Any, at: str) -> list[Any]:
        if not isinstance(x, list) or len(x) < least:
            bad(f"{at} is no list of {least} or more")
        return [inner(e, at) for e in x]
    return check


def record(**fields: Any) -> Check:
    """An object with these fields: a check, or (check, default) where the field may be left out."""
    wanted = {name: f if isinstance(f, tuple) else (f, REQUIRED) for name, f in fields.items()}

    def check(x: Any, at: str) -> dict[str, Any]:
        if not isinstance(x, dict):
            bad(f"{at} is no object")
        for name in x.keys() - wanted.keys():
            bad(f"{at} has a field {name[:40]!r}, which it must not have")
        for name, (_, default) in wanted.items():
            if default is REQUIRED and name not in x:
                bad(f"{at} lacks {name!r}")
        return {name: inner(x[name], f"{at}.{name}") if name in x else default
                for name, (inner, default) in wanted.items()}
    return check


def kinds(**laws: Check) -> Check:
    def check(x: Any, at: str) -> dict[str, Any]:
        if not isinstance(x, dict) or not isinstance(x.get("kind"), str) or x["kind"] not in laws:
            bad(f"{at} has a kind that is none of {', '.join(laws)}")
        return {"kind": x["kind"], **laws[x["kind"]]({k: v for k, v in x.items() if k != "kind"}, at)}
    return check


def order(x: Any, at: str) -> float:
    """An order of leakage: a number of 1 or more, or "inf"."""
    return math.inf if x == "inf" else real(1, 1e6)(x, at)


def claim(x: Any, at: str, depth: int = 0) -> dict[str, Any]:
    if depth > DEEPEST:
        bad("claims are nested too deeply")
    inner = listed(lambda y, place: claim(y, place, depth + 1), 0)
    found: dict[str, Any] = record(
        notion=among(*NOTIONS), epsilon=real(0, 1e6), within=(maybe(SET), None), alpha=(maybe(order), None),
        beta=(maybe(order), None), also=(inner, []),
    )(x, at)
    return found


NOTIONS = ("ldp", "lip", "rldp", "srlip", "pml", "mi", "leakage")
BITS, WEIGHT, POSITIVE = whole(0, 62), whole(0, GREATEST), whole(1, GREATEST)
PROBABILITY = real(0, 1)
NAME = maybe(text)
COLUMN = record(name=text, labels=listed(NAME), other=(NAME, None), cuts=(maybe(listed(real(-1e308, 1e308), 0)), None),
                dtype=(among("string", "number", "boolean", "year", "quarter", "month", "weekday"), "string"))
SIMPLE = dict(
    table=record(bits=BITS, weights=listed(listed(WEIGHT)), meaning=among("symbol", "cell", "useful")),
    cells=record(bits=BITS, truth=WEIGHT, same_secret=WEIGHT, same_useful=WEIGHT, neither=WEIGHT),
    constant=record(bits=BITS),
    conditional=record(bits=BITS, keep=listed(WEIGHT), base=listed(listed(WEIGHT))),
    unary=record(bits=BITS, on=WEIGHT, off=WEIGHT),
    layout=record(bits=BITS, lengths=listed(listed(POSITIVE)), heights=listed(listed(listed(WEIGHT)))),
    blocks=record(bits=BITS, order=whole(2, 13), inside=WEIGHT, outside=WEIGHT, other=WEIGHT),
)
PART = record(law=kinds(**SIMPLE), columns=listed(whole(0, 1000), 0), reads=among("both", "useful"),
              times=(whole(1, 10**6), 1))
LAW = kinds(**SIMPLE, product=record(parts=listed(PART)))
SET = record(kind=among("exactly", "anything", "chi-square-ball", "renyi-ball", "polytope", "custom"),
             radius=(maybe(real(0, 1e300)), None), confidence=(maybe(real(0, 1)), None),
             calibration=(NAME, None), alpha=(maybe(real(1e-3, 1e3)), None),
             vertices=(maybe(listed(listed(listed(PROBABILITY)))), None), name=(NAME, None))
DESIGN = record(source=text, counts=(maybe(listed(listed(WEIGHT))), None),
                probabilities=(maybe(listed(listed(PROBABILITY))), None), n=(maybe(POSITIVE), None),
                fingerprint=(NAME, None))
MECHANISM = record(format=among("sfumato/mechanism"), version=whole(1, 1), method=text, reads=among("both", "useful"),
                   secret=listed(COLUMN, 0), useful=listed(COLUMN, 0), law=LAW, claim=(maybe(claim), None),
                   design=(maybe(DESIGN), None), answers=(maybe(COLUMN), None), checksum=text)
PROMISE = record(epsilon=real(0, 1e6), assuming=among("nothing", "tables", "star", "tree"))
BUNDLE = record(format=among("sfumato/bundle"), version=whole(1, 1), secret=listed(COLUMN),
                parts=listed(MECHANISM), turns=(maybe(listed(POSITIVE)), None), promise=(maybe(PROMISE), None),
                source=(text, "unstated"), checksum=text)
