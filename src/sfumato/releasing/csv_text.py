"""CSV text from Arrow batches. Coded columns have few labels: pieces of lines are looked up, not built."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import CONTROL
from sfumato.errors import At, DataError, option
from sfumato.sources.delimited import guard
from sfumato.sources.values import text_bytes

TEXTS = (pa.string(), pa.large_string())
READY_PIECES = 1 << 16  # combinations of labels that are kept ready as text


@dataclass(slots=True)
class CsvText:
    """Lines of CSV: fields in quotes only where they hold a delimiter, a quote or a line break."""

    delimiter: str
    width: int
    raw: bool = False  # cells as they are, formulas too
    ready: dict[int, tuple[list[pa.Array], pa.Array]] = field(default_factory=dict)  # by where columns begin that are
    # written together: their dictionaries, and the texts of all combinations

    def header(self, names: list[str]) -> bytes:
        return (self.delimiter.join(self._fields(pa.array(names, pa.string())).to_pylist()) + "\n").encode()

    def lines(self, batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
        """The batch as the bytes of its text, which can be written as they are."""
        parts: list[pa.Array] = []
        columns, at = batch.columns, 0
        while at < len(columns):
            run = self._run(columns, at)
            first, at = at, at + max(1, len(run))
            end = "\n" if at == len(columns) else self.delimiter
            parts += [self._coded(first, run, end)] if run else [self._fields(columns[first]), end]
        return _data(_joined(parts))

    def _run(self, columns: list[pa.Array], at: int) -> list[pa.Array]:
        """Neighbouring coded columns from `at` on whose combinations are few enough to keep ready."""
        run: list[pa.Array] = []
        pieces = 1
        for column in columns[at:]:
            if not pa.types.is_dictionary(column.type) or column.type.value_type != pa.string():
                break
            pieces *= len(column.dictionary) + 1
            if pieces > READY_PIECES:
                break
            run.append(column)
        return run

    def _coded(self, first: int, run: list[pa.Array], end: str) -> pa.Array:
        codes = None
        for column in run:
            size = len(column.dictionary)
            own = np.asarray(pc.fill_null(column.indices, size) if column.null_count else column.indices)
            codes = own if codes is None else codes * np.int32(size + 1) + own
        held = [column.dictionary for column in run]
        known = self.ready.get(first, ([], None))[0]
        if len(known) != len(held) or not all(map(pa.Array.equals, known, held)):
            fields = [self._fields(pa.array([*labels.to_pylist(), None], pa.string())).to_pylist() for labels in held]
            texts = [self.delimiter.join(x) + end for x in itertools.product(*fields)]
            self.ready[first] = held, pa.array(texts, pa.string())
        return self.ready[first][1].take(pa.array(codes))

    def _fields(self, column: pa.Array) -> pa.Array:
        """Values as they are written. In a table of one column a missing one is a pair of quotes: no line may be empty.
        """
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        text = column if column.type in TEXTS else pc.cast(column, pa.string())
        text = pc.fill_null(text, "") if text.null_count else text
        if not self.raw and column.type in (*TEXTS, pa.string_view()):  # a number is no formula
            text = guard(text)
        raw = _data(text)
        if any((raw == mark).any() for mark in (*b'"\n\r', *self.delimiter.encode())):
            hit = pc.match_substring_regex(text, f'[{self.delimiter}"\\n\\r]')
            quoted = _joined(['"', pc.replace_substring(text, '"', '""'), '"'])
            text = pc.if_else(hit, quoted, text)
        if self.width == 1:
            text = pc.if_else(pc.equal(text, ""), pa.scalar('""', text.type), text)
        return text


def check_steering(name: str, column: pa.Array, first_row: int) -> None:
    """Refuse text with control characters, which may steer the terminal on which the file is looked at."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if kind not in TEXTS:
        return
    held = column.dictionary if pa.types.is_dictionary(column.type) else column
    raw = _data(held)
    if not ((raw < 32).any() or (raw == 127).any() or (raw == 0xC2).any()):  # 0xC2 begins those from U+0080 on
        return
    whole = column.dictionary_decode() if held is not column else column
    hit = np.flatnonzero(np.asarray(pc.match_substring_regex(pc.fill_null(whole, ""), CONTROL.pattern)))
    if len(hit):
        raise DataError(
            "the text has a control character, which may steer a terminal",
            next=f"Remove it, or write cells as they are ({option('--raw-cells', 'raw_cells=True')}).",
            where=At(name, row=first_row + int(hit[0]) + 1),
        )


def _joined(parts: list[pa.Array]) -> pa.Array:
    """Parts of every line put together; a part is an array, or one text for all lines."""
    if len(parts) == 1:
        return parts[0]
    size = sum(p.nbytes for p in parts if not isinstance(p, str))
    wide = size > 1 << 30 or any(not isinstance(p, str) and p.type == pa.large_string() for p in parts)
    kind = pa.large_string() if wide else pa.string()
    same = [pa.scalar(p, kind) if isinstance(p, str) else p.cast(kind) for p in (*parts, "")]
    return pc.binary_join_element_wise(*same)


def _data(text: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a text array, one value after the other."""
    ends, held = text_bytes(text)
    return held[ends[0] : ends[-1]]
