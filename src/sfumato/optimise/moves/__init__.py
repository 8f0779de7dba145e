"""Moves: new private rows from any start, by maximising tangents of the aim over the cone (docs/robust.md, section 6).

What a row adds to the aim is convex and homogeneous, so a row that maximises its tangent at a row at hand cannot be
worse than that row: no step length is chosen, and any start will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.optimise.arrays import DUST, Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import NEAR, SETTLED, Cone, RatioCone
from sfumato.optimise.linear import DEVEX, DUAL, INFINITY, PRIMAL, LinearProgramme
from sfumato.optimise.master import KEPT
from sfumato.optimise.moves.barrier import BallMover, Slopes, smooth

ROUNDS = 12  # of cuts: rows stopped early repair into worthless ones


def mover(cone: Cone) -> BallMover | CutMover:
    """By Newton's method where the boundary of the cone is smooth and known in closed form, else by cuts.

    `rows(slopes, starts, budget)` has a row of mass 1, private or nearly so, for each start, fewer where the time is
    over or a programme fails.
    """
    return BallMover(cone) if isinstance(cone, RatioCone) and smooth(cone) else CutMover(cone)


class CutMover:
    """max c·x over private rows of mass 1, for many c, by linear programmes under one pool of cuts that all rows share;
    each row keeps its basis within a call."""

    def __init__(self, cone: Cone) -> None:
        self.cone, self.n = cone, len(cone.coordinates.p)
        nothing = np.zeros(self.n)
        self.lp = LinearProgramme(nothing, nothing, np.full(self.n, INFINITY), maximise=True, warm=True)
        for option in ("simplex_dual_edge_weight_strategy", "simplex_primal_edge_weight_strategy"):
            self.lp.option(option, DEVEX)
        self.lp.add(cone.coordinates.p[None], np.ones(1), np.ones(1))
        self.age = np.zeros(1)

    def rows(self, slopes: Slopes, starts: Floats, budget: Budget) -> Floats:
        """Rounds of solves, each followed by one call of the oracle for the rows that are still outside."""
        self._forget()
        if len(self.age) == 1:
            self._add(self.cone.cuts(starts, loose=True, room=NEAR).normals)
        costs = slopes(starts, np.arange(len(starts)))
        x, done = np.zeros((len(costs), self.n)), np.zeros(len(costs), bool)
        bases: list[Any] = [None] * len(costs)
        live: Ints = np.arange(len(costs))
        for turn in range(ROUNDS):
            for i in live:
                if budget.over:
                    return x[done]
                found = self._best(costs[i], bases[i], turn == 0)
                if found is not None:
                    x[i], bases[i], done[i] = found, self.lp.basis(), True
            live = live[done[live]]
            if not len(live):
                break
            cuts = self.cone.cuts(x[live], loose=True)
            bad = cuts.excess > SETTLED
            if not bad.any():
                break
            self._add(cuts.normals[bad])
            live = live[np.unique(cuts.y[bad])]
        return x[done]

    def _best(self, cost: Floats, basis: Any, first: bool) -> Floats | None:
        self.lp.cost(cost)
        if basis is not None:
            self.lp.resume(basis)
        found = self.lp.solve(PRIMAL if first else DUAL)
        if not found.optimal:
            return None
        self.age += 1
        self.age[np.abs(found.row_dual) > DUST] = 0
        return np.maximum(found.x, 0.0)

    def _add(self, normals: Floats) -> None:
        if len(normals):
            self.lp.add(normals, np.full(len(normals), -INFINITY), np.zeros(len(normals)))
            self.age = np.append(self.age, np.zeros(len(normals)))

    def _forget(self) -> None:
        """Drop the cuts that were not tight for longest, once there are too many."""
        most = KEPT * self.n
        if len(self.age) - 1 <= most:
            return
        age = self.age.copy()
        age[0] = -1
        drop = np.sort(np.argsort(-age, kind="stable")[: len(age) - 1 - most * 2 // 3])
        drop = drop[age[drop] > 0]
        self.lp.drop(drop)
        self.age = np.delete(self.age, drop)
