"""Draws of a bundle: every part with words of its own, or each row draws the part that it answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.drawing.decoding import GUESS, Decoder
from sfumato.drawing.manifest import OutputColumn
from sfumato.drawing.randomness import Lane, WordSource
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA, Kernel, compiled_kernel, numba_allowed, plain_kernel
from sfumato.errors import InputError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import ANSWER, TURN, answer_labels
from sfumato.mechanism.law import Law, Words, told_apart

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Ints

Codes = dict[str, npt.NDArray[np.int32]]  # of every column that some part reads
Turn = slice | npt.NDArray[np.int64]  # every row, or those whose turn it is


class Remembering(Protocol):
    """Answers that are remembered, as far as a bundle asks of them (`releasing.booking.Memo`)."""

    def part(self, name: str) -> Remembering:
        """The same people under a key for one use."""

    def words(self, people: pa.Array, codes: Array, count: int, first_row: int) -> Words: ...


@dataclass(slots=True)
class BundleSampler:
    """Draws of all parts of a bundle: [row, part], or [row, (part, output)] when they take turns.

    A record takes a word for each part, or two where parts take turns: which part it answers, and its answer.
    """

    bundle: Bundle
    stream: WordSource
    compiled: bool = field(init=False, default=False)
    kernels: list[Kernel] = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = self._made(plain_kernel)
        if "numba" in sys.modules:
            self.compile()

    def compile(self) -> None:
        """Change to the compiled kernels, if there are any; the outputs stay the same."""
        if not self.compiled and numba_allowed():
            self.kernels, self.compiled = self._made(compiled_kernel), True

    def _made(self, kernel: Callable[[Law], Kernel]) -> list[Kernel]:
        """A kernel for each part; parts with the same numbers share one, also where they were read from a file."""
        keys = [told_apart(part.law) for part in self.bundle.parts]
        shared: dict[Hashable, Kernel] = {}
        for key, part in zip(keys, self.bundle.parts, strict=True):
            if key not in shared:
                shared[key] = kernel(part.law)
        return [shared[key] for key in keys]

    @property
    def words(self) -> int:
        """Of a record."""
        return words_of(self.bundle)

    def draw(self, codes: Codes, first_row: int) -> npt.NDArray[np.int32]:
        """Outputs of the records first_row, first_row + 1, … from the codes of their columns."""
        rows = len(next(iter(codes.values())))
        if first_row + rows > ROWS_WORTH_NUMBA:
            self.compile()
        words = np.empty((self.words, rows), np.uint64)
        parts = [Lane.PART(i) for i in range(self.words)]
        lanes = parts if self.bundle.turns is None else [Lane.TURN(), Lane.PART()]
        for own, lane in zip(words, lanes, strict=True):
            self.stream.words(first_row, own, lane=lane)
        return self.drawn(codes, words)

    def drawn(self, codes: Codes, words: Words) -> npt.NDArray[np.int32]:
        """Outputs for given words [word, row]."""
        rows = words.shape[1]
        if self.bundle.turns is None:
            out = np.empty((len(self.kernels), rows), np.int32).T  # the answers of a part lie side by side
            for i, own in enumerate(words):
                self.kernels[i](self._input(i, codes, slice(None)), own, out[:, i])
            return out
        out = np.empty((rows, 2), np.int32)
        out[:, 0] = self.bundle.drawn_turns(words[0])
        for i, at in _in_turn(out[:, 0], len(self.kernels)):
            out[at, 1] = self._answers(i, codes, at, words[1][at])
        return out

    def remembered(self, memo: Remembering, people: pa.Array, codes: Codes, first_row: int) -> Words:
        """Words that follow from the person, the part and what the part reads; whose turn it is, from the person alone.

        So whoever keeps the values that a part reads gives that part's answer again, and nobody answers two parts.
        """
        def answers(part: int, at: Turn) -> Words:
            named = people if isinstance(at, slice) else people.take(pa.array(at))
            return memo.part(f"part {part}").words(named, self._input(part, codes, at), 1, first_row)

        if self.bundle.turns is None:
            return np.stack([answers(i, slice(None)) for i in range(len(self.kernels))])
        words = np.empty((2, len(people)), np.uint64)
        words[0] = memo.part("turn").words(people, np.zeros(len(people), np.int64), 1, first_row)
        for i, at in _in_turn(self.bundle.drawn_turns(words[0]), len(self.kernels)):
            words[1][at] = answers(i, at)
        return words

    def _answers(self, part: int, codes: Codes, at: Turn, words: Words) -> npt.NDArray[np.int32]:
        out = np.empty(len(words), np.int32)
        self.kernels[part](self._input(part, codes, at), np.ascontiguousarray(words), out)
        return out

    def _input(self, part: int, codes: Codes, at: Turn) -> npt.NDArray[np.int32]:
        first, *others = self.bundle.reading(self.bundle.parts[part])
        total = codes[first.name][at]
        for column in others:
            total = total * np.int32(column.size) + codes[column.name][at]
        return total


def words_of(bundle: Bundle) -> int:
    """The random words that a record takes."""
    return len(bundle.parts) if bundle.turns is None else 2


def _in_turn(turn: Array, parts: int) -> Iterator[tuple[int, Ints]]:
    """Each part that has rows, with these."""
    order = np.argsort(turn, kind="stable")
    ends = np.searchsorted(turn[order], np.arange(parts + 1))
    for i, (start, stop) in enumerate(pairwise(ends.tolist())):
        if start < stop:
            yield i, order[start:stop]


def decoder_of(bundle: Bundle, decode: str) -> Decoder:
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


Labels = Sequence[str | None]


def _together(bundle: Bundle, texts: Sequence[Labels], meant: Sequence[Labels | None]) -> Decoder:
    columns = [OutputColumn(name, "part") for name in bundle.names]
    ways = [(i, *_dictionary(labels)) for i, labels in enumerate(texts)]
    for i, (name, labels) in enumerate(zip(bundle.names, meant, strict=True)):
        if labels is not None:
            columns.append(OutputColumn(f"{name} (guess)", "guess"))
            ways.append((i, *_dictionary(labels)))

    def arrays(drawn: Array, first_row: int) -> list[pa.Array]:
        return [_array(place[drawn[:, i]], words) for i, place, words in ways]

    return Decoder(tuple(columns), arrays)


def _taking_turns(bundle: Bundle, texts: Sequence[Labels], meant: Sequence[Labels | None]) -> Decoder:
    starts = np.cumsum([0, *(len(labels) for labels in texts[:-1])])
    names = pa.array(bundle.names, pa.string())
    columns, told = [OutputColumn(TURN, "part"), OutputColumn(ANSWER, "answer")], [texts]
    if any(labels is not None for labels in meant):
        columns.append(OutputColumn(f"{ANSWER} (guess)", "guess"))
        told.append([own if guess is None else guess for own, guess in zip(texts, meant, strict=True)])
    ways = [_dictionary([x for labels in each for x in labels]) for each in told]

    def arrays(drawn: Array, first_row: int) -> list[pa.Array]:
        part = np.ascontiguousarray(drawn[:, 0])
        at = starts[part] + drawn[:, 1]
        return [_array(part, names), *(_array(place[at], words) for place, words in ways)]

    return Decoder(tuple(columns), arrays)


def _meanings(part: Mechanism) -> Labels | None:
    """The likeliest values of the useful columns behind every symbol; None where answers are values themselves."""
    if part.law.meaning != "symbol" or part.answers is not None or (posterior := part.posterior()) is None:
        return None
    return [part.useful.text(int(u)) for u in posterior.sum(1).argmax(1)]


def _dictionary(labels: Labels) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """From an output to its place among the distinct texts, −1 for a missing value."""
    words = list(dict.fromkeys(x for x in labels if x is not None))
    index = {x: i for i, x in enumerate(words)}
    return np.array([-1 if x is None else index[x] for x in labels], np.int32), pa.array(words, pa.string())


def _array(codes: npt.NDArray[np.int32], words: pa.Array) -> pa.Array:
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), words)
