"""What can be learned from records that were made up: naive Bayes on them, tested on rows that were held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import columns_peers as peers
import sfumato as sf
from columns_data import ADULT, adult_rows, codes_of

TARGETS = ("income", "marital-status", "occupation")
SEEDS = 3
MIXED = 0.01  # of the share of a value in all records, mixed into that in a class


def trained(rows: pa.Table, target: str, names: list[str], held_out: pa.Table) -> float:
    """Accuracy of naive Bayes on held-out rows.

    A value's share in a class is mixed with a hundredth of its share in all [Jelinek, Mercer 1980]: one that no record
    has then speaks for no class. (With counts plus one it speaks for the rarest, and records in which an estimated
    share of 0 left a value out did worse than the commonest class.)
    """
    labels = {n: sorted({*rows.column(n).to_pylist(), *held_out.column(n).to_pylist()}) for n in (*names, target)}
    codes = {n: {x: i for i, x in enumerate(own)} for n, own in labels.items()}

    def coded(table: pa.Table, n: str) -> Any:
        return np.array([codes[n][x] for x in table.column(n).to_pylist()])

    y, k = coded(rows, target), len(codes[target])
    score = np.log(np.bincount(y, minlength=k) + 1.0)[None].repeat(held_out.num_rows, 0)
    for n in names:
        table = np.zeros((k, len(codes[n])))
        np.add.at(table, (y, coded(rows, n)), 1.0)
        whole = (table.sum(0) + 1) / (table.sum() + table.shape[1])
        shares = (table + whole) / (table.sum(1, keepdims=True) + 1)
        score += np.log((1 - MIXED) * shares + MIXED * whole)[:, coded(held_out, n)].T
    return float((score.argmax(1) == coded(held_out, target)).mean())


def learning(epsilon: float) -> dict[str, list[float]]:
    """Accuracies by target: on the truth, on a bundle's records, and on independent columns of a peer, of the truth."""
    rows = adult_rows()
    held = np.random.default_rng(0).random(rows.num_rows) < 0.25
    train, test = rows.filter(pa.array(~held)), rows.filter(pa.array(held))
    bundle = sf.bundle(train, "sex", list(ADULT), epsilon).bundle
    made = [_of_model(train, bundle, seed) for seed in range(SEEDS)]
    peer = [_of_tables(train, epsilon, seed) for seed in range(SEEDS)]
    rng = np.random.default_rng(1)
    columns = {n: train.column(n).to_numpy(zero_copy_only=False) for n in train.column_names}
    shuffled = pa.table({n: pa.array(rng.permutation(values)) for n, values in columns.items()})
    out = {}
    for target in TARGETS:
        names = [n for n in train.column_names if n != target]
        out[target] = [
            float(np.mean([trained(x, target, names, test) for x in those]))
            for those in ([train], made, peer, [shuffled])
        ]
    return out


def _of_model(train: pa.Table, bundle: sf.Bundle, seed: int) -> pa.Table:
    return sf.estimate(sf.release(train, bundle, seed=seed), bundle).synthesise(train.num_rows, seed=seed)


def _of_tables(train: pa.Table, epsilon: float, seed: int) -> pa.Table:
    """Independent columns by SMP's tables, the best of the peers: tables of one column are what they all tell."""
    names = train.column_names
    codes, sizes = codes_of(train, names)
    shown, _ = peers.run("SMP, adaptive", [codes[n] for n in names], [sizes[n] for n in names], epsilon, seed)
    rng, out = np.random.default_rng(seed), {}
    for n, p in zip(names, shown, strict=True):
        labels = np.array(sorted(set(train.column(n).to_pylist())))
        out[n] = pa.array(labels[rng.choice(len(p), train.num_rows, p=p / p.sum())])
    return pa.table(out)
