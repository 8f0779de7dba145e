"""Rows with many dependent columns, for tests and benchmarks of bundles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def people(n: int, columns: int = 10, labels: int = 8, secrets: int = 2, seed: int = 0, keep: float = 0.4) -> pa.Table:
    """A Markov chain secret → c0 → c1 → …: each column keeps its neighbour's value, moved along, or draws a skew one."""
    rng = np.random.default_rng(seed)
    before = rng.integers(0, secrets, n)
    out = {"secret": pa.array(np.array([f"s{i}" for i in range(secrets)])[before])}
    names = np.array([f"v{i}" for i in range(labels)])
    for j in range(columns):
        fresh = np.minimum(rng.integers(0, labels, n), rng.integers(0, labels, n))
        before = np.where(rng.random(n) < keep, (before + j) % labels, fresh)
        out[f"c{j}"] = pa.array(names[before])
    return pa.table(out)


def shares(table: pa.Table, estimate) -> np.ndarray:
    """The true table of an estimate's columns, as shares of the rows."""
    codes = [c.encode(table.column(c.name)) for c in estimate.columns]
    out = np.zeros(estimate.p.shape)
    np.add.at(out, tuple(codes), 1.0)
    return out / table.num_rows
