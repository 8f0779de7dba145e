"""What can be learned from records that were made up: logistic regression on them, tested on rows held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import columns_peers as peers
import sfumato as sf
from columns_data import ADULT, adult_rows, codes_of

TARGETS = ("income", "marital-status", "occupation")
SEEDS = 3
RIDGE, STEPS = 1.0, 60  # of logistic regression


def trained(rows: pa.Table, target: str, names: list[str], held_out: pa.Table) -> float:
    """Accuracy of logistic regression on held-out rows, a weight for each value of each column.

    Naive Bayes was tried first: it takes husbands, married people and men for three independent reasons, and counts a
    value that no record has as evidence for the rarest class. It did worse than a guess from records that were right.
    """
    from scipy.optimize import minimize

    labels = {n: sorted({*rows.column(n).to_pylist(), *held_out.column(n).to_pylist()}) for n in (*names, target)}
    codes = {n: {x: i for i, x in enumerate(own)} for n, own in labels.items()}

    def coded(table: pa.Table, n: str) -> Any:
        return np.array([codes[n][x] for x in table.column(n).to_pylist()])

    starts = np.cumsum([0, *(len(codes[n]) for n in names)])
    x, new = (np.stack([coded(t, n) + a for n, a in zip(names, starts, strict=False)]) for t in (rows, held_out))
    y, k, size = coded(rows, target), len(codes[target]), int(starts[-1])
    own = np.eye(k)[y]

    def scores(flat: Any, at: Any) -> Any:
        return flat[: size * k].reshape(size, k)[at].sum(0) + flat[size * k :]

    def loss(flat: Any) -> tuple[float, Any]:
        found = scores(flat, x)
        found -= found.max(1, keepdims=True)
        p = np.exp(found)
        p /= p.sum(1, keepdims=True)
        away = (p - own) / len(y)
        slope = np.stack([sum(np.bincount(c, away[:, j], size) for c in x) for j in range(k)], 1)
        likely = -float(np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean())
        whole = np.concatenate([slope.ravel(), away.sum(0)]) + RIDGE * flat / len(y)
        return likely + RIDGE * float(flat @ flat) / (2 * len(y)), whole

    found = minimize(loss, np.zeros((size + 1) * k), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return float((scores(found.x, new).argmax(1) == coded(held_out, target)).mean())


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
