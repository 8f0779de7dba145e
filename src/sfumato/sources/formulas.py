"""Formula cells: text that a spreadsheet would run when it opens a CSV file, and the apostrophe that stops it.

A cell is guarded by an apostrophe in front if, behind any apostrophes of its own, it begins as a formula does and is
not just a signed number or a sign. That set is closed under putting an apostrophe in front, so taking one away from
the cells that have one and are in it undoes exactly what was done, and touches nothing else.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

GUARD = "'"
STARTS = "=+\\-@\\t\\r\\n＝＋－＠"  # also in full width, which spreadsheets read alike
FORMULA = f"^'*[{STARTS}]"
NUMBER = r"^'*[+\-](([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?)?$"
FIRST_BYTES = np.zeros(256, bool)  # of every such cell; the wide ones share theirs
FIRST_BYTES[[*b"=+-@\t\r\n'", 0xEF]] = True
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER[:-1] + r"\Z")


def is_formula(text: str) -> bool:
    """Whether a cell would be run, or looks as if it had been guarded.

    >>> [is_formula(x) for x in ("=1+1", "-5", "-5e3", "+", "@x", "'=1", "'tis", "-x")]
    [True, False, False, False, True, True, False, True]
    """
    return _FORMULA.match(text) is not None and _NUMBER.match(text) is None


def guarded(text: str) -> str:
    """The cell as it is written.

    >>> guarded("=cmd|' /C calc'!A0"), guarded("-5"), guarded("'=1")
    ("'=cmd|' /C calc'!A0", '-5', "''=1")
    """
    return GUARD + text if is_formula(text) else text


def unguarded(text: str) -> str:
    """The cell as it was.

    >>> unguarded(guarded("=1")), unguarded("'tis"), unguarded("'-5")
    ('=1', "'tis", "'-5")
    """
    return text[1:] if text.startswith(GUARD) and is_formula(text) else text


def guard(column: pa.Array) -> pa.Array:
    """A column of text with every formula guarded."""
    if not FIRST_BYTES[_first_bytes(column)].any():
        return column
    before, after = (pa.scalar(text, column.type) for text in (GUARD, ""))
    return pc.if_else(_formulas(column), pc.binary_join_element_wise(before, column, after), column)


def unguard(column: pa.Array) -> pa.Array:
    """A column of text as it was before it was guarded."""
    if not (_first_bytes(column) == ord(GUARD)).any():
        return column
    hit = pc.and_(_formulas(column), pc.starts_with(column, GUARD))
    return pc.if_else(hit, pc.utf8_slice_codeunits(column, 1), column)


def _formulas(column: pa.Array) -> pa.Array:
    return pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER))


def _first_bytes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The first byte of every cell; of an empty one that of the next, which only makes for a second look."""
    kind = np.dtype(np.int64 if column.type == pa.large_string() else np.int32)
    offsets = np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column) + 1]
    held = column.buffers()[2]
    if held is None or not held.size:
        return np.zeros(0, np.uint8)
    return np.take(np.frombuffer(held, np.uint8), offsets[:-1], mode="clip")
