"""Rows through a bundle: every part draws with words of its own, or each row draws the part that it answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import find_column
from sfumato.errors import InputError
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle import answer_labels
from sfumato.mechanism.bundle_file import record_of
from sfumato.releasing.decoding import Decoder
from sfumato.releasing.engine import Flow, Names, _kept, _named, _position
from sfumato.releasing.kernels import Kernel, compiled_kernel, numba_allowed, plain_kernel
from sfumato.releasing.manifest import Manifest, OutputColumn, manifest_record
from sfumato.releasing.randomness import Stream
from sfumato.releasing.sampling import ROWS_WORTH_NUMBA, Sampler
from sfumato.sources import Source

LANE = 1 << 34  # of the stream: the turn; the next ones are the parts', or that of whichever part has its turn
TURN, ANSWER = "part", "answer"  # columns of a table in which each row answers one part


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
            self.together = [Sampler(part.law, self.stream, LANE + 1 + i) for i, part in enumerate(parts)]
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
        for lane in (0, 1):
            self.stream.words(first_row, words[lane], lane=LANE + lane)
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


@dataclass(frozen=True, slots=True, eq=False)
class BundleFlow(Flow):
    """A release of a bundle under way; reading, order, writing and atomicity are those of any release."""

    @classmethod
    def of(  # type: ignore[override]  # a bundle in the place of a mechanism
        cls, source: Source, bundle: Bundle, decode: str, keep: Sequence[str], secret: Names, useful: Names,
        stream: Stream,
    ) -> BundleFlow:
        if decode != "symbols":
            raise InputError(f"a bundle's answers are written as they are; decode={decode!r} is for single mechanisms.")
        private = _named(bundle.secret, secret, "secret"), _named(bundle.useful, useful, "useful")
        coded = {**(private[0] if bundle.reads == "both" else {}), **private[1]}
        if len(set(coded.values())) != len(coded):
            raise InputError(f"one column is read twice: {', '.join(coded.values())}. Name each column once.")
        for name in coded.values():
            find_column(name, source.columns, source.name)
        kept = _kept(keep, source, {**private[0], **private[1]})
        decoder = decoder_of(bundle)
        names = [*(c.name for c in decoder.columns), *kept]
        if len(set(names)) != len(names):
            raise InputError("a column cannot be kept: the output has a column of that name already.")
        order = tuple(sorted(range(len(names)), key=lambda i: _position(source, coded.get(names[i], names[i]))))
        made: Any = cls(source, bundle, decode, coded, kept, BundleSampler(bundle, stream), decoder, order, stream)  # type: ignore[arg-type]
        return made  # type: ignore[no-any-return]

    def _codes(self, batch: pa.RecordBatch, first_row: int) -> Any:
        """Codes of every column that some part reads."""
        bundle: Any = self.mechanism
        known = {c.name: c for c in (*bundle.secret.columns, *bundle.useful.columns)}
        return {
            name: self._column_codes(known[name], batch.column(own), first_row).astype(np.int32, copy=False)
            for name, own in self.coded.items()
        }

    def manifest(self, rows: int | None, size: int | None = None, engine: str = "local") -> Manifest:
        bundle: Any = self.mechanism
        return manifest_record(
            bundle, record_of(bundle).checksum, "bundle", rows=rows, columns=self.columns, decode=self.decode,
            engine=f"{engine}, compiled" if self.sampler.compiled else engine, size=size,
            randomness=self.stream.description,
        )


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
