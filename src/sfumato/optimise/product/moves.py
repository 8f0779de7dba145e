"""Rows of two-level blocks by price: the secrets of a row are tied by its mean alone, through a tangent of φ.

The reduced gain of a row is Σ_s a_s(h_s) − φ(Σ_s z_s(h_s)), a_s = g_s − λ_s·h. As φ(z) ≥ (1 + log τ)z − τ for every τ,
the blocks that are best for a slope 1 + log τ are found secret by secret; exchanging one secret's block at a time among
all that were found then raises the reduced gain itself.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.product.profiles import windows
from sfumato.optimise.product.two_level import Ball, Heights, Profile, TwoLevel, bend

SLOPES = 9  # tangents of φ between the least and the greatest mean of a row
PASSES = 2  # over the secrets


class ProductMover:
    """The rows of product form under one profile."""

    def __init__(self, ball: Ball, p: Floats, epsilon: float, profile: Profile) -> None:
        self.p, self.shares, E = p, p.sum(1), math.exp(epsilon)
        rng = np.random.default_rng(0)
        self.families = []
        for s, share in enumerate(self.shares):
            heights = Heights(ball, float(share), E, profile, 17, bend(257))
            self.families.append(TwoLevel(p[s] / share, heights, windows(p[s] / share, np.zeros(0), rng)))
        self.slopes = 1.0 + np.log(np.geomspace(1.0 + profile.drop, E, SLOPES))

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows over all cells for prices λ[s, u]; none once the time is over."""
        found = []
        for s, family in enumerate(self.families):
            if budget.over:
                return np.zeros((0, self.p.size))
            y = prices[s] / self.shares[s]
            found.append(np.concatenate([family.best(y + c * family.q) for c in self.slopes]))
        gain = np.array([self.shares[s] * (xlogx(h) @ f.q) for s, (h, f) in enumerate(zip(found, self.families, strict=True))])
        a = gain - np.array([h @ prices[s] for s, h in enumerate(found)])  # [s, candidate]
        z = np.array([h @ self.p[s] for s, h in enumerate(found)])
        count = a.shape[1] // len(self.slopes)
        choice = np.stack([np.arange(len(self.slopes)) * count + i for i in range(count)], 0).reshape(-1, 1)
        choice = np.repeat(choice, len(a), axis=1)  # [row, s]
        s = np.arange(len(a))
        total = z[s, choice].sum(1)
        for i in (*range(len(a)),) * PASSES:
            rest = total - z[i, choice[:, i]]
            choice[:, i] = (a[i] - xlogx(rest[:, None] + z[i])).argmax(1)
            total = rest + z[i, choice[:, i]]
        choice = np.unique(choice, axis=0)
        return np.concatenate([found[i][choice[:, i]] for i in range(len(a))], axis=1)
