"""Grouping: the distinct combinations of some columns of a source, with how often each occurs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import Column, Floats, Ints, spelled
from sfumato.arrow import as_labels, encode_column
from sfumato.errors import AS_CATEGORY, At, DataError, InputError, binned
from sfumato.sources import Source

MOST_LABELS = 100_000  # distinct values in one column; more is almost surely a mistake
MERGE_ROWS = 1 << 20  # partial counts are merged when they reach this many rows
Rules = Mapping[str, Floats | str]  # for some columns: the inner edges of its bins, or the part of its dates


def grouped(source: Source, names: list[str], rules: Rules, missing: str) -> pa.Table:
    """Distinct combinations with their counts: columns k0, k1, … in the order of the names, and 'n'."""
    if source.sums is not None:
        return _grouped_there(source, names, rules, missing)
    parts: list[pa.Table] = []
    first_row = pending = 0
    for batch in source.batches(names):
        labels = [_labels(batch.column(n), n, rules.get(n), missing == "refuse", first_row) for n in names]
        parts.append(_counted(pa.table(labels, names=keys(names)), len(names)))
        pending += parts[-1].num_rows
        first_row += batch.num_rows
        if pending > MERGE_ROWS:
            parts = [_merged(parts, names)]
            pending = parts[0].num_rows
    return _merged(parts, names)


def _grouped_there(source: Source, names: list[str], rules: Rules, missing: str) -> pa.Table:
    """The same counts of rows that live on a cluster."""
    kinds = [pa.string() if isinstance(rules.get(n, ""), str) else pa.int32() for n in names]
    schema = pa.schema([*zip(keys(names), kinds, strict=True), ("n", pa.int64())])

    def part(batch: pa.RecordBatch, weights: Ints) -> pa.Table:
        labels = [_labels(batch.column(n), n, rules.get(n), missing == "refuse", 0) for n in names]
        table = pa.table([*labels, pa.array(weights)], names=schema.names)
        return _as_text(table.group_by(schema.names[:-1], use_threads=False).aggregate([("n", "sum")]), len(names))

    assert source.sums is not None
    found = source.sums(names, part, schema, few=not rules)
    if not found.num_rows:
        raise DataError("has no rows: there is nothing to tabulate or release", where=source.name)
    return _merged([found], names)


def keys(names: list[str]) -> list[str]:
    return [f"k{i}" for i in range(len(names))]


def _counted(table: pa.Table, size: int) -> pa.Table:
    found = table.group_by(table.column_names[:size], use_threads=False).aggregate([([], "count_all")])
    return _as_text(found, size)


def _as_text(table: pa.Table, size: int) -> pa.Table:
    """Group columns as plain text, so that counts of different batches can be put together."""
    text = [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns[:size]]
    return pa.table([*text, table.columns[size]], names=[*table.column_names[:size], "n"])


def _merged(parts: list[pa.Table], names: list[str]) -> pa.Table:
    held = keys(names)
    out = pa.concat_tables(parts).group_by(held, use_threads=False).aggregate([("n", "sum")])
    for key, name in zip(held, names, strict=True):
        distinct = pc.count_distinct(out.column(key), mode="all").as_py()
        if distinct > MOST_LABELS:
            raise InputError(
                f"has more than {MOST_LABELS:,} distinct values ({distinct:,} so far): is it a number or an "
                "identifier?", next=f"Bin it ({binned(name)}) or leave it out.", where=At(name),
            )
    return out.rename_columns([*held, "n"])


def _labels(
    values: pa.Array, name: str, rule: Floats | str | None, refuse: bool, first_row: int
) -> pa.Array:
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
        at = int(np.flatnonzero(np.asarray(pc.is_null(out)))[0])
        raise DataError(
            "the value is missing", next=f"Make missing values a category ({AS_CATEGORY}) or remove the row.",
            where=At(name, row=first_row + at + 1),
        )
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
