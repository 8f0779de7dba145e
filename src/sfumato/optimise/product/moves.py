"""Rows of two-level blocks by price: the secrets of a row are tied by its mean alone, through a tangent of φ.

The reduced gain of a row is Σ_s a_s(h_s) − φ(Σ_s z_s(h_s)), a_s = g_s − λ_s·h. As φ(z) ≥ (1 + log τ)z − τ for every τ,
the blocks that are best for a slope 1 + log τ are found secret by secret; exchanging one secret's block at a time among
all that were found then raises the reduced gain itself.
"""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import Floats, Ints, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.product.designs import Families

SLOPES = 12  # tangents of φ between the least and the greatest mean of a row
NEXT = 3  # blocks of a secret for each slope
PASSES = 3  # over the secrets
STRANGERS = 48  # rows of any blocks that are exchanged too: tangents do not reach rows between two corners


class ProductMover:
    """The rows of product form under one profile."""

    def __init__(self, families: Families) -> None:
        self.p, self.shares, self.families = families.p, families.shares, families.blocks
        self.rng = np.random.default_rng(1)
        self.slopes = 1.0 + np.log(np.geomspace(1.0 / families.high, 1.0 / families.low, SLOPES))

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows over all cells for prices λ[s, u]; none once the time is over."""
        blocks, a, z = [], [], []
        for s in range(len(self.p)):
            if budget.over:
                return np.zeros((0, self.p.size))
            h = self._blocks(s, prices[s])
            blocks.append(h)
            a.append(xlogx(h) @ self.p[s] - h @ prices[s])
            z.append(h @ self.p[s])
        first = self._chosen(a, z)
        random = np.stack([self.rng.integers(0, len(gain), STRANGERS) for gain in a], axis=1)
        better = self._exchanged(np.concatenate([first, random]), a, z)
        both = np.unique(np.concatenate([first, better]), axis=0)
        return np.concatenate([h[both[:, s]] for s, h in enumerate(blocks)], axis=1)

    def _blocks(self, s: int, prices: Floats) -> Floats:
        """Candidates of one secret: the best few for every slope."""
        family, y = self.families[s], prices / self.shares[s]
        if family.every is None:
            return np.concatenate([family.best(y + c * family.q, NEXT) for c in self.slopes])
        h = family.every
        reduced = family.worth - h @ y - self.slopes[:, None] * (h @ family.q)
        few = min(NEXT, len(h))
        return np.asarray(h[np.unique(np.argpartition(-reduced, few - 1, axis=1)[:, :few])])

    def _chosen(self, a: list[Floats], z: list[Floats]) -> Ints:
        """A row for each slope and rank: every secret's block of that rank for that slope [row, s]."""
        ranks = []
        for gain, mean in zip(a, z, strict=True):
            order = np.argsort(self.slopes[:, None] * mean - gain, axis=1)
            ranks.append(order[:, np.minimum(np.arange(NEXT), order.shape[1] - 1)].ravel())
        return np.stack(ranks, axis=1)

    def _exchanged(self, choice: Ints, a: list[Floats], z: list[Floats]) -> Ints:
        total = np.sum([mean[choice[:, s]] for s, mean in enumerate(z)], axis=0)
        for s in (*range(len(a)),) * PASSES:
            rest = total - z[s][choice[:, s]]
            choice[:, s] = (a[s] - xlogx(rest[:, None] + z[s])).argmax(1)
            total = rest + z[s][choice[:, s]]
        return choice
