"""What no private mechanism can go below: the equivalence theorem.

Let J be any design's information (Jp = 1), f = tr(CJ⁻¹) − pᵀCp, M = J⁻¹CJ⁻¹, and λ any prices. With D = Σλ + max over
private unit rows of (vᵀMv − λ·v), less pᵀCp, every private design has an error f* ≥ f²/D: Cauchy–Schwarz along J*, and
Σ θ*v* = 1. The maximum of a convex function over a cone is bounded from above on boxes of its own axes y = e·v, where
y² ≤ (l + h)y − lh, under cuts of the cone; boxes are halved where that chord is furthest off.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from sfumato.optimise.arrays import DUST, SEALING, Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import SETTLED, RatioCone
from sfumato.optimise.estimates.goal import Goal
from sfumato.optimise.estimates.mixing import Estimates
from sfumato.optimise.linear import INFINITY, PRIMAL, LinearProgramme

CLOSE = 2e-3  # of the error: a proof as tight as this ends the search
ROUNDS = 6  # of cuts along each axis
SLACK = 1e-6  # of D: more than the tolerances of HiGHS and the rounding of J together


@dataclass(frozen=True, slots=True, eq=False)
class PreciseRows:
    """Private rows Q[y, i] over the coordinates, their error, and the master with its prices."""

    rows: Floats
    error: float
    master: Estimates
    cone: RatioCone


def least_error(found: PreciseRows, aim: Goal, budget: Budget) -> float:
    """A proved lower bound of the error of every private design; 0 where the time does not suffice for one."""
    law, error = found.rows @ aim.coordinates.p, aim.of_rows(found.rows)
    unit = found.rows[law > 0] / law[law > 0, None]
    J = (unit.T * law[law > 0]) @ unit
    values = np.linalg.eigvalsh(J[np.ix_(aim.seen, aim.seen)])
    if values[0] <= DUST * values[-1] or not error > 0:
        return 0.0
    slope, prices = aim.slope(J) / error, found.master.prices / error
    wider = RatioCone(found.cone.within, float(np.log(found.cone.E)) + 2 * SEALING, found.cone.reads)
    wider.coordinates, wider.secrets = found.cone.coordinates, found.cone.secrets
    start = float(prices.sum()) - aim.own / error
    top = _Boxes(wider, slope, prices, budget).top(1 + CLOSE - start)
    return error / ((start + top) * (1 + SLACK)) if np.isfinite(top) and start + top > 0 else 0.0


class _Boxes:
    """Upper bounds of vᵀMv − λ·v over private unit rows."""

    def __init__(self, cone: RatioCone, slope: Floats, prices: Floats, budget: Budget) -> None:
        self.cone, self.budget = cone, budget
        self.p, self.n = cone.coordinates.p, len(prices)
        scale = 1 / np.sqrt(self.p + 1e-2 / self.n)  # about the size of entries; any scale is right
        still = scale * self.p / np.linalg.norm(scale * self.p)  # along it unit rows do not differ
        off = np.eye(self.n) - np.outer(still, still)
        curve, axes = np.linalg.eigh(off @ (scale[:, None] * slope * scale) @ off)
        keep = curve > DUST * curve[-1]  # what is below is rounding, which SLACK covers
        self.curve, self.axes = curve[keep], (axes[:, keep] / scale[:, None]).T  # y = axes · (v − 1)
        self.flat = -float(slope.sum())
        self.linear = 2 * slope.sum(1) - prices
        self.lp = LinearProgramme(
            np.zeros(self.n + len(self.curve)), np.append(np.zeros(self.n), np.full(len(self.curve), -INFINITY)),
            np.full(self.n + len(self.curve), INFINITY), maximise=True, warm=True,
        )
        self.lp.equal(np.append(self.p, np.zeros(len(self.curve)))[None], 1.0)
        self.lp.equal(np.hstack([self.axes, -np.eye(len(self.curve))]), self.axes.sum(1))

    def top(self, enough: float) -> float:
        """The least upper bound that the time allows, or one that is `enough`."""
        box = self._box()
        if box is None:
            return np.inf
        number = count()
        first = self._bounded(*box)
        queue = [(-first[0], next(number), *box, first[1])]
        while queue and -queue[0][0] > enough and not self.budget.over:
            above, _, low, high, at = heapq.heappop(queue)
            k, middle = self._furthest(low, high, at)
            for below in (True, False):
                least, most = low.copy(), high.copy()
                (most if below else least)[k] = middle
                value, y = self._bounded(least, most)
                if value > -np.inf:  # a part is never above the whole, whatever happened to its programme
                    heapq.heappush(queue, (max(-value, above), next(number), least, most, y))
        return -queue[0][0] if queue else np.inf

    def _furthest(self, low: Floats, high: Floats, y: Floats) -> tuple[int, float]:
        """The axis whose chord is furthest above the square, and where to halve the box."""
        chord = self.curve * ((low + high) * y - low * high - y**2)
        k = int(np.argmax(chord))
        inside = low[k] + 0.1 * (high[k] - low[k]), high[k] - 0.1 * (high[k] - low[k])
        return k, float(np.clip(y[k], *inside)) if chord[k] > 0 else float((low[k] + high[k]) / 2)

    def _box(self) -> tuple[Floats, Floats] | None:
        """The range of every axis over the rows that the cuts leave; None if the time is over before."""
        ends = np.zeros((2, len(self.curve)))
        for k in reversed(range(len(self.curve))):
            for side, sign in ((0, -1.0), (1, 1.0)):
                cost = np.zeros(self.n + len(self.curve))
                cost[self.n + k] = sign
                found = self._solved(cost, ROUNDS)
                if found is None:
                    return None
                ends[side, k] = sign * found[0]
        return ends[0] - 1e-9, ends[1] + 1e-9

    def _bounded(self, low: Floats, high: Floats) -> tuple[float, Floats]:
        """The bound on a box, and the axes of the row that attains it; −∞ if no row is there."""
        self.lp.within(np.append(np.zeros(self.n), low), np.append(np.full(self.n, INFINITY), high))
        found = self._solved(np.append(self.linear, self.curve * (low + high)), 1)
        if found is None or not found[0] < np.inf:  # what is no number says nothing of the box
            return np.inf, (low + high) / 2
        return found[0] + self.flat - float(self.curve @ (low * high)), found[1]

    def _solved(self, cost: Floats, rounds: int) -> tuple[float, Floats] | None:
        """max cost·(v, y) with cuts where the maximiser is not private; −∞ if infeasible, None if it failed."""
        self.lp.cost(cost)
        for turn in range(rounds + 1):
            if self.budget.over:
                return None
            found = self.lp.solve(PRIMAL if turn == 0 else None)
            if found.infeasible:
                return -np.inf, found.x[self.n :]
            if not found.optimal:
                return None
            if turn < rounds:
                cuts = self.cone.cuts(np.maximum(found.x[None, : self.n], 0.0), loose=True).above(SETTLED)
                if not len(cuts.normals):
                    break
                self.lp.at_most(np.pad(cuts.normals, ((0, 0), (0, len(self.curve)))))
        return found.value, found.x[self.n :]
