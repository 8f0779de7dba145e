"""Linear programmes that grow by rows and columns: HiGHS kept warm between solves. Knows nothing of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, Ints

INFINITY = highspy.kHighsInf
DUAL, PRIMAL = 1, 4  # simplex strategies: new rows leave a basis dual feasible, new columns and costs primal
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
        sol = self.h.getSolution()
        value = float(self.h.getInfo().objective_function_value)
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
