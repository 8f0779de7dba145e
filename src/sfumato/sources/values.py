"""Arrow columns to codes and back, the only place that touches raw values in bulk; and into labels: cut into bins, or
counted as they are, rare ones put together."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import Column, Floats, Ints, Label, spelled
from sfumato.errors import AS_CATEGORY, At, DataError, InputError, binned, option
from sfumato.tolerances import UNIT

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Bools
    from sfumato.sources.source import Source


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
        raise DataError(f"holds {kind}; only text, numbers, dates and booleans can be tabulated", where=At(name),
                        next="Leave it out, or convert it first.")
    if pa.types.is_floating(kind):
        values, kind = (values.cast(pa.float32()), pa.float32()) if kind == pa.float16() else (values, kind)
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
        whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2 / UNIT))
        round_ones = pc.cast(pc.if_else(whole, values, pa.scalar(None, kind)), pa.int64())
        return pc.coalesce(pc.cast(round_ones, pa.string()), pc.cast(values, pa.string()))
    if not pa.types.is_string(kind):
        values = pc.cast(values, pa.string())
    if pa.types.is_decimal(kind):
        values = pc.replace_substring_regex(values, r"(\.\d*[1-9])0+$|\.0*$", r"\1")
    return values


def unfit_row(name: str, bad: Bools, missing: Bools, first_row: int) -> DataError:
    """The error for the first row that does not fit: column and row number (from 1), never the content."""
    at = int(np.flatnonzero(bad)[0])
    what = "is missing" if missing[at] else "is not in the alphabet"
    fix = (
        f"Make missing values a category ({AS_CATEGORY}) or remove the row."
        if missing[at] else f"Say which label takes unseen values when tabulating ({option('--unseen', 'unseen=…')}), "
        "or design on data that contain it."
    )
    return DataError(f"the value {what}", next=fix, where=At(name, row=first_row + at + 1))


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
        raise unfit_row(column.name, codes < 0, missing, first_row)
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


def _other_spellings(column: Column, values: pa.Array, unfound: Bools, codes: npt.NDArray[np.int32]) -> None:
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
        raise DataError(f"holds {plain.type}, which is not binned as numbers", next="Leave out its bins.",
                        where=At(name))
    row = first_row + bisect_left(range(len(plain)), True, key=lambda k: plain_numbers(plain[: k + 1]) is None) + 1
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
            raise unfit_row(column.name, absent, absent, first_row)
    return codes


# --- columns into labels ----------------------------------------------------------------------------------------------


FEW_NUMBERS = 20  # distinct numbers up to which each stays a label of its own
USUAL_BINS = 5  # that numbers are cut into when nobody says how
CODE = r"^[+-]?0[0-9]"  # numbers with leading zeros are codes


def bin_edges(source: Source, name: str, rule: int | Sequence[float]) -> Floats:
    """The inner edges of a column's bins: as given, or so that the bins hold about equally many rows."""
    if not isinstance(rule, int):
        edges = np.asarray(rule, float)
        if edges.ndim != 1 or not edges.size or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
            raise InputError(f"bins of {name!r} must be a number or increasing inner edges", value=rule)
        return edges
    if isinstance(rule, bool) or rule < 2:
        edge = f"To cut it at {rule}, give that edge: [{rule}], or --bins '{name}={rule};' with its semicolon."
        raise InputError("needs at least two bins", value=rule, next=edge, where=At(name))
    values, counts = value_counts(source, name)
    if not len(values):
        raise DataError("holds no numbers, so it has no quantiles", next="Leave out its bins.", where=At(name))
    edges = quantiles(values, counts, rule)
    if not len(edges):
        raise InputError(f"has a single value, so it cannot be cut into {rule} bins", where=At(name),
                         next="Leave the column out, or give an edge.")
    return edges


def automatic_edges(source: Source, names: Sequence[str]) -> dict[str, Floats]:
    """Edges of every column of more than FEW_NUMBERS different numbers: about USUAL_BINS bins of about as many rows.

    Quantiles are rounded to the fewest digits that leave all bins apart and none with less than half of its rows:
    edges that a person would choose. They are exact facts about the rows.
    """
    return {name: round_edges(*held) for name, held in many_numbers(source, names).items()}


def many_numbers(source: Source, names: Sequence[str]) -> dict[str, tuple[Floats, Ints]]:
    """The columns of more than FEW_NUMBERS different numbers, each number with how often it occurs."""
    found: dict[str, tuple[Floats, Ints]] = {name: (np.zeros(0), np.zeros(0, np.int64)) for name in names}
    for batch in source.batches(list(names)) if names else ():
        for name in list(found):
            x = numbers_or_none(batch.column(name))
            if x is None:
                del found[name]
            else:
                found[name] = with_numbers(*found[name], x)
    return {name: held for name, held in found.items() if len(held[0]) > FEW_NUMBERS and not numbering(*held)}


def numbering(values: Floats, counts: Ints) -> bool:
    """Whether whole numbers, each of them once, number the rows rather than measure something."""
    return bool(counts.max() == 1 and np.all(values == np.floor(values)))


def numbers_or_none(values: pa.Array) -> Floats | None:
    """A column as numbers, or None where it is no column of numbers."""
    if pa.types.is_boolean(values.type) or pa.types.is_temporal(values.type):
        return None
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    text = plain.type in (pa.string(), pa.large_string())
    if text and pc.any(pc.match_substring_regex(plain, CODE)).as_py():
        return None
    return plain_numbers(plain)


def round_edges(values: Floats, counts: Ints) -> Floats:
    """Edges of about USUAL_BINS bins with about equally many rows, in few digits."""
    exact = quantiles(values, counts, USUAL_BINS)
    held = np.histogram(values, [-np.inf, *exact, np.inf], weights=counts)[0]
    for digits in range(1, sys.float_info.dig + 1):
        edges = np.array([float(np.format_float_scientific(x, digits - 1)) for x in exact])
        if np.all(np.diff(edges) > 0):
            now = np.histogram(values, [-np.inf, *edges, np.inf], weights=counts)[0]
            if np.all(2 * now >= held):
                return edges
    return exact


def quantiles(values: Floats, counts: Ints, bins: int) -> Floats:
    """Inner edges of bins with about equally many rows, among the values themselves."""
    ranks = np.ceil(counts.sum() * np.arange(1, bins) / bins)
    below = np.searchsorted(np.cumsum(counts), ranks, side="left")  # the value at which each share is reached
    edges = np.unique(values[np.minimum(below + 1, len(values) - 1)])
    return np.asarray(edges[edges > values[0]])


def with_numbers(values: Floats, counts: Ints, x: Floats) -> tuple[Floats, Ints]:
    """Distinct numbers with their counts, and those of one more batch."""
    new, n = np.unique(x[np.isfinite(x)], return_counts=True)
    values, inverse = np.unique(np.concatenate([values, new]), return_inverse=True)
    return values, np.bincount(inverse, np.concatenate([counts, n]), len(values)).astype(np.int64)


def value_counts(source: Source, name: str) -> tuple[Floats, Ints]:
    """Every finite value of a numeric column with its count, in order."""
    def part(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> pa.Table:
        x = numbers_of(batch.column(name), name, first_row) + 0.0  # there is one zero
        finite = np.isfinite(x)
        held = np.unique(x[finite], return_counts=True) if weights is None else (x[finite], weights[finite])
        return pa.table([*map(pa.array, held)], names=["x", "n"])

    keys = pa.schema([("x", pa.float64()), ("n", pa.int64())])
    found = source.summed([name], part, keys, few=True).sort_by("x")
    return np.asarray(found.column("x")), np.asarray(found.column("n"))


MOST_COUNTED = 10_000  # labels after which a column is no longer counted


def label_counts(source: Source, names: Sequence[str]) -> tuple[dict[str, Counter[Label] | None], int]:
    """The labels of each column with their rows (None when there are too many, or they are no labels), and all rows."""
    found: dict[str, Counter[Label] | None] = {name: Counter() for name in names}
    rows = 0
    for batch in source.batches(list(names)):
        rows += batch.num_rows
        for name in names:
            found[name] = with_labels(found[name], batch.column(name), name)
    return found, rows


def with_labels(known: Counter[Label] | None, values: pa.Array, name: str) -> Counter[Label] | None:
    """Labels counted so far with those of one more batch; None once there are too many, or they are no labels."""
    if known is None:
        return None
    try:
        counted = as_labels(values, name).value_counts()
    except DataError:
        return None
    for label, n in zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True):
        known[label or None] += n
    return known if len(known) <= MOST_COUNTED else None


MOST_DISTINCT = 100_000  # distinct values in one column; more is almost surely a mistake
Rules = Mapping[str, Floats | str]  # for some columns: the inner edges of its bins, or the part of its dates


def grouped(source: Source, names: list[str], rules: Rules, missing: str) -> pa.Table:
    """Distinct combinations with their counts: columns k0, k1, … in the order of the names, and 'n'."""
    kinds = [pa.string() if isinstance(rules.get(n, ""), str) else pa.int32() for n in names]
    schema = pa.schema([*zip(keys(names), kinds, strict=True), ("n", pa.int64())])

    def part(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> pa.Table:
        labels = [_labels(batch.column(n), n, rules.get(n), missing == "refuse", first_row) for n in names]
        table = pa.table(labels, names=keys(names))
        weighed = table.append_column("n", pa.array(np.ones(len(table), np.int64) if weights is None else weights))
        counted = weighed.group_by(keys(names), use_threads=False).aggregate([("n", "sum")])
        plain = [c.cast(kind) for c, kind in zip(counted.columns, schema.types, strict=True)]  # no dictionaries, of
        return pa.table(plain, names=schema.names)  # which every batch may have another

    found = source.summed(names, part, schema, few=not rules, check=partial(_check_distinct, names))
    if not found.num_rows:
        raise DataError("has no rows: there is nothing to tabulate or release", where=source.name)
    _check_distinct(names, found)
    return found


def _check_distinct(names: list[str], found: pa.Table) -> None:
    for key, name in zip(keys(names), names, strict=True):
        distinct = pc.count_distinct(found.column(key), mode="all").as_py()
        if distinct > MOST_DISTINCT:
            raise InputError(
                f"has more than {MOST_DISTINCT:,} distinct values ({distinct:,} so far): is it a number or an "
                "identifier?", next=f"Bin it ({binned(name)}) or leave it out.", where=At(name),
            )


def keys(names: list[str]) -> list[str]:
    return [f"k{i}" for i in range(len(names))]


def _labels(values: pa.Array, name: str, rule: Floats | str | None, refuse: bool, first_row: int) -> pa.Array:
    """The batch's labels as text with null for missing; bin numbers for a binned column."""
    if rule is None:
        out = _blank_as_null(values, name)
    elif isinstance(rule, str):
        out = _parts(_blank_as_null(values, name), name, rule, first_row)
    else:
        column = Column.of(name, cuts=rule.tolist(), missing=True)
        codes = pa.array(encode_column(column, values, first_row))
        out = pc.if_else(pc.equal(codes, column.size - 1), pa.scalar(None, pa.int32()), codes)
    if refuse and out.null_count:
        missing = np.asarray(pc.is_null(out))
        raise unfit_row(name, missing, missing, first_row)
    return out


def _blank_as_null(values: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        inner = _blank_as_null(values.dictionary, name)
        if inner.null_count:
            return inner.take(values.indices)
        return pa.DictionaryArray.from_arrays(values.indices, inner)
    text = as_labels(values, name)
    blank = pc.equal(text, "")
    return pc.if_else(blank, pa.scalar(None, text.type), text) if pc.any(blank).as_py() else text


def _parts(values: pa.Array, name: str, part: str, first_row: int) -> pa.Array:
    """The year, quarter, month or weekday of each date; the first value that is no date is named by its row."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    told = [None if x is None else spelled(x, part) for x in texts]
    bad = {i for i, (x, y) in enumerate(zip(texts, told, strict=True)) if x is not None and x == y}
    if bad:
        at = next(i for i, code in enumerate(coded.indices.to_pylist()) if code in bad)
        raise DataError(
            "the value is no date such as 2026-01-31, or its day and month cannot be told apart",
            next=f"Write dates as ISO does, or leave out {binned(name, part)}.", where=At(name, row=first_row + at + 1),
        )
    return pa.array(told, pa.string()).take(coded.indices)
