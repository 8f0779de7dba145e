"""Randomness: words of 64 bits from AES-128 in counter mode, keyed by the operating system, or by who somebody is."""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import At, DataError, InputError
from sfumato.mechanism.law import Words, memory_key, remembered

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.alphabet import Array

BLOCK_WORDS = 2  # words in a block of the cipher
ZEROS = bytes(1 << 20)


class Lane(enum.Enum):
    """Every use of the words of one key, as the lanes it may read.

    No two uses share a lane: a word that is used twice would be a privacy bug. A new use is a new line here.
    """

    DRAW = range(1)  # the answers of a mechanism
    DECODE = range(1, 2)  # draws from the posterior behind an answer
    ORDER = range(2, 3)  # where a row that was released on a cluster stands
    SPLIT = range(1 << 32, (1 << 32) + 1)  # which rows are set aside for the design
    TURN = range(1 << 34, (1 << 34) + 1)  # which part of a bundle a row answers
    PART = range((1 << 34) + 1, 1 << 35)  # the answers of part i of a bundle; of whichever has its turn, as part 0

    def __call__(self, part: int = 0) -> int:
        """The number of the lane.

        >>> Lane.DECODE(), Lane.PART(2) - Lane.PART(0)
        (1, 2)
        """
        return self.value[part]


class WordSource(Protocol):
    """Whatever has words for the records first, first + 1, … of a lane."""

    def words(self, first: int, out: Words, *, lane: int = 0) -> None: ...

    def reader(self, first: int, *, lane: int = 0) -> Callable[[Words], None]: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """An endless sequence of words in which any stretch can be read directly.

    The words of a record are found by its row number, so an output does not depend on how rows were cut into
    batches or threads. `lane` separates sequences of one key: the draws and the decoding never share a word.
    """

    key: bytes = field(repr=False)
    seeded: bool = False
    description: str = field(init=False, repr=False)  # as a manifest says it

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", "seeded: not for release" if self.seeded else "system")

    @classmethod
    def of(cls, seed: int | None = None) -> Stream:
        """Keyed by the system, or by a seed for tests: whoever knows the seed can undo the randomness."""
        if seed is None:
            return cls(os.urandom(16))
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError("seed must be a whole number or None", value=seed)
        return cls(hashlib.sha256(f"sfumato seed {int(seed)}".encode()).digest()[:16], True)

    def words(self, first: int, out: Words, *, lane: int = 0) -> None:
        """Fill `out` (contiguous) with the words first, first + 1, … of a lane."""
        self.reader(first, lane=lane)(out)

    def reader(self, first: int, *, lane: int = 0) -> Callable[[Words], None]:
        """A function that fills arrays with the words from `first` on, one array after the other, without the GIL."""
        block, skip = divmod(first, BLOCK_WORDS)
        counter = lane.to_bytes(8, "big") + block.to_bytes(8, "big")
        cipher = Cipher(algorithms.AES(self.key), modes.CTR(counter)).encryptor()
        if skip:
            cipher.update(ZEROS[: 8 * skip])

        def fill(out: Words) -> None:
            flat = memoryview(out.reshape(-1).view(np.uint8).data)
            for start in range(0, len(flat), len(ZEROS)):
                part = flat[start : start + len(ZEROS)]
                cipher.update_into(memoryview(ZEROS)[: len(part)], part)

        return fill


@dataclass(frozen=True, slots=True)
class Memo:
    """Answers that are remembered: the column that tells people apart, and the key of this mechanism's answers."""

    column: str
    key: bytes

    def part(self, name: str) -> Memo:
        """The same people, with a key for one part of a bundle: its answers share no words with another's."""
        return replace(self, key=memory_key(self.key, name))

    def words(self, people: pa.Array, codes: Array, count: int, first_row: int) -> Words:
        """The random words [i·count] of every record."""
        names = names_of(people, self.column, first_row).to_pylist()
        drawn = [remembered(self.key, n.encode(), int(c), count) for n, c in zip(names, codes, strict=True)]
        return np.frombuffer(b"".join(drawn), np.uint64)


def names_of(people: pa.Array, column: str, first_row: int) -> pa.Array:
    """The names of people as text; nobody may be nameless."""
    if people.null_count:
        row = first_row + int(np.flatnonzero(np.asarray(people.is_null()))[0]) + 1
        raise DataError("nobody is named, so that people cannot be told apart", where=At(column, row=row))
    return people.cast("string")
