"""Words by place: the randomness of a record from a key and from what the record is, not from when it is reached.

On a cluster a row has no number: files are listed, shuffles arrive and tasks are repeated in any order. What does not
change is the multiset of rows. So the words of a record are found by its place (d, x, j): the digest d of its kept
columns, its input code x, and its number j among the rows that agree in both. Rows with the same (d, x) are
exchangeable, so it does not matter which of them is called the j-th: the released multiset is a function of the key and
of the multiset of rows, whatever is repeated, split or reordered on the way.

Why it is private: no two rows share a place, so under one key no word is used twice. Words are a pseudorandom function
of the place, CBC-MAC with AES-128 over messages of three blocks, d (32 bytes) and then (x, j, lane, block): for
messages of one length it cannot be told from random but with probability (3q)² / 2^128 for q blocks [Bellare, Kilian,
Rogaway, 2000]. Places that depend on the data do no harm: independent uniform words remain so whichever distinct places
they are read at. A digest that repeats would break this, so it is SHA-256 of a spelling without ambiguity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.alphabet import Ints
from sfumato.errors import InputError
from sfumato.mechanism.law import Words

DIGEST = 32  # bytes
COUNTER_BITS = 23  # of the blocks of one record
MOST_COPIES = 1 << 40  # rows that agree in everything
Blocks = npt.NDArray[np.uint64]  # [i, 2]: 16 bytes each


@dataclass(slots=True)
class Placed:
    """A stream whose word i belongs to the i-th row of the present block, wherever that row comes from."""

    key: bytes = field(repr=False)
    width: int  # words of a record in lane 0; other lanes have one
    state: Blocks = field(init=False)
    codes: Ints = field(init=False)
    copies: Ints = field(init=False)
    cipher: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.width > 2 << COUNTER_BITS:
            raise InputError(f"answers of {self.width:,} words are too long for the Spark engine.")
        self.cipher = Cipher(algorithms.AES(self.key), modes.ECB()).encryptor()

    def settle(self, digests: bytes | None, codes: Ints, copies: Ints) -> None:
        """Go to a block of rows: their digests one after the other (None: no kept columns), codes and numbers."""
        flat = bytes(DIGEST) if digests is None else digests
        first, second = (_halves(flat)[:, half] for half in (0, 1))
        self.state = self._encrypted(self._encrypted(first) ^ second)
        self.codes, self.copies = codes, copies

    def words(self, first: int, out: Words, *, lane: int = 0) -> None:
        """Fill `out` with the words first, first + 1, … of a lane."""
        self.reader(first, lane=lane)(out)

    def reader(self, first: int, *, lane: int = 0) -> Callable[[Words], None]:
        """A function that fills arrays with the words from `first` on; only whole records are read."""
        width = self.width if lane == 0 else 1
        at = first // width

        def fill(out: Words) -> None:
            nonlocal at
            rows = out.size // width
            flat = out.reshape(rows, width)
            for block in range(-(-width // 2)):
                pair = self._pair(slice(at, at + rows), lane, block)
                flat[:, 2 * block : 2 * block + 2] = pair[:, : width - 2 * block]
            at += rows

        return fill

    def _pair(self, rows: slice, lane: int, block: int) -> Blocks:
        """The two words of a block of each row."""
        codes = self.codes[rows]
        place = np.empty((len(codes), 2), np.uint64)
        place[:, 0] = codes
        place[:, 1] = self.copies[rows]
        place[:, 1] <<= np.uint64(COUNTER_BITS + 1)
        place[:, 1] |= np.uint64(lane << COUNTER_BITS | block)
        place ^= self.state if len(self.state) == 1 else self.state[rows]
        return self._encrypted(place)

    def _encrypted(self, blocks: Blocks) -> Blocks:
        data = np.ascontiguousarray(blocks)
        out = np.empty(data.nbytes + 15, np.uint8)  # the cipher asks for room beyond the last block
        self.cipher.update_into(memoryview(data.reshape(-1).view(np.uint8).data), memoryview(out.data))
        return out[: data.nbytes].view(np.uint64).reshape(data.shape)


def _halves(digests: bytes) -> npt.NDArray[np.uint64]:
    """[i, half, 2]: each digest as two blocks."""
    return np.frombuffer(digests, np.uint64).reshape(-1, 2, 2)
