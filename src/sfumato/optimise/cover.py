"""The best mixture of offered points with a given mean: the linear programme that every listing and pricing ends in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.linear import INFINITY, PRIMAL, LinearProgramme

TIGHT = 1e-10  # feasibility asked of HiGHS: bounds of listed points are told to ten digits
USED = 1e-13  # weights below this are dust
BETTER = 1e-11  # what a point must gain at the prices to be offered
AT_ONCE = 2000  # points up to which all are offered before the first solve
MET = 1e-12  # of the mean: weights solved for again are taken if they meet it this well


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """A mixture Σ α_i v_i = p with Σ α_i f_i largest, and prices λ that prove how large it can be."""

    weights: Floats
    points: Floats
    value: float
    prices: Floats
    bound: float
    """λ·p + β·limit + max_i (f_i − λ·v_i − β·w_i)₊ Σp: no mixture of the offered points does better, whatever λ is."""


class CoverProgramme:
    """max Σ α_i f_i : Σ α_i v_i = p, Σ α_i w_i ≤ limit, α ≥ 0, to which points are offered and where prices are read.

    Points have sum 1, so that Σα = Σp. Offering leaves the basis primal feasible: the primal simplex goes on from it.
    """

    def __init__(self, mean: Floats, limit: float = INFINITY) -> None:
        self.mean, self.limit, size = mean, limit, len(mean)
        self.points: Floats = np.zeros((0, size))
        none = np.zeros(0)
        self.worth, self.spends = none, none
        self.lp = LinearProgramme(none, none, none, maximise=True, warm=True)
        self.lp.option("primal_feasibility_tolerance", TIGHT)
        self.lp.option("dual_feasibility_tolerance", TIGHT)
        self.lp.equal(sparse.csr_matrix((size, 0)), mean)
        self.lp.at_most(sparse.csr_matrix((1, 0)), limit)

    def offer(self, points: Floats, worth: Floats, spends: Floats | None = None) -> None:
        """More points v_i (rows) with values f_i, and w_i where something is spent."""
        spends = np.zeros(len(points)) if spends is None else spends
        free = np.full(len(points), INFINITY)
        self.lp.add_columns(worth, np.zeros(len(points)), free, np.vstack([points.T, spends]))
        self.points = np.concatenate([self.points, points])
        self.worth, self.spends = np.concatenate([self.worth, worth]), np.concatenate([self.spends, spends])

    def solve(self) -> tuple[Floats, Floats, float]:
        """Weights α, prices λ and the price β ≥ 0 of spending, suggestions all of them."""
        solution = self.lp.solve(PRIMAL)
        return solution.x, solution.row_dual[:-1], max(0.0, float(solution.row_dual[-1]))

    def mixture(self, weights: Floats) -> tuple[Floats, Floats]:
        """The positive weights with their points, corrected so that the mean (and what is spent) holds to rounding."""
        used = np.flatnonzero(weights > USED)
        points = self.points[used]
        rows, right = points.T, self.mean
        if self.limit < INFINITY:
            rows, right = np.vstack([rows, self.spends[used]]), np.append(right, weights[used] @ self.spends[used])
        exact, *_ = np.linalg.lstsq(rows, right, rcond=None)
        if np.all(exact >= 0.0) and np.abs(exact @ points - self.mean).max() < MET:
            return np.asarray(exact, float), points
        return weights[used], points


def best_cover(
    mean: Floats, points: Floats, worth: Floats, spends: Floats | None = None, limit: float = INFINITY
) -> Cover:
    """The best mixture of `points` with the given mean; many points are offered a batch at a time by price.

    The last point must be a multiple of the mean: with it the programme is feasible from the start.
    """
    programme = CoverProgramme(mean, limit)
    paid = np.zeros(len(points)) if spends is None else spends
    fresh = np.arange(len(points)) if len(points) <= AT_ONCE else _starters(mean, points, worth)
    offered = np.zeros(len(points), dtype=np.bool_)
    while True:
        offered[fresh] = True
        programme.offer(points[fresh], worth[fresh], paid[fresh])
        weights, prices, rate = programme.solve()
        reduced = worth - points @ prices - rate * paid
        better = np.flatnonzero((reduced > BETTER) & ~offered)
        if len(better) == 0:
            break
        fresh = better[np.argsort(-reduced[better])[: max(64, 4 * len(mean))]]
    alpha, used = programme.mixture(weights)
    value = float(programme.worth[np.flatnonzero(weights > USED)] @ alpha)
    bound = float(prices @ mean) + max(0.0, float(reduced.max())) * float(mean.sum())
    return Cover(alpha, used, value, prices, bound + (rate * limit if rate > 0.0 else 0.0))


def _starters(mean: Floats, points: Floats, worth: Floats) -> Ints:
    """The point that reaches furthest in each direction, a few of great worth, and the mean itself."""
    best = {int(i) for i in (points / mean).argmax(axis=0)}
    best.update(int(i) for i in np.argsort(-worth)[:50])
    best.add(len(points) - 1)
    return np.array(sorted(best), dtype=np.int64)
