"""Draws of a bundle: every part with words of its own, or each row draws the part that it answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.drawing.decoding import Decoder
from sfumato.drawing.kernels import Kernel, compiled_kernel, numba_allowed, plain_kernel
from sfumato.drawing.manifest import OutputColumn
from sfumato.drawing.randomness import Lane, Stream
from sfumato.drawing.sampling import ROWS_WORTH_NUMBA, Sampler
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle import ANSWER, TURN, answer_labels


@dataclass(slots=True)
class BundleSampler:
    """Draws of all parts of a bundle: [row, part], or [row, (part, output)] when they take turns."""

    bundle: Bundle
    stream: Stream
    compiled: bool = field(init=False, default=False)
    together: list[Sampler] = field(init=False)
    kernels: list[Kernel] = field(init=False)

    def __post_init__(self) -> None:
        parts = self.bundle.parts
        self.together, self.kernels = [], []
        if self.bundle.turns is None:
            self.together = [Sampler(part.law, self.stream, Lane.PART(i)) for i, part in enumerate(parts)]
            return
        laws = {id(part.law): part.law for part in parts}
        shared = {key: plain_kernel(law) for key, law in laws.items()}
        self.kernels = [shared[id(part.law)] for part in parts]
        if "numba" in sys.modules:
            self._compile()

    def _compile(self) -> None:
        if not self.compiled and numba_allowed():
            self.kernels, self.compiled = [compiled_kernel(part.law) for part in self.bundle.parts], True

    def draw(self, codes: dict[str, npt.NDArray[np.int32]], first_row: int) -> npt.NDArray[np.int32]:
        """Outputs of the records first_row, first_row + 1, … from the codes of their columns."""
        rows = len(next(iter(codes.values())))
        if self.bundle.turns is not None:
            return self._in_turn(codes, rows, first_row)
        drawn = [
            sampler.draw(self._input(i, codes, slice(None)), first_row) for i, sampler in enumerate(self.together)
        ]
        self.compiled = any(sampler.compiled for sampler in self.together)
        return np.stack(drawn, axis=1)

    def _in_turn(self, codes: dict[str, npt.NDArray[np.int32]], rows: int, first_row: int) -> npt.NDArray[np.int32]:
        if first_row + rows > ROWS_WORTH_NUMBA:
            self._compile()
        words = np.empty((2, rows), np.uint64)
        for own, lane in zip(words, (Lane.TURN(), Lane.PART()), strict=True):
            self.stream.words(first_row, own, lane=lane)
        turn = self.bundle.drawn_turns(words[0])
        order = np.argsort(turn, kind="stable")
        ends = np.searchsorted(turn[order], np.arange(len(self.bundle.parts) + 1))
        out = np.empty((rows, 2), np.int32)
        out[:, 0] = turn
        for i, (start, stop) in enumerate(pairwise(ends.tolist())):
            if start < stop:
                at = order[start:stop]
                answers = np.empty(len(at), np.int32)
                self.kernels[i](self._input(i, codes, at), np.ascontiguousarray(words[1][at]), answers)
                out[at, 1] = answers
        return out

    def _input(self, part: int, codes: dict[str, npt.NDArray[np.int32]], at: Any) -> npt.NDArray[np.int32]:
        columns = self.bundle.reading(self.bundle.parts[part])
        total: npt.NDArray[np.int32] = np.zeros_like(next(iter(codes.values()))[at])
        for column in columns:
            total = total * np.int32(column.size) + codes[column.name][at]
        return np.asarray(total)


def decoder_of(bundle: Bundle) -> Decoder:
    """A column for each part; or which part was answered, and the answer."""
    texts = [answer_labels(part) for part in bundle.parts]
    if bundle.turns is None:
        columns = tuple(OutputColumn(name, "part") for name in bundle.names)
        ways = [_dictionary(labels) for labels in texts]

        def arrays(drawn: Any, first_row: int) -> list[pa.Array]:
            return [_array(place[drawn[:, i]], words) for i, (place, words) in enumerate(ways)]

        return Decoder(columns, arrays)
    place, words = _dictionary([x for labels in texts for x in labels])
    starts = np.cumsum([0, *(len(labels) for labels in texts[:-1])])
    names = pa.array(bundle.names, pa.string())

    def turns(drawn: Any, first_row: int) -> list[pa.Array]:
        part = np.ascontiguousarray(drawn[:, 0])
        return [_array(part, names), _array(place[starts[part] + drawn[:, 1]], words)]

    return Decoder((OutputColumn(TURN, "part"), OutputColumn(ANSWER, "answer")), turns)


def _dictionary(labels: Sequence[str | None]) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """From an output to its place among the distinct texts, −1 for a missing value."""
    words = list(dict.fromkeys(x for x in labels if x is not None))
    index = {x: i for i, x in enumerate(words)}
    return np.array([-1 if x is None else index[x] for x in labels], np.int32), pa.array(words, pa.string())


def _array(codes: npt.NDArray[np.int32], words: pa.Array) -> pa.Array:
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), words)
