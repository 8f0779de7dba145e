"""Best mixture of columns with a given mean and a given total, by a warm-started simplex method (HiGHS)."""

from __future__ import annotations

import highspy
import numpy as np

from sfumato.solve.arrays import Floats, xlogx
from sfumato.solve.engine import simplex

_DUAL, _PRIMAL = 1, 4


class Mixture:
    """max Σ_j θ_j gain_j subject to Σ_j θ_j column_j = 1, Σ_j θ_j = T (or free), θ ≥ 0; columns come in over time.

    One HiGHS object per problem keeps its basis: new columns leave it primal feasible (primal simplex), a new T
    leaves it
    dual feasible (dual simplex).
    """

    def __init__(self, dimension: int, total: float | None) -> None:
        self._lp = simplex()
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(dimension):
            self._lp.addRow(1.0, 1.0, 0, none, nothing)
        # A free total keeps its row, so that every dual has dimension + 1 entries; the last is then 0.
        least, most = (0.0, highspy.kHighsInf) if total is None else (total, total)
        self._lp.addRow(least, most, 0, none, nothing)
        self.columns = np.zeros((0, dimension))
        self.gains = np.zeros(0)
        self._method = _PRIMAL
        self.theta = np.zeros(0)
        self.dual = np.zeros(dimension + 1)
        self.value = -np.inf
        self._kept = 0

    def anchor(self, count: int) -> None:
        """Never forget the first `count` columns: they keep every total feasible."""
        self._kept = count

    def add(self, columns: Floats, gains: Floats) -> None:
        count, dimension = columns.shape
        if count == 0:
            return
        full = np.concatenate([columns, np.ones((count, 1))], axis=1)
        row = np.tile(np.arange(dimension + 1, dtype=np.int32), count)
        starts = np.arange(count, dtype=np.int32) * (dimension + 1)
        self._lp.addCols(
            count, gains, np.zeros(count), np.full(count, highspy.kHighsInf), full.size, starts, row, full.ravel()
        )
        self.columns = np.concatenate([self.columns, columns])
        self.gains = np.concatenate([self.gains, gains])
        self._method = _PRIMAL

    def set_total(self, total: float) -> None:
        self._lp.changeRowBounds(self.columns.shape[1], total, total)
        self._method = _DUAL

    def solve(self) -> bool:
        """Solve; False when HiGHS does not call it optimal (the last duals stay, the value is −∞)."""
        self.value = -np.inf
        self._lp.setOptionValue("simplex_strategy", self._method)
        self._lp.run()
        if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._lp.clearSolver()
            self._lp.setOptionValue("simplex_strategy", _DUAL)
            self._lp.run()
            if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return False
        solution = self._lp.getSolution()
        self.theta = np.array(solution.col_value)
        self.dual = np.array(solution.row_dual)
        self.value = float(self.gains @ self.theta)
        return True

    def forget(self, keep: int) -> None:
        """Drop the columns that price out worst once there are more than `keep`; the basis stays."""
        count = len(self.gains)
        if count <= keep:
            return
        reduced = self.gains - self.columns @ self.dual[:-1] - self.dual[-1]
        reduced[self.theta > 0] = np.inf
        reduced[: self._kept] = np.inf
        drop = np.sort(np.argsort(reduced)[: count - keep]).astype(np.int32)
        self._lp.deleteCols(len(drop), drop)
        stay = np.ones(count, dtype=bool)
        stay[drop] = False
        self.columns, self.gains, self.theta = self.columns[stay], self.gains[stay], self.theta[stay]


def no_more_than_inputs(rows: Floats, p: Floats) -> Floats:
    """The best mixture of rows Q[y, x] in proportion to those given, with at most |X| of them: nothing is lost.

    Weights θ with Σ θ_y Q_y = 1 are a linear programme with |X| equations, to which all ones is a solution; a basic one
    that is at least as good has at most |X| positive weights.
    """
    if len(rows) <= rows.shape[1]:
        return rows
    unit = rows / rows.sum(axis=1, keepdims=True)
    mass = np.maximum(unit @ p, 1e-300)
    lp = Mixture(rows.shape[1], None)
    lp.add(unit, xlogx(unit) @ p - mass * np.log(mass))
    if not lp.solve():
        return rows
    on = lp.theta > 0
    return np.asarray(lp.theta[on, None] * unit[on])
