"""Words by place: every record has its own, whatever it stands beside."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from sfumato.drawing.randomness import Digests, Placed, distinct, in_order
from sfumato.releasing.spark import answering, by_id, reading, tasks

KEY = bytes(range(16))


def mac(key: bytes, message: bytes) -> bytes:
    """CBC-MAC, with the library's own CBC mode."""
    return Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor().update(message)[-16:]


def spelled(value: bytes | None) -> bytes:
    """A value as whole blocks, its length first."""
    if value is None:
        return (-1).to_bytes(8, "little", signed=True) + bytes(8)
    rest = value[8:]
    return len(value).to_bytes(8, "little") + value[:8].ljust(8, b"\0") + rest.ljust(-(-len(rest) // 16) * 16, b"\0")


def digest_by_hand(values: list[bytes | None], use: str = "names", level: int = 0, key: bytes | None = None) -> bytes:
    return mac(own_key(f"{use}, level {level}", key), b"".join(map(spelled, values)))


def own_key(use: str, key: bytes | None) -> bytes:
    return hashlib.sha256(f"sfumato digests of {use}: ".encode() + (key or KEY)).digest()[:16]


def place_by_hand(name: bytes | None, codes: list[int], key: bytes | None = None) -> bytes:
    """The digest of a place, from that of the name and the codes of the input."""
    rest = b"".join(c.to_bytes(8, "little") for c in codes)
    return mac(own_key("places", key), (name or bytes(16)) + rest.ljust(-(-len(rest) // 16) * 16, b"\0"))


def by_hand(place: bytes, copy: int, lane: int, block: int, key: bytes | None = None) -> list[int]:
    """The two words of a block at a place."""
    tag = mac(key or KEY, place + copy.to_bytes(8, "little") + (lane << 32 | block).to_bytes(8, "little"))
    return [int.from_bytes(tag[:8], "little"), int.from_bytes(tag[8:], "little")]


def bytes_of(found) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(found)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**62 - 1), st.integers(0, 2**40)), min_size=1, max_size=20),
       st.integers(1, 5), st.booleans())
def test_words_are_the_cbc_mac_of_the_place(places, width, kept):
    tags, codes, copies = (np.array(x) for x in zip(*places, strict=True))
    names = Digests(KEY, "names").of([pa.array(tags)]) if kept else None
    placed = Placed(KEY, width)
    found = placed.digests(names, codes[None])
    placed.settle(found, copies)

    out, second = np.empty(len(codes) * width, np.uint64), np.empty(len(codes), np.uint64)
    placed.words(0, out)
    placed.words(0, second, lane=1)

    assert np.array_equal(placed.side_by_side(), out.reshape(-1, width).T)
    for i, row in enumerate(out.reshape(-1, width)):
        name = digest_by_hand([int(tags[i]).to_bytes(8, "little")]) if kept else None
        place = place_by_hand(name, [int(codes[i])])
        assert bytes_of(found)[i] == place
        assert row.tolist() == [w for b in range(3) for w in by_hand(place, int(copies[i]), 0, b)][:width]
        assert int(second[i]) == by_hand(place, int(copies[i]), 1, 0)[0]


TEXTS = st.one_of(st.none(), st.text(max_size=60), st.text(alphabet="a\0", max_size=40))


@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-9, 9)), st.one_of(st.none(), st.binary(max_size=40))),
                min_size=1, max_size=12), st.integers(0, 3))
def test_a_digest_is_the_cbc_mac_of_a_spelling_that_could_be_read_back(rows, skipped):
    texts, numbers, raw = (list(x) for x in zip(*rows, strict=True))
    columns = [pa.array(texts, pa.string()), pa.array(numbers, pa.int32()), pa.array(raw, pa.large_binary())]

    found = bytes_of(Digests(KEY, "names").of([c.slice(min(skipped, len(rows) - 1)) for c in columns]))

    expected = [digest_by_hand([
        None if t is None else t.encode(), None if n is None else n.to_bytes(4, "little", signed=True), b
    ]) for t, n, b in rows]
    assert found == expected[min(skipped, len(rows) - 1) :]
    assert len(set(found)) == len(set(rows[min(skipped, len(rows) - 1) :]))  # rows that differ have digests that differ


def test_nested_values_are_digests_of_what_they_hold():
    lists = pa.array([[1, 2], [], None, [1, 2], [2, 1]], pa.list_(pa.int64()))
    eight = [n.to_bytes(8, "little") for n in range(3)]

    found = bytes_of(Digests(KEY, "names").of([lists]))

    inner = [digest_by_hand([x], level=1) for x in eight]
    assert found[0] == found[3] == digest_by_hand([inner[1] + inner[2]]) and found[1] == digest_by_hand([b""])
    assert found[2] == digest_by_hand([None]) and found[4] == digest_by_hand([inner[2] + inner[1]])
    structs = pa.array([{"x": 1, "y": "z"}, None, {"x": None, "y": None}])
    found = bytes_of(Digests(KEY, "names").of([structs.slice(0)]))
    assert found[0] == digest_by_hand([digest_by_hand([eight[1], b"z"], level=1)])
    assert found[1] == digest_by_hand([None]) != found[2]
    maps = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64()))
    found = bytes_of(Digests(KEY, "names").of([maps]))
    assert found[:2] == [digest_by_hand([digest_by_hand([b"a", eight[1]], level=1)]), digest_by_hand([b""])]


@pytest.mark.parametrize("values", [
    pa.array([True, False, None]), pa.array([0.1, float("inf"), None]), pa.nulls(3), pa.array([1, 2, 3], pa.timestamp("us")),
    pa.array([datetime.date(2020, 2, 29), None, datetime.date(2020, 3, 1)]), pa.array(["a", "b", None]).dictionary_encode(),
    pa.array([Decimal("1.10"), None, Decimal("2.00")]), pa.array([[["a"], []], [None], None]),
    pa.array([{"x": ["a"]}, {"x": None}, None]),
])
def test_values_of_every_type_have_digests_that_no_cutting_changes(values):
    whole = Digests(KEY, "names").of([values])
    parts = [Digests(KEY, "names").of([values.slice(i, 1)]) for i in range(3)]

    assert np.array_equal(whole, np.concatenate(parts))
    assert distinct(whole) == len({str(x) for x in values.to_pylist()})


def test_equal_digests_are_found_also_where_halves_agree_by_chance():
    found = np.array([[5, 1], [5, 2], [7, 1], [5, 1], [5, 2], [5, 1]], np.uint64)

    order, copies = in_order(found)

    assert sorted(zip(map(tuple, found[order].tolist()), copies.tolist(), strict=True)) == [
        ((5, 1), 0), ((5, 1), 1), ((5, 1), 2), ((5, 2), 0), ((5, 2), 1), ((7, 1), 0)]
    assert distinct(found) == 3 and distinct(found[:3]) == 3 and distinct(found[:0]) == 0
    assert in_order(found[:0])[1].size == 0


def test_reading_in_pieces_gives_the_same_words():
    placed, whole, parts = Placed(KEY, 3), np.empty(300, np.uint64), np.empty(300, np.uint64)
    placed.settle(placed.digests(None, np.arange(100)[None]), np.zeros(100, np.int64))

    placed.words(0, whole)
    fill = placed.reader(30)
    parts[:30] = whole[:30]
    fill(parts[30:90])
    fill(parts[90:])

    assert np.array_equal(whole, parts)


def test_no_word_is_shared_between_places():
    codes, copies = (x.ravel() for x in np.meshgrid(np.arange(50), np.arange(200)))
    seen = []
    for name in (None, "a", "b"):
        placed = Placed(KEY, 2)
        names = None if name is None else Digests(KEY, "names").of([pa.array([name] * len(codes))])
        placed.settle(placed.digests(names, codes[None]), copies)
        for lane, width in ((0, 2), (1, 1), (2, 1)):
            words = np.empty(len(codes) * width, np.uint64)
            placed.words(0, words, lane=lane)
            seen.append(words)

    every = np.concatenate(seen)
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("parts", [1, 3, 5000])
def test_an_exchange_brings_every_row_once_and_all_of_a_number_together(parts, monkeypatch):
    monkeypatch.setattr(answering, "ROWS_AT_ONCE", 300)
    numbers = np.random.default_rng(0).integers(0, 2**64, 300, np.uint64).repeat(3)
    given = pa.record_batch({"n": pa.array(numbers), "text": [None if n % 7 == 0 else str(n) for n in numbers]})
    cut = [p for i in range(0, 900, 100) for p in answering.cut([(given.slice(i, 100), numbers[i : i + 100])], parts)]

    assert all(0 <= p.column("bucket")[0].as_py() < parts * answering.BUCKETS for p in cut)
    tables = list(answering.joined(sorted(cut, key=lambda p: p.column("bucket")[0].as_py())))

    held = [set(t.column("n").to_pylist()) for t in tables]
    assert sum(map(len, held)) == 300 and sum(t.num_rows for t in tables) == 900
    assert pa.concat_tables(tables).sort_by("n").equals(pa.table(given).sort_by("n"))


@pytest.mark.parametrize("parts", [1, 3, 200])
def test_words_are_cut_where_their_buckets_begin_and_equal_ones_are_seen(parts):
    words = np.random.default_rng(1).integers(0, 2**64, 999, np.uint64)
    pieces = list(by_id._pieces([words, words[:1], np.array([0, 2**64 - 1], np.uint64)], parts))

    for bucket, raw in ((p.column("bucket")[0].as_py(), p.column("rows")[0].as_py()) for p in pieces):
        own = np.frombuffer(raw, np.uint64)
        assert {int(w) >> 32 for w in own if (int(w) >> 32) * parts * answering.BUCKETS >> 32 != bucket} == set()
    told = pa.Table.from_batches(list(by_id._compare(iter(pieces))))
    assert by_id._numbers(told) == (1002, 1001)


def test_row_groups_are_shared_out_whole_and_alike():
    groups = [reading.Group("f", i, 10, 10 * i, (0, 0)) for i in range(37)] + [reading.Group("g", 0, 400, 370, (0, 0))]
    for workers in (1, 2, 7):
        shares = reading._shares(groups, workers)
        assert [g for s in shares for g in s] == groups and len(shares) <= workers
    quarter = reading.ROWS_OF_A_TASK // 4
    many = reading._shares([reading.Group("f", i, quarter, quarter * i, (0, 0)) for i in range(32)], 3)  # eight shares' worth for three
    assert [len(s) for s in many] == [4, 4, 3, 4, 3, 4, 3, 4, 3]


@pytest.mark.parametrize("rows", [1, 1000, tasks.TASK_BLOCK + 7, 3 * tasks.TASK_BLOCK])
def test_expansion_writes_every_answer_as_often_as_it_was_counted_and_mixes_them(rows):
    counts = [rows, 0, 2 * rows, 5]
    batch = pa.record_batch({"y": ["a", "b", "c", None], "size": counts})

    out = pa.Table.from_batches(list(answering.expand(iter([batch]))))

    found = {x["values"]: x["counts"] for x in out.column("y").combine_chunks().value_counts().to_pylist()}
    assert found == {k: n for k, n in zip(["a", "b", "c", None], counts, strict=True) if n}
    if rows > 1000:
        first = out.column("y").slice(0, 1000).to_pylist()
        assert 250 < first.count("a") < 420
