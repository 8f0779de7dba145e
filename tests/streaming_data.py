"""Rows and a mechanism for tests of files, folders, stores and pipes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.mechanism import Cells, Claim, Mechanism

SECRET, USEFUL = Alphabet.of(Column.of("ill", ["no", "yes"])), Alphabet.of(Column.of("town", ["A", "B", "C"]))
LAW = Cells(2, 3, 0.4, 0.1, 0.1, 0.15).rounded(None, 1e-9)
JOINT = sf.Joint.from_counts([[40, 30, 10], [20, 50, 50]], SECRET, USEFUL)
SRR = Mechanism(LAW, SECRET, USEFUL, method="srr", claim=Claim("ldp", 1.4), joint=JOINT, source="reference")
PRIVATE = "Xanthippe"


def rows(n=200) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({
        "year": pa.array(rng.integers(2020, 2023, n)), "ill": rng.choice(["no", "yes"], n),
        "town": rng.choice(["A", "B", "C"], n), "note": [f"{PRIVATE} {i}/é" for i in range(n)],
    })


def sorted_rows(table: pa.Table) -> list:
    names = sorted(table.column_names)
    return sorted(zip(*([str(x) for x in table.column(n).to_pylist()] for n in names), strict=True))
