"""Estimates as one tidy table: every column and every two of them, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.alphabet import MISSING
from sfumato.errors import InputError
from sfumato.sources.formulas import guarded

HEAD = ("columns", "values", "share", "low", "high")


def tidy(found: Any, level: float = 0.95) -> Iterator[dict[str, Any]]:
    """One record for each cell of each table of one or two columns; the intervals of a table hold at once.

    Where the whole table is too large for tables of some of its columns, the secret and the useful variable alone.
    """
    try:
        for table in found.tables:
            low, high = table.interval(level)
            for at in np.ndindex(*table.p.shape):
                labels = [c.labels[i] for c, i in zip(table.columns, at, strict=True)]
                yield _record(table.names, labels, table.p[at], low[at], high[at])
    except InputError:
        for side in (x for x in (getattr(found, "secret", None), getattr(found, "useful", None)) if x is not None):
            low, high = side.interval(level)
            for i in range(side.p.size):
                yield _record(side.alphabet.names, side.alphabet.label(i), side.p[i], low[i], high[i])


def tidy_csv(found: Any, level: float = 0.95) -> str:
    """The records as CSV that a spreadsheet opens; only the head where there is no estimate."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in tidy(found, level) if found is not None else ():
        writer.writerow([guarded(x) if isinstance(x, str) else f"{x:.6g}" for x in row.values()])
    return text.getvalue()


def _record(names: Any, labels: Any, share: float, low: float, high: float) -> dict[str, Any]:
    texts = [MISSING if x is None else x for x in labels]
    values = (" × ".join(names), " · ".join(texts), float(share), float(low), float(high))
    return dict(zip(HEAD, values, strict=True))
