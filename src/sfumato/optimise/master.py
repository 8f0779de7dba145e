"""The master: the best mixture of a pool of private rows, and prices for the rows that are still missing."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.cone import Cone, Coordinates, repaired
from sfumato.optimise.conic import proximal
from sfumato.optimise.linear import DUAL, INFINITY, PRIMAL, LinearProgramme, Solution

USED = 1e-10  # weight below which a row is not in use
MET = 1e-7  # of columns that shall sum to 1: what is missing is shared out, and a proof notices more
BESIDE = 64  # rows that are mended for the last mixture although they are not in use
KEPT = 32  # rows kept for each coordinate: those that price out best
BUNDLE, FEWEST = 3, 300  # of these, and rows at least, in the programme that finds prices
FLAT = 1e-5  # entries of a row below this count as this where a slope is taken, so that zeros are not final
RARE = 1e-9  # prices are scaled by p, which may be 0
SERIOUS, TRUSTED = 0.1, 0.5  # shares of the promised fall of the bound at which prices are taken, and boldness grows
BOLDER, SHYER, SHYEST = 2.0, 0.7, 0.02  # how boldness changes, and its least


class InformationAim:
    """max Σ_y θ_y μ(v^y), Σ θ_y v^y = 1, μ(v) = Σ p φ(v) − φ(p·v): a linear programme over unit rows.

    Its own duals are useless as prices: the vertex is degenerate and nothing ever moves. Prices come from a proximal
    bundle instead, min Σλ + max_j (μ_j − λ·v_j) + Σ (λ − c)²/(2tp), begun at c_x = p_x Σ_y θ_y φ(v_x): what x tells.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self.coordinates, self.p = coordinates, coordinates.p
        n = len(self.p)
        self.lp = LinearProgramme(np.zeros(0), np.zeros(0), np.zeros(0), maximise=True, warm=True)
        self.lp.add(sparse.csr_matrix((n, 0)), np.ones(n), np.ones(n))
        self.rows, self.gains, self.theta = np.zeros((0, n)), np.zeros(0), np.zeros(0)
        self.value, self.fresh = -np.inf, True  # whether rows came in since the last mixture
        self.dual = np.zeros(n)
        self.centre: Floats | None = None
        self.prices = np.zeros(n)
        self.bold, self.upper, self.model = 1.0, np.inf, np.inf
        self.add(np.ones((1, n)))

    def add(self, rows: Floats) -> None:
        """Unit rows join the pool."""
        rows = self.coordinates.unit(rows)
        gains = xlogx(rows) @ self.p
        self.lp.add_columns(gains, np.zeros(len(rows)), np.full(len(rows), INFINITY), rows.T)
        self.rows, self.gains = np.concatenate([self.rows, rows]), np.append(self.gains, gains)
        self.theta, self.fresh = np.append(self.theta, np.zeros(len(rows))), True

    def solve(self) -> float:
        """Mix the pool best; the value never falls.

        HiGHS's primal simplex may call a mixture optimal whose columns do not sum to 1 (where rows are there twice):
        then the programme is solved once more from nothing.
        """
        if not self.fresh:
            return self.value
        found, self.fresh = self.lp.solve(PRIMAL), False
        if not self._met(found):
            self.lp.h.clearSolver()
            found = self.lp.solve(DUAL)
        if self._met(found):
            self.theta, self.dual = found.x, found.row_dual
            self.value = max(self.value, float(self.gains @ found.x))
        return self.value

    def _met(self, found: Solution) -> bool:
        return found.optimal and float(np.abs(found.x @ self.rows - 1.0).max()) < MET

    def used(self) -> tuple[Floats, Floats]:
        """Rows in use and their weights."""
        on = self.theta > USED
        return self.rows[on], self.theta[on]

    def nearly_used(self) -> Floats:
        """Rows in use and some more that the programme would take next: for a last mixture after a repair."""
        worth = self.gains - self.rows @ self.dual
        worth[self.theta > USED] = np.inf
        return self.rows[np.argsort(-worth)[: last_rows(len(self.p))]]

    def steer(self) -> Floats:
        """New prices, and the rows from which moves begin."""
        if self.centre is None:
            rows, theta = self.used()
            self.centre = self.prices = self.p * (theta @ xlogx(rows))
            self.model = self.value
            return rows
        worth = self.gains - self.rows @ self.centre
        worth[self.theta > USED] = np.inf
        near = np.argsort(-worth)[: max(BUNDLE * len(self.p), FEWEST)]
        scale = np.maximum(self.p, RARE)
        y, level, weight = proximal(self.rows[near], self.gains[near], self.centre / scale, scale, self.bold)
        self.prices = y * scale
        self.model = float(self.prices.sum() + level)
        active = np.flatnonzero(weight > 1e-6 * weight.max(initial=1e-300))
        return self.rows[near][active[np.argsort(-weight[active])[: len(self.p) + len(self.p) // 5 + 1]]]

    def learn(self) -> None:
        """Judge the prices by the rows that came in since `steer`: take them, or be more careful."""
        assert self.centre is not None
        bound = self._bound(self.prices)
        self.upper = bound if not np.isfinite(self.upper) else max(self.upper, self._bound(self.centre))
        promised = max(self.upper - self.model, 0.0)
        if bound < self.upper - SERIOUS * promised:
            self.bold *= BOLDER if bound < self.upper - TRUSTED * promised else 1.0
            self.centre, self.upper = self.prices, bound
        else:
            self.bold = max(SHYER * self.bold, SHYEST)
        self._forget()

    def _bound(self, prices: Floats) -> float:
        return float(prices.sum() + (self.gains - self.rows @ prices).max())

    def slopes(self, rows: Floats, floor: Floats) -> Floats:
        """The tangent of μ at unit rows, less the prices."""
        return np.asarray(self.p * np.log(np.maximum(rows, np.maximum(floor, FLAT))) - self.prices)

    def _forget(self) -> None:
        most = KEPT * len(self.p)
        if len(self.gains) <= most:
            return
        worth = self.gains - self.rows @ (self.prices if self.centre is None else self.centre)
        worth[self.theta > 0] = np.inf
        drop = np.sort(np.argsort(worth)[: len(worth) - most])
        self.lp.drop_columns(drop)
        stay = np.ones(len(worth), bool)
        stay[drop] = False
        self.rows, self.gains, self.theta = self.rows[stay], self.gains[stay], self.theta[stay]


def last_rows(numbers: int) -> int:
    """How many rows the last mixture begins with."""
    return numbers + min(numbers, BESIDE)


def mixed_again(cone: Cone, master: InformationAim) -> InformationAim:
    """The rows in use and those nearly in use, made private to the last worst case, and mixed once more."""
    last = InformationAim(master.coordinates)
    last.add(repaired(cone, master.nearly_used()))
    last.solve()
    return last
