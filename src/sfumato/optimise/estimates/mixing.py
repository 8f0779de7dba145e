"""The master for estimates: a pool of private rows, its best mixture, prices for rows that are still missing; and what
no private mechanism can go below."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cache
from itertools import count

import numpy as np
from scipy.linalg.lapack import dposv
from threadpoolctl import ThreadpoolController

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, Bools, Floats, room
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import SETTLED, RatioCone
from sfumato.optimise.estimates.goal import Goal, diagonal, inverse
from sfumato.optimise.linear import INFINITY, PRIMAL, LinearProgramme
from sfumato.optimise.search import FEWEST
from sfumato.tolerances import LEAST

# --- A-optimal mixtures of given rows: min tr(C J⁻¹), J = Σ θ v vᵀ, Σ θ v = 1, θ ≥ 0, by a primal-dual interior method


MIXING_STEPS = 80  # about 30 are needed
MIXED_WELL = 1e-9  # relative residual and complementarity at which the mixture counts as optimal, slopes to its root
SHRINK = 0.15  # of the barrier, each step


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Weights with their trace; the dual λ of Σ θ v = 1 and M = J⁻¹CJ⁻¹, so that vᵀMv − λ·v > 0 promises progress."""

    weight: Floats
    value: float
    dual: Floats
    slope: Floats  # M[i, i] over the coordinates that are estimated


def best_mixture(
    V: Floats, cost: Floats, start: Floats | None = None, settled: float = MIXED_WELL, seen: Bools | None = None
) -> Mixed:
    """The optimal weights of unit rows V[y, i]; Σ θ v = 1 holds to `settled` at the end.

    Newton on the perturbed optimality conditions −vᵀMv + λ·v = z, Σ θ v = 1 and θ∘z = μ, from which dz is eliminated,
    then dθ; the Hessian of tr(C J⁻¹) is 2 (V J⁻¹ Vᵀ) ∘ (V M Vᵀ), a product of two positive matrices, so the problem is
    convex. Coordinates that are not `seen` have no mass: they are part of Σ θ v = 1, but nothing is estimated there.
    """
    N, W = len(V), V if seen is None else np.ascontiguousarray(V[:, seen])
    theta = np.full(N, 1.0 / N) if start is None else np.maximum(start, 0.01 / N)
    J = inverse((W.T * theta) @ W)
    scale = float((cost * J).sum())
    cost = cost / scale
    lam, z = np.zeros(V.shape[1]), np.full(N, max(float(((W @ J @ cost @ J) * W).sum(1).max()), 1.0))
    for _ in range(MIXING_STEPS):
        value, pulled = float((cost * J).sum()), W @ (J @ cost @ J)
        dual_gap = V @ lam - (pulled * W).sum(1) - z
        primal_gap = V.T @ theta - 1.0
        mu = float(theta @ z) / N
        met = max(np.abs(primal_gap).max(), N * mu / value) < settled
        if met and np.abs(dual_gap).max() < math.sqrt(settled) * value:
            break
        hessian = (W @ (2 * J) @ W.T) * (pulled @ W.T)
        ridge, towards = DUST * float(np.trace(hessian)) / N, max(SHRINK * mu, 1e-16) / theta - z
        diagonal(hessian)[:] += z / theta
        solved = _solved(hessian, ridge, np.column_stack([towards - dual_gap, V]))
        if solved is None:
            break
        schur = V.T @ solved[:, 1:]
        diagonal(schur)[:] += 1e-14 * float(np.trace(schur))
        dl = np.linalg.solve(schur, V.T @ solved[:, 0] + primal_gap)
        dt = solved[:, 0] - solved[:, 1:] @ dl
        dz = towards - z / theta * dt
        step = min(room(theta, dt, 0.99), room(z, dz, 0.99))
        theta, lam, z = theta + step * dt, lam + step * dl, z + step * dz
        J = inverse((W.T * theta) @ W)
    return Mixed(theta, float((cost * J).sum()) * scale, lam * scale, J @ cost @ J * scale)


def _solved(hessian: Floats, ridge: float, ends: Floats) -> Floats | None:
    """H⁻¹ends; rows may be alike, so that a ridge is raised until H has a factor. LAPACK is called by name: for a
    hundred rows checks around it take as long as it does."""
    for greater in (1.0, 1e3, 1e6):
        diagonal(hessian)[:] += greater * ridge
        _, solved, failed = dposv(hessian.T, ends, lower=1)
        if not failed:
            return np.asarray(solved)
    return None


# --- the best mixture of a pool, its duals as prices, its slopes for moves --------------------------------------------


HEAVIEST = 3.5  # times as many rows in a mixture as are new: the others are the heaviest of the last one
ON_THE_WAY = 1e-3  # how well a mixture is solved on the way: what a turn gains beyond it counts
USED = 1e-5  # weight below which a row is not in use: such a mixture gives about this to rows that it has no use for
PACE = 2.5e-9  # seconds of a mixture for what one of its steps multiplies
_libraries = cache(ThreadpoolController)


class Estimates:
    """min tr(C J⁻¹) − pᵀCp over mixtures of the pool. Its duals are prices: the programme is smooth, not degenerate.

    `value` is minus that error, so that it grows; the best mixture is kept, so it never falls.
    """

    def __init__(self, goal: Goal, budget: Budget = FREE) -> None:
        self.goal, self.p, self.seen, self.budget = goal, goal.coordinates.p, goal.seen, budget
        n, self.cost = len(self.p), np.asarray(goal.cost @ np.eye(len(goal.p)))  # C with every entry
        self.rows, self.theta = np.ones((1, n)), np.ones(1)
        self.rest = np.zeros((0, n))  # offered since the last mixture
        self.prices, self.slope = np.zeros(n), np.zeros((0, 0))  # from the first mixture on
        self.best = self.rows, self.theta
        self.value, self.fresh = -np.inf, n + FEWEST  # rows of a mixture that were not in the last one, at most
        self.most, self.took = int(HEAVIEST * self.fresh), 0.0  # seconds of work of the last mixture
        self.foretold = PACE * self.most**2 * (self.most / 3 + 2 * n)  # those of the first, about

    def add(self, rows: Floats) -> None:
        """Rows join the pool, those that price out best; before the first mixture those that came first."""
        rows = rows[np.isfinite(rows).all(1) & (rows @ self.p > 0)]
        self.rest = np.concatenate([self.rest, self.goal.coordinates.unit(rows)])

    def solve(self, settled: float = ON_THE_WAY) -> float:
        """Mix the pool best, unless the time that is left is too short for it."""
        if not self.budget.fits(self.took) or not len(self.rest):
            return self.value
        rows, theta = self._pool()
        began = self.budget.work()
        with _libraries().limit(limits=1, user_api="blas"):  # threads that wait for others cost more than they bring
            found = best_mixture(rows, self.cost, theta, settled, None if self.seen.all() else self.seen)
        self.took = self.budget.work() - began
        self.rows, self.theta, self.rest, self.prices = rows, found.weight, self.rest[:0], found.dual
        self.slope = np.zeros((len(self.p), len(self.p)))
        self.slope[np.ix_(self.seen, self.seen)] = found.slope
        if self.goal.own - found.value >= self.value:
            self.value, self.best = self.goal.own - found.value, (rows, found.weight)
        return self.value

    def _pool(self) -> tuple[Floats, Floats | None]:
        """The heaviest rows and, of the new ones, those that price out best, as many as a mixture holds; none twice."""
        new = self.rest[np.sort(np.unique(self.rest.round(9), axis=0, return_index=True)[1])]
        if not np.isfinite(self.value):
            return np.concatenate([self.rows, new])[: self.most], None
        old = np.argsort(-self.theta, kind="stable")[: min(self.most - self.fresh, np.count_nonzero(self.theta > USED))]
        gains = ((new @ self.slope) * new).sum(1) - new @ self.prices
        new = new[np.argsort(-gains, kind="stable")[: min(self.fresh, np.count_nonzero(gains > 0))]]
        return np.concatenate([self.rows[old], new]), np.append(self.theta[old], np.zeros(len(new)))

    def used(self) -> tuple[Floats, Floats]:
        """The rows of the best mixture and their weights, the heaviest first."""
        rows, theta = self.best
        on = np.argsort(-theta, kind="stable")[: np.count_nonzero(theta > USED)]
        return rows[on], theta[on]

    def steer(self) -> Floats:
        """The rows from which moves begin: the heaviest in use."""
        return self.used()[0][: len(self.p) + len(self.p) // 5 + 1]

    def slopes(self, rows: Floats) -> Floats:
        """The tangent of vᵀMv at unit rows, less the prices; in parts of the error, as a barrier weighs it with others
        of size one."""
        return np.asarray((2 * rows @ self.slope - self.prices) / max(-self.value, LEAST))

    def learn(self) -> None:
        """Duals of a smooth programme need no care: the next mixture brings its own."""


# --- the equivalence theorem: what no private mechanism can go below --------------------------------------------------
# Every private design has an error f* ≥ f²/D, with D = Σλ + max over private unit rows of (vᵀMv − λ·v), less pᵀCp, for
# any prices λ and any design's f and M (docs/comparing.md). The maximum of a convex function over a cone is bounded
# above on boxes of its own axes y = e·v, where y² ≤ (l + h)y − lh; boxes are halved where that chord is furthest off.


TIGHT = 2e-3  # of the error: a proof as tight as this ends the search
CUT_ROUNDS = 6  # of cuts along each axis
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
    seen, slope = np.ix_(aim.seen, aim.seen), np.zeros((unit.shape[1], unit.shape[1]))
    J = ((unit.T * law[law > 0]) @ unit)[seen]
    values = np.linalg.eigvalsh(J)
    if values[0] <= DUST * values[-1] or not error > 0:
        return 0.0
    slope[seen] = inverse(J) @ aim.cost @ inverse(J) / error
    prices = found.master.prices / error
    wider = RatioCone(found.cone.within, float(np.log(found.cone.E)) + 2 * SEALING, found.cone.reads)
    wider.coordinates, wider.secrets, wider.compared = found.cone.coordinates, found.cone.secrets, found.cone.compared
    start = float(prices.sum()) - aim.own / error
    top = _Boxes(wider, slope, prices, budget).top(1 + TIGHT - start)
    return error / ((start + top) * (1 + SLACK)) if np.isfinite(top) and start + top > 0 else 0.0


class _Boxes:
    """Upper bounds of vᵀMv − λ·v over private unit rows."""

    def __init__(self, cone: RatioCone, slope: Floats, prices: Floats, budget: Budget) -> None:
        self.cone, self.budget, self.p, self.n = cone, budget, cone.coordinates.p, len(prices)
        scale = 1 / np.sqrt(self.p + 1e-2 / self.n)  # about the size of entries; any scale is right
        still = scale * self.p / np.linalg.norm(scale * self.p)  # along it unit rows do not differ
        off = np.eye(self.n) - np.outer(still, still)
        curve, axes = np.linalg.eigh(off @ (scale[:, None] * slope * scale) @ off)
        keep = curve > DUST * curve[-1]  # what is below is rounding, which SLACK covers
        self.curve, self.axes = curve[keep], (axes[:, keep] / scale[:, None]).T  # y = axes · (v − 1)
        self.flat, self.linear = -float(slope.sum()), 2 * slope.sum(1) - prices
        self.lp = LinearProgramme(
            np.zeros(self.n + len(self.curve)), np.append(np.zeros(self.n), np.full(len(self.curve), -INFINITY)),
            np.full(self.n + len(self.curve), INFINITY), maximise=True, warm=True,
        )
        self.lp.equal(np.append(self.p, np.zeros(len(self.curve)))[None], 1.0)
        self.lp.equal(np.hstack([self.axes, -np.eye(len(self.curve))]), self.axes.sum(1))

    def top(self, enough: float) -> float:
        """The least upper bound that the time allows, or one that is `enough`; ∞ if it does not suffice for the first
        box, the range of every axis over the rows that the cuts leave."""
        if not len(self.curve):
            return self._bounded(self.curve, self.curve)[0]
        units = np.eye(self.n + len(self.curve))[: self.n - 1 : -1]  # where the function is most bent first
        sides = np.stack([-units, units], 1).reshape(2 * len(units), -1)
        ends = [self._solved(side, CUT_ROUNDS)[0] + REPAIRED for side in sides]
        if not np.isfinite(ends).all():
            return np.inf
        low, high = np.reshape(ends, (-1, 2))[::-1].T * [[-1.0], [1.0]]
        heap: list[tuple[float, int, Floats, Floats, Floats]] = []
        boxes, above, number = [(low, high)], -np.inf, count()
        while True:
            for low, high in boxes:
                value, y = self._bounded(low, high)
                if value > -np.inf:  # a part is never above the whole, whatever happened to its programme
                    heapq.heappush(heap, (max(-value, above), next(number), low, high, y))
            if not heap or -heap[0][0] <= enough or self.budget.over:
                return -heap[0][0] if heap else np.inf
            above, _, low, high, y = heapq.heappop(heap)
            k = np.arange(len(y)) == np.argmax(self.curve * ((low + high) * y - low * high - y**2))
            middle = np.clip(y, 0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)
            boxes = [(low, np.where(k, middle, high)), (np.where(k, middle, low), high)]

    def _bounded(self, low: Floats, high: Floats) -> tuple[float, Floats]:
        """The bound on a box, and the axes of the row that attains it; −∞ if no row is there."""
        self.lp.within(np.append(np.zeros(self.n), low), np.append(np.full(self.n, INFINITY), high))
        value, y = self._solved(np.append(self.linear, self.curve * (low + high)), 1)
        return value + self.flat - float(self.curve @ (low * high)), y if value < np.inf else (low + high) / 2

    def _solved(self, cost: Floats, rounds: int) -> tuple[float, Floats]:
        """max cost·(v, y) with cuts where the maximiser is not private, and y; −∞ if infeasible, ∞ if it failed."""
        self.lp.cost(cost)
        for turn in range(rounds + 1):
            if self.budget.over:
                break
            found = self.lp.solve(PRIMAL if turn == 0 else None)
            x, y = np.split(found.x, [self.n])
            if found.infeasible:
                return -np.inf, y
            if not found.optimal or not found.value < np.inf:
                break
            cuts = self.cone.cuts(np.maximum(x[None], 0.0), loose=True).above(SETTLED).normals if turn < rounds else ()
            if not len(cuts):
                return found.value, y
            self.lp.at_most(np.pad(cuts, ((0, 0), (0, len(self.curve)))))
        return np.inf, np.zeros(len(self.curve))
