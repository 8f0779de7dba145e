"""Arrow columns to codes and back: the only place that touches raw values in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import spelled
from sfumato.errors import AS_CATEGORY, At, DataError, option
from sfumato.tolerances import UNIT

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Column


def text_array(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array, from its buffers: `pa.array` loads pandas wherever that is installed."""
    data = [x.encode() for x in texts]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))])


def text_bytes(texts: pa.Array) -> tuple[Array, npt.NDArray[np.uint8]]:
    """Where every text of an array begins and the last one ends, and the bytes in which they do."""
    kind = np.dtype(np.int64 if texts.type == pa.large_string() else np.int32)
    _, places, data = texts.buffers()
    ends = np.frombuffer(places, kind)[texts.offset : texts.offset + len(texts) + 1]
    return ends, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def as_labels(values: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray:
    """Values as the strings that labels are; NaN and empty strings count as missing. Dictionary arrays stay so.

    Each is spelled by itself: whole numbers alike in a column of whole numbers and in one that has fractions or gaps,
    decimals without the zeros that another one's digits add.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return values
    if pa.types.is_nested(kind) or kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        raise DataError(f"holds {kind}; only text, numbers, dates and booleans can be tabulated", where=At(name))
    if pa.types.is_floating(kind):
        values, kind = (values.cast(pa.float32()), pa.float32()) if kind == pa.float16() else (values, kind)
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
        whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2 / UNIT))
        round_ones = pc.cast(pc.if_else(whole, values, pa.scalar(None, kind)), pa.int64())
        return pc.coalesce(pc.cast(round_ones, pa.string()), pc.cast(values, pa.string()))
    if not pa.types.is_string(kind):
        values = pc.cast(values, pa.string())
    if pa.types.is_decimal(kind):
        values = pc.replace_substring_regex(values, r"(\.\d*?)0+$", r"\1")
        values = pc.replace_substring_regex(values, r"\.$", "")
    return values


def unfit_row(column: Column, bad: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_], first_row: int) -> DataError:
    """The error for the first row that does not fit: column and row number (from 1), never the content."""
    at = int(np.flatnonzero(bad)[0])
    what = "is missing" if missing[at] else "is not in the alphabet"
    fix = (
        f"Make missing values a category ({AS_CATEGORY}) or remove the row."
        if missing[at] else f"Say which label takes unseen values when tabulating ({option('--unseen', 'unseen=…')}), "
        "or design on data that contain it."
    )
    row = first_row + at + 1
    return DataError(f"the value {what}", next=fix, where=At(column.name, row=row))


def encode_column(column: Column, values: pa.Array | pa.ChunkedArray, first_row: int) -> npt.NDArray[np.int32]:
    """Codes of an Arrow column under the rules of `column`."""
    if isinstance(values, pa.ChunkedArray):
        parts, at = [], first_row
        for chunk in values.chunks:
            parts.append(encode_column(column, chunk, at))
            at += len(chunk)
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)
    if column.cuts is not None:
        return _encode_binned(column, values, first_row)
    values = as_labels(values, column.name)
    if pa.types.is_dictionary(values.type):
        table = np.append(_label_codes(column, as_labels(values.dictionary, column.name)), _missing_code(column))
        at = values.indices
        if at.null_count:
            at = pc.fill_null(pc.cast(at, pa.int32()), len(table) - 1)
        codes: npt.NDArray[np.int32] = np.take(table, np.asarray(at), mode="clip")
        if table.min() >= 0:
            return codes
    else:
        codes = _label_codes(column, values)
    if codes.size and codes.min() < 0:
        missing = np.asarray(pc.is_null(values)) | (codes == -2)
        raise unfit_row(column, codes < 0, missing, first_row)
    return codes


def _missing_code(column: Column) -> np.int32:
    takes = None if None in column.labels else column.other
    return np.int32(column.labels.index(takes) if takes in column.labels else -2)


def _label_codes(column: Column, values: pa.Array) -> npt.NDArray[np.int32]:
    """Codes of a string array; −1 for unseen, −2 for missing where the column has no place for them."""
    listed = text_array([x for x in column.labels if x is not None])
    place = np.array([i for i, x in enumerate(column.labels) if x is not None] + [-1], np.int32)
    if column.other is not None:
        place[-1] = column.labels.index(column.other)
    hits = pc.index_in(values, value_set=listed)
    if not hits.null_count:  # as they lie there: `np.asarray` loads pandas, too
        return np.take(place, np.frombuffer(hits.buffers()[1], np.int32, len(hits), 4 * hits.offset), mode="clip")
    found = np.asarray(pc.fill_null(hits, len(listed)))
    codes: npt.NDArray[np.int32] = place[found]
    if column.dtype != "string" and (found == len(listed)).any():
        _other_spellings(column, values, found == len(listed), codes)
    absent = pc.is_null(values) if values.null_count else None
    empty = pc.equal(values, "") if "" not in column.labels else None
    for mask in (absent, empty):
        if mask is not None and pc.any(mask).as_py():
            codes[np.asarray(pc.fill_null(mask, False))] = _missing_code(column)
    return codes


def _other_spellings(
    column: Column, values: pa.Array, unfound: npt.NDArray[np.bool_], codes: npt.NDArray[np.int32]
) -> None:
    """Give values that spell a label in another way ('1.0' for '1') the code of that label."""
    labels = [(i, x) for i, x in enumerate(column.labels) if x is not None and x != column.other]
    known = {spelled(x, column.dtype): i for i, x in labels}
    left = pc.dictionary_encode(values.filter(pa.array(unfound)))
    new = [None if x is None else known.get(spelled(x, column.dtype)) for x in left.dictionary.to_pylist()]
    table = np.array([-1 if x is None else x for x in [*new, None]], np.int32)
    code = table[np.asarray(pc.fill_null(left.indices, len(new)))]
    codes[unfound] = np.where(code >= 0, code, codes[unfound])


def plain_numbers(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """A column as floats, NaN where it is missing; text is read as numbers. None where something is no number."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type):
        values = values.cast(pa.float64())
    if values.type not in (pa.string(), pa.large_string(), pa.string_view()):
        try:
            return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return None
    values = pc.cast(values, pa.string()) if values.type == pa.string_view() else values  # it has few functions
    values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    try:
        return np.asarray(pc.cast(pc.utf8_trim_whitespace(values), pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def numbers_of(values: pa.Array, name: str, first_row: int) -> npt.NDArray[np.float64]:
    """A column that must be one of numbers."""
    if (found := plain_numbers(values)) is not None:
        return found
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if plain.type not in (pa.string(), pa.large_string(), pa.string_view()):
        raise DataError(f"holds {plain.type}, which is not binned as numbers", where=At(name))
    row = first_row + next((i for i, x in enumerate(plain.to_pylist()) if _not_a_number(x)), 0) + 1
    raise DataError(
        "the value is not a number, but the column is binned",
        next=f"Say what text means ({option('--decimal ,', 'decimal=')} for 1,5, {option('--na', 'na=')} for other "
        "words where a value is missing), leave out the bins, or clean the row.",
        where=At(name, row=row),
    )


def _encode_binned(column: Column, values: pa.Array, first_row: int) -> npt.NDArray[np.int32]:
    """Codes of a numeric column by its cuts."""
    x = numbers_of(values, column.name, first_row)
    codes: npt.NDArray[np.int32] = np.searchsorted(np.asarray(column.cuts), x, side="right").astype(np.int32)
    absent = np.isnan(x)
    if absent.any():
        codes[absent] = _missing_code(column)
        if codes.min() < 0:
            raise unfit_row(column, absent, absent, first_row)
    return codes


def _not_a_number(text: str | None) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return True
    return False
