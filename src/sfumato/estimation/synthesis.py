"""Synthesis: records of the original columns drawn from an estimated distribution."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from sfumato.errors import InputError
from sfumato.estimation.result import Estimate
from sfumato.estimation.simplex import on_simplex

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
        raise InputError(f"the number of records must be a whole number, one or more, got {rows!r}.")


def marked(records: pa.Table, n: int) -> pa.Table:
    """Records that say in their metadata that they are synthetic."""
    told = {"rows": records.num_rows, "estimated_from": n, "note": NOTE}
    return records.replace_schema_metadata({SYNTHETIC_KEY: json.dumps(told).encode()})
