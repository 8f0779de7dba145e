"""Laws: how inputs become outputs, as weights that are first floats and, once sealed, integers.

A law over |S| × |U| inputs has x = s·|U| + u; one that reads U alone has a single row of secrets (rows = 1).
Privacy notions never see a whole |Y| × |X| matrix; they ask a law for its *contrasts*, the few shapes of rows
that have to be compared, which for structured laws are a handful of numbers whatever the size of the table.
Records of people become inputs here, and the words that a person's own key remembers answers by.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Column, Floats, Ints
from sfumato.errors import InputError, did_you_mean
from sfumato.tolerances import LISTED, SUMS_TO_ONE

Words = npt.NDArray[np.uint64]
Weights = npt.NDArray[Any]  # floats that sum to 1, or int64 that sum to 2^bits
Weight: TypeAlias = Any  # one of them, or a table of them: a float, or a Python integer once sealed
ROW_BITS = 200  # of integers that floats can stand for in arithmetic; only rows of products of laws are larger


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows listed one by one: values[y, s, u], with one s for all when the secret is not read."""

    values: Weights

    @property
    def floats(self) -> Floats:
        """The values in floats. Integers too large for arithmetic are scaled, each row by one power of two, which
        changes no ratio."""
        if self.values.dtype != object:
            return np.asarray(self.values, float)
        flat = self.values.reshape(len(self.values), -1)
        scaled = [[w / (1 << k) for w in row] for row in flat for k in [excess_bits(row)]]
        return np.array(scaled).reshape(self.values.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Spikes:
    """For every u₀ and every s₁ ≠ s₂ there is an output whose row is base₁ off u₀ and peak₁ on it for s₁, and
    base₂, peak₂ for s₂. Entries are scalars or tables [s, u₀]."""

    base_first: Weight
    peak_first: Weight
    base_second: Weight
    peak_second: Weight


@dataclass(frozen=True, slots=True, eq=False)
class Subsets:
    """For every set H of useful values there is an output whose row is `high` on H and `low` off it, whatever s."""

    low: Weight
    high: Weight


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Rows are made of one atom per secret; any two atoms of different secrets are compared as if some row held both,
    which bounds the level from above. heights[a, u] and the secret of each atom."""

    heights: Weights
    secret: Ints


Contrast = Rows | Spikes | Subsets | Atoms


class Law(Protocol):
    """A conditional law Q(y|x)."""

    kind: ClassVar[str]

    @property
    def bits(self) -> int | None:
        """Weights are integers that sum to 2^bits, or floats that sum to 1 while it is None."""

    @property
    def rows(self) -> int:
        """Secrets it tells apart: |S|, or 1 when it reads the useful variable alone."""

    @property
    def useful(self) -> int:
        """|U|."""

    @property
    def outputs(self) -> int:
        """|Y|."""

    @property
    def meaning(self) -> str:
        """What an output is: a 'cell' of S × U, a 'useful' value, a 'subset' of the inputs, or a 'symbol'."""

    @property
    def words(self) -> int:
        """Random words of 64 bits that one record takes."""

    def row(self, y: int) -> Weights:
        """Q(y|·) as weights [s, u]."""

    def contrasts(self) -> list[Contrast]:
        """What has to be compared between two secrets."""

    def input_extremes(self) -> tuple[Weight, Weight, int]:
        """The weights (top, bottom) with the greatest Q(y|x) / Q(y|x') over all y, x, x', and that y (−1: a set)."""

    def secret_laws(self, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """(max_s P(y|s), min_s P(y|s), P(y), y) for outputs among which the extreme ratios occur; weights, not
        normalised; `given` is P(u|s). Secrets with ps = 0 are left out."""

    def rounded(self, bits: int | None, margin: float) -> Law:
        """Integer weights near the floats after mixing in `margin` of a law that ignores the input."""

    def draw(self, codes: Ints, words: Words) -> Ints:
        """Outputs for input codes [i] and random words [i, w]: a pure function, exact in distribution."""

    def matrix(self) -> Floats | None:
        """Q[y, x] in floats, or None when it is too large to list."""


def excess_bits(row: Iterable[int]) -> int:
    """By how many bits the greatest of the integers is too large to be squared and cubed as a float."""
    return max(0, int(max(row)).bit_length() - ROW_BITS)


MOST_BITS = 62  # of a word that is drawn: what int64 holds, with room for one sum


def check_bits(bits: int | None) -> None:
    """Weights out of 2^bits are drawn with as many random bits: 0 to 62."""
    if bits is not None and not 0 <= bits <= MOST_BITS:
        raise InputError(f"weights must sum to 2^bits with bits from 0 to {MOST_BITS}", value=bits)


def worst_row(top: Weights, bottom: Weights) -> int:
    """Where top / bottom is greatest; floats choose the candidates, rationals decide. A row of zeros counts least."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rough = np.where(np.asarray(top, float) > 0, np.asarray(top, float) / np.asarray(bottom, float), 0.0)
    best = rough.max()
    near = np.flatnonzero(np.isinf(rough) if np.isinf(best) else rough * (1 + 2.0**-49) >= best)
    if len(near) == 1 or not np.isfinite(best) or np.asarray(top).dtype.kind == "f":
        return int(near[0])
    return int(max(near, key=lambda y: Fraction(int(top[y]), int(bottom[y])) if top[y] else Fraction(0)))


def scale(bits: int | None) -> float:
    """What weights sum to, as a float: for turning them into probabilities."""
    return 1.0 if bits is None else 2.0**bits


def is_total(weight: Weight, bits: int | None) -> bool:
    """Whether weights sum to what they must: exactly 2^bits once sealed, 1 within rounding before."""
    return bool(abs(weight - 1) <= SUMS_TO_ONE if bits is None else weight == 2**bits)


def mask(words: Words, bits: int) -> Words:
    """The low `bits` bits of each word."""
    return words & np.uint64((1 << bits) - 1)


def stacked(law: Law) -> Floats | None:
    """Q[y, x] row by row, for laws small enough to list."""
    if law.outputs * law.rows * law.useful > LISTED:
        return None
    return np.stack([np.asarray(law.row(y), float).ravel() for y in range(law.outputs)]) / scale(law.bits)


class OneWord:
    """What laws have in common that take one random word for each record."""

    words: ClassVar[int] = 1

    def drawn(self: Law, words: Words) -> Ints:
        """The words as whole numbers below 2^bits."""
        assert self.bits is not None
        return mask(words[:, 0], self.bits).astype(np.int64)

    def matrix(self: Law) -> Floats | None:
        return stacked(self)


def present(ps: Floats) -> Ints:
    """The secrets that occur."""
    return np.flatnonzero(np.asarray(ps) > 0)


def listed_laws(v: Floats, given: Floats, ps: Floats) -> tuple[Floats, Floats, Floats, Ints]:
    """`Law.secret_laws` of rows listed one by one, v[y, s, u]."""
    laws = np.einsum("ysu,su->ys", np.broadcast_to(v, (len(v), *given.shape)), given)
    seen = laws[:, present(ps)]
    return seen.max(1), seen.min(1), laws @ ps, np.arange(len(v))


def told_apart(law: Law) -> tuple[Hashable, ...]:
    """What tells a law from others: its kind and its numbers where they are few, else which object it is."""
    given = (f.name for f in fields(law) if f.init)  # type: ignore[arg-type]  # every law is a dataclass
    found = tuple(getattr(law, name) for name in given)
    return (law.kind, *found) if all(isinstance(x, int | str | None) for x in found) else (id(law),)


def whole_weights(q: Floats, bits: int) -> Ints:
    """Integers near 2^bits·q whose columns sum to 2^bits; what rounding leaves goes to the largest weights."""
    floor = np.floor(np.ldexp(q / q.sum(0), bits)).astype(np.int64)
    left = 2**bits - floor.sum(0, dtype=object)
    at = np.argmax(floor, 0), np.arange(q.shape[1])
    floor[at] += left.astype(np.int64)
    return np.asarray(floor)


# --- records of people as codes: values in order, by name, in a dictionary, or many at once ---------------------------


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
    names = [c.name for c in columns]
    if values and len(values) != len(columns):
        raise InputError(f"this mechanism reads {', '.join(names)}: {len(names)} value(s)", value=len(values))
    named = dict(zip(names, values, strict=True)) if values else named
    found = {name: _value(named, name) for name in names}
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


# --- random words that a secret key and a record determine, so that the same question gets the same answer ------------


LEAST_KEY = 16  # bytes


def key_in(path: Path) -> bytes:
    """The key in a file that its owner alone can read; made where there is none."""
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    try:
        return bytes.fromhex(path.read_text().strip())
    except ValueError:
        raise InputError("holds no key: 64 hexadecimal digits, as sfumato writes it", where=path) from None


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
    blocks = range(-(-8 * words // hashlib.blake2b.MAX_DIGEST_SIZE))
    made = (hashlib.blake2b(record, key=key, salt=i.to_bytes(16, "big")) for i in blocks)
    return b"".join(block.digest() for block in made)[: 8 * words]
