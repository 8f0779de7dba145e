"""The sampler is a pure function of (input, word): exhausted over small words, and the same compiled or not."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.alphabet import Column
from sfumato.drawing.compiled import TextCodes
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import Sampler, compiled_kernel, plain_kernel
from sfumato.mechanism import Cells, Constant, Layout, Table, Unary
from sfumato.mechanism.table import whole_weights


def every_word(bits, inputs):
    codes = np.repeat(np.arange(inputs), 1 << bits)
    return codes, np.tile(np.arange(1 << bits, dtype=np.uint64), inputs)


def outputs(kernel, codes, words):
    out = np.empty(len(codes), np.int32)
    kernel(codes, words, out)
    return out


@st.composite
def small_tables(draw):
    y, x, bits = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(4, 9))
    cells = draw(st.lists(st.floats(0, 1), min_size=x * y, max_size=x * y))
    weights = np.array(cells).reshape(y, x) + np.eye(y, x) * 1e-3 + 1e-6
    return Table(whole_weights(weights, bits), 1, bits)


@st.composite
def small_cells(draw):
    rows, useful, bits = draw(st.integers(1, 4)), draw(st.integers(1, 5)), 9
    rest = [draw(st.integers(0, 12)) for _ in range(3)]
    copies = (useful - 1, rows - 1, (rows - 1) * (useful - 1))
    truth = 2**bits - sum(w * k for w, k in zip(rest, copies, strict=True))
    return Cells(rows, useful, truth, *rest, bits=bits)


@st.composite
def small_layouts(draw):
    secrets, useful, bits = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(6, 12))
    numbers = st.floats(0.0, 1.0)
    lengths, heights = [], []
    for _ in range(secrets):
        atoms = draw(st.integers(1, 6))
        length = np.array([draw(numbers) for _ in range(atoms)]) + 0.05
        height = np.array([draw(numbers) for _ in range(atoms * useful)]).reshape(atoms, useful)
        height[draw(st.integers(0, atoms - 1))] += 0.1
        lengths.append(length / length.sum())
        heights.append(height / (lengths[-1] @ height))
    return Layout(tuple(lengths), tuple(heights)).rounded(bits, 0.0)


@pytest.mark.parametrize("route", [plain_kernel, compiled_kernel])
@given(law=st.one_of(small_tables(), small_cells(), small_layouts()))
@settings(deadline=None, max_examples=60)
def test_every_word_of_a_small_width_gives_exactly_the_weights(route, law):
    inputs = law.rows * law.useful
    codes, words = every_word(law.bits, inputs)

    drawn = outputs(route(law), codes, words)

    counted = np.zeros((law.outputs, inputs), int)
    np.add.at(counted, (drawn, codes), 1)
    expected = np.stack([np.asarray(law.row(y), float).ravel() for y in range(law.outputs)])
    assert (counted == expected).all()


@given(law=st.one_of(small_tables(), small_cells(), small_layouts()), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_both_kernels_give_what_the_law_draws_on_full_words(law, seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, 500, dtype=np.uint64)
    codes = rng.integers(0, law.rows * law.useful, 500)

    own = law.draw(codes, words[:, None])
    assert (outputs(plain_kernel(law), codes, words) == own).all()
    assert (outputs(compiled_kernel(law), codes, words) == own).all()


def large_layout(secrets, useful, atoms):
    rng = np.random.default_rng(secrets)
    lengths = [x / x.sum() for x in rng.random((secrets, atoms)) + 0.01]
    heights = [h / (x @ h) for x, h in zip(lengths, rng.random((secrets, atoms, useful)) + 0.01, strict=True)]
    return Layout(tuple(lengths), tuple(heights)).rounded(None, 1e-9)


@pytest.mark.parametrize("law", [
    Table(whole_weights(np.random.default_rng(0).random((240, 240)), 56), 1, 56),
    Cells(1000, 1000, 1 - 999 * 2e-4 * 2 - 999**2 * 1e-7, 2e-4, 2e-4, 1e-7, None).rounded(None, 1e-9),
    large_layout(4, 60, 60), large_layout(50, 300, 5), large_layout(2, 40_000, 12),
])
def test_both_kernels_give_what_the_law_draws_at_full_size(law):
    rng = np.random.default_rng(5)
    words = rng.integers(0, 2**64, 200_000, dtype=np.uint64)
    codes = rng.integers(0, law.rows * law.useful, 200_000)

    own = law.draw(codes, words[:, None])
    assert (outputs(plain_kernel(law), codes, words) == own).all()
    assert (outputs(compiled_kernel(law), codes, words) == own).all()


def test_words_are_those_of_aes_in_counter_mode():
    stream = Stream.of(seed=7)
    cipher = Cipher(algorithms.AES(stream.key), modes.CTR(bytes(16))).encryptor()
    reference = np.frombuffer(cipher.update(bytes(8 * 1000)), np.uint64)

    for first, count in ((0, 1000), (1, 10), (2, 5), (501, 499)):
        out = np.empty(count, np.uint64)
        stream.words(first, out)
        assert (out == reference[first : first + count]).all()


def test_a_long_stretch_of_words_is_one_stream():
    stream, out = Stream.of(seed=7), np.empty(400_001, np.uint64)
    stream.words(3, out)
    tail = np.empty(1000, np.uint64)
    stream.words(3 + 399_001, tail)

    assert (out[399_001:] == tail).all()
    assert len(np.unique(out)) == len(out)


def test_lanes_and_keys_do_not_repeat_words():
    first, second, other = (np.empty(1000, np.uint64) for _ in range(3))
    Stream.of(seed=1).words(0, first)
    Stream.of(seed=1).words(0, second, lane=1)
    Stream.of(seed=2).words(0, other)

    assert len(np.unique(np.concatenate([first, second, other]))) == 3000


def test_without_a_seed_the_key_comes_from_the_system(monkeypatch):
    assert Stream.of().key != Stream.of().key
    asked = []
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or bytes(n))
    stream = Stream.of()

    assert (asked, stream.key, stream.description) == ([16], bytes(16), "system")
    assert "key" not in repr(stream)


@pytest.mark.parametrize("seed", [True, 1.5, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(sf.InputError, match="seed must be"):
        Stream.of(seed)


@pytest.mark.parametrize("law", [
    Cells(2, 3, 0.5, 0.1, 0.1, 0.1, None).rounded(None, 0.0), Unary(1, 6, 0.5, 0.2).rounded(None, 0.0),
    Constant(2, 3).rounded(None, 0.0),
])
def test_draws_depend_on_the_row_number_not_on_the_batch(law):
    codes = np.random.default_rng(2).integers(0, 6, 50_000)
    sampler = Sampler(law, Stream.of(3))

    whole = sampler.draw(codes, 11)
    parts = [sampler.draw(codes[a:b], 11 + a) for a, b in ((0, 1), (1, 20_001), (20_001, 50_000))]

    assert (whole == np.concatenate(parts)).all()


def test_numba_can_be_left_out(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from sfumato.mechanism import Cells\n"
        "from sfumato.drawing.randomness import Stream\n"
        "from sfumato.drawing.sampling import Sampler\n"
        "s = Sampler(Cells(2, 3, 0.5, 0.1, 0.1, 0.1, None).rounded(None, 0.0), Stream.of(3))\n"
        "s.compile()\n"
        "print(s.compiled, 'numba' in sys.modules, s.draw(np.arange(6).repeat(50), 0).sum())\n"
    )

    def run(**extra):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **extra}, capture_output=True,
                              text=True, check=True)
        return done.stdout.split()

    without, with_numba = run(SFUMATO_NO_NUMBA="1"), run(SFUMATO_NO_NUMBA="0")
    assert without[:2] == ["False", "False"]
    assert with_numba[:2] == ["True", "True"]
    assert without[2] == with_numba[2]


odd = st.sampled_from(["a", "a ", "b", "ab" * 8, "é" * 9])
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20) | odd  # labels refuse control


@given(labels=st.lists(texts, min_size=1, max_size=30, unique=True), data=st.data())
@settings(deadline=None, max_examples=100)
def test_compiled_text_codes_agree_with_the_plain_ones(labels, data):
    column = Column.of("c", [None, *labels])
    values = data.draw(st.lists(st.sampled_from(labels), max_size=40))
    array = pa.array(["before", *values], pa.string())[1:]

    codes = TextCodes(column).encode(array)

    assert codes is not None
    assert codes.tolist() == column.encode(array).tolist()


@given(labels=st.lists(texts, min_size=1, max_size=10, unique=True), other=texts | st.none() | st.just(""))
@settings(deadline=None, max_examples=100)
def test_compiled_text_codes_leave_everything_else_to_the_plain_ones(labels, other):
    if other in labels:
        return
    array = pa.array([labels[0], other], pa.string())

    assert TextCodes(Column.of("c", labels)).encode(array) is None


def test_four_thousand_labels_find_a_hash():
    labels = [f"label {i:x}" for i in range(4096)]
    column = Column.of("c", labels)
    fast = TextCodes(column)

    assert fast.ready
    assert fast.encode(pa.array(labels[::-1])).tolist() == list(range(4096))[::-1]
