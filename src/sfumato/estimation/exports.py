"""What leaves an estimate: a tidy table for a spreadsheet, and records drawn from the estimated distribution."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.alphabet import MISSING
from sfumato.errors import InputError
from sfumato.estimation.inversion import on_simplex
from sfumato.estimation.result import Estimate
from sfumato.sources.formulas import guarded

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.frames import Record

# --- every column and every two of them, for a spreadsheet ------------------------------------------------------------


HEAD = ("columns", "values", "share", "low", "high")
DIGITS = 12  # of a share in a file: no reader sees another number than `sfumato estimate` tells


def tidy(found: Estimate | BundleEstimate, level: float = 0.95) -> Iterator[Record]:
    """One record for each cell of each table of one or two columns; the intervals of a table hold at once, those of a
    bundle all at once, as its tables are margins of one distribution.

    Where the whole table is too large for tables of some of its columns, the secret and the useful variable alone.
    """
    from sfumato.estimation.bundle_tables import BundleEstimate

    together = found.intervals(level) if isinstance(found, BundleEstimate) else {}
    try:
        for table in found.tables:
            low, high = together[table.names] if together else table.interval(level)
            for at in np.ndindex(*table.p.shape):
                labels = [c.labels[i] for c, i in zip(table.columns, at, strict=True)]
                yield _record(table.names, labels, float(table.p[at]), float(low[at]), float(high[at]))
    except InputError:
        for side in (x for x in (getattr(found, "secret", None), getattr(found, "useful", None)) if x is not None):
            low, high = side.interval(level)
            for i in range(side.p.size):
                share = float(side.p[i])
                yield _record(side.alphabet.names, side.alphabet.label(i), share, float(low[i]), float(high[i]))


def tidy_csv(found: Estimate | BundleEstimate | None, level: float = 0.95) -> str:
    """The records as CSV that a spreadsheet opens; only the head where there is no estimate."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in tidy(found, level) if found is not None else ():
        writer.writerow([guarded(x) if isinstance(x, str) else f"{x:.{DIGITS}g}" for x in row.values()])
    return text.getvalue()


def _record(names: Sequence[str], labels: Sequence[Label], share: float, low: float, high: float) -> Record:
    texts = [MISSING if x is None else x for x in labels]
    values = (" × ".join(names), " · ".join(texts), share, low, high)
    return dict(zip(HEAD, values, strict=True))


# --- records of the original columns drawn from an estimated distribution ---------------------------------------------


SYNTHETIC_KEY = b"sfumato.synthetic"
NOTE = (
    "Synthetic: every record was drawn from the distribution estimated from a release. None is a person, and errors of "
    "that estimate are in all of them; intervals come from the release itself (sfumato estimate)."
)


def synthesise(found: Estimate, rows: int, *, seed: int | None = None) -> pa.Table:
    """As many records as asked for, independent draws from the estimated table; marked as synthetic in its metadata.

    It sees the estimate alone, which was made from released rows: nothing more is told about anybody.
    """
    whole_number(rows)
    p = on_simplex(found.p).ravel()
    codes = np.random.default_rng(seed).choice(p.size, rows, p=p / p.sum())
    digits = np.unravel_index(codes, [c.size for c in found.columns])
    arrays = [
        pa.array(np.array(c.labels, object)[digit], pa.string()) for c, digit in zip(found.columns, digits, strict=True)
    ]
    return marked(pa.table(arrays, names=[c.name for c in found.columns]), found.n)


def whole_number(rows: int) -> None:
    """Refuse what is no number of records."""
    if not (isinstance(rows, int) and rows > 0):
        raise InputError("the number of records must be a whole number, one or more", value=rows)


def marked(records: pa.Table, n: int) -> pa.Table:
    """Records that say in their metadata that they are synthetic."""
    told = {"rows": records.num_rows, "estimated_from": n, "note": NOTE}
    return records.replace_schema_metadata({SYNTHETIC_KEY: json.dumps(told).encode()})
