"""Randomness: words of 64 bits from AES-128, keyed by the operating system or by who somebody is; those of a record by
its row number (`Stream`) or, where rows have none, by what the record is (`Placed`, by its digest)."""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.alphabet import Ints
from sfumato.errors import At, DataError, InputError
from sfumato.mechanism.law import Words, memory_key, remembered

if TYPE_CHECKING:
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


# --- digests: 128 bits that stand for the values of some columns in each row, all rows at once, under a key -----------
# A digest is the CBC-MAC with AES-128 of a spelling from which the values could be read back: every value begins with
# its length in bytes (−1: missing), so no spelling of a row is the beginning of another's. For such messages CBC-MAC
# cannot be told from a random function but with probability about (blocks)² / 2^128 [Bellare, Kilian, Rogaway, 2000;
# Petrank, Rackoff, 2000]. So n different rows have n different digests but with a chance of about n² / 2^129, which is
# 10^−20 for a thousand million rows, and whoever does not know the key cannot look for rows that share one.
#
# The cipher works on a block of every row in one call; a loop runs over the blocks of the longest value only.


BYTES = 16
HEAD = 8  # bytes of a value in its first block, beside the length
MASKS = np.array([(1 << (8 * k)) - 1 for k in range(9)], np.uint64)  # the low k bytes of a word
Blocks = npt.NDArray[np.uint64]  # [i, 2]: 16 bytes each
Spelled = tuple[npt.NDArray[np.uint8], Ints, Ints]  # bytes, where each value begins in them, its length or −1


class BlockCipher:
    """AES-128, block by block."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()

    def encrypted(self, blocks: Blocks) -> Blocks:
        if not len(blocks):
            return blocks
        data = np.ascontiguousarray(blocks)
        out = np.empty(data.nbytes + BYTES - 1, np.uint8)  # the cipher asks for room beyond the last block
        self._cipher.update_into(memoryview(data.reshape(-1).view(np.uint8).data), memoryview(out.data))
        return out[: data.nbytes].view(np.uint64).reshape(data.shape)


def key_for(key: bytes, use: str) -> bytes:
    """A key of its own for one use of a release's."""
    return hashlib.sha256(f"sfumato digests of {use}: ".encode() + key).digest()[:BYTES]


@dataclass(slots=True)
class Digests:
    """Digests for one use of a key. Uses, and the levels of nested values, have keys of their own."""

    key: bytes = field(repr=False)
    use: str
    level: int = 0
    cipher: BlockCipher = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.cipher = BlockCipher(key_for(self.key, f"{self.use}, level {self.level}"))

    def of(self, columns: Sequence[pa.Array]) -> Blocks:
        """The digest of each row of some columns, of one length and at least one."""
        state = np.zeros((len(columns[0]), 2), np.uint64)
        for column in columns:
            state = self._absorbed(state, *self._spelled(column))
        return state

    def _absorbed(self, state: Blocks, data: npt.NDArray[np.uint8], starts: Ints, sizes: Ints) -> Blocks:
        padded = np.zeros(len(data) + BYTES + 7, np.uint8)  # words are read beyond the end of the last value
        padded[: len(data)] = data
        words = np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))  # the eight bytes from i on

        def word(at: int, rows: slice | Ints) -> npt.NDArray[np.uint64]:
            left = np.clip(sizes[rows] - at, 0, 8)
            return np.asarray(words[np.where(left > 0, starts[rows] + at, 0)] & MASKS[left])

        state = self.cipher.encrypted(state ^ np.stack([sizes.view(np.uint64), word(0, slice(None))], 1))
        rows, at = np.flatnonzero(sizes > HEAD), HEAD
        while len(rows):
            block = np.stack([word(at, rows), word(at + 8, rows)], 1)
            state[rows] = self.cipher.encrypted(state[rows] ^ block)
            at += BYTES
            rows = rows[sizes[rows] > at]
        return state

    def _spelled(self, values: pa.Array) -> Spelled:
        """The bytes of each value: its own, or the digests of what it holds."""
        kind = values.type
        if pa.types.is_dictionary(kind):
            return self._spelled(values.dictionary_decode())
        if pa.types.is_null(kind):
            spelled = np.zeros(0, np.uint8), np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
        elif pa.types.is_struct(kind):
            spelled = _even(self._inner(values.flatten() or [pa.nulls(len(values))]), len(values))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            spelled = _between(values, self._inner([values.values]), BYTES)
        elif pa.types.is_map(kind):
            spelled = _between(values, self._inner([values.keys, values.items]), BYTES)
        elif pa.types.is_boolean(kind):
            return self._spelled(values.cast(pa.uint8()))
        elif kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
            spelled = _between(values, _buffer(values, 2), 1)
        else:
            first, stop = (n * kind.bit_width // 8 for n in (values.offset, values.offset + len(values)))
            spelled = _even(_buffer(values, 1)[first:stop], len(values))
        return (*spelled[:2], np.where(np.asarray(values.is_null()), -1, spelled[2])) if values.null_count else spelled

    def _inner(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.uint8]:
        return Digests(self.key, self.use, self.level + 1).of(columns).reshape(-1).view(np.uint8)


def _buffer(values: pa.Array, at: int) -> npt.NDArray[np.uint8]:
    held = values.buffers()[at]
    return np.zeros(0, np.uint8) if held is None else np.frombuffer(held, np.uint8)


def _even(data: npt.NDArray[np.uint8], rows: int) -> Spelled:
    """Values of one length, one after the other."""
    width = len(data) // max(rows, 1)
    return data, np.arange(rows) * width, np.full(rows, width)


def _between(values: pa.Array, data: npt.NDArray[np.uint8], width: int) -> Spelled:
    """Values between offsets, which count items of so many bytes."""
    wide = values.type in (pa.large_string(), pa.large_binary()) or pa.types.is_large_list(values.type)
    ends = np.frombuffer(values.buffers()[1], np.int64 if wide else np.int32)[values.offset :][: len(values) + 1]
    ends = ends.astype(np.int64) * width
    return data[: ends[-1]], ends[:-1], np.diff(ends)


def in_order(digests: Blocks) -> tuple[Ints, Ints]:
    """Rows put together by their digests: in which order, and each its number among its equals."""
    order = np.argsort(digests[:, 0])
    same = digests[order[1:]] == digests[order[:-1]]
    if (same[:, 0] & ~same[:, 1]).any():  # digests that agree in their first half only
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        same = digests[order[1:]] == digests[order[:-1]]
    at = np.arange(len(order))
    return order, at - np.maximum.accumulate(np.where(np.append(True, ~same.all(1))[: len(order)], at, 0))


def distinct(digests: Blocks) -> int:
    """How many different ones there are."""
    first = np.sort(digests[:, 0])
    if (first[1:] != first[:-1]).all():
        return len(digests)
    return int((in_order(digests)[1] == 0).sum())


# --- the randomness of a record from a key and from what the record is, not from when it is reached -------------------
# On a cluster a row has no number, unless it is read from files that do not change: files are listed, shuffles arrive
# and tasks are repeated in any order. What does not change is the multiset of rows. So the words of a record are
# found by its place (m, j): a digest m of what tells it from others (`Digests`: its number in files, kept columns or
# names, and its input), and its number j among the rows that agree in these. Rows of one m are exchangeable, so it
# does not matter which of them is called the j-th: the released multiset is a function of the key and of the multiset
# of rows, whatever is repeated, split or reordered on the way.
#
# Why it is private: no two rows share a place, so under one key no word is used twice. Words are a pseudorandom
# function of the place, CBC-MAC with AES-128 over messages of two blocks, m and then (j, lane, block): for messages
# of one length it cannot be told from random but with probability (2q)² / 2^128 for q blocks [Bellare, Kilian,
# Rogaway, 2000]. Places that depend on the data do no harm: independent uniform words remain so whichever distinct
# places they are read at. What is assumed is that AES is a pseudorandom permutation, and that no two digests of
# different rows agree, whose chance is told above; where rows are released by their names, it is looked at.


LANE_BITS = 32  # of the number of a block, below that of its lane


@dataclass(slots=True)
class Placed:
    """A stream whose word i belongs to the i-th row of the present block, wherever that row comes from."""

    key: bytes = field(repr=False)
    width: int  # words of a record in lane 0; other lanes have one
    state: Blocks = field(init=False)
    copies: Ints = field(init=False)
    cipher: BlockCipher = field(init=False, repr=False)
    places: BlockCipher = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.cipher = BlockCipher(self.key)
        self.places = BlockCipher(key_for(self.key, "places"))

    def digests(self, names: Blocks | None, codes: Ints) -> Blocks:
        """The digest m of rows, from those of their names (None: nothing is kept) and input codes [group, row]: the
        CBC-MAC, under a key of its own, of the former and then the latter, two to a block."""
        start = np.zeros((1, 2), np.uint64) if names is None else names
        state = np.broadcast_to(self.places.encrypted(start), (codes.shape[1], 2)).copy()
        for at in range(0, len(codes), 2):
            for half, own in enumerate(codes[at : at + 2]):
                state[:, half] ^= own.view(np.uint64)
            state = self.places.encrypted(state)
        return state

    def settle(self, digests: Blocks, copies: Ints, which: Ints | None = None) -> None:
        """Go to a block of rows: the digests and numbers of their places. `which` says whose digest each row has."""
        state = self.cipher.encrypted(digests)
        self.state, self.copies = state if which is None else np.take(state, which, axis=0), copies

    def words(self, first: int, out: Words, *, lane: int = 0) -> None:
        """Fill `out` with the words first, first + 1, … of a lane."""
        self.reader(first, lane=lane)(out)

    def side_by_side(self) -> Words:
        """The words [word, row] of the present block in lane 0."""
        out = np.empty((self.width + self.width % 2, len(self.copies)), np.uint64)
        for block in range(len(out) // 2):
            out[2 * block : 2 * block + 2] = self._pair(slice(None), 0, block).T
        return out[: self.width]

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
        place = self.state[rows].copy()
        place[:, 0] ^= self.copies[rows].view(np.uint64)
        place[:, 1] ^= np.uint64(lane << LANE_BITS | block)
        return self.cipher.encrypted(place)
