"""Binning: the edges that cut a numeric column into bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Floats, Ints
from sfumato.arrow import numbers_of
from sfumato.errors import DataError, InputError
from sfumato.sources import Source


def bin_edges(source: Source, name: str, rule: int | Sequence[float]) -> Floats:
    """The inner edges of a column's bins: as given, or so that the bins hold about equally many rows."""
    if not isinstance(rule, int):
        edges = np.asarray(rule, float)
        if edges.ndim != 1 or not edges.size or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
            raise InputError(f"bins of {name!r} must be a number or increasing inner edges, got {rule!r}.")
        return edges
    if isinstance(rule, bool) or rule < 2:
        raise InputError(f"column {name!r} needs at least two bins, got {rule!r}.")
    values, counts = _value_counts(source, name)
    if not len(values):
        raise DataError(f"column {name!r} holds no numbers, so it has no quantiles.")
    ranks = np.ceil(counts.sum() * np.arange(1, rule) / rule)
    below = np.searchsorted(np.cumsum(counts), ranks, side="left")  # the value at which each share is reached
    edges = np.unique(values[np.minimum(below + 1, len(values) - 1)])
    edges = edges[edges > values[0]]
    if not len(edges):
        raise InputError(f"column {name!r} has a single value, so it cannot be cut into {rule} bins.")
    return np.asarray(edges)


def _value_counts(source: Source, name: str) -> tuple[Floats, Ints]:
    """Every finite value of a numeric column with its count, in order."""
    if source.sums is not None:
        return _value_counts_there(source, name)
    values, counts = np.zeros(0), np.zeros(0, np.int64)
    first_row = 0
    for batch in source.batches([name]):
        x = numbers_of(batch.column(name), name, first_row)
        first_row += batch.num_rows
        new, n = np.unique(x[np.isfinite(x)], return_counts=True)
        values, inverse = np.unique(np.concatenate([values, new]), return_inverse=True)
        counts = np.bincount(inverse, np.concatenate([counts, n]), len(values)).astype(np.int64)
    return values, counts


def _value_counts_there(source: Source, name: str) -> tuple[Floats, Ints]:
    """The same of rows that live on a cluster."""
    def part(batch: pa.RecordBatch, weights: Ints) -> pa.Table:
        x = numbers_of(batch.column(name), name, 0)
        finite = np.isfinite(x)
        return pa.table({"x": x[finite], "n": weights[finite]})

    found = source.sums([name], part, pa.schema([("x", pa.float64()), ("n", pa.int64())]), few=True).sort_by("x")
    return np.asarray(found.column("x")), np.asarray(found.column("n"))
