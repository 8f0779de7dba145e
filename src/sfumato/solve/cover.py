"""The concave envelope of a function on finitely many points: the best mixture of them with a given mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats

Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """A mixture Σ α_i v_i = p with Σ α_i f_i largest, and prices λ that prove how large it can be."""

    weights: Floats
    points: Floats
    value: float
    prices: Floats
    bound: float
    """λ·p + max_i (f_i − λ·v_i)₊ Σp: no mixture of the offered points does better, whatever λ is."""


class Master:
    """max Σ α_i f_i : Σ α_i v_i = p, α ≥ 0 in HiGHS, to which columns are added and from which prices are read."""

    def __init__(self, mean: Floats) -> None:
        self.mean = mean
        self.points: Floats = np.zeros((0, len(mean)))
        self.worth: Floats = np.zeros(0)
        self.solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, option in (
            ("output_flag", False),
            ("presolve", "off"),
            ("simplex_strategy", 4),  # primal: after adding columns the basis stays primal feasible
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            self.solver.setOptionValue(name, option)
        self.solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        none = np.zeros(0)
        self.solver.addRows(
            len(mean), mean, mean, 0, np.zeros(len(mean), np.int32), none.astype(np.int32), none
        )

    def add(self, points: Floats, worth: Floats) -> None:
        """Offer more points v_i (rows) with values f_i."""
        owner, place = np.nonzero(points)
        starts = np.searchsorted(owner, np.arange(len(points))).astype(np.int32)
        count, infinite = len(points), np.full(len(points), highspy.kHighsInf)
        entries = points[owner, place]
        self.solver.addCols(
            count, worth, np.zeros(count), infinite, len(entries), starts, place.astype(np.int32), entries
        )
        self.points = np.concatenate([self.points, points])
        self.worth = np.concatenate([self.worth, worth])

    def solve(self) -> tuple[Floats, Floats]:
        """Weights α and prices λ, suggestions both."""
        self.solver.run()
        solution = self.solver.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual)

    def mixture(self, weights: Floats) -> tuple[Floats, Floats]:
        """The positive weights with their points, corrected so that the mean holds to rounding."""
        used = np.flatnonzero(weights > 1e-13)
        points = self.points[used]
        exact, *_ = np.linalg.lstsq(points.T, self.mean, rcond=None)
        if np.all(exact >= 0.0) and np.abs(exact @ points - self.mean).max() < 1e-12:
            return np.asarray(exact, float), points
        return weights[used], points


def best_cover(mean: Floats, points: Floats, worth: Floats, *, batch: int | None = None) -> Cover:
    """The best mixture of `points` with the given mean; many points are offered a batch at a time by price."""
    master = Master(mean)
    step = batch or max(64, 4 * len(mean))
    if len(points) <= 2000:
        master.add(points, worth)
        weights, prices = master.solve()
        return _covered(master, weights, prices, points, worth)
    offered = np.zeros(len(points), dtype=np.bool_)
    first = _starters(mean, points, worth)
    offered[first] = True
    master.add(points[first], worth[first])
    while True:
        weights, prices = master.solve()
        reduced = worth - points @ prices
        reduced[offered] = -np.inf
        better = np.flatnonzero(reduced > 1e-11)
        if len(better) == 0:
            return _covered(master, weights, prices, points, worth)
        chosen = better[np.argsort(-reduced[better])[:step]]
        offered[chosen] = True
        master.add(points[chosen], worth[chosen])


def _starters(mean: Floats, points: Floats, worth: Floats) -> Ints:
    """The point nearest the mean in each direction: enough to start, a column for the mean itself is the caller's."""
    best = {int(i) for i in (points / mean).argmax(axis=0)}
    best.update(int(i) for i in np.argsort(-worth)[:50])
    best.add(len(points) - 1)
    return np.array(sorted(best), dtype=np.intp)


def _covered(master: Master, weights: Floats, prices: Floats, points: Floats, worth: Floats) -> Cover:
    alpha, used = master.mixture(weights)
    excess = max(0.0, float((worth - points @ prices).max()))
    value = float(master.worth[np.flatnonzero(weights > 1e-13)] @ alpha)
    return Cover(alpha, used, value, prices, float(prices @ master.mean) + excess * float(master.mean.sum()))
