"""Bounded ratios as a linear programme with a floor under every output; least loss, and least ε for a budget, by it.

ε*(D) is the least ε at which min_Q max_P E d ≤ D with Q(y|x) ≤ e^ε Q(y|x') for all x, x' [003, (4)], for any distance
d[x, y] and any set of sources. Its value falls in ε, and prices of the rows prove bounds: bisection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import Floats
from sfumato.optimise.linear import INFINITY, LinearProgramme, Solution
from sfumato.optimise.loss.sources import CUTTING_ROUNDS, Sources
from sfumato.optimise.repair import lifted

SETTLED = 1e-10  # relative gap at which a linear programme is settled


class FloorProgramme:
    """The LP over Q[y, x], floors m_y and the loss D, with m_y ≤ mean_k·Q(y|·) ≤ e m_y for the rows of mean[k, x].

    A floor for every output turns k² ratios into 2k rows. Whatever else is asked for is appended after them.
    """

    def __init__(
        self, outputs: int, mean: Floats, e: float, cost: Floats | None = None,
        ends: tuple[float, float] = (-INFINITY, INFINITY),
    ) -> None:
        """With cost[y, x] the loss is Σ cost·Q; without, it is D, which lies between `ends`."""
        (k, xs), size = mean.shape, outputs * mean.shape[1]
        self.shape, self.mean, self.e = (outputs, xs), mean, e
        first = np.zeros(size) if cost is None else cost.ravel()
        objective = np.concatenate([first, np.zeros(outputs), [float(cost is None)]])
        lower, upper = np.append(np.zeros(size + outputs), ends[0]), np.append(np.ones(size + outputs), ends[1])
        self.lp = LinearProgramme(objective, lower, upper)
        each, blank = sparse.eye(outputs), sparse.csr_matrix((outputs * k, 1))
        means, floor = sparse.kron(each, sparse.csr_matrix(mean)), sparse.kron(each, np.ones((k, 1)))
        sums = [sparse.kron(np.ones((1, outputs)), sparse.eye(xs)), sparse.csr_matrix((xs, outputs + 1))]
        self.lp.equal(sparse.hstack(sums), 1.0)
        self.lp.at_most(sparse.hstack([means, -e * floor, blank]))
        self.lp.at_most(sparse.hstack([-means, floor, blank]))
        self.base = self.lp.rows

    def lose(self, cost: Floats) -> None:
        """Append D ≥ Σ cost·Q for the costs [y, x] of one source."""
        self.lp.at_most(np.concatenate([cost.ravel(), np.zeros(self.shape[0]), [-1.0]])[None, :])

    def proved(self, solution: Solution, cost: Floats) -> float:
        """The loss from below by weak duality, whatever HiGHS says: prices of the floors, clipped to be valid.

        cost[y, x] is that of the priced source, with the priced rows that were appended; columns of Q lie in the
        simplex and floors in [0, 1].
        """
        price = np.maximum(-solution.row_dual[self.shape[1] : self.base], 0.0)
        up, down = price.reshape(2, self.shape[0], -1)
        floors = np.minimum(down.sum(axis=1) - self.e * up.sum(axis=1), 0.0).sum()
        return float((cost + (up - down) @ self.mean).min(axis=0).sum() + floors)


@dataclass(frozen=True, slots=True)
class LeastLevel:
    """Least ε found, the ε below which nothing can meet the budget, and the mechanism Q[y, x]."""

    epsilon: float
    bound: float
    q: Floats
    distortion: float


def least_distortion(
    sources: Sources, distance: Floats, epsilon: float, members: Floats, budget: float | None = None
) -> tuple[float, float, Floats, Floats]:
    """min_Q max_P E d at this ε: value, proved bound, Q, and all members used; stops early once `budget` is decided."""
    xs, ys = distance.shape
    e = float(np.exp(epsilon))
    wide = xs if e > 1.0 else 1  # at ε = 0 all inputs are answered alike
    programme = FloorProgramme(ys, np.eye(wide), e)
    used, fresh = np.zeros((0, xs)), members
    best, value, low = np.zeros((ys, xs)), np.inf, -np.inf
    for _ in range(CUTTING_ROUNDS):
        for p in fresh:
            programme.lose(_costs(p, distance, wide))
        used = np.vstack([used, fresh])
        solution = programme.lp.solve()
        shares = np.maximum(-solution.row_dual[programme.base :], 0.0)
        p = shares @ used / shares.sum() if shares.sum() > 0.0 else used[0]
        low = max(low, programme.proved(solution, _costs(p, distance, wide)))
        q = np.repeat(private(solution.x[: ys * wide].reshape(ys, wide), e), xs // wide, axis=1)
        reached, p = sources.worst(np.einsum("yx,xy->x", q, distance))
        if reached < value:
            best, value = q, reached
        decided = budget is not None and (value <= budget or low > budget)
        if decided or value - low <= SETTLED * max(1.0, abs(value)):
            break
        fresh = p[None, :]
    return value, low, best, used


def _costs(p: Floats, distance: Floats, wide: int) -> Floats:
    """c[y, x] at the source p, or of all x together."""
    cost = p * distance.T
    return cost if wide > 1 else cost.sum(axis=1, keepdims=True)


def private(q: Floats, e: float) -> Floats:
    """Q with entries lifted to max/e, and a constant mixed in where rounding left a ratio above e."""
    q = np.maximum(q, 0.0)
    q = np.maximum(q, q.max(axis=1, keepdims=True) / e)
    q = q / q.sum(axis=0)
    if e <= 1.0:
        return np.asarray(q)
    found = lifted(q, lambda q: np.asarray(q.max(axis=1) - e * q.min(axis=1)), e - 1.0)
    return np.repeat(q.mean(axis=1)[:, None], q.shape[1], axis=1) if found is None else found


def least_epsilon_for(
    sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8, ceiling: float = 40.0
) -> LeastLevel:
    """Bisection on certified answers; stops where the certified gap of the LP meets the budget."""
    members = sources.members
    if distance.ndim != 2 or distance.shape[0] != sources.size or not np.all(np.isfinite(distance)):
        raise InputError(f"distance must be a finite matrix with {sources.size} rows, got {distance.shape}.")
    value, low_value, q, members = least_distortion(sources, distance, 0.0, members, budget)
    if value <= budget:
        return LeastLevel(0.0, 0.0, q, value)
    low, high, best = 0.0, 1.0, None
    while high - low > tolerance * max(1.0, high):
        middle = 0.5 * (low + high) if best is not None else high
        value, low_value, q, members = least_distortion(sources, distance, middle, members, budget)
        if value <= budget:
            high, best = middle, LeastLevel(middle, low, q, value)
        elif low_value > budget:
            low = middle
            if best is None:
                if high >= ceiling:
                    raise InputError(f"no mechanism below ε = {ceiling} meets the budget {budget}.")
                high = min(2.0 * high, ceiling)
        else:
            break
    if best is None:
        raise InputError(f"no mechanism below ε = {ceiling} meets the budget {budget}.")
    return LeastLevel(best.epsilon, low, best.q, best.distortion)
