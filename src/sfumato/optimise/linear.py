"""Linear programmes that grow by rows and columns, HiGHS kept warm; and mixtures of points with a given mean, which
every search here ends in: rows of a pool, blocks of a secret, posteriors, rays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import highspy
import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, REPAIRED, SOLVED, TIDY, Floats, Ints
from sfumato.optimise.budget import FREE, NUMBER, PASS, Budget, spend

# --- HiGHS kept warm between solves. Knows nothing of privacy ---------------------------------------------------------


INFINITY = highspy.kHighsInf
Matrix: TypeAlias = "Floats | sparse.spmatrix"
CODES, STATUS = highspy.simplex_constants, highspy.HighsModelStatus
DUAL = int(CODES.kSimplexStrategyDual)  # new rows leave a basis dual feasible
PRIMAL = int(CODES.kSimplexStrategyPrimal)  # new columns and costs leave it primal feasible
DEVEX = int(CODES.kSimplexEdgeWeightStrategyDevex)  # edge weights that need no new start when a basis is put back
ENDED = (STATUS.kTimeLimit, STATUS.kIterationLimit)
FOREVER = 2**31 - 1  # seconds and iterations: what HiGHS takes for no limit
CYCLING = 100  # iterations for each row and column, beyond which the simplex method is going in circles
LP_PASSES = 60  # over the entries of a programme: to hand it over, to read it, and for each iteration one more


@dataclass(frozen=True, slots=True)
class Solution:
    """What HiGHS says: a suggestion, to be checked by weak duality. Duals of ≤ rows are ≤ 0 when minimising."""

    optimal: bool
    value: float
    x: Floats
    row_dual: Floats
    infeasible: bool = False  # says HiGHS; `LinearProgramme.ray` may prove it
    ended: bool = False  # by the time: x may be feasible and better than what it began with


class LinearProgramme:
    """min (or max) c·x, lower ≤ x ≤ upper, with rows and columns added and dropped over time; the basis is kept.

    warm=True turns presolve off, which would throw the basis away between solves.
    """

    def __init__(
        self, cost: Floats, lower: Floats, upper: Floats, *, maximise: bool = False, warm: bool = False,
        accuracy: float = REPAIRED,
    ) -> None:
        self.h: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self.h.silent()
        self.option("threads", 1)
        self.option("primal_feasibility_tolerance", accuracy)
        self.option("dual_feasibility_tolerance", accuracy)
        if warm:
            for name, setting in (("presolve", "off"), ("solver", "simplex"), ("parallel", "off")):
                self.option(name, setting)
        if maximise:
            self.h.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.add_columns(cost, lower, upper)

    @property
    def rows(self) -> int:
        return int(self.h.getNumRow())

    def option(self, name: str, value: bool | float | str) -> None:
        """Set an option of HiGHS."""
        self.h.setOptionValue(name, value)

    def add(self, matrix: Matrix, lower: Floats, upper: Floats) -> None:
        """Append rows lower ≤ A x ≤ upper."""
        self.h.addRows(matrix.shape[0], lower, upper, *_listed(matrix))

    def at_most(self, matrix: Matrix, upper: Floats | float = 0.0) -> None:
        """Append rows A x ≤ upper."""
        count = matrix.shape[0]
        self.add(matrix, np.full(count, -INFINITY), np.full(count, upper, dtype=np.float64))

    def equal(self, matrix: Matrix, value: Floats | float) -> None:
        """Append rows A x = value."""
        each = np.full(matrix.shape[0], value, dtype=np.float64)
        self.add(matrix, each, each)

    def add_columns(self, cost: Floats, lower: Floats, upper: Floats, matrix: Matrix | None = None) -> None:
        """Append variables with their entries in the rows there are, matrix[row, new column]."""
        a = np.zeros((len(cost), 0)) if matrix is None else matrix.T
        self.h.addCols(len(cost), cost, lower, upper, *_listed(a))

    def drop(self, which: Ints) -> None:
        """Delete rows by index."""
        if which.size:
            self.h.deleteRows(which.size, which.astype(np.int32))

    def drop_columns(self, which: Ints) -> None:
        """Delete variables by index."""
        self.h.deleteCols(which.size, which.astype(np.int32))

    def cost(self, cost: Floats) -> None:
        """Replace the objective of the first len(cost) variables."""
        self.h.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), np.ascontiguousarray(cost))

    def within(self, lower: Floats, upper: Floats) -> None:
        """Replace the bounds of the first len(lower) variables."""
        self.h.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)

    def solve(self, strategy: int | None = None, budget: Budget = FREE) -> Solution:
        """Run from where the last solve ended; a failure is tried once more from nothing, unless time is over."""
        if strategy is not None:
            self.option("simplex_strategy", strategy)
        self._keep(budget)
        self.h.run()
        fine = STATUS.kOptimal, *ENDED[: 1 if budget.waited else 2]  # circles are a failure, a budget of work is not
        if strategy is not None and self.h.getModelStatus() not in fine:
            self.h.clearSolver()
            self.option("simplex_strategy", DUAL)
            self.h.run()
        sol, told, status = self.h.getSolution(), self.h.getInfo(), self.h.getModelStatus()
        spend(LP_PASSES + max(told.simplex_iteration_count, 0), self.h.getNumNz())
        optimal, empty = bool(status == STATUS.kOptimal), bool(status == STATUS.kInfeasible)
        x, row_dual = np.array(sol.col_value), np.array(sol.row_dual)
        return Solution(optimal, float(told.objective_function_value), x, row_dual, empty, bool(status in ENDED))

    def _keep(self, budget: Budget) -> None:
        """What is left of the budget, by the clock on the wall where that is meant, else by iterations."""
        wall, left = budget.waited, min(budget.left, FOREVER)
        most = CYCLING * (self.rows + self.h.getNumCol())
        most = most if wall else min(left / (PASS + NUMBER * self.h.getNumNz()), most)
        self.option("time_limit", self.h.getRunTime() + left if wall else INFINITY)
        self.option("simplex_iteration_limit", int(min(most, FOREVER)))

    def ray(self) -> Floats | None:
        """Prices of the rows that, up to their sign, should prove the programme infeasible, if HiGHS has any."""
        status, exists, ray = self.h.getDualRay()
        return np.array(ray) if exists and status == highspy.HighsStatus.kOk else None

    def basis(self) -> highspy.HighsBasis:
        """Where the last solve ended, for `resume`."""
        found: highspy.HighsBasis = self.h.getBasis()
        return found

    def resume(self, basis: highspy.HighsBasis) -> None:
        """Start the next solve from a basis of this programme, rows added since then counted as slack."""
        known = list(basis.row_status)
        basis.row_status = known + [highspy.HighsBasisStatus.kBasic] * (self.rows - len(known))
        self.h.setBasis(basis)


def _listed(matrix: Matrix) -> tuple[int, Ints, Ints, Floats]:
    """The entries of a matrix by rows, as HiGHS takes them: how many, where each row starts, columns and values."""
    if isinstance(matrix, np.ndarray):  # SciPy takes longer to look at a small matrix than HiGHS to solve it
        row, index = np.nonzero(matrix)
        start = np.searchsorted(row, np.arange(len(matrix)))
        return len(row), start.astype(np.int32), index.astype(np.int32), matrix[row, index].astype(np.float64)
    a = sparse.csr_matrix(matrix)
    return a.nnz, a.indptr[:-1].astype(np.int32), a.indices.astype(np.int32), a.data.astype(np.float64)


# --- the linear programme that every listing and pricing ends in ------------------------------------------------------


BATCH = 64  # points that are offered at once, by their worth and then by their price, or four for each number


class Mixture:
    """max Σ α_i f_i : Σ α_i v_i = mean, Σ α_i w_i ≤ limit, α ≥ 0, over points that come and go by their price.

    Offering leaves the basis primal feasible: the primal simplex goes on from it.
    """

    def __init__(self, mean: Floats, limit: float = INFINITY, accuracy: float = SOLVED) -> None:
        self.mean, self.limit, none = mean, limit, np.zeros(0)
        self.points, self.worth, self.spends, self.weights = np.zeros((0, len(mean))), none, none, none
        self.lp = LinearProgramme(none, none, none, maximise=True, warm=True, accuracy=accuracy)
        self.lp.equal(np.zeros((len(mean), 0)), mean)
        if limit < INFINITY:
            self.lp.at_most(np.zeros((1, 0)), limit)

    def offer(self, points: Floats, worth: Floats, spends: Floats | None = None) -> None:
        """More points v_i (rows) with values f_i, and w_i where something is spent."""
        none = np.zeros(len(points))
        spends = none if spends is None else spends
        matrix = np.vstack([points.T, spends]) if self.limit < INFINITY else points.T
        self.lp.add_columns(worth, none, np.full(len(points), INFINITY), matrix)
        self.points = np.concatenate([self.points, points])
        self.worth, self.spends, self.weights = (
            np.append(old, new) for old, new in ((self.worth, worth), (self.spends, spends), (self.weights, none))
        )

    def ask(self, mean: Floats) -> None:
        """More numbers of every point, 0 for those there are, with this mean; where nothing is spent."""
        self.lp.equal(np.zeros((len(mean), len(self.worth))), mean)
        self.mean, self.points = np.append(self.mean, mean), np.pad(self.points, ((0, 0), (0, len(mean))))

    def forget(self, most: int, prices: Floats, firm: int = 0) -> None:
        """Keep so many points at most: those in use, the first few, and those that fall least short of the prices."""
        if len(self.worth) <= most:
            return
        short = np.where(self.weights > 0, np.inf, self.worth - self.points @ prices)
        short[:firm] = np.inf
        drop = np.sort(np.argsort(short)[: len(short) - most])
        self.lp.drop_columns(drop)
        self.points = np.delete(self.points, drop, axis=0)
        self.worth, self.spends, self.weights = (np.delete(x, drop) for x in (self.worth, self.spends, self.weights))

    def best(self, budget: Budget = FREE) -> tuple[Floats, Floats, float]:
        """Weights α, prices λ and the price β ≥ 0 of spending, suggestions all of them."""
        found = self.lp.solve(PRIMAL, budget)
        prices, rate = np.split(found.row_dual, [len(self.mean)])
        return found.x, prices, max(0.0, float(rate.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """A mixture Σ α_i v_i = p with Σ α_i f_i largest, and prices λ that prove how large it can be."""

    weights: Floats
    points: Floats
    value: float
    prices: Floats
    bound: float
    """λ·p + β·limit + max_i (f_i − λ·v_i − β·w_i)₊ Σp: no mixture of the offered points does better, whatever λ is."""


def best_cover(
    mean: Floats, points: Floats, worth: Floats, spends: Floats | None = None, limit: float = INFINITY,
    budget: Budget = FREE,
) -> Cover:
    """The best mixture of `points` of sum 1 with the given mean, so that Σα = Σp; they are offered by their price.

    It begins with the point that reaches furthest in each direction, with some of great worth, and with the last one,
    which must be a multiple of the mean: with it the programme is feasible. Where the time ends before, so does the
    mixture, and the bound holds all the same.
    """
    programme = Mixture(mean, limit)
    paid = np.zeros(len(points)) if spends is None else spends
    offered, many = np.zeros(len(points), dtype=np.bool_), max(BATCH, 4 * len(mean))
    fresh = np.unique([*(points / mean).argmax(axis=0), *np.argsort(-worth)[:many], len(points) - 1])
    while len(fresh):
        offered[fresh] = True
        programme.offer(points[fresh], worth[fresh], paid[fresh])
        weights, prices, rate = programme.best(budget)
        reduced = worth - points @ prices - rate * paid
        better = np.flatnonzero((reduced > TIDY) & ~offered & (not budget.over))
        fresh = better[np.argsort(-reduced[better])[:many]]
    used = weights > DUST
    value = float(programme.worth[used] @ weights[used])
    bound = float(prices @ mean) + max(0.0, float(reduced.max())) * float(mean.sum())
    return Cover(weights[used], programme.points[used], value, prices, bound + (rate * limit if rate > 0.0 else 0.0))
