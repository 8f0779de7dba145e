"""The worst ratio over F where rows share atoms: extremes once per atom, exact pairs for the worst rows."""

from __future__ import annotations

import numpy as np

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.twolevel import split_grid
from sfumato.solve.worst_rows import compared
from sfumato.uncertainty.tilting import greatest_mean, spread_of

NODES = 33  # splits of the slack at which atoms are compared
POLISHED = 4  # rows whose pairs are then searched exactly


def greatest_means(v: Floats, q: Floats, C: Floats) -> Floats:
    """max {R·v_i : Σ q²/R ≤ C_j} [i, j]."""
    shape = (len(v), len(C), len(q))
    return greatest_mean(
        np.broadcast_to(v[:, None], shape), np.broadcast_to(q, shape), np.broadcast_to(C, shape[:2])
    ).value


def worst_of_atoms(atoms: list[Floats], index: Ints, p: Floats, b: float) -> float:
    """The worst log-ratio over rows given as atoms: row y is atoms[s][index[y, s]] for every s (ours).

    Per row and split only the two greatest M and the two least m matter, because s₁ ≠ s₂. The few worst rows are then
    compared exactly.
    """
    if len(index) == 0 or len(atoms) < 2:
        return 0.0
    ratio = _on_grid(atoms, index, p, b)
    order = np.argsort(-ratio)[:POLISHED]
    rows = np.concatenate([h[index[order, s]] for s, h in enumerate(atoms)], axis=1)
    return compared(rows, p, b).log_ratio


def _on_grid(atoms: list[Floats], index: Ints, p: Floats, b: float) -> Floats:
    """Per row, the greatest M_{s₁}(b') / m_{s₂}(b − b') over s₁ ≠ s₂ and the splits of a grid."""
    grid, shares, shape = split_grid(b, NODES), p.sum(axis=1), (len(index), NODES)
    first, second = np.full(shape, -1.0), np.full(shape, -1.0)
    low1, low2 = np.full(shape, np.inf), np.full(shape, np.inf)
    arg, arg_low = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for s, h in enumerate(atoms):
        q = p[s] / shares[s]
        up = greatest_means(h, q, spread_of(grid, shares[s]))[index[:, s]]
        down = -greatest_means(-h, q, spread_of(b - grid, shares[s]))[index[:, s]]
        better, worse = up > first, down < low1
        second = np.where(better, first, np.maximum(second, up))
        arg, first = np.where(better, s, arg), np.where(better, up, first)
        low2 = np.where(worse, low1, np.minimum(low2, down))
        arg_low, low1 = np.where(worse, s, arg_low), np.where(worse, down, low1)
    low1, low2 = np.maximum(low1, 1e-300), np.maximum(low2, 1e-300)
    crossed = np.maximum(first / low2, second / low1)
    return np.asarray(np.where(arg == arg_low, crossed, first / low1).max(axis=1))
