"""Records of people as codes, and answers that are remembered by a key."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import numpy as np

from sfumato.alphabet import Column, Ints
from sfumato.errors import InputError, did_you_mean

# --- values in order, by name, in a dictionary, or many at once -------------------------------------------------------


def record_codes(
    columns: Sequence[Column], values: tuple[object, ...], named: Mapping[str, object]
) -> tuple[dict[str, Ints], bool]:
    """Codes [i] of every column by its name, and whether it was a single record.

    One record: `"yes", 34`, a value for each column in order, `drug="yes", age=34`, or one dictionary. Many: a list of
    dictionaries, or a list or array of values for each name. Names that are not read are not looked at.
    """
    if values and named:
        raise InputError("give a record by the names of its columns or as values in their order, not both.")
    if len(values) == 1 and isinstance(values[0], Mapping):
        named, values = values[0], ()
    if len(values) == 1 and _many(values[0]):
        return {c.name: _column_codes(c, _each(values[0], c.name)) for c in columns}, False
    if values:
        if len(values) != len(columns):
            names = ", ".join(c.name for c in columns)
            raise InputError(f"this mechanism reads {names}: {len(columns)} value(s)", value=len(values))
        named = dict(zip((c.name for c in columns), values, strict=True))
    found = {c.name: _value(named, c.name) for c in columns}
    lists = {name: x for name, x in found.items() if _many(x)}
    if not lists:
        return {c.name: np.array([c.code(found[c.name])]) for c in columns}, True
    if len(lists) < len(found) or len({len(x) for x in lists.values()}) > 1:
        raise InputError("give every column one value, or every column a list of values of the same length.")
    return {c.name: _column_codes(c, lists[c.name]) for c in columns}, False


def _many(x: object) -> TypeGuard[Sequence[object]]:
    return isinstance(x, (Sequence, np.ndarray)) and not isinstance(x, (str, bytes, tuple))


def _each(records: Sequence[object], name: str) -> Iterator[object]:
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"record {i + 1} is a {type(record).__name__}; many records are a list of dictionaries.")
        yield _value(record, name)


def _value(record: Mapping[str, object], name: str) -> object:
    if name not in record:
        raise InputError(f"the record has no value for {name!r}", next=did_you_mean(name, map(str, record)))
    return record[name]


def _column_codes(column: Column, values: Iterable[object]) -> Ints:
    """Codes of many values; equal values are looked up once."""
    known: dict[object, int] = {}
    out = []
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        key = type(value), value  # 1 and True are equal, and spelled differently
        if key not in known:
            known[key] = column.code(value)
        out.append(known[key])
    return np.array(out, np.int64)


def joint_code(codes: Sequence[tuple[Ints, int]]) -> Ints:
    """Codes of several columns, each with its size, as one code in row-major order."""
    total = np.zeros(len(codes[0][0]) if codes else 1, np.int64)
    for own, size in codes:
        total = total * size + own
    return total


# ----------------------------------------------------------------------------------------------------------------------
# Random words that a secret key and a record determine, so that the same question gets the same answer.


LEAST_KEY = 16  # bytes
BLOCK = 64  # bytes that one call of the hash function gives


def memory_key(key: bytes, mechanism: str) -> bytes:
    """The key of one mechanism: answers of different mechanisms share no randomness."""
    if not isinstance(key, bytes) or len(key) < LEAST_KEY:
        raise InputError(f"a key to remember answers by is {LEAST_KEY} random bytes or more: secrets.token_bytes(32).")
    return hmac.new(key, b"sfumato memory " + mechanism.encode(), hashlib.sha256).digest()


def remembered(key: bytes, person: bytes, code: int, words: int) -> bytes:
    """Words for a person and an input: BLAKE2b keyed by `memory_key`, a pseudorandom function of both.

    Whoever does not have the key cannot tell them from fresh words. A changed value has words of its own, a value that
    comes back has its old ones.
    """
    record = code.to_bytes(8, "big") + person
    blocks = range(-(-8 * words // BLOCK))
    made = (hashlib.blake2b(record, key=key, salt=i.to_bytes(16, "big"), digest_size=BLOCK) for i in blocks)
    return b"".join(block.digest() for block in made)[: 8 * words]
