"""A linear program that grows by rows: HiGHS kept warm between solves. Knows nothing of privacy."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats, Ints

INFINITY = highspy.kHighsInf


@dataclass(frozen=True, slots=True)
class Solution:
    """What HiGHS says: a suggestion, to be checked by weak duality. Duals of ≤ rows are ≤ 0 when minimising."""

    optimal: bool
    value: float
    x: Floats
    row_dual: Floats


class GrowingLP:
    """min c·x, lower ≤ x ≤ upper, plus rows added (and dropped) over time; the basis is kept."""

    def __init__(self, cost: Floats, lower: Floats, upper: Floats, *, threads: int = 1) -> None:
        self.h = highspy.Highs()  # type: ignore[no-untyped-call]
        self.h.silent()
        self.h.setOptionValue("threads", threads)
        self.h.setOptionValue("primal_feasibility_tolerance", 1e-9)
        self.h.setOptionValue("dual_feasibility_tolerance", 1e-9)
        n = len(cost)
        empty = np.zeros(0)
        self.h.addCols(
            n, cost, lower, upper, 0, np.zeros(n, dtype=np.int32), np.zeros(0, dtype=np.int32), empty
        )

    @property
    def rows(self) -> int:
        """How many rows it has now."""
        return int(self.h.getNumRow())

    def option(self, name: str, value: bool | float | str) -> None:
        """Set an option of HiGHS."""
        self.h.setOptionValue(name, value)

    def add(self, matrix: sparse.csr_matrix, lower: Floats, upper: Floats) -> None:
        """Append rows lower ≤ A x ≤ upper."""
        a = sparse.csr_matrix(matrix)
        self.h.addRows(
            a.shape[0],
            lower,
            upper,
            a.nnz,
            a.indptr[:-1].astype(np.int32),
            a.indices.astype(np.int32),
            a.data.astype(np.float64),
        )

    def drop(self, which: Ints) -> None:
        """Delete rows by index."""
        if which.size:
            self.h.deleteRows(which.size, which.astype(np.int32))

    def cost(self, cost: Floats) -> None:
        """Replace the whole objective."""
        self.h.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)

    def solve(self) -> Solution:
        """Run from where the last solve ended."""
        self.h.run()
        optimal = self.h.getModelStatus() == highspy.HighsModelStatus.kOptimal
        sol = self.h.getSolution()
        value = float(self.h.getInfo().objective_function_value)
        return Solution(optimal, value, np.array(sol.col_value), np.array(sol.row_dual))
