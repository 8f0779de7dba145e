"""Cones whose extreme rows are known: those of any distribution, found by price, and those of simplices, listed (ours).

Any distribution: let a be the least number of a row, in secret i, and b the least of the other secrets. v ≤ K·v'
between secrets says that secret i lies in [a, K·b], the others in [b, K·a]. A row at these ends is linear in b ∈
[a, K·a], so the extreme rows are those with b = a, all numbers 1 or K, and those with b = K·a: one secret at 1/K or K,
all others at 1.

Simplices that enclose the conditionals of each secret, secrets compared with themselves too [000, Def. 3]: scale a row
until the least mean of all is 1. It is private iff the means of every secret lie in [1, E], which says nothing of one
secret to another: the rows are a product of polytopes, and the extreme ones products of their extreme points.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.optimise.arrays import Bools, Floats, entropy, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import Cap
from sfumato.optimise.linear import best_cover
from sfumato.optimise.product.two_level import BEAM

if TYPE_CHECKING:
    from sfumato.optimise.starts import Simplices

PRODUCTS = 100_000  # extreme rows that are listed at most: less than a second


class FreeRows:
    """New rows by price. What a row gains depends on its set through two sums, the mass and the price, so for each
    mass the best sets begin the order of price by mass, up to a number."""

    def __init__(self, cap: Cap, p: Floats) -> None:
        self.K, self.p, every = cap.K, p, np.ones(len(p), bool)
        owned = [] if len(cap.numbers) < 2 or cap.numbers[0] is cap.numbers[1] else cap.numbers
        self.kinds = [(every, 1.0, self.K)]  # where the two levels are, and what they are; 1 elsewhere
        self.kinds += [(np.isin(np.arange(len(p)), own), 1 / self.K, self.K) for own in owned]

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows of mass 1, the best for the prices first, as many as there are numbers."""
        found, worth = [], []
        for at, low, high in self.kinds:
            if budget.over:
                break
            sets = self._prefixes(prices, at)
            gain = self._worth(sets, at, low, high, prices)
            best = sets[np.argsort(-gain)[:BEAM]]  # all that differ from these in one number are tried too
            flipped = (best[:, None, :] ^ np.eye(len(self.p), dtype=bool)[at][None]).reshape(-1, len(self.p))
            sets = np.unique(np.concatenate([sets, flipped]), axis=0)
            found.append(np.where(at, np.where(sets, high, low), 1.0))
            worth.append(self._worth(sets, at, low, high, prices))
        if not found:
            return np.zeros((0, len(self.p)))
        order = np.argsort(-np.concatenate(worth), kind="stable")[: len(self.p)]
        rows = np.concatenate(found)[order]
        return np.asarray(rows / (rows @ self.p)[:, None])

    def _prefixes(self, prices: Floats, at: Bools) -> Bools:
        key = np.where(at, prices / np.maximum(self.p, 1e-300), np.inf)
        rank = np.argsort(np.argsort(key, kind="stable"))
        return np.asarray((rank < np.arange(1, at.sum())[:, None]) & at)

    def _worth(self, sets: Bools, at: Bools, low: float, high: float, prices: Floats) -> Floats:
        """(Σ pφ(v) − φ(z) − λ·v)/z of each row: what it gains for the mass that it takes."""
        w, own, rest = sets @ self.p, float(self.p[at].sum()), float(prices.sum() - prices[at].sum())
        z = low * (own - w) + high * w + self.p.sum() - own
        inside = sets @ prices
        cost = rest + low * (prices[at].sum() - inside) + high * inside
        return np.asarray((xlogx(np.array(low)) * (own - w) + xlogx(np.array(high)) * w - xlogx(z) - cost) / z)


def best_over_simplices(within: Simplices, E: float) -> tuple[Floats, float] | None:
    """The rows Q[y, cell] that are private over simplices and keep most of I(X;Y), and what no others exceed; None
    where extreme rows are too many to list, or are no products."""
    (S, U), p = within.joint.shape, within.joint.p.ravel()
    if not within.same_secret or (p <= 0).any() or S << U > PRODUCTS:
        return None
    parts = [np.unique(within.extreme(s, E), axis=0) for s in range(S)]
    if prod(map(len, parts)) > PRODUCTS:
        return None
    each = np.stack(np.meshgrid(*(np.arange(len(x)) for x in parts), indexing="ij"), -1).reshape(-1, S)
    rows = p * np.concatenate([x[i] for x, i in zip(parts, each.T, strict=True)], axis=1)
    points = np.concatenate([rows / rows.sum(1, keepdims=True), p[None]])
    cover = best_cover(p, points, xlogx(points).sum(1))
    q = cover.weights[:, None] * cover.points / p
    return q / q.sum(0), cover.bound + entropy(p)
