"""Words by place: every record has its own, whatever it stands beside."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from sfumato.drawing.placed import COUNTER_BITS, Placed
from sfumato.releasing.spark import worker

KEY = bytes(range(16))


def by_hand(digest: bytes, code: int, copy: int, lane: int, block: int) -> list[int]:
    """CBC-MAC of one message of three blocks, with the library's own CBC mode."""
    message = digest + code.to_bytes(8, "little") + (copy << COUNTER_BITS + 1 | lane << COUNTER_BITS | block).to_bytes(8, "little")
    cipher = Cipher(algorithms.AES(KEY), modes.CBC(bytes(16))).encryptor()
    tag = cipher.update(message)[-16:]
    return [int.from_bytes(tag[:8], "little"), int.from_bytes(tag[8:], "little")]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**40 - 1), st.integers(0, 2)), min_size=1, max_size=20),
       st.integers(1, 5), st.booleans())
def test_words_are_the_cbc_mac_of_the_place(places, width, kept):
    codes, copies, names = (np.array(x) for x in zip(*places, strict=True))
    digests = [hashlib.sha256(bytes([n])).digest() if kept else bytes(32) for n in names]
    placed = Placed(KEY, width)
    placed.settle(b"".join(digests) if kept else None, codes, copies)

    out, second = np.empty(len(codes) * width, np.uint64), np.empty(len(codes), np.uint64)
    placed.words(0, out)
    placed.words(0, second, lane=1)

    for i, row in enumerate(out.reshape(-1, width)):
        place = digests[i], int(codes[i]), int(copies[i])
        assert row.tolist() == [w for b in range(3) for w in by_hand(*place, 0, b)][:width]
        assert int(second[i]) == by_hand(*place, 1, 0)[0]


def test_reading_in_pieces_gives_the_same_words():
    placed, whole, parts = Placed(KEY, 3), np.empty(300, np.uint64), np.empty(300, np.uint64)
    placed.settle(None, np.arange(100), np.zeros(100, np.int64))

    placed.words(0, whole)
    fill = placed.reader(30)
    parts[:30] = whole[:30]
    fill(parts[30:90])
    fill(parts[90:])

    assert np.array_equal(whole, parts)


def test_no_word_is_shared_between_places():
    codes, copies = (x.ravel() for x in np.meshgrid(np.arange(50), np.arange(200)))
    seen = []
    for name in (None, b"a", b"b"):
        placed = Placed(KEY, 2)
        digest = None if name is None else hashlib.sha256(name).digest() * len(codes)
        placed.settle(digest, codes, copies)
        for lane, width in ((0, 2), (1, 1)):
            words = np.empty(len(codes) * width, np.uint64)
            placed.words(0, words, lane=lane)
            seen.append(words)

    every = np.concatenate(seen)
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("rows", [1, 1000, worker.BLOCK + 7, 3 * worker.BLOCK])
def test_expansion_writes_every_answer_as_often_as_it_was_counted_and_mixes_them(rows):
    counts = [rows, 0, 2 * rows, 5]
    batch = pa.record_batch({"y": ["a", "b", "c", None], "size": counts})

    out = pa.Table.from_batches(list(worker.expand(iter([batch]))))

    found = {x["values"]: x["counts"] for x in out.column("y").combine_chunks().value_counts().to_pylist()}
    assert found == {k: n for k, n in zip(["a", "b", "c", None], counts, strict=True) if n}
    if rows > 1000:
        first = out.column("y").slice(0, 1000).to_pylist()
        assert 250 < first.count("a") < 420
