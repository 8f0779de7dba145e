"""Linear programmes that grow by rows and columns, HiGHS kept warm; the best mixture of points with a given mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.budget import spend

# --- hiGHS kept warm between solves. Knows nothing of privacy ---------------------------------------------------------


INFINITY = highspy.kHighsInf
DUAL, PRIMAL = 1, 4  # simplex strategies: new rows leave a basis dual feasible, new columns and costs primal
PASSES = 60  # over the entries of a programme: to hand it over, to read it, and for each iteration one more
FEASIBLE = 1e-9  # of HiGHS: what it answers is checked by weak duality or mended, so this only has to be small


@dataclass(frozen=True, slots=True)
class Solution:
    """What HiGHS says: a suggestion, to be checked by weak duality. Duals of ≤ rows are ≤ 0 when minimising."""

    optimal: bool
    value: float
    x: Floats
    row_dual: Floats
    infeasible: bool = False  # says HiGHS; `LinearProgramme.ray` may prove it


class LinearProgramme:
    """min (or max) c·x, lower ≤ x ≤ upper, with rows and columns added and dropped over time; the basis is kept.

    warm=True turns presolve off, which would throw the basis away between solves.
    """

    def __init__(
        self, cost: Floats, lower: Floats, upper: Floats, *, maximise: bool = False, warm: bool = False,
        threads: int = 1,
    ) -> None:
        self.h: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self.h.silent()
        self.option("threads", threads)
        self.option("primal_feasibility_tolerance", FEASIBLE)
        self.option("dual_feasibility_tolerance", FEASIBLE)
        if warm:
            for name, setting in (("presolve", "off"), ("solver", "simplex"), ("parallel", "off")):
                self.option(name, setting)
        if maximise:
            self.h.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.add_columns(cost, lower, upper)

    @property
    def rows(self) -> int:
        """How many rows it has now."""
        return int(self.h.getNumRow())

    def option(self, name: str, value: bool | float | str) -> None:
        """Set an option of HiGHS."""
        self.h.setOptionValue(name, value)

    def add(self, matrix: Any, lower: Floats, upper: Floats) -> None:
        """Append rows lower ≤ A x ≤ upper."""
        a = sparse.csr_matrix(matrix)
        start, index = a.indptr[:-1].astype(np.int32), a.indices.astype(np.int32)
        self.h.addRows(a.shape[0], lower, upper, a.nnz, start, index, a.data.astype(np.float64))

    def at_most(self, matrix: Any, upper: Floats | float = 0.0) -> None:
        """Append rows A x ≤ upper."""
        self.add(matrix, np.full(matrix.shape[0], -INFINITY), _each(upper, matrix))

    def at_least(self, matrix: Any, lower: Floats | float = 0.0) -> None:
        """Append rows A x ≥ lower."""
        self.add(matrix, _each(lower, matrix), np.full(matrix.shape[0], INFINITY))

    def equal(self, matrix: Any, value: Floats | float) -> None:
        """Append rows A x = value."""
        self.add(matrix, _each(value, matrix), _each(value, matrix))

    def add_columns(self, cost: Floats, lower: Floats, upper: Floats, matrix: Any = None) -> None:
        """Append variables with their entries in the rows there are, matrix[row, new column]."""
        a = sparse.csc_matrix((self.rows, len(cost)) if matrix is None else matrix)
        start, index = a.indptr[:-1].astype(np.int32), a.indices.astype(np.int32)
        self.h.addCols(len(cost), cost, lower, upper, a.nnz, start, index, a.data.astype(np.float64))

    def drop(self, which: Ints) -> None:
        """Delete rows by index."""
        if which.size:
            self.h.deleteRows(which.size, which.astype(np.int32))

    def drop_columns(self, which: Ints) -> None:
        """Delete variables by index."""
        if which.size:
            self.h.deleteCols(which.size, which.astype(np.int32))

    def cost(self, cost: Floats) -> None:
        """Replace the objective of the first len(cost) variables."""
        self.h.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), np.ascontiguousarray(cost))

    def within(self, lower: Floats, upper: Floats) -> None:
        """Replace the bounds of the first len(lower) variables."""
        self.h.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)

    def solve(self, strategy: int | None = None) -> Solution:
        """Run from where the last solve ended; a failure is tried once more from nothing."""
        if strategy is not None:
            self.option("simplex_strategy", strategy)
        self.h.run()
        if not self._optimal and strategy is not None:
            self.h.clearSolver()
            self.option("simplex_strategy", DUAL)
            self.h.run()
        sol, told = self.h.getSolution(), self.h.getInfo()
        spend(PASSES + max(told.simplex_iteration_count, 0), self.h.getNumNz())
        value = float(told.objective_function_value)
        empty = self.h.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return Solution(self._optimal, value, np.array(sol.col_value), np.array(sol.row_dual), bool(empty))

    def ray(self) -> Floats | None:
        """Prices of the rows that, up to their sign, should prove the programme infeasible, if HiGHS has any."""
        status, exists, ray = self.h.getDualRay()
        return np.array(ray) if exists and status == highspy.HighsStatus.kOk else None

    @property
    def _optimal(self) -> bool:
        return bool(self.h.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def basis(self) -> Any:
        """Where the last solve ended, for `resume`."""
        return self.h.getBasis()

    def resume(self, basis: Any) -> None:
        """Start the next solve from a basis of this programme, rows added since then counted as slack."""
        known = list(basis.row_status)
        basis.row_status = known + [highspy.HighsBasisStatus.kBasic] * (self.rows - len(known))
        self.h.setBasis(basis)


def _each(value: Floats | float, matrix: Any) -> Floats:
    """One number for every row."""
    return np.array(np.broadcast_to(value, matrix.shape[:1]), dtype=np.float64)


# --- the linear programme that every listing and pricing ends in ------------------------------------------------------


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
