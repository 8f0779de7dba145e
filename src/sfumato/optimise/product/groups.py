"""Rows grouped by the block of one dominating secret, whose height the other secrets cannot make level.

max Σ_s Σ_k Σ_h θ g_s(h) − Σ_k T_k φ(Z_k/T_k), θ[s, k, h] ≥ 0 with Σ_{k,h} θ h = 1 for every s and Σ_h θ[s, k, h] = T_k:
in group k the dominating secret has one block, so its weight there is T_k itself, and the others are decoupled as in
docs/robust.md, section 3. Jensen within each group makes this a bound for mixtures of the product's rows, and
levelling within groups nearly attains it. −Tφ(Z/T) = min over τ of τT − (1 + log τ)Z is kept as cuts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import INFINITY, PRIMAL, LinearProgramme
from sfumato.optimise.product.profiles import Arrangement, level
from sfumato.optimise.product.two_level import TwoLevel

LEVELS = (1.0, 1.1, 1.25, 1.5, 2.0)  # τ of a group's first cuts
SLOPES = 24  # tangents of φ at which blocks of the dominating secret are compared
OPENED = 6  # groups opened at a time
ROUNDS = 40
GAIN = 2e-5  # of the value: a round that gains less opens new groups, and ends the search where none pays


class Groups:
    """The programme over groups opened so far."""

    def __init__(self, families: Sequence[TwoLevel], p: Floats, seed: Arrangement) -> None:
        self.families, self.p, self.seed, self.shares = families, p, seed, p.sum(1)
        heights = [family.start() @ row for family, row in zip(families, p, strict=True)]
        self.head = int(np.argmax([z.max() - z.min() for z in heights]))
        self.others = [s for s in range(len(p)) if s != self.head]
        self.lp = LinearProgramme(np.zeros(0), np.zeros(0), np.zeros(0), maximise=True, warm=True)
        self.lp.equal(sparse.csr_matrix((p.size, 0)), 1.0)
        self.heads: list[Floats] = []
        self.first: list[tuple[int, int]] = []  # of each group: its link rows, and its columns T, Z, w
        self.at: list[tuple[int, int, Floats]] = []  # of each other column: secret, group, blocks
        self.where: list[int] = []
        self.x = np.zeros(0)  # until something is solved
        blocks = seed.heights[self.head]
        for block in blocks[np.unique(blocks.round(9), axis=0, return_index=True)[1]]:
            self._open(block)

    def _open(self, block: Floats) -> None:
        """A group: rows that link the lengths of the others to T and sum the heights, columns T, Z and w."""
        rows, columns, size = self.lp.rows, self.lp.h.getNumCol(), self.p.shape[1]
        links = len(self.others)
        self.lp.equal(sparse.csr_matrix((links + 1, columns)), 0.0)
        own = sparse.lil_matrix((self.lp.rows, 3))
        own[self.head * size : (self.head + 1) * size, 0] = block[:, None]
        own[rows : rows + links, 0] = -1.0
        own[rows + links, 0], own[rows + links, 1] = float(block @ self.p[self.head]), -1.0
        gain = float(xlogx(block) @ self.p[self.head])
        self.lp.add_columns(np.array([gain, 0.0, 1.0]), np.array([0.0, 0.0, -INFINITY]), np.full(3, INFINITY), own)
        self.heads.append(block)
        self.first.append((rows, columns))
        self.where += [-1] * 3
        self._cut(len(self.heads) - 1, LEVELS)
        for s in self.others:
            self._add(s, len(self.heads) - 1, np.concatenate([self.families[s].ends, self.seed.heights[s]]))

    def _cut(self, k: int, levels: Sequence[float]) -> None:
        """w ≤ τT − (1 + log τ)Z."""
        columns = self.first[k][1] + np.arange(3)
        matrix = sparse.lil_matrix((len(levels), self.lp.h.getNumCol()))
        for i, tau in enumerate(levels):
            matrix[i, columns] = [-tau, 1.0 + np.log(tau), 1.0]
        self.lp.at_most(matrix)

    def _add(self, s: int, k: int, blocks: Floats) -> None:
        size, link, count = self.p.shape[1], self.first[k][0], len(blocks)
        if not count:
            return
        own = np.arange(s * size, (s + 1) * size)
        rows = np.append(own, [link + self.others.index(s), link + len(self.others)])
        full = np.column_stack([blocks, np.ones(count), blocks @ self.p[s]])
        matrix = sparse.csc_matrix(
            (full.ravel(), np.tile(rows, count), np.arange(count + 1) * len(rows)), shape=(self.lp.rows, count)
        )
        self.lp.add_columns(xlogx(blocks) @ self.p[s], np.zeros(count), np.full(count, INFINITY), matrix)
        self.where += [len(self.at)] * count
        self.at.append((s, k, blocks))

    def run(self, budget: Budget) -> float:
        """Columns by price until nothing gains, then groups by price; returns the programme's value."""
        best = -np.inf
        for _ in range(ROUNDS):
            found = self.lp.solve(PRIMAL)
            if not found.optimal:
                break
            self.x, self.dual = found.x, found.row_dual
            value, still = self._value(found.value), True
            for k in range(len(self.heads)):
                T, Z, w = self._own(k)
                if T > 1e-9 and w + Z * np.log(max(Z / T, 1e-300)) > 1e-6 * T:
                    self._cut(k, (Z / T,))
                    still = False
            if budget.over or (value - best <= GAIN * abs(value) and still and not self._more_groups()):
                break
            best = max(best, value)
            for k in range(len(self.heads)):
                if not budget.over:
                    self._priced(k)
        return best

    def _own(self, k: int) -> Floats:
        return np.asarray(self.x[self.first[k][1] : self.first[k][1] + 3])

    def _value(self, objective: float) -> float:
        """The objective with −Tφ(Z/T) itself instead of its cuts."""
        for k in range(len(self.heads)):
            T, Z, w = self._own(k)
            objective -= w + (Z * np.log(Z / T) if T > 1e-12 and Z > 0 else 0.0)
        return float(objective)

    @property
    def prices(self) -> Floats:
        return np.asarray(self.dual[: self.p.size].reshape(self.p.shape))

    def _priced(self, k: int) -> None:
        link, prices = self.first[k][0], self.prices
        if link >= len(self.dual):  # opened since the last solve
            return
        slope = float(self.dual[link + len(self.others)])
        for i, s in enumerate(self.others):
            y = (prices[s] + slope * self.p[s]) / self.shares[s]
            self._add(s, k, self.families[s].price(y, float(self.dual[link + i]) / self.shares[s], GAIN))

    def _more_groups(self) -> bool:
        """Blocks of the dominating secret that would pay, the others taking what is best at each level τ."""
        prices, tau = self.prices, np.geomspace(1.0, 1.0 / self.seed.total * 2.0, SLOPES)
        slopes, head = 1.0 + np.log(tau), self.families[self.head]
        rest = tau.copy()
        for s in self.others:
            blocks = self._candidates(s, slopes)
            rest += (xlogx(blocks) @ self.p[s] - blocks @ prices[s] - slopes[:, None] * (blocks @ self.p[s])).max(1)
        blocks = np.concatenate([self._candidates(self.head, slopes), head.start()])
        worth = xlogx(blocks) @ self.p[self.head] - blocks @ prices[self.head]
        worth = (worth - slopes[:, None] * (blocks @ self.p[self.head]) + rest[:, None]).min(0)
        opened = 0
        for i in np.argsort(-worth):
            if worth[i] <= GAIN or opened == OPENED:
                break
            if min(float(np.abs(blocks[i] - own).max()) for own in self.heads) > 1e-7:
                self._open(blocks[i])
                opened += 1
        return opened > 0

    def _candidates(self, s: int, slopes: Floats) -> Floats:
        y = self.prices[s] / self.shares[s]
        return np.concatenate([self.families[s].best(y + c * self.families[s].q, 3) for c in slopes])

    def layout(self) -> Arrangement:
        """The groups in use side by side, each levelled by itself."""
        parts = []
        for k, block in enumerate(self.heads):
            T = float(self._own(k)[:1].sum())  # nothing where it was opened since the last solve
            if T > 1e-10:
                parts.append(level(self._group(k, T, block), self.p))
        if not parts:
            return self.seed
        return Arrangement(
            sum(x.total for x in parts),
            tuple(np.concatenate([x.lengths[s] for x in parts]) for s in range(len(self.p))),
            tuple(np.concatenate([x.heights[s] for x in parts]) for s in range(len(self.p))),
        )

    def _group(self, k: int, T: float, block: Floats) -> Arrangement:
        lengths = [np.array([T]) if s == self.head else np.zeros(0) for s in range(len(self.p))]
        heights = [block[None] if s == self.head else np.zeros((0, self.p.shape[1])) for s in range(len(self.p))]
        where = np.array(self.where[: len(self.x)])
        for i, (s, group, blocks) in enumerate(self.at):
            if group == k and (columns := np.flatnonzero(where == i)).size:
                theta = self.x[columns]
                on = theta > DUST
                lengths[s], heights[s] = np.append(lengths[s], theta[on]), np.concatenate([heights[s], blocks[on]])
        return Arrangement(T, tuple(x * (T / x.sum()) for x in lengths), tuple(heights))
