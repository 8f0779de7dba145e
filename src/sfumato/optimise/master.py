"""The master: the best mixture of a pool of private rows, and prices for the rows that are still missing."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import DUST, EMPTY, REPAIRED, SEALING, TINY, Floats, Ints, xlogx
from sfumato.optimise.cone import Cone, Coordinates, repaired
from sfumato.optimise.conic import proximal
from sfumato.optimise.linear import DUAL, PRIMAL, Mixture, Solution

BESIDE = 64  # rows that are mended for the last mixture although they are not in use
KEPT = 32  # rows kept for each coordinate, those that price out best; and cuts: few are learnt again and again
FLOOR = 1e-5  # of a unit row, in its tangent: flatter ones gained nothing on random tables
BUNDLE = 300  # rows in the programme that finds prices, beside one for each coordinate
SERIOUS, TRUSTED = 0.1, 0.5  # shares of the promised fall of the bound at which prices are taken, and boldness grows
BOLDER, SHYEST = 2.0, 0.02  # how boldness grows, and its least
SHYER = BOLDER**-0.5  # how it falls: two steps back undo one


class InformationAim(Mixture):
    """max Σ_y θ_y μ(v^y), Σ θ_y v^y = 1, μ(v) = Σ p φ(v) − φ(p·v): a linear programme over unit rows.

    Its own duals are useless as prices: the vertex is degenerate and nothing ever moves. Prices come from a proximal
    bundle instead, min Σλ + max_j (μ_j − λ·v_j) + Σ (λ − c)²/(2tp), begun at c_x = p_x Σ_y θ_y φ(v_x): what x tells.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        super().__init__(np.ones(len(coordinates.p)), accuracy=REPAIRED)
        self.coordinates, self.p = coordinates, coordinates.p
        self.value, self.fresh = -np.inf, True  # whether rows came in since the last mixture
        self.dual = self.prices = np.zeros(len(self.p))
        self.centre: Floats | None = None
        self.bold, self.upper, self.model = 1.0, np.inf, np.inf
        self.add(np.ones((1, len(self.p))))

    def add(self, rows: Floats) -> None:
        """Unit rows join the pool."""
        rows = self.coordinates.unit(rows)
        self.offer(rows, xlogx(rows) @ self.p)
        self.fresh = True

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
            self.weights, self.dual = found.x, found.row_dual
            self.value = max(self.value, float(self.worth @ found.x))
        return self.value

    def _met(self, found: Solution) -> bool:
        """Whether columns sum to 1 up to what is shared out in the end; a proof would notice more."""
        return found.optimal and float(np.abs(found.x @ self.points - 1.0).max()) < SEALING

    def used(self) -> tuple[Floats, Floats]:
        """Rows in use and their weights."""
        on = self.weights > DUST
        return self.points[on], self.weights[on]

    def next(self, prices: Floats, count: int) -> Ints:
        """Rows in use and some more that the programme would take next at these prices."""
        return np.argsort(-np.where(self.weights > DUST, np.inf, self.worth - self.points @ prices))[:count]

    def steer(self) -> Floats:
        """New prices, and the rows from which moves begin."""
        if self.centre is None:
            rows, theta = self.used()
            self.centre = self.prices = self.p * (theta @ xlogx(rows))
            self.model = self.value
            return rows
        near = self.next(self.centre, len(self.p) + BUNDLE)
        scale = np.maximum(self.p, EMPTY)
        y, level, weight = proximal(self.points[near], self.worth[near], self.centre / scale, scale, self.bold)
        self.prices = y * scale
        self.model = float(self.prices.sum() + level)
        active = np.flatnonzero(weight > 1e-6 * weight.max(initial=TINY))
        return self.points[near][active[np.argsort(-weight[active])[: len(self.p) + len(self.p) // 5 + 1]]]

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
        self.forget(KEPT * len(self.p), self.centre)

    def _bound(self, prices: Floats) -> float:
        return float(prices.sum() + (self.worth - self.points @ prices).max())

    def slopes(self, rows: Floats) -> Floats:
        """The tangent of μ at unit rows, less the prices; entries below the floor count as it, so that zeros are not
        final."""
        return np.asarray(self.p * np.log(np.maximum(rows, FLOOR)) - self.prices)


def last_rows(numbers: int) -> int:
    """How many rows the last mixture begins with."""
    return numbers + min(numbers, BESIDE)


def mixed_again(cone: Cone, master: InformationAim) -> InformationAim:
    """The rows in use and those nearly in use, made private to the last worst case, and mixed once more."""
    last = InformationAim(master.coordinates)
    last.add(repaired(cone, master.points[master.next(master.dual, last_rows(len(master.p)))]))
    last.solve()
    return last
