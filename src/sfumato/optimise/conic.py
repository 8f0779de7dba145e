"""Cone programmes for Clarabel, and programmes over laws for either solver; it knows nothing of privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt
from scipy import sparse

from sfumato.optimise.arrays import GHOST, REPAIRED, Floats, Ints
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.linear import LinearProgramme, Matrix, Solution
from sfumato.tolerances import UNIT

Terms = Sequence[tuple[Ints, Floats]]  # variables with their factors: one linear expression for every entry
Cone = Callable[[], object]

exponential: Cone = clarabel.ExponentialConeT  # (a, b, c): b e^{a/b} ≤ c
lorentz: Cone = partial(clarabel.SecondOrderConeT, 3)  # (a, b, c): a ≥ ‖(b, c)‖


def power(*exponents: float) -> Cone:
    """(a, …, z): a^{p₁}·…·≥ |z| for exponents that sum to 1."""
    two = len(exponents) == 2
    return partial(clarabel.PowerConeT, exponents[0]) if two else partial(clarabel.GenPowerConeT, list(exponents), 1)


@dataclass(frozen=True, slots=True)
class ConicSolution:
    """What Clarabel says: x, and the multiplier z of every row (same order as the rows were added)."""

    status: str
    solved: bool  # nearly, at least
    x: Floats
    z: Floats


@dataclass(slots=True)
class ConicProgramme:
    """min c·x with linear expressions of x in a product of {0}, ℝ₊ and small cones."""

    variables: int = 0
    rows: int = 0
    cones: list[object] = field(default_factory=list)
    parts: list[tuple[Ints, Ints, Floats, Floats]] = field(default_factory=list)  # row, column, value; constants

    def fresh(self, count: int) -> Ints:
        """New variables."""
        start = self.variables
        self.variables += count
        return np.arange(start, start + count)

    def _put(self, cones: Sequence[object], rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        start = self.rows
        self.cones.extend(cones)
        self.parts.append((start + rows, columns, -values, constant))  # s = b − A x: A has the opposite sign
        self.rows += len(constant)
        return np.arange(start, self.rows)

    def equal(self, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Rows of triplets, values·x + constant = 0; returns their numbers."""
        return self._put([clarabel.ZeroConeT(len(constant))], rows, columns, values, constant)

    def nonnegative(self, rows: Ints, columns: Ints, values: Floats, constant: Floats) -> Ints:
        """Rows of triplets, values·x + constant ≥ 0."""
        return self._put([clarabel.NonnegativeConeT(len(constant))], rows, columns, values, constant)

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
        terms = [one for terms in coordinates for one in terms]
        return self._put([cone() for _ in range(count)], rows, *_joined(terms), np.zeros(size * count))[::size]

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
        settings.verbose, settings.time_limit, settings.iterative_refinement_enable = False, budget.left, refine
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        quadratic = sparse.diags(np.zeros(self.variables) if bend is None else bend).tocsc()
        row, column, value, right = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        matrix = sparse.csc_matrix((value, (row, column)), shape=(self.rows, self.variables))
        return clarabel.DefaultSolver(quadratic, cost, matrix, right, self.cones, settings)

    def solve(self, cost: Floats, **options: Any) -> ConicSolution:
        """Run Clarabel once, with the options of `solver`."""
        return solved(self.solver(cost, **options))


def solved(solver: clarabel.DefaultSolver) -> ConicSolution:
    """Run a programme that Clarabel has taken in; with other costs (`update`) it may be run again."""
    answer, done = solver.solve(), (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    return ConicSolution(str(answer.status), answer.status in done, np.array(answer.x), np.array(answer.z))


def proximal(
    rows: Floats, gains: Floats, centre: Floats, weight: Floats, bold: float, budget: Budget = FREE
) -> tuple[Floats, float, Floats]:
    """min w·y + r + Σ w(y − c)²/(2·bold) with r ≥ g_j − Σ w·v_j·y: y, r, and the multiplier of every row v_j."""
    budget.go_on()
    k, n = rows.shape
    spend(100 + 2.4 * k)
    spend(1, 8 * k * n**2 + 20 * n**3)
    programme, (row, column) = ConicProgramme(n + 1), np.indices((k, n + 1))
    entries = np.hstack([rows * weight, np.ones((k, 1))])
    programme.nonnegative(row.ravel(), column.ravel(), entries.ravel(), -gains)
    cost, bend = np.append(weight - weight * centre / bold, 1.0), np.append(weight / bold, 0.0)
    found = programme.solve(cost, tolerance=GHOST, refine=True, bend=bend, budget=budget)  # a few digits do for prices
    budget.go_on()
    return found.x[:n], float(found.x[n]), found.z


def _joined(terms: Terms) -> tuple[Ints, Floats]:
    return np.concatenate([column for column, _ in terms]), np.concatenate([value for _, value in terms])


# --- programmes over laws: distributions and numbers in boxes under linear rows, with a bound that trusts no solver ---


class LawProgramme:
    """min c·x over x whose groups are laws and whose other entries lie in boxes, with rows A x ≤ b.

    All variables are there before the first solve; rows may come between solves.
    """

    def __init__(self) -> None:
        self.count, self.cost, self.low, self.high = 0, np.zeros(0), np.zeros(0), np.zeros(0)  # count: of the laws
        self.group: Ints = np.zeros(0, dtype=np.int64)  # the law that a variable belongs to, −1 in a box
        self.matrix, self.right = sparse.csr_matrix((0, 0)), np.zeros(0)
        self.lp: LinearProgramme | None = None

    @property
    def size(self) -> int:
        return len(self.cost)

    def laws(self, cost: Floats) -> Ints:
        """New laws, the columns of cost[y, x]; the names of their entries."""
        group = self.count + np.arange(cost.shape[1])
        self.count += cost.shape[1]
        return self._new(cost.ravel(), 0.0, 1.0, np.tile(group, len(cost))).reshape(cost.shape)

    def box(self, count: int, cost: float = 0.0, low: float = 0.0, high: float = 1.0) -> Ints:
        """New variables in [low, high]."""
        return self._new(np.full(count, cost), low, high, np.full(count, -1))

    def _new(self, cost: Floats, low: float, high: float, group: Ints) -> Ints:
        before, count = self.size, len(cost)
        self.cost, self.group = np.append(self.cost, cost), np.append(self.group, group)
        self.low, self.high = np.append(self.low, np.full(count, low)), np.append(self.high, np.full(count, high))
        self.matrix.resize(len(self.right), self.size)
        return np.arange(before, self.size)

    def at_most(self, matrix: Matrix, right: Floats | float = 0.0) -> None:
        """Rows A x ≤ b over the first variables."""
        block = sparse.csr_matrix(matrix)
        block.resize(block.shape[0], self.size)
        right = np.broadcast_to(right, block.shape[:1])
        self.matrix, self.right = sparse.vstack([self.matrix, block], format="csr"), np.append(self.right, right)
        if self.lp is not None:
            self.lp.at_most(block, right)

    def limit(self, names: Ints, weights: npt.ArrayLike, right: Floats | float = 0.0) -> None:
        """Rows Σ_k weights·x[names[·, k]] ≤ b."""
        values = np.broadcast_to(np.asarray(weights, dtype=np.float64), names.shape)
        line = np.repeat(np.arange(len(names)), names.shape[1])
        self.at_most(sparse.csr_matrix((values.ravel(), (line, names.ravel())), (len(names), self.size)), right)

    def solve(self, budget: Budget = FREE) -> Solution:
        """HiGHS from where it was, for so long; its duals are those of the laws, then those of the rows."""
        if self.lp is None:
            self.lp = LinearProgramme(self.cost, self.low, self.high)
            shape, law = (self.count, self.size), np.flatnonzero(self.group >= 0)
            self.lp.equal(sparse.csr_matrix((np.ones(len(law)), (self.group[law], law)), shape), 1.0)
            self.lp.at_most(self.matrix, self.right)
        return self.lp.solve(budget=budget)

    def conic(self) -> tuple[ConicProgramme, Ints]:
        """The same for Clarabel, x ≥ 0 in place of the boxes, and the numbers of its rows A x ≤ b."""
        conic, law, a = ConicProgramme(self.size), np.flatnonzero(self.group >= 0), self.matrix.tocoo()
        conic.equal(self.group[law], law, np.ones(len(law)), -np.ones(self.count))
        conic.hold([(np.arange(self.size), np.ones(self.size))])
        return conic, conic.nonnegative(a.row.astype(np.int64), a.col.astype(np.int64), -a.data, self.right)

    def proved(self, solution: Solution) -> float:
        """The bound at the duals of a solution, or at none where HiGHS has none."""
        prices = np.maximum(-solution.row_dual[self.count :], 0.0)
        return self.bound(prices if len(prices) == len(self.right) else np.zeros(len(self.right)))

    def bound(self, prices: Floats) -> float:
        """min c·x + prices·(A x − b) over laws and boxes, less what rounding took: below the optimum for prices ≥ 0."""
        a = self.matrix
        reduced, sizes = self.cost + prices @ a, np.abs(self.cost) + prices @ abs(a)
        least, largest = np.full(self.count, np.inf), np.zeros(self.count)
        law = self.group >= 0
        np.minimum.at(least, self.group[law], reduced[law])
        np.maximum.at(largest, self.group[law], sizes[law])
        boxed = np.minimum(reduced * self.low, reduced * self.high)[~law]
        reach = (sizes * np.maximum(np.abs(self.low), np.abs(self.high)))[~law]
        parts = 16 + len(least) + len(boxed) + int(np.bincount(a.indices, minlength=1).max())
        # a sum of k floats is off by at most k units of the sum of their sizes
        lost = 2 * UNIT * parts * float(largest.sum() + reach.sum() + prices @ np.abs(self.right))
        return float(least.sum() + boxed.sum() - prices @ self.right) - lost
