"""Rows that a search for estimates begins with, and rows of two-level blocks by price."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from sfumato.errors import InputError
from sfumato.mechanism.subset_laws import ORDERS, incidence
from sfumato.optimise.arrays import Bools, Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import Coordinates, RatioCone
from sfumato.optimise.estimates.goal import SETTLED
from sfumato.optimise.product.two_level import BlockBall, Heights, Profile, bend, subsets

# --- those of ordinary protocols, of u alone and of (s, u), and parts of all cells ------------------------------------


LISTED = 6  # values up to which every set of them is listed
PARTS = 2  # times as many sets as coordinates among the parts of all cells
FAINT = 1e-9  # of a row off its set: mixing with the constant row, which makes it private, does the rest


def of_values(k: int, epsilon: float) -> Bools:
    """Sets of k values: single ones (GRR) and all but one; every set of a few values (subset selection, unary bits), or
    hyperplanes of a projective space with about the share that is best at ε, and halves."""
    eye = np.eye(k, dtype=bool)
    sets = [eye, ~eye]
    if k <= LISTED:
        sets.append(subsets(k).astype(bool))
    else:
        for order in fitting(epsilon):
            with contextlib.suppress(InputError):  # blocks of a projective space with k points or more: not too many
                found = np.array(incidence(k, order))
                sets += [found, ~found]
    return _proper(np.concatenate(sets))


def fitting(epsilon: float) -> list[int]:
    """Orders of blocks whose share 1/q is near 1/(e^ε + 1), which is best for LDP; and 2, for larger sets."""
    near = sorted(ORDERS, key=lambda q: abs(math.log(q / (math.exp(epsilon) + 1))))
    return sorted({2, *near[:2]})


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


# ----------------------------------------------------------------------------------------------------------------------
# Rows of two-level blocks by price: one set of cells for each secret, changed value by value while that helps
# Under a profile of the shared budget the secrets decouple (optimise/product), so whatever sets are chosen, the row is
# private: lo + d·1_H with heights that depend on the mass of H alone. What is climbed is vᵀMv/z² − λ·v/z, z = p·v.


NODES, MASSES = 17, 257  # of a profile, and of the table of heights
PASSES = 6  # over the secrets


class BlockMover:
    """Rows of product form under one profile, over the coordinates of a cone that reads both variables."""

    def __init__(self, ball: BlockBall, cone: RatioCone, epsilon: float, profile: Profile) -> None:
        self.cone, self.p = cone, cone.coordinates.p
        S, U = cone.within.joint.shape
        secret, E = cone.coordinates.cell // U, math.exp(epsilon)
        self.cells: list[Ints] = []
        self.heights: list[Heights] = []
        for s in range(S):
            at = np.flatnonzero((secret == s) & (self.p > 0))
            if len(at):
                self.cells.append(at)
                self.heights.append(Heights(ball, s, float(self.p[at].sum()), E, profile, NODES, bend(MASSES)))
        self.constants = self.heights[0].least, self.heights[0].most

    def starts(self, sets: Bools) -> Floats:
        """Rows on sets of coordinates [y, i], the steeper of the two kinds of heights."""
        out = np.full(sets.shape, self.constants[0])
        for at, heights in zip(self.cells, self.heights, strict=True):
            q = self.p[at] / self.p[at].sum()
            lo, hi = heights.at(np.clip(sets[:, at] @ q, 0.0, 1.0))
            out[:, at] = lo[0][:, None] + (hi - lo)[0][:, None] * sets[:, at]
        return out

    def rows(self, slope: Floats, prices: Floats, sets: Bools, budget: Budget) -> tuple[Floats, Bools]:
        """Unit rows that no exchange of one value improves, and their sets; what the time allows."""
        rows, sets = self.starts(sets), sets.copy()
        empty = self.p <= 0
        rows[:, empty] = np.where(prices[empty] < 0, self.constants[1], self.constants[0])
        pull, before = rows @ slope, np.full(len(rows), -np.inf)
        for _ in range(PASSES):
            for at, heights in zip(self.cells, self.heights, strict=True):
                if budget.over:
                    break
                now = self._exchanged(rows, pull, sets, at, heights, slope, prices)
            if budget.over or np.all(now <= before + SETTLED * np.abs(now)):
                break
            before = now
        return self.cone.coordinates.unit(rows), sets

    def _exchanged(
        self, rows: Floats, pull: Floats, sets: Bools, at: Ints, heights: Heights, slope: Floats, prices: Floats
    ) -> Floats:
        """One value of one secret enters or leaves, or nothing does, in every row; the rows' scores."""
        p, M, lam = self.p[at], slope[np.ix_(at, at)], prices[at]
        mine, inside = rows[:, at], sets[:, at].astype(float)
        cross = pull[:, at] - mine @ M
        inner = (rows * pull).sum(1) - 2 * (mine * cross).sum(1) - ((mine @ M) * mine).sum(1)
        z, flat = rows @ self.p - mine @ p, rows @ prices - mine @ lam
        sign, pulled = 1.0 - 2.0 * inside, inside @ M
        still = np.zeros((len(rows), 1))

        def after(total: Floats, change: Floats) -> Floats:
            return np.asarray(total[:, None] + np.concatenate([still, sign * change], axis=1))

        mass, cost = after(inside @ p, p), after(inside @ lam, lam)
        once, joined = after(inside @ M.sum(1), M.sum(1)), after((cross * inside).sum(1), cross)
        twice = after((pulled * inside).sum(1), 2 * pulled + sign * np.diag(M))
        lo, hi = heights.at(np.clip(mass / p.sum(), 0.0, 1.0))  # [kind, y, exchange]
        d = hi - lo
        own = lo**2 * M.sum() + 2 * lo * d * once + d**2 * twice
        mean = z[:, None] + lo * p.sum() + d * mass
        both = own + 2 * (lo * cross.sum(1)[:, None] + d * joined) + inner[:, None]
        score = (both / mean - (flat[:, None] + lo * lam.sum() + d * cost)) / mean
        flatly = score.transpose(1, 0, 2).reshape(len(rows), -1)
        best, y = flatly.argmax(1), np.arange(len(rows))
        kind, which = np.divmod(best, len(at) + 1)
        changed = np.flatnonzero(which > 0)
        sets[changed, at[which[changed] - 1]] ^= True
        new = lo[kind, y, which][:, None] + d[kind, y, which][:, None] * sets[:, at]
        pull += (new - mine) @ slope[at]
        rows[:, at] = new
        return np.asarray(flatly[y, best])
