"""Rows of two-level blocks by price: one set of cells for each secret, changed value by value while that helps.

Under a profile of the shared budget the secrets decouple (optimise/product), so whatever sets are chosen, the row is
private: lo + d·1_H with heights that depend on the mass of H alone. What is climbed is vᵀMv/z² − λ·v/z, z = p·v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import Bools, Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import RatioCone
from sfumato.optimise.product.two_level import Ball, Heights, Profile, bend

NODES, MASSES = 17, 257  # of a profile, and of the table of heights
PASSES = 6  # over the secrets
SETTLED = 1e-9  # of the score: a pass that gains no more is the last


@dataclass(frozen=True, slots=True)
class Known:
    """A known distribution as a ball without budget: every mass is what it is."""

    budget: float = 0.0

    def masses(self, w: Floats, share: float, spent: Floats) -> tuple[Floats, Floats]:
        known = np.broadcast_to(w, np.broadcast_shapes(np.shape(w), np.shape(spent)))
        return known, known


class BlockMover:
    """Rows of product form under one profile, over the coordinates of a cone that reads both variables."""

    def __init__(self, ball: Ball, cone: RatioCone, epsilon: float, profile: Profile) -> None:
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
