"""Reading: from bytes to a document with every field checked. Whatever is not described here is refused, and named.

A document is UTF-8 JSON without duplicate keys, with whole numbers, decimals that are finite doubles, and no field that
is not listed here. Its checksum is SHA-256 of its own bytes, without the white space outside strings and without the
last member, `checksum`.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a file may hold at most."""

    file: int = 1 << 26  # bytes
    digits: int = 40  # characters of a number; a double takes 24 and a whole number below 2^63 takes 19
    deepest: int = 8  # claims inside claims
    claims: int = 16  # claims in a file


SIZES = Sizes()
GREATEST = 2**62  # of a weight, a length, a count, and of what they sum to: all that 63 bits hold with room for one sum
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONG = re.compile(rb"[-+.0-9eE]{%d}" % (SIZES.digits + 1))  # in a number or in text
TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^" \t\r\n]+')  # all but the white space outside strings
SEAL = re.compile(rb',"checksum":"([^"\\]*)"}$')
Document = dict[str, Any]  # of JSON, after its shape was checked
Check = Callable[[Any, str], Any]


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


def parsed(data: bytes) -> Document:
    """The JSON object in the bytes, after its size, its numbers and its keys were looked at."""
    if len(data) > SIZES.file:
        bad(f"the file has {len(data):,} bytes; at most {SIZES.file:,} are read")
    long = LONG.search(data)
    try:
        found = json.loads(data.decode(), parse_constant=lambda x: bad(f"{x} is no number"), object_pairs_hook=_members,
                           parse_int=_short(int) if long else None, parse_float=_short(float) if long else None)
    except RecursionError:
        bad("it is nested too deeply")
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        bad(f"it is no JSON document: {error}")
    return found if isinstance(found, dict) else bad("it is no JSON object")


def _short(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda digits: kind(digits) if len(digits) <= SIZES.digits else bad(f"a number has {len(digits):,} digits")


def _members(pairs: list[tuple[str, Any]]) -> Document:
    out = dict(pairs)
    return out if len(out) == len(pairs) else bad("an object has two members of one name")


def document(data: bytes) -> Document:
    """The mechanism or bundle in the bytes, with every field checked, and its checksum and those of its parts."""
    found = parsed(data)
    bundle = found.get("format") == "sfumato/bundle"
    out: Document = check(found, BUNDLE if bundle else MECHANISM, "the bundle" if bundle else "the file")
    if not sealed(data, bundle):
        bad("it was changed after it was written: the checksum does not match")
    return out


def sealed(data: bytes, bundle: bool = False) -> bool:
    """Whether the checksum of a document, and those of the parts of a bundle, are those of its own bytes, with numbers
    as they are spelled there; of a document that has its fields."""
    raw, decoder = b"".join(TOKENS.findall(data)).decode(), json.JSONDecoder()
    own = [raw]
    try:
        if bundle:  # no field before its parts can hold a member of that name
            at = raw.index('"parts":[') + len('"parts":')
            while raw[at] != "]":
                end = decoder.raw_decode(raw, at + 1)[1]
                own.append(raw[at + 1:end])
                at = end
    except ValueError:  # it has no part, or calls them by another spelling
        return False
    return all(_is_sealed(document.encode()) for document in own)


def _is_sealed(compact: bytes) -> bool:
    seal = SEAL.search(compact)
    return seal is not None and seal[1].decode() == "sha256:" + hashlib.sha256(SEAL.sub(b"}", compact)).hexdigest()


def check(x: object, shape: Any, at: str) -> Any:
    """x, if it has the shape: a function that looks at it; [shape] for a list, [shape, 0] for one that may be empty;
    {name: shape} for an object, where a field `name?` may be missing or null."""
    if callable(shape):
        return shape(x, at)
    if isinstance(shape, list):
        if not isinstance(x, list) or len(x) + len(shape) < 2:
            bad(f"{at} is no list of {2 - len(shape)} or more")
        inner = shape[0] if callable(shape[0]) else lambda e, place: check(e, shape[0], place)
        return [inner(e, at) for e in x]
    if not isinstance(x, dict):
        bad(f"{at} is no object")
    out, left = {}, set(x)
    for field, inner in shape.items():
        name = field.rstrip("?")
        left.discard(name)
        if name == field and name not in x:
            bad(f"{at} lacks {name!r}")
        out[name] = None if name != field and x.get(name) is None else check(x[name], inner, f"{at}.{name}")
    return out if not left else bad(f"{at} has a field {min(left)[:40]!r}, which it must not have")


def whole(low: int, high: int) -> Check:
    return lambda x, at: x if type(x) is int and low <= x <= high else bad(
        f"{at} is no whole number from {low} to {high}")


def real(low: float, high: float) -> Check:
    return lambda x, at: float(x) if type(x) in (int, float) and low <= x <= high else bad(
        f"{at} is no number from {low:g} to {high:g}")


def among(*names: str) -> Check:
    return lambda x, at: x if isinstance(x, str) and x in names else bad(f"{at} is none of {', '.join(names)}")


def tagged(shapes: Document) -> Check:
    """An object with the fields that its kind has, and no others."""
    def look(x: object, at: str) -> Any:
        kind = x.get("kind") if isinstance(x, dict) else bad(f"{at} is no object")
        return check(x, {"kind": text, **shapes[among(*shapes)(kind, f"{at}.kind")]}, at)
    return look


def text(x: object, at: str) -> str:
    return x if isinstance(x, str) and len(x) <= 10_000 and not CONTROL.search(x) else bad(
        f"{at} holds something else than text without control characters (clean it, or bin it, first)")


def label(x: object, at: str) -> str | None:
    return None if x is None else text(x, at)


def column(x: object, at: str) -> Document:
    """A column whose labels are all different, with its catch-all among them and one more than cuts."""
    found: Document = check(x, COLUMN, at)
    labels, cuts = found["labels"], found["cuts"]
    if len(set(labels)) < len(labels) or (found["other"] is not None and found["other"] not in labels):
        bad(f"column {found['name'][:40]!r} lists a label twice, or lacks its catch-all")
    if cuts is not None and (len([x for x in labels if x is not None]) != len(cuts) + 1
                             or any(a >= b for a, b in itertools.pairwise(cuts))):
        bad(f"column {found['name'][:40]!r} has bins that are not its labels")
    return found


def order(x: object, at: str) -> float:
    """An order of leakage: a number of 1 or more, or "inf"."""
    return math.inf if x == "inf" else real(1, 1e6)(x, at)


def claim(x: object, at: str) -> Document:
    found: Document = check(x, CLAIM, at) if at.count(".also") <= SIZES.deepest else bad("claims are nested too deeply")
    return {**found, "also": found["also"] or []}


BITS, WEIGHT, POSITIVE, EPSILON = whole(0, 62), whole(0, GREATEST), whole(1, GREATEST), real(0, 1e6)
PROBABILITIES, RADIUS, READS = [[real(0, 1)]], real(0, 1e300), among("both", "useful")
COLUMN = {"name": text, "labels": [label], "other?": text, "cuts?": [real(-1e308, 1e308), 0],
          "dtype?": among("string", "number", "boolean", "year", "quarter", "month", "weekday")}
SIMPLE = {
    "table": {"bits": BITS, "weights": [[WEIGHT]], "meaning": among("symbol", "cell", "useful")},
    "cells": {"bits": BITS, "truth": WEIGHT, "same_secret": WEIGHT, "same_useful": WEIGHT, "neither": WEIGHT},
    "constant": {"bits": BITS},
    "conditional": {"bits": BITS, "keep": [WEIGHT], "base": [[WEIGHT]]},
    "unary": {"bits": BITS, "on": WEIGHT, "off": WEIGHT},
    "layout": {"bits": BITS, "lengths": [[POSITIVE]], "heights": [[[WEIGHT]]]},
    "blocks": {"bits": BITS, "order": whole(2, 13), "inside": WEIGHT, "outside": WEIGHT, "other": WEIGHT},
}
PART = {"law": tagged(SIMPLE), "columns": [whole(0, 1000), 0], "reads": READS, "times?": whole(1, 10**6)}
SETS = {
    "exactly": {}, "anything": {}, "custom": {"name?": text}, "polytope": {"vertices": [PROBABILITIES]},
    "chi-square-ball": {"radius": RADIUS, "confidence?": real(0, 1), "calibration?": text},
    "renyi-ball": {"alpha": real(1e-3, 1e3), "radius": RADIUS, "confidence?": real(0, 1)},
}
CLAIM = {"notion": among("ldp", "lip", "rldp", "srlip", "pml", "mi", "leakage"), "epsilon": EPSILON,
         "within?": tagged(SETS), "alpha?": order, "beta?": order, "also?": [claim, 0]}
SAMPLERS = ("two-sided geometric, exact integers from the system's randomness", "seeded: not for release")
NOISE = {"epsilon": EPSILON, "rows": POSITIVE, "counts": EPSILON, "sampler": among(*SAMPLERS), "delta?": real(0, 1),
         "coverage?": real(0, 1), "draw?": text}
DESIGN = {"source": text, "counts?": [[WEIGHT]], "probabilities?": PROBABILITIES, "n?": POSITIVE, "fingerprint?": text,
          "noise?": NOISE}
MECHANISM = {"format": among("sfumato/mechanism"), "version": whole(1, 2), "method": text, "reads": READS,
             "secret": [column, 0], "useful": [column, 0], "law": tagged({**SIMPLE, "product": {"parts": [PART]}}),
             "claim?": claim, "design?": DESIGN, "answers?": column, "checksum": text}
PROMISE = {"epsilon": EPSILON, "assuming": among("nothing", "tables", "star", "tree")}
BUNDLE = {"format": among("sfumato/bundle"), "version": whole(1, 1), "secret": [column], "parts": [MECHANISM],
          "turns?": [POSITIVE], "promise?": PROMISE, "source?": text, "checksum": text}
