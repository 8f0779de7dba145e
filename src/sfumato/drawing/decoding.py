"""Decoding: outputs of a mechanism or a bundle into columns of a table, as symbols or as values.

It sees outputs only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Array, Column
from sfumato.drawing.manifest import DECODES, OutputColumn
from sfumato.drawing.posterior import Drawn, Turn, likeliest, posterior_draw
from sfumato.drawing.randomness import Memo, Stream, WordSource
from sfumato.drawing.sampling import BundleSampler, ColumnCodes, Sampler
from sfumato.errors import InputError
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle import ANSWER, TURN, answer_labels
from sfumato.mechanism.mechanism import Mechanism

GUESS = "guess"  # symbols, and beside each the likeliest value of every useful column
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """How outputs become Arrow columns: `columns` says which, `arrays` makes them."""

    columns: tuple[OutputColumn, ...]
    arrays: Callable[[Drawn, int], list[pa.Array]]


def decoder(made: Mechanism | Bundle, decode: str, stream: WordSource) -> Decoder:
    """How answers are written: as they are, with guesses beside them, as the likeliest input, or as a draw from the
    posterior."""
    if isinstance(made, Bundle):
        return _of_a_bundle(made, decode)
    if decode not in (*DECODES, GUESS):
        raise InputError(f"decode must be one of {', '.join((*DECODES, GUESS))}", value=decode)
    meaning = made.law.meaning
    if decode == GUESS:
        return _guessing(made, meaning, decoder(made, "symbols", stream))
    if decode == "symbols":
        return SPECIAL[meaning](made) if meaning in SPECIAL else _labelled(made, meaning == "cell", _same)
    if made.joint is None:
        raise InputError(
            f"decode={decode!r} needs the design distribution, which this mechanism does not carry",
            next="Use decode='symbols'.",
        )
    turn = likeliest(made) if decode == "likely" else posterior_draw(made, stream)
    return _labelled(made, made.law.rows > 1, turn)


def _labelled(mechanism: Mechanism, with_secret: bool, turn: Turn) -> Decoder:
    """Codes of cells (or useful values) as labels in the columns they came from."""
    secret = [("secret", c) for c in mechanism.secret.columns] if with_secret else []
    columns = [*secret, *(("useful", c) for c in mechanism.useful.columns)]
    named = _by_code([c for _, c in columns], _digits([c.size for _, c in columns]))
    told = tuple(OutputColumn(c.name, role) for role, c in columns)
    return Decoder(told, lambda drawn, first_row: named(turn(drawn, first_row)))


def _guessing(mechanism: Mechanism, meaning: str, own: Decoder) -> Decoder:
    """Outputs, and beside each the likeliest value of every useful column under the design distribution.

    Outputs that are labels themselves need no guess. The guess follows from the output and the mechanism file, so it
    tells nothing more; estimates are made from the outputs alone.
    """
    if mechanism.joint is None or meaning in ("cell", "useful") or mechanism.answers is not None:
        return own
    columns = mechanism.useful.columns
    posterior = mechanism.posterior() if meaning == "symbol" else None
    if posterior is None:
        turn, digits = likeliest(mechanism), _digits([mechanism.law.rows, *(c.size for c in columns)])[1:]
    else:
        turn = _same
        shaped = posterior.sum(1).reshape(len(posterior), *(c.size for c in columns))
        axes = range(1, shaped.ndim)
        digits = [np.asarray(shaped.sum(tuple(j for j in axes if j != i)).argmax(1), np.int32) for i in axes]
    named = _by_code(columns, digits)
    told = (*own.columns, *(OutputColumn(f"{c.name} (guess)", "guess") for c in columns))
    return Decoder(told, lambda drawn, first_row: [*own.arrays(drawn, first_row), *named(turn(drawn, first_row))])


def _same(drawn: Drawn, first_row: int) -> Drawn:
    return drawn


def _digits(sizes: list[int]) -> list[Codes]:
    """For each column the table from joint code to its own code."""
    grid = np.indices(sizes).reshape(len(sizes), -1)
    return [np.ascontiguousarray(row, np.int32) for row in grid]


def _by_code(columns: Sequence[Column], digits: Sequence[Codes]) -> Callable[[Drawn], list[pa.Array]]:
    """What makes labels of joint codes, by the table from these to each column's own."""
    placed = [_placed(column.labels) for column in columns]
    tables = [(place[digit], words) for digit, (place, words) in zip(digits, placed, strict=True)]
    return lambda codes: [_dictionary(np.take(table, codes, mode="clip"), words) for table, words in tables]


def _placed(labels: Sequence[str | None]) -> tuple[Codes, pa.Array]:
    """From an output to its place among the distinct texts, −1 for a missing value."""
    words = list(dict.fromkeys(x for x in labels if x is not None))
    index = {x: i for i, x in enumerate(words)}
    return np.array([-1 if x is None else index[x] for x in labels], np.int32), pa.array(words, pa.string())


def _dictionary(codes: Codes, words: pa.Array) -> pa.Array:
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), words)


def _symbols(mechanism: Mechanism) -> Decoder:
    """One column of symbols y0, y1, …, whose meaning is the posterior in the mechanism file, or of their names."""
    role = "symbol" if mechanism.answers is None else "useful"
    place, words = _placed(mechanism.symbols.labels)
    told = (OutputColumn(mechanism.symbols.name, role),)
    return Decoder(told, lambda drawn, first_row: [_dictionary(place[drawn], words)])


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


def _of_a_bundle(bundle: Bundle, decode: str) -> Decoder:
    """A column for each part; or which part was answered, and the answer. Beside them what a symbol most likely means.

    A bundle answers in part: a whole record behind the answers of a row is not told, so only guesses stand beside them.
    """
    if decode not in ("symbols", GUESS):
        raise InputError(
            f"a bundle's answers are written as they are: decode={decode!r} would turn them into whole records, which "
            "a row of a bundle does not tell",
            next=f"Use decode='symbols' or {GUESS!r}, or draw records of all columns from the estimate (sfumato "
            "synthesise).",
        )
    texts = [answer_labels(part) for part in bundle.parts]
    meant = [_meanings(part) if decode == GUESS else None for part in bundle.parts]
    return (_together if bundle.turns is None else _taking_turns)(bundle, texts, meant)


Texts = Sequence[str | None]


def _together(bundle: Bundle, texts: Sequence[Texts], meant: Sequence[Texts | None]) -> Decoder:
    columns = [OutputColumn(name, "part") for name in bundle.names]
    ways = [(i, *_placed(labels)) for i, labels in enumerate(texts)]
    for i, (name, labels) in enumerate(zip(bundle.names, meant, strict=True)):
        if labels is not None:
            columns.append(OutputColumn(f"{name} (guess)", "guess"))
            ways.append((i, *_placed(labels)))

    def arrays(drawn: Array, first_row: int) -> list[pa.Array]:
        return [_dictionary(place[drawn[:, i]], words) for i, place, words in ways]

    return Decoder(tuple(columns), arrays)


def _taking_turns(bundle: Bundle, texts: Sequence[Texts], meant: Sequence[Texts | None]) -> Decoder:
    starts = np.cumsum([0, *(len(labels) for labels in texts[:-1])])
    names = pa.array(bundle.names, pa.string())
    columns, told = [OutputColumn(TURN, "part"), OutputColumn(ANSWER, "answer")], [texts]
    if any(labels is not None for labels in meant):
        columns.append(OutputColumn(f"{ANSWER} (guess)", "guess"))
        told.append([own if guess is None else guess for own, guess in zip(texts, meant, strict=True)])
    ways = [_placed([x for labels in each for x in labels]) for each in told]

    def arrays(drawn: Array, first_row: int) -> list[pa.Array]:
        part = np.ascontiguousarray(drawn[:, 0])
        at = starts[part] + drawn[:, 1]
        return [_dictionary(part, names), *(_dictionary(place[at], words) for place, words in ways)]

    return Decoder(tuple(columns), arrays)


def _meanings(part: Mechanism) -> Texts | None:
    """The likeliest values of the useful columns behind every symbol; None where answers are values themselves."""
    if part.law.meaning != "symbol" or part.answers is not None or (posterior := part.posterior()) is None:
        return None
    return [part.useful.text(int(u)) for u in posterior.sum(1).argmax(1)]


# --- from the codes of records to released columns: drawn, or remembered, and decoded ---------------------------------


def reading(made: Mechanism | Bundle) -> tuple[Column, ...]:
    """The columns that are read, in the order of the input code."""
    return (*(made.secret.columns if made.reads == "both" else ()), *made.useful.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Drawer:
    """A mechanism or a bundle as rows see it: every record gets its answer, in columns of a table."""

    reading: tuple[Column, ...]  # in the order of the input code
    sampler: Sampler | BundleSampler
    decoder: Decoder
    stream: Stream

    @classmethod
    def of(cls, made: Mechanism | Bundle, decode: str, seed: int | None) -> Drawer:
        stream, read = Stream.of(seed), reading(made)
        sampler = BundleSampler(made, stream) if isinstance(made, Bundle) else Sampler(made.law, stream, read)
        return cls(read, sampler, decoder(made, decode, stream), stream)

    def arrays(self, codes: ColumnCodes, first_row: int, memo: Memo | None, people: pa.Array | None) -> list[pa.Array]:
        """Columns of answers to records whose columns have these codes; `memo` remembers them by `people`."""
        return self.decoder.arrays(self.sampler.answers(codes, first_row, memo, people), first_row)
