"""Second-order cone programs for Clarabel, put together from triplets. Knows nothing of privacy."""

from __future__ import annotations

from dataclasses import dataclass, field

import clarabel
import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class ConicSolution:
    """What Clarabel says: x, and the multiplier z of every row (same order as the rows were added)."""

    status: str
    x: Floats
    z: Floats


@dataclass(slots=True)
class ConicProgram:
    """min c·x with rows b − A x in a product of {0}, ℝ₊ and three-dimensional Lorentz cones."""

    variables: int
    row: list[Ints] = field(default_factory=list)
    column: list[Ints] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)
    constant: list[Floats] = field(default_factory=list)
    cones: list[object] = field(default_factory=list)
    rows: int = 0

    def _put(self, count: int, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        start = self.rows
        self.row.append(start + rows)
        self.column.append(columns)
        self.value.append(-values)  # s = b − A x, so A carries the opposite sign of the expression
        self.constant.append(constant)
        self.rows += count
        return np.arange(start, start + count)

    def equal(self, count: int, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Expressions values·x + constant = 0; returns their row numbers."""
        self.cones.append(clarabel.ZeroConeT(count))
        return self._put(count, rows, columns, values, constant)

    def nonnegative(self, count: int, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Expressions values·x + constant ≥ 0."""
        self.cones.append(clarabel.NonnegativeConeT(count))
        return self._put(count, rows, columns, values, constant)

    def product(self, count: int, rows: Ints, columns: Ints, values: Floats) -> Ints:
        """`count` cones (a, b, c) with a ≥ ‖(b, c)‖; expression i of cone k is row 3k + i."""
        self.cones.extend(clarabel.SecondOrderConeT(3) for _ in range(count))
        return self._put(3 * count, rows, columns, values, np.zeros(3 * count))

    def matrix(self) -> sparse.csc_matrix:
        """A, with zeros kept: two programs built alike have the same pattern."""
        entries = np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column))
        return sparse.csc_matrix(entries, shape=(self.rows, self.variables))

    def solver(self, cost: Floats, *, tolerance: float = 1e-9, time_limit: float = 600.0) -> ConicSolver:
        """Clarabel, ready to run; variables after the end of `cost` cost nothing."""
        cost = np.concatenate([cost, np.zeros(self.variables - len(cost))])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.iterative_refinement_enable = False  # a third of the time, for digits that mending does not need
        settings.time_limit = time_limit
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        empty = sparse.csc_matrix((self.variables, self.variables))
        return ConicSolver(clarabel.DefaultSolver(
            empty, cost, self.matrix(), np.concatenate(self.constant), self.cones, settings
        ))

    def solve(self, cost: Floats, *, tolerance: float = 1e-9, time_limit: float = 600.0) -> ConicSolution:
        """Run Clarabel once."""
        return self.solver(cost, tolerance=tolerance, time_limit=time_limit).solve()


@dataclass(frozen=True, slots=True)
class ConicSolver:
    """A program that Clarabel has taken in; the same one with other numbers in A need not be taken in again."""

    inner: clarabel.DefaultSolver

    def solve(self, data: Floats | None = None) -> ConicSolution:
        """Run it, with other values of the entries of A if they are given."""
        if data is not None:
            self.inner.update(A=data)
        answer = self.inner.solve()
        return ConicSolution(str(answer.status), np.array(answer.x), np.array(answer.z))
