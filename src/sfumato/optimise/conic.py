"""Cone programmes for Clarabel, put together from linear expressions. Knows nothing of privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import GHOST, REPAIRED, Floats, Ints
from sfumato.optimise.budget import FREE, Budget, spend

Terms = Sequence[tuple[Ints, Floats]]  # variables with their factors: one linear expression for every entry
Cone = Callable[[], object]

exponential: Cone = clarabel.ExponentialConeT  # (a, b, c): b e^{a/b} ≤ c


def lorentz() -> object:
    """(a, b, c): a ≥ ‖(b, c)‖."""
    return clarabel.SecondOrderConeT(3)


def power(*exponents: float) -> Cone:
    """(a, …, z): a^{p₁}·…·≥ |z| for exponents that sum to 1."""
    if len(exponents) == 2:
        return lambda: clarabel.PowerConeT(exponents[0])
    return lambda: clarabel.GenPowerConeT(list(exponents), 1)


@dataclass(frozen=True, slots=True)
class ConicSolution:
    """What Clarabel says: x, and the multiplier z of every row (same order as the rows were added)."""

    status: str
    x: Floats
    z: Floats


@dataclass(slots=True)
class ConicProgramme:
    """min c·x with linear expressions of x in a product of {0}, ℝ₊ and small cones."""

    variables: int = 0
    row: list[Ints] = field(default_factory=list)
    column: list[Ints] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)
    constant: list[Floats] = field(default_factory=list)
    cones: list[object] = field(default_factory=list)
    rows: int = 0

    def fresh(self, count: int) -> Ints:
        """New variables."""
        start = self.variables
        self.variables += count
        return np.arange(start, start + count)

    def _put(self, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        start = self.rows
        self.row.append(start + rows)
        self.column.append(columns)
        self.value.append(-values)  # s = b − A x, so A carries the opposite sign of the expression
        self.constant.append(constant)
        self.rows += len(constant)
        return np.arange(start, self.rows)

    def equal(self, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Rows of triplets, values·x + constant = 0; returns their numbers."""
        self.cones.append(clarabel.ZeroConeT(len(constant)))
        return self._put(rows, columns, values, constant)

    def nonnegative(self, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Rows of triplets, values·x + constant ≥ 0."""
        self.cones.append(clarabel.NonnegativeConeT(len(constant)))
        return self._put(rows, columns, values, constant)

    def hold(self, terms: Terms, *, equal: bool = False) -> Ints:
        """One row Σ factors·variables ≥ 0 (or = 0) per entry of the terms."""
        count = len(terms[0][0])
        put = self.equal if equal else self.nonnegative
        return put(np.tile(np.arange(count), len(terms)), *_joined(terms), np.zeros(count))

    def each(self, cone: Cone, *coordinates: Terms) -> Ints:
        """One cone per entry, its coordinates given as expressions; returns the number of the first row of each."""
        count, size = len(coordinates[0][0][0]), len(coordinates)
        start = size * np.arange(count)
        rows = np.concatenate([np.tile(start + i, len(terms)) for i, terms in enumerate(coordinates)])
        self.cones.extend(cone() for _ in range(count))
        columns, values = _joined([one for terms in coordinates for one in terms])
        return self._put(rows, columns, values, np.zeros(size * count))[::size]

    def products(self, first: Terms, second: Terms, middle: Terms) -> Ints:
        """middle² ≤ first·second: (a + b, a − b, 2m) in the Lorentz cone; returns the first rows."""
        against = [(column, -value) for column, value in second]
        double = [(column, 2.0 * value) for column, value in middle]
        return self.each(lorentz, [*first, *second], [*first, *against], double)

    def solver(
        self, cost: Floats, *, tolerance: float = REPAIRED, refine: bool = False, budget: Budget = FREE,
        bend: Floats | None = None,
    ) -> clarabel.DefaultSolver:
        """Clarabel, ready to run; variables after the end of `cost` cost nothing, and bend·x²/2 more where it is given.

        Without refinement it takes two thirds of the time, and digits are missing that mending does not need.
        """
        cost = np.concatenate([cost, np.zeros(self.variables - len(cost))])
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.time_limit = False, budget.left
        settings.iterative_refinement_enable = refine
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        quadratic = sparse.diags(np.zeros(self.variables) if bend is None else bend).tocsc()
        entries = np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column))
        matrix = sparse.csc_matrix(entries, shape=(self.rows, self.variables))
        right = np.concatenate(self.constant)
        return clarabel.DefaultSolver(quadratic, cost, matrix, right, self.cones, settings)

    def solve(self, cost: Floats, **options: Any) -> ConicSolution:
        """Run Clarabel once, with the options of `solver`."""
        return solved(self.solver(cost, **options))


def solved(solver: clarabel.DefaultSolver) -> ConicSolution:
    """Run a programme that Clarabel has taken in; with other costs (`update`) it may be run again."""
    answer = solver.solve()
    return ConicSolution(str(answer.status), np.array(answer.x), np.array(answer.z))


def proximal(
    rows: Floats, gains: Floats, centre: Floats, weight: Floats, bold: float, length: float = 1.0
) -> tuple[Floats, float, Floats]:
    """min w·y + T·r + Σ w(y − c)²/(2·bold) with r ≥ g_j − Σ w·v_j·y: y, r, and the multiplier of every row v_j.

    Prices are tried and judged by rows that come in: a few digits do.
    """
    k, n = rows.shape
    spend(100 + 2.4 * k)
    spend(1, 0.6 * k * n**2 + 5 * n**3)
    programme, (row, column) = ConicProgramme(n + 1), np.indices((k, n + 1))
    entries = np.hstack([rows * weight, np.ones((k, 1))])
    programme.nonnegative(row.ravel(), column.ravel(), entries.ravel(), -gains)
    cost, bend = np.append(weight - weight * centre / bold, length), np.append(weight / bold, 0.0)
    found = programme.solve(cost, tolerance=GHOST, refine=True, bend=bend)
    return found.x[:n], float(found.x[n]), found.z


def _joined(terms: Terms) -> tuple[Ints, Floats]:
    return np.concatenate([column for column, _ in terms]), np.concatenate([value for _, value in terms])
