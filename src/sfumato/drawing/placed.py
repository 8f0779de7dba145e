"""Words by place: the randomness of a record from a key and from what the record is, not from when it is reached.

On a cluster a row has no number: files are listed, shuffles arrive and tasks are repeated in any order. What does not
change is the multiset of rows. So the words of a record are found by its place (m, j): a digest m of what tells it from
others (`digests`: kept columns or names, and its input), and its number j among the rows that agree in these. Rows of
one m are exchangeable, so it does not matter which of them is called the j-th: the released multiset is a function of
the key and of the multiset of rows, whatever is repeated, split or reordered on the way.

Why it is private: no two rows share a place, so under one key no word is used twice. Words are a pseudorandom function
of the place, CBC-MAC with AES-128 over messages of two blocks, m and then (j, lane, block): for messages of one length
it cannot be told from random but with probability (2q)² / 2^128 for q blocks [Bellare, Kilian, Rogaway, 2000]. Places
that depend on the data do no harm: independent uniform words remain so whichever distinct places they are read at. What
is assumed is that AES is a pseudorandom permutation, and that no two digests of different rows agree, whose chance
`digests` tells; where rows are released by their names, it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.alphabet import Ints
from sfumato.drawing.digests import BlockCipher, Blocks, key_for
from sfumato.mechanism.law import Words

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
