"""The master for estimates: a pool, its best mixture and prices; and what no private mechanism can go below."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from sfumato.optimise.arrays import DUST, SEALING, Floats, Ints
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import RatioCone
from sfumato.optimise.estimates.goal import RIDGE, Goal, Mixed, best_mixture
from sfumato.optimise.linear import INFINITY, PRIMAL, LinearProgramme

# --- the best mixture of a pool, its duals as prices, its slopes for moves --------------------------------------------


USED = 1e-7  # weight below which a row is not in use
KEPT = 3.5  # rows in a mixture for each coordinate: the heaviest of the last one and those that price out best
FEWEST = 200  # rows in a mixture, however few coordinates: more cost little there
MOVED = 12_000  # rows moved at once, times coordinates
ROUGH = 1e-5  # how well a mixture is solved on the way
PACE = 1 / 4e9  # seconds of a multiplication and addition, until a mixture has been timed
MASTER_STEPS = 30  # of the interior method that a mixture takes, about: for telling its time
DIRECTIONS = 6  # random directions J⁻¹C among the rows that moves begin from


class Estimates:
    """min tr(C J⁻¹) − pᵀCp over mixtures of the pool. Its duals are prices: the programme is smooth, not degenerate.

    `value` is minus that error, so that it grows; the best mixture is kept, so it never falls.
    """

    def __init__(self, goal: Goal, budget: Budget = FREE, seed: int = 0) -> None:
        self.goal, self.p, self.seen, self.budget = goal, goal.coordinates.p, goal.seen, budget
        n = len(self.p)
        self.rows, self.theta = np.ones((1, n)), np.ones(1)
        self.rest = np.zeros((0, n))  # offered since the last mixture
        self.prices, self.slope = np.zeros(n), np.zeros((n, n))
        self.best = self.rows, self.theta
        self.value, self.rng, self.pace = -np.inf, np.random.default_rng(seed), PACE

    def add(self, rows: Floats) -> None:
        """Rows join the pool, those that price out best; all of them before the first mixture."""
        rows = rows[np.isfinite(rows).all(1) & (rows @ self.p > 0)]
        self.rest = np.concatenate([self.rest, self.goal.coordinates.unit(rows)])

    def gains(self, rows: Floats) -> Floats:
        """vᵀMv − λ·v of unit rows: positive where a row would help."""
        return np.asarray(((rows @ self.slope) * rows).sum(1) - rows @ self.prices)

    @property
    def most(self) -> int:
        return max(int(KEPT * len(self.p)), FEWEST)

    @property
    def fresh(self) -> int:
        """Of these, at most, that were not in the last mixture."""
        return int(self.most / KEPT)

    def seconds(self, rows: int) -> float:
        """What a mixture of so many rows will take, by what the last one took."""
        return self.pace * rows**2 * (rows / 3 + 2 * len(self.p)) * MASTER_STEPS

    def solve(self, settled: float = ROUGH) -> float:
        """Mix the pool best, unless the time that is left is too short for it."""
        rows, theta = self._pool()
        if self.seconds(len(rows)) > self.budget.left:
            return self.value
        began = self.budget.clock()
        found = best_mixture(rows, self.goal.cost, theta, settled, None if self.seen.all() else self.seen)
        took = max(self.budget.clock() - began, 1e-4)
        self.pace = took / (len(rows) ** 2 * (len(rows) / 3 + 2 * len(self.p)) * MASTER_STEPS)
        self._take(rows, found)
        return self.value

    def _pool(self) -> tuple[Floats, Floats | None]:
        """Rows that weigh more than a mixture is exact to, and of the new ones those that price out best, as many as it
        holds; no row twice."""
        new = np.unique(self.rest.round(9), axis=0, return_index=True)[1] if len(self.rest) else np.zeros(0, int)
        rows = np.concatenate([self.rows, self.rest[np.sort(new)]])
        theta = np.append(self.theta, np.zeros(len(new)))
        if not np.isfinite(self.value):
            return rows, None
        old = np.argsort(-self.theta, kind="stable")[: self.most - self.fresh]
        old = old[self.theta[old] > ROUGH]
        new = len(self.theta) + np.argsort(-self.gains(rows[len(self.theta) :]), kind="stable")[: self.fresh]
        keep = np.append(old, new)
        return rows[keep], theta[keep]

    def _take(self, rows: Floats, found: Mixed) -> None:
        self.rows, self.theta, self.rest = rows, found.weight, self.rest[:0]
        self.prices, self.slope = found.dual, self._placed(found.slope)
        value = self.goal.own - found.value
        if value >= self.value:
            self.value, self.best = value, (rows, found.weight)

    def _placed(self, slope: Floats) -> Floats:
        out = np.zeros((len(self.p), len(self.p)))
        out[np.ix_(self.seen, self.seen)] = slope
        return out

    def spread(self, J: Floats) -> Floats:
        """M = J⁻¹CJ⁻¹ of any information matrix over all coordinates."""
        seen = J[np.ix_(self.seen, self.seen)]
        known = np.linalg.inv(seen + RIDGE * np.trace(seen) * np.eye(len(seen)))
        return self._placed(known @ self.goal.cost @ known)

    def used(self) -> tuple[Floats, Floats]:
        """The rows of the best mixture and their weights."""
        rows, theta = self.best
        on = theta > USED
        return rows[on], theta[on]

    def steer(self) -> Floats:
        """The rows from which moves begin: the heaviest in use, and some that lie along J⁻¹C of random directions."""
        most = max(8, min(len(self.p) + len(self.p) // 5 + 1, MOVED // len(self.p)))
        heaviest = np.argsort(-self.theta, kind="stable")[:most]
        rows = self.rows[heaviest[self.theta[heaviest] > USED]]
        along = self.rng.normal(size=(DIRECTIONS, len(self.p))) @ self.slope
        size = np.abs(along).max(1, keepdims=True)
        turned = np.exp(self.rng.uniform(0.5, 3.0, (DIRECTIONS, 1)) * along / np.where(size > 0, size, 1.0))
        return np.concatenate([rows, self.goal.coordinates.unit(turned)])

    def slopes(self, rows: Floats) -> Floats:
        """The tangent of vᵀMv at unit rows, less the prices; in parts of the error, as a barrier weighs it with others
        of size one."""
        return np.asarray((2 * rows @ self.slope - self.prices) / max(-self.value, 1e-300))

    def learn(self) -> None:
        """Duals of a smooth programme need no care: the next mixture brings its own."""


# --- what no private mechanism can go below: the equivalence theorem --------------------------------------------------
# Let J be any design's information (Jp = 1), f = tr(CJ⁻¹) − pᵀCp, M = J⁻¹CJ⁻¹, and λ any prices. With D = Σλ + max over
# private unit rows of (vᵀMv − λ·v), less pᵀCp, every private design has an error f* ≥ f²/D: Cauchy–Schwarz along J*,
# and Σ θ*v* = 1. The maximum of a convex function over a cone is bounded from above on boxes of its own axes y = e·v,
# where y² ≤ (l + h)y − lh, under cuts of the cone; boxes are halved where that chord is furthest off.


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
    rows, goal = found.rows, aim
    law = rows @ goal.coordinates.p
    unit = rows[law > 0] / law[law > 0, None]
    J = (unit.T * law[law > 0]) @ unit
    seen = J[np.ix_(goal.seen, goal.seen)]
    values = np.linalg.eigvalsh(seen)
    if values[0] <= DUST * values[-1] or not found.error > 0:
        return 0.0
    known = np.linalg.inv(seen)
    error = float((goal.cost * known).sum()) - goal.own
    slope = np.zeros_like(J)
    slope[np.ix_(goal.seen, goal.seen)] = known @ goal.cost @ known / error
    prices = found.master.prices / error
    wider = RatioCone(found.cone.within, float(np.log(found.cone.E)) + 2 * SEALING, found.cone.reads)
    wider.coordinates, wider.secrets = found.cone.coordinates, found.cone.secrets
    start = float(prices.sum()) - goal.own / error
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
        self._within(low, high)
        found = self._solved(np.append(self.linear, self.curve * (low + high)), 1)
        rest = self.flat - float(self.curve @ (low * high))
        self._within(np.full(len(low), -INFINITY), np.full(len(low), INFINITY))
        if found is None:
            return np.inf, (low + high) / 2
        return (found[0] + rest, found[1]) if np.isfinite(found[0]) else (-np.inf, low)

    def _within(self, low: Floats, high: Floats) -> None:
        self.lp.within(np.append(np.zeros(self.n), low), np.append(np.full(self.n, INFINITY), high))

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
            cuts = self._cut(found.x[None, : self.n]) if turn < rounds else 0
            if not cuts:
                break
        return found.value, found.x[self.n :]

    def _cut(self, rows: Floats) -> int:
        found = self.cone.cuts(np.maximum(rows, 0.0), loose=True)
        worst: Ints = np.flatnonzero(found.excess > 1e-4)
        if len(worst):
            normals = found.normals[worst]
            self.lp.at_most(np.hstack([normals, np.zeros((len(normals), len(self.curve)))]))
        return len(worst)
