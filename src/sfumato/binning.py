"""Binning: the edges that cut a numeric column into bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import Floats, Ints
from sfumato.arrow import numbers_of
from sfumato.errors import At, DataError, InputError
from sfumato.sources import Source

FEW = 20  # distinct numbers up to which each stays a label of its own
BINS = 5  # that numbers are cut into when nobody says how
MOST_DIGITS = 17  # of a float
CODE = r"^[+-]?0[0-9]"  # numbers with leading zeros are codes

def bin_edges(source: Source, name: str, rule: int | Sequence[float]) -> Floats:
    """The inner edges of a column's bins: as given, or so that the bins hold about equally many rows."""
    if not isinstance(rule, int):
        edges = np.asarray(rule, float)
        if edges.ndim != 1 or not edges.size or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
            raise InputError(f"bins of {name!r} must be a number or increasing inner edges", value=rule)
        return edges
    if isinstance(rule, bool) or rule < 2:
        raise InputError("needs at least two bins", value=rule, where=At(name))
    values, counts = value_counts(source, name)
    if not len(values):
        raise DataError("holds no numbers, so it has no quantiles", where=At(name))
    edges = quantiles(values, counts, rule)
    if not len(edges):
        raise InputError(f"has a single value, so it cannot be cut into {rule} bins", where=At(name))
    return edges


def automatic_edges(source: Source, names: Sequence[str]) -> dict[str, Floats]:
    """Edges of every column of more than FEW different numbers, so that about BINS bins hold about equally many rows.

    Quantiles are rounded to the fewest digits that leave all bins apart and none with less than half of its rows:
    edges that a person would choose. They are exact facts about the rows.
    """
    return {name: round_edges(*held) for name, held in many_numbers(source, names).items()}


def many_numbers(source: Source, names: Sequence[str]) -> dict[str, tuple[Floats, Ints]]:
    """The columns of more than FEW different numbers, each number with how often it occurs."""
    found: dict[str, tuple[Floats, Ints]] = {name: (np.zeros(0), np.zeros(0, np.int64)) for name in names}
    first_row = 0
    for batch in source.batches(list(names)) if names else ():
        for name in list(found):
            x = numbers_or_none(batch.column(name), name, first_row)
            if x is None:
                del found[name]
            else:
                found[name] = with_numbers(*found[name], x)
        first_row += batch.num_rows
    return {name: held for name, held in found.items() if len(held[0]) > FEW and not numbering(*held)}


def numbering(values: Floats, counts: Ints) -> bool:
    """Whether whole numbers, each of them once, number the rows rather than measure something."""
    return bool(counts.max() == 1 and np.all(values == np.floor(values)))


def numbers_or_none(values: pa.Array, name: str, first_row: int) -> Floats | None:
    """A column as numbers, or None where it is no column of numbers."""
    if pa.types.is_boolean(values.type) or pa.types.is_temporal(values.type):
        return None
    try:
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        text = plain.type in (pa.string(), pa.large_string())
        if text and pc.any(pc.match_substring_regex(plain, CODE)).as_py():
            return None
        return numbers_of(plain, name, first_row)
    except DataError:
        return None


def round_edges(values: Floats, counts: Ints) -> Floats:
    """Edges of about BINS bins with about equally many rows, in few digits."""
    exact = quantiles(values, counts, BINS)
    held = np.histogram(values, [-np.inf, *exact, np.inf], weights=counts)[0]
    for digits in range(1, MOST_DIGITS):
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
    if source.sums is not None:
        return _value_counts_there(source, name)
    values, counts = np.zeros(0), np.zeros(0, np.int64)
    first_row = 0
    for batch in source.batches([name]):
        x = numbers_of(batch.column(name), name, first_row)
        first_row += batch.num_rows
        values, counts = with_numbers(values, counts, x)
    return values, counts


def _value_counts_there(source: Source, name: str) -> tuple[Floats, Ints]:
    """The same of rows that live on a cluster."""
    def part(batch: pa.RecordBatch, weights: Ints) -> pa.Table:
        x = numbers_of(batch.column(name), name, 0)
        finite = np.isfinite(x)
        return pa.table({"x": x[finite], "n": weights[finite]})

    assert source.sums is not None
    found = source.sums([name], part, pa.schema([("x", pa.float64()), ("n", pa.int64())]), few=True).sort_by("x")
    return np.asarray(found.column("x")), np.asarray(found.column("n"))
