"""The concave envelope of Σ v log v over a polytope, at its mean: columns by search, proof by branch and bound."""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np
from scipy.special import xlogy

from sfumato.optimise.arrays import DUST, REPAIRED, SUMMED, TIDY, Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import Cover, LinearProgramme, Mixture
from sfumato.optimise.search import FLOOR
from sfumato.tolerances import UNIT


class Slice:
    """Linear functions over {v : Σv = 1, A (v, m) ≤ 0, l ≤ v ≤ u, 0 ≤ m ≤ 1}, warm-started from call to call.

    The last `extra` columns of A belong to auxiliary coordinates m, which the function does not see.
    """

    def __init__(self, rows: Floats, extra: int = 0) -> None:
        width = rows.shape[1]
        self.size, self.none, self.one = width - extra, np.zeros(width), np.ones(width)
        self.rows = np.concatenate([(np.arange(width) < self.size)[None], rows])
        self.sizes = np.abs(self.rows)
        self.lp = LinearProgramme(self.none, self.none, self.one, maximise=True, warm=True)
        self.lp.equal(self.rows[:1], 1.0)
        self.lp.at_most(rows)

    def best(self, cost: Floats, low: Floats | None = None, high: Floats | None = None) -> tuple[Floats | None, float]:
        """A maximiser v, if there is one, and an upper bound of cost·v by weak duality, whatever the solver's status:
        far along a dual ray that proves a slice empty it falls below every value, and without one no row counts."""
        given = (low, self.none), (high, self.one)
        ends = [every if x is None else np.append(x, every[self.size :]) for x, every in given]
        self.lp.cost(cost)
        self.lp.within(*ends)
        solution = self.lp.solve()
        if not solution.infeasible:
            point = np.where(solution.x > TIDY, solution.x, 0.0)[: self.size]
            return np.asarray(point / point.sum()), self._bound(cost, solution.row_dual, *ends)
        ray = np.zeros(len(self.rows)) if (found := self.lp.ray()) is None else found / np.abs(found).max()
        return None, min(self._bound(cost, far * ray, *ends) for far in (0.0, -1 / DUST, 1 / DUST))

    def _bound(self, cost: Floats, prices: Floats, low: Floats, high: Floats) -> float:
        """max cost·v ≤ price of Σv + max (cost − prices·A)·(v, m) over the box, plus what floating point may have lost.

        The reduced costs are sums of at most k products for k rows and the last sum has at most n + 1 terms, so
        half-units of k + n times the sum of absolute values cover both, and as much again the rounding of A itself.
        """
        prices, cost = np.append(prices[0], np.maximum(0.0, prices[1:])), np.append(cost, self.none[self.size :])
        reduced, sizes = cost - prices @ self.rows, np.abs(cost) + np.abs(prices) @ self.sizes
        lost = 4.0 * (sum(self.rows.shape) + 8) * UNIT * float(abs(prices[0]) + sizes @ high)
        return float(prices[0] + np.maximum(reduced * low, reduced * high).sum()) + lost


def worth(points: Floats, prices: Floats) -> Floats:
    """f(v) − λ·v, f(v) = Σ v log v."""
    return np.asarray(xlogy(points, points).sum(axis=-1) - points @ prices)


def chords(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Slope and offset of the chord of v log v on [l, u], which lies above it; the tangent where l = u."""
    f_low, f_high = xlogy(low, low), xlogy(high, high)
    wide = high - low > SUMMED
    slope = np.where(wide, (f_high - f_low) / np.where(wide, high - low, 1.0), 0.0)
    return slope, f_low - slope * low


def branched(piece: Slice, prices: Floats, high: Floats, goal: float, budget: Budget) -> tuple[float, list[Floats]]:
    """A proved bound of f(v) − λ·v over a slice below `high`, and points that are worth something, for the mixture.

    v log v ≤ its chord, so a box is a linear programme. It ends when the goal is met, with many points or the time.
    """
    found, best, ticks = list[Floats](), -np.inf, count()
    heap, boxes = list[tuple[float, int, Floats, Floats, Floats]](), [(np.zeros(piece.size), high)]
    while True:
        for low, high in boxes:
            slope, offset = chords(low, high)
            met, bound = piece.best(slope - prices, low, high)
            bound += float(offset.sum()) + DUST  # of at most a few hundred offsets, each below one
            point = (low + high) / 2 if met is None else met
            value = -np.inf if met is None else float(worth(met, prices))
            best = max(best, value)
            if value > max(goal, REPAIRED):
                found.append(point)
            if bound > goal:
                heapq.heappush(heap, (-bound, next(ticks), point, low, high))
        top = -heap[0][0] if heap else -np.inf
        if top <= max(goal, best + DUST) or budget.over or len(found) >= 4 * piece.size:
            return max(top, goal, best), found
        _, _, point, low, high = heapq.heappop(heap)  # in two, at the coordinate whose chord is furthest above
        slope, offset = chords(low, high)
        x = int((slope * point + offset - xlogy(point, point)).argmax())
        room = 0.1 * (high[x] - low[x])
        least, most = low.copy(), high.copy()
        least[x] = most[x] = float(np.clip(point[x], low[x] + room, high[x] - room))
        boxes = [(a, np.minimum(b, 1.0 - (a.sum() - a))) for a, b in ((low, most), (least, high))]


# --- columns by search, until branch and bound proves that there are no more ------------------------------------------


def envelope(mean: Floats, rows: Floats, budget: Budget, *, extra: int = 0, gap: float = 1e-6) -> Cover:
    """max Σ_y α_y f(v_y), f(v) = Σ v log v, over mixtures Σ α_y v_y = mean of points of {v ≥ 0, Σv = 1, A v ≤ 0}.

    For any prices λ and any δ ≥ max f(v) − λ·v over the polytope, λ·mean + δ is a bound (Σ mean = 1).
    """
    piece, random, size = Slice(rows, extra), np.random.default_rng(0), len(mean)
    corners = [(None, 1.0) if budget.over else piece.best(unit) for unit in np.eye(size)]
    high = np.minimum(1.0, np.array([bound for _, bound in corners]))
    master, bound = Mixture(mean), float(mean @ np.log(high)) + DUST  # the chord on [0, u] alone
    fresh = np.array([mean] + [point for point, _ in corners if point is not None])
    while len(fresh):
        master.offer(fresh, worth(fresh, np.zeros(size)))
        weights, prices, _ = master.best()
        used = weights > DUST
        mixtures = random.dirichlet(np.full(np.count_nonzero(used), 0.3), size // 2) @ master.points[used]
        fresh = _searched(piece, prices, [*(0.9 * np.eye(size) + 0.1 * mean), *mixtures], budget.part())
        if len(fresh) == 0 or budget.over:
            top, found = branched(piece, prices, high, gap, budget)
            lost = (size + 4) * UNIT * float(np.abs(prices) @ mean)
            bound = min(bound, float(prices @ mean) + lost + max(0.0, top))
            fresh = _improving(prices, found)
        if budget.over:
            break
    points = master.points[used]
    value = float(worth(points, np.zeros(size)) @ weights[used])
    return Cover(weights[used], points, value, prices, max(bound, value))


def _searched(piece: Slice, prices: Floats, starts: list[Floats], budget: Budget) -> Floats:
    """Vertices with positive reduced worth: from each start the linearisation of f − λ is followed to one that is its
    own maximiser; a floor keeps zeros from being final."""
    found = []
    for point in starts:
        value = -np.inf
        while True:  # each turn but the last gains; three or four are the rule
            met, _ = piece.best(np.log(np.maximum(point, FLOOR)) - prices)
            if met is None or not worth(met, prices) > value + DUST:  # nor where it is no number
                break
            point, value = met, float(worth(met, prices))
        found.append(point)
        if budget.over:
            break
    return _improving(prices, found)


def _improving(prices: Floats, found: list[Floats]) -> Floats:
    points = np.array(found).reshape(-1, len(prices))
    return np.unique(points[worth(points, prices) > REPAIRED].round(13), axis=0)
