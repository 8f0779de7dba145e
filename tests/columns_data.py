"""Rows with many dependent columns, for tests and benchmarks of bundles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.mechanism import Claim, Mechanism


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


def column(name, size):
    return sf.Column.of(name, [f"{name}{i}" for i in range(size)])


def sealed_answer(secret, columns, answer, within=None, margin=2.0**-20):
    """A sealed part from an answer, with a claim that holds in any set."""
    useful = sf.Alphabet(tuple(columns))
    joint = sf.Joint.from_probabilities(np.full((secret.size, useful.size), 1 / (secret.size * useful.size)), secret, useful)
    made = Mechanism(answer.law().rounded(None, margin), secret, useful, "both" if answer.rows > 1 else "useful", joint=joint)
    return made.with_claim(Claim("rldp", 50.0, within or sf.Anything(joint)))
