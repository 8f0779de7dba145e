"""The master for estimates: a pool of private rows, its best mixture, and prices for rows that are still missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from threadpoolctl import ThreadpoolController

from sfumato.optimise.arrays import DUST, TINY, Bools, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.estimates.goal import Goal, diagonal, inverse
from sfumato.optimise.search import FEWEST

# --- A-optimal mixtures of given rows: min tr(C J⁻¹), J = Σ θ v vᵀ, Σ θ v = 1, θ ≥ 0, by a primal-dual interior method


STEPS = 80  # about 30 are needed
SETTLED = 1e-9  # relative residual and complementarity at which the mixture counts as optimal, slopes to its root
SHRINK = 0.15  # of the barrier, each step


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Weights with their trace; the dual λ of Σ θ v = 1 and M = J⁻¹CJ⁻¹, so that vᵀMv − λ·v > 0 promises progress."""

    weight: Floats
    value: float
    dual: Floats
    slope: Floats  # M[i, i] over the coordinates that are estimated


def best_mixture(
    V: Floats, cost: Floats, start: Floats | None = None, settled: float = SETTLED, seen: Bools | None = None
) -> Mixed:
    """The optimal weights of unit rows V[y, i]; Σ θ v = 1 holds to `settled` at the end.

    Newton on the perturbed optimality conditions −vᵀMv + λ·v = z, Σ θ v = 1 and θ∘z = μ; the Hessian of tr(C J⁻¹) is
    2 (V J⁻¹ Vᵀ) ∘ (V M Vᵀ), a product of two positive matrices, so the problem is convex. Coordinates that are not
    `seen` have no mass: they are part of Σ θ v = 1, but nothing is estimated there.
    """
    N, W = len(V), V if seen is None else np.ascontiguousarray(V[:, seen])
    theta = np.full(N, 1.0 / N) if start is None else np.maximum(start, 0.01 / N)
    J = inverse((W.T * theta) @ W)
    scale = float((cost * J).sum())
    cost = cost / scale
    lam, z = np.zeros(V.shape[1]), np.full(N, max(float(((W @ J @ cost @ J) * W).sum(1).max()), 1.0))
    for _ in range(STEPS):
        value, pulled = float((cost * J).sum()), W @ (J @ cost @ J)
        dual_gap = V @ lam - (pulled * W).sum(1) - z
        primal_gap = V.T @ theta - 1.0
        mu = float(theta @ z) / N
        met = max(np.abs(primal_gap).max(), N * mu / value) < settled
        if met and np.abs(dual_gap).max() < math.sqrt(settled) * value:
            break
        hessian = (W @ (2 * J) @ W.T) * (pulled @ W.T)
        moved = _moved(V, hessian, theta, lam, z, dual_gap, primal_gap, max(SHRINK * mu, 1e-16))
        if moved is None:
            break
        theta, lam, z = moved
        J = inverse((W.T * theta) @ W)
    return Mixed(theta, float((cost * J).sum()) * scale, lam * scale, J @ cost @ J * scale)


def _moved(
    V: Floats, hessian: Floats, theta: Floats, lam: Floats, z: Floats, dual_gap: Floats, primal_gap: Floats, mu: float
) -> tuple[Floats, Floats, Floats] | None:
    """One Newton step towards the barrier μ, as far as θ and z stay positive: dz is eliminated, then dθ."""
    ridge = DUST * float(np.trace(hessian)) / len(V)
    diagonal(hessian)[:] += z / theta
    factor = _factored(hessian, ridge)
    if factor is None:
        return None
    ends = np.asfortranarray(np.column_stack([mu / theta - z - dual_gap, V]))
    solved = dpotrs(factor, ends, lower=1, overwrite_b=1)[0]
    schur = V.T @ solved[:, 1:]
    diagonal(schur)[:] += 1e-14 * float(np.trace(schur))
    dl = np.linalg.solve(schur, V.T @ solved[:, 0] + primal_gap)
    dt = solved[:, 0] - solved[:, 1:] @ dl
    dz = mu / theta - z - z / theta * dt
    step = min(_room(theta, dt), _room(z, dz))
    return theta + step * dt, lam + step * dl, z + step * dz


def _factored(hessian: Floats, ridge: float) -> Floats | None:
    """Its Cholesky factor; rows may be alike, so that a ridge is raised until there is one. LAPACK is called by name:
    for a hundred rows checks around it take as long as it does."""
    for greater in (1.0, 1e3, 1e6):
        diagonal(hessian)[:] += greater * ridge
        factor, failed = dpotrf(hessian.T, lower=1, clean=0)
        if not failed:
            return np.asarray(factor)
    return None


def _room(x: Floats, dx: Floats) -> float:
    """How far x may move and stay positive."""
    fall = -float((dx / x).min())
    return min(1.0, 0.99 / fall) if fall > 0 else 1.0


# --- the best mixture of a pool, its duals as prices, its slopes for moves --------------------------------------------


KEPT = 3.5  # times as many rows in a mixture as are new: the others are the heaviest of the last one
ROUGH = 1e-3  # how well a mixture is solved on the way: what a turn gains beyond it counts
USED = 1e-5  # weight below which a row is not in use: such a mixture gives about this to rows that it has no use for
PACE = 2.5e-9  # seconds of a mixture for what one of its steps multiplies


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


class Estimates:
    """min tr(C J⁻¹) − pᵀCp over mixtures of the pool. Its duals are prices: the programme is smooth, not degenerate.

    `value` is minus that error, so that it grows; the best mixture is kept, so it never falls.
    """

    def __init__(self, goal: Goal, budget: Budget = FREE) -> None:
        self.goal, self.p, self.seen, self.budget = goal, goal.coordinates.p, goal.seen, budget
        n = len(self.p)
        self.rows, self.theta = np.ones((1, n)), np.ones(1)
        self.rest = np.zeros((0, n))  # offered since the last mixture
        self.prices, self.slope = np.zeros(n), np.zeros((n, n))
        self.best = self.rows, self.theta
        self.value, self.fresh = -np.inf, n + FEWEST  # rows of a mixture that were not in the last one, at most
        self.most, self.took = int(KEPT * self.fresh), 0.0  # seconds of the last mixture
        self.foretold = PACE * self.most**2 * (self.most / 3 + 2 * n)  # those of the first, about

    def add(self, rows: Floats) -> None:
        """Rows join the pool, those that price out best; before the first mixture those that came first."""
        rows = rows[np.isfinite(rows).all(1) & (rows @ self.p > 0)]
        self.rest = np.concatenate([self.rest, self.goal.coordinates.unit(rows)])

    def solve(self, settled: float = ROUGH) -> float:
        """Mix the pool best, unless the time that is left is too short for it."""
        if self.took > self.budget.left or not len(self.rest):
            return self.value
        rows, theta = self._pool()
        began = self.budget.clock()
        with _libraries().limit(limits=1, user_api="blas"):  # threads that wait for others cost more than they bring
            found = best_mixture(rows, self.goal.cost, theta, settled, None if self.seen.all() else self.seen)
        self.took = self.budget.clock() - began
        self.rows, self.theta, self.rest, self.prices = rows, found.weight, self.rest[:0], found.dual
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
        return np.asarray((2 * rows @ self.slope - self.prices) / max(-self.value, TINY))

    def learn(self) -> None:
        """Duals of a smooth programme need no care: the next mixture brings its own."""
