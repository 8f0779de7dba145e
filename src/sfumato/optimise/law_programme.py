"""Programmes over laws: distributions and numbers in boxes under linear rows, with a bound that trusts no solver.

HiGHS, or Clarabel where cones are added, suggests. What is proved is the Lagrangian at its prices: over laws and boxes
it has a closed form, and it holds for any prices ≥ 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.conic import ConicProgramme
from sfumato.optimise.linear import LinearProgramme, Solution
from sfumato.tolerances import UNIT


class LawProgramme:
    """min c·x over x whose groups are laws and whose other entries lie in boxes, with rows A x ≤ b.

    All variables are there before the first solve; rows may come between solves.
    """

    def __init__(self) -> None:
        self.cost, self.low, self.high = np.zeros(0), np.zeros(0), np.zeros(0)
        self.group: Ints = np.zeros(0, dtype=np.int64)  # the law that a variable belongs to, −1 in a box
        self.matrix, self.right = sparse.csr_matrix((0, 0)), np.zeros(0)
        self.lp: LinearProgramme | None = None

    @property
    def size(self) -> int:
        """How many variables there are."""
        return len(self.cost)

    @property
    def rows(self) -> int:
        """How many rows the linear programme has: the sums of the laws, then A."""
        return int(self.group.max(initial=-1)) + 1 + len(self.right)

    def laws(self, cost: Floats) -> Ints:
        """New laws, the columns of cost[y, x]; the names of their entries."""
        group = int(self.group.max(initial=-1)) + 1 + np.arange(cost.shape[1])
        return self._new(cost.ravel(), 0.0, 1.0, np.tile(group, len(cost))).reshape(cost.shape)

    def box(self, count: int, cost: float = 0.0, low: float = 0.0, high: float = 1.0) -> Ints:
        """New variables in [low, high]."""
        return self._new(np.full(count, cost), low, high, np.full(count, -1))

    def _new(self, cost: Floats, low: float, high: float, group: Ints) -> Ints:
        before, ends = self.size, (np.full(len(cost), low), np.full(len(cost), high))
        self.cost, self.low, self.high, self.group = (
            np.append(old, new) for old, new in
            ((self.cost, cost), (self.low, ends[0]), (self.high, ends[1]), (self.group, group))
        )
        old = self.matrix
        self.matrix = sparse.csr_matrix((old.data, old.indices, old.indptr), (len(self.right), self.size))
        return np.arange(before, self.size)

    def at_most(self, matrix: Any, right: Floats | float = 0.0) -> None:
        """Rows A x ≤ b over the first variables."""
        block = sparse.csr_matrix(matrix)
        block.resize(block.shape[0], self.size)
        right = np.broadcast_to(right, block.shape[:1])
        self.matrix, self.right = sparse.vstack([self.matrix, block], format="csr"), np.append(self.right, right)
        if self.lp is not None:
            self.lp.at_most(block, right)

    def limit(self, names: Ints, weights: Any, right: Floats | float = 0.0) -> None:
        """Rows Σ_k weights·x[names[·, k]] ≤ b."""
        values = np.broadcast_to(np.asarray(weights, dtype=np.float64), names.shape)
        line = np.repeat(np.arange(len(names)), names.shape[1])
        self.at_most(sparse.csr_matrix((values.ravel(), (line, names.ravel())), (len(names), self.size)), right)

    def solve(self) -> Solution:
        """HiGHS from where it was; its duals are those of the laws, then those of the rows."""
        if self.lp is None:
            self.lp = LinearProgramme(self.cost, self.low, self.high)
            self.lp.equal(self._sums(), 1.0)
            self.lp.at_most(self.matrix, self.right)
        return self.lp.solve()

    def conic(self) -> tuple[ConicProgramme, Ints]:
        """The same for Clarabel, x ≥ 0 in place of the boxes, and the numbers of its rows A x ≤ b."""
        conic, sums, a = ConicProgramme(self.size), self._sums().tocoo(), self.matrix.tocoo()
        conic.equal(sums.row.astype(np.int64), sums.col.astype(np.int64), sums.data, -np.ones(sums.shape[0]))
        conic.hold([(np.arange(self.size), np.ones(self.size))])
        if not len(self.right):
            return conic, np.zeros(0, dtype=np.int64)
        return conic, conic.nonnegative(a.row.astype(np.int64), a.col.astype(np.int64), -a.data, self.right)

    def _sums(self) -> sparse.csr_matrix:
        inside = np.flatnonzero(self.group >= 0)
        shape = int(self.group.max(initial=-1)) + 1, self.size
        return sparse.csr_matrix((np.ones(len(inside)), (self.group[inside], inside)), shape)

    def proved(self, solution: Solution) -> float:
        """The bound at the duals of a solution."""
        return self.bound(np.maximum(-solution.row_dual[self.rows - len(self.right) :], 0.0))

    def bound(self, prices: Floats) -> float:
        """min c·x + prices·(A x − b) over laws and boxes, less what rounding took: below the optimum for prices ≥ 0.

        A sum of k floats is off by at most k units of the sum of their sizes.
        """
        a = self.matrix
        reduced, sizes = self.cost + prices @ a, np.abs(self.cost) + prices @ abs(a)
        least, largest = np.full(self.rows - len(prices), np.inf), np.zeros(self.rows - len(prices))
        law = self.group >= 0
        np.minimum.at(least, self.group[law], reduced[law])
        np.maximum.at(largest, self.group[law], sizes[law])
        boxed = np.minimum(reduced * self.low, reduced * self.high)[~law]
        reach = (sizes * np.maximum(np.abs(self.low), np.abs(self.high)))[~law]
        parts = 16 + len(least) + len(boxed) + int(np.bincount(a.indices, minlength=1).max())
        lost = 2 * UNIT * parts * float(largest.sum() + reach.sum() + prices @ np.abs(self.right))
        return float(least.sum() + boxed.sum() - prices @ self.right) - lost
