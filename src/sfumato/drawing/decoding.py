"""Text and codes: plain text of a file into codes of inputs, and outputs into columns, as symbols or as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Alphabet, Array, Column
from sfumato.drawing.manifest import DECODES, OutputColumn
from sfumato.drawing.posterior import likeliest, posterior_draw
from sfumato.drawing.randomness import WordSource
from sfumato.errors import InputError
from sfumato.mechanism.mechanism import Mechanism

if TYPE_CHECKING:
    from sfumato.mechanism.law import Words


# --- text to codes, compiled: what `Column.encode` does, for the plain text of CSV files ------------------------------


MASKS = np.array([(1 << (8 * k)) - 1 for k in range(9)], np.uint64)  # the low k bytes of a word
MOST_LABELS = 4096
MOST_BYTES = 64  # of a label
SEEDS = 1000  # hashes that are tried until no two labels share a slot


class TextCodes:
    """The codes of one column's labels. It knows only plain cases: `encode` gives None for everything else."""

    def __init__(self, column: Column) -> None:
        self.ready = False
        labels = [(x or "").encode() for x in column.labels if x is not None]
        longest = max(map(len, labels), default=0)
        if column.cuts is not None or not 0 < len(labels) <= MOST_LABELS or not longest <= MOST_BYTES or b"" in labels:
            return
        self.place = np.array([i for i, x in enumerate(column.labels) if x is not None], np.int32)
        width = -(-longest // 8)
        padded = b"".join(x.ljust(8 * width, b"\0") for x in labels)
        self.words = np.frombuffer(padded, np.uint64).reshape(len(labels), width)
        self.sizes = np.array([len(x) for x in labels], np.int32)
        self._find_hash(len(labels))

    def _find_hash(self, labels: int) -> None:
        from sfumato.drawing.compiled import place_labels

        bits = min(20, max(4, (labels * labels // 2).bit_length()))
        self.shift = 64 - bits
        for seed in range(SEEDS):
            self.slots = np.zeros(1 << bits, np.int32)
            random = np.random.default_rng(seed)  # for speed only: no secret depends on it
            self.factors = random.integers(0, 2**64, self.words.shape[1] + 1, np.uint64) | np.uint64(1)
            if place_labels(self.words, self.sizes, self.slots, self.shift, self.factors):
                self.ready = True
                return

    def encode(self, values: pa.Array) -> npt.NDArray[np.int32] | None:
        """Codes of a text array, or None when a value is missing, not a label, or not plain text."""
        if not self.ready or values.type != pa.string() or values.null_count:
            return None
        from sfumato.drawing.compiled import fill_text_codes

        words, ends = _words(values, 8 * self.words.shape[1])
        out = np.empty(len(values), np.int32)
        if not fill_text_codes(words, ends, MASKS, self.slots, self.shift, self.factors, self.words, self.sizes, out):
            return None
        return np.asarray(np.take(self.place, out, mode="clip"))


def _words(values: pa.Array, room: int) -> tuple[Words, npt.NDArray[np.int32]]:
    """The text as overlapping words, the i-th made of the eight bytes from i on, and where each value ends.

    Behind the last value there are `room` zero bytes to be read in its place.
    """
    ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    size = int(ends[-1])
    data = np.zeros(size + room, np.uint8)
    if size:
        data[:size] = np.frombuffer(values.buffers()[2], np.uint8, size)
    return np.ndarray((size + room - 7,), np.uint64, data, strides=(1,)), ends


# --- outputs of a mechanism into columns of a table. It sees outputs only, so it costs no privacy ---------------------


GUESS = "guess"  # symbols, and beside each the likeliest value of every useful column
Drawn = Array
Turn = Callable[[Drawn, int], Drawn]  # (outputs, first row) → inputs or outputs
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """How outputs become Arrow columns: `columns` says which, `arrays` makes them."""

    columns: tuple[OutputColumn, ...]
    arrays: Callable[[Drawn, int], list[pa.Array]]


def decoder(mechanism: Mechanism, decode: str, stream: WordSource) -> Decoder:
    """The decoder of a mechanism: its own outputs, the likeliest input, or a draw from the posterior."""
    if decode not in (*DECODES, GUESS):
        raise InputError(f"decode must be one of {', '.join((*DECODES, GUESS))}", value=decode)
    meaning = mechanism.law.meaning
    if decode == GUESS:
        return _guessing(mechanism, decoder(mechanism, "symbols", stream))
    if decode == "symbols":
        special = SPECIAL.get(meaning)
        if special is not None:
            return special(mechanism)
        return _labelled(mechanism, meaning == "cell", lambda drawn, first_row: drawn)
    if mechanism.joint is None:
        raise InputError(
            f"decode={decode!r} needs the design distribution, which this mechanism does not carry",
            next="Use decode='symbols'.",
        )
    turn = likeliest(mechanism) if decode == "likely" else posterior_draw(mechanism, stream)
    return _labelled(mechanism, mechanism.law.rows > 1, turn)


def _labelled(mechanism: Mechanism, with_secret: bool, turn: Turn) -> Decoder:
    """Codes of cells (or useful values) as labels in the columns they came from."""
    parts: list[tuple[str, Alphabet]] = [("useful", mechanism.useful)]
    if with_secret:
        parts.insert(0, ("secret", mechanism.secret))
    columns = [(role, column) for role, alphabet in parts for column in alphabet.columns]
    digits = _digits([c.size for _, c in columns])
    dictionaries = [pa.array([x for x in c.labels if x is not None], pa.string()) for _, c in columns]
    places = [_place(c) for _, c in columns]

    def arrays(drawn: Drawn, first_row: int) -> list[pa.Array]:
        codes = turn(drawn, first_row)
        return [
            _dictionary(np.take(digit, codes, mode="clip"), place, words)
            for digit, place, words in zip(digits, places, dictionaries, strict=True)
        ]

    return Decoder(tuple(OutputColumn(c.name, role) for role, c in columns), arrays)


def _guessing(mechanism: Mechanism, own: Decoder) -> Decoder:
    """Outputs, and beside each the likeliest value of every useful column under the design distribution.

    Outputs that are labels themselves need no guess. The guess follows from the output and the mechanism file, so it
    tells nothing more; estimates are made from the outputs alone.
    """
    if mechanism.joint is None or mechanism.law.meaning in ("cell", "useful") or mechanism.answers is not None:
        return own
    columns = mechanism.useful.columns
    posterior = mechanism.posterior() if mechanism.law.meaning == "symbol" else None
    if posterior is None:
        turn, digits = likeliest(mechanism), _digits([mechanism.law.rows, *(c.size for c in columns)])[1:]
    else:
        turn = _same
        shaped = posterior.sum(1).reshape(len(posterior), *(c.size for c in columns))
        axes = range(1, shaped.ndim)
        digits = [
            np.ascontiguousarray(shaped.sum(tuple(j for j in axes if j != i)).argmax(1), np.int32) for i in axes
        ]
    words = [pa.array([x for x in c.labels if x is not None], pa.string()) for c in columns]
    places = [_place(c) for c in columns]

    def arrays(drawn: Drawn, first_row: int) -> list[pa.Array]:
        codes = turn(drawn, first_row)
        guesses = [_dictionary(np.take(d, codes, mode="clip"), place, w)
                   for d, place, w in zip(digits, places, words, strict=True)]
        return [*own.arrays(drawn, first_row), *guesses]

    return Decoder((*own.columns, *(OutputColumn(f"{c.name} (guess)", "guess") for c in columns)), arrays)


def _same(drawn: Drawn, first_row: int) -> Drawn:
    return drawn


def _digits(sizes: list[int]) -> list[Codes]:
    """For each column the table from joint code to its own code."""
    grid = np.indices(sizes).reshape(len(sizes), -1)
    return [np.ascontiguousarray(row, np.int32) for row in grid]


def _place(column: Column) -> Codes | None:
    """From a column's code to the index in its dictionary, −1 for missing; None when they are the same."""
    if None not in column.labels:
        return None
    gap = column.labels.index(None)
    return np.array([-1 if i == gap else i - (i > gap) for i in range(column.size)], np.int32)


def _dictionary(codes: Codes, place: Codes | None, words: pa.Array) -> pa.Array:
    if place is None:
        return pa.DictionaryArray.from_arrays(pa.array(codes), words)
    codes = place[codes]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)


def _symbols(mechanism: Mechanism) -> Decoder:
    """One column of symbols y0, y1, …, whose meaning is the posterior in the mechanism file, or of their names."""
    column = mechanism.symbols
    words = pa.array([x for x in column.labels if x is not None], pa.string())
    columns = (OutputColumn(column.name, "symbol" if mechanism.answers is None else "useful"),)
    place = _place(column)

    def arrays(drawn: Drawn, first_row: int) -> list[pa.Array]:
        return [_dictionary(np.asarray(drawn, np.int32) if place is not None else drawn, place, words)]

    return Decoder(columns, arrays)


def _bit_strings(mechanism: Mechanism) -> Decoder:
    """One column of strings of 0 and 1, a bit for each input in code order."""
    width = mechanism.law.words

    def arrays(drawn: Drawn, first_row: int) -> list[pa.Array]:
        text = np.ascontiguousarray(drawn + ord("0"), np.uint8)
        ends = np.arange(len(drawn) + 1, dtype=np.int64) * width
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
        return [pa.Array.from_buffers(pa.large_string(), len(drawn), buffers)]

    return Decoder((OutputColumn("bits", "bits"),), arrays)


SPECIAL: dict[str, Callable[[Mechanism], Decoder]] = {"symbol": _symbols, "subset": _bit_strings}
