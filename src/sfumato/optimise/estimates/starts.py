"""Sets of cells that rows begin with: those of ordinary protocols, of u alone and of (s, u), and parts of all cells."""

from __future__ import annotations

import math

import numpy as np

from sfumato.errors import InputError
from sfumato.mechanism.blocks import ORDERS, incidence
from sfumato.optimise.arrays import Bools, Floats, Ints
from sfumato.optimise.cone import Coordinates

LISTED = 6  # values up to which every set of them is listed
PARTS = 2  # times as many sets as coordinates among the parts of all cells
FAINT = 1e-9  # of a row off its set: mixing with the constant row, which makes it private, does the rest


def of_values(k: int, epsilon: float) -> Bools:
    """Sets of k values: single ones (GRR) and all but one; every set of a few values (subset selection, unary bits), or
    hyperplanes of a projective space with about the share that is best at ε, and halves."""
    eye = np.eye(k, dtype=bool)
    sets = [eye, ~eye]
    if k <= LISTED:
        sets.append(((np.arange(1, 2**k - 1)[:, None] >> np.arange(k)) & 1).astype(bool))
    else:
        for order in fitting(epsilon):
            found = hyperplanes(k, order)
            sets += [] if found is None else [found, ~found]
    return _proper(np.concatenate(sets))


def fitting(epsilon: float) -> list[int]:
    """Orders of blocks whose share 1/q is near 1/(e^ε + 1), which is best for LDP; and 2, for larger sets."""
    near = sorted(ORDERS, key=lambda q: abs(math.log(q / (math.exp(epsilon) + 1))))
    return sorted({2, *near[:2]})


def hyperplanes(k: int, order: int) -> Bools | None:
    """The blocks of a projective space with k points or more, or None if they are too many."""
    try:
        return np.array(incidence(k, order))
    except InputError:
        return None


def _proper(sets: Bools) -> Bools:
    sets = np.unique(sets, axis=0)
    return np.asarray(sets[sets.any(1) & ~sets.all(1)])


def of_cells(coordinates: Coordinates, shape: tuple[int, int], epsilon: float, reads: str) -> Bools:
    """Sets of coordinates: of u whatever s is, of u with one secret, of secrets, single cells, parts of all cells."""
    U, n = shape[1], len(coordinates.p)
    if reads == "useful":
        return of_values(U, epsilon)
    s, u = np.divmod(coordinates.cell, U)
    values = of_values(U, epsilon)
    sets = [np.eye(n, dtype=bool), values[:, u], _parts(n, epsilon)]
    if shape[0] > 1:
        sets.append(of_values(shape[0], epsilon)[:, s] if shape[0] <= LISTED else np.eye(shape[0], dtype=bool)[:, s])
    few = values if len(values) * shape[0] <= PARTS * n else np.zeros((0, U), bool)
    sets += [few[:, u] & (s == one) for one in range(shape[0])]
    return _proper(np.concatenate(sets))


def _parts(n: int, epsilon: float, seed: int = 0) -> Bools:
    """One part of all cells out of e^ε + 1, about: the parts that a few rows of a Hadamard matrix make together, as in
    Hadamard response [Acharya, Sun, Zhang 2019]: few sets that tell all cells apart evenly."""
    rng = np.random.default_rng(seed)
    depth = max(1, round(math.log2(math.exp(epsilon) + 1)))
    size, cells, out = 1 << int(n).bit_length(), np.arange(1, n + 1), []
    for which in rng.integers(1, size, (math.ceil(PARTS * n / 2**depth), depth)):
        code = np.zeros(n, np.int64)
        for k, i in enumerate(which):
            code += _parity(int(i) & cells) << k
        out.append(code == np.unique(code)[:, None])
    return np.concatenate(out)


def _parity(x: Ints) -> Ints:
    for shift in (32, 16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return x & 1


def steep(sets: Bools) -> Floats:
    """Rows that are high on sets and nearly zero off them, to be mixed until private: as steep as may be."""
    return np.maximum(sets, FAINT)
