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
        self.size = width - extra
        self.rows, self.side = rows[:, : self.size], rows[:, self.size :]
        self.lp = LinearProgramme(np.zeros(width), np.zeros(width), np.ones(width), maximise=True, warm=True)
        self.lp.equal(np.concatenate([np.ones(self.size), np.zeros(extra)])[None], 1.0)
        self.lp.at_most(rows)

    def best(self, cost: Floats, low: Floats, high: Floats) -> tuple[Floats | None, float]:
        """A maximiser v, if there is one, and an upper bound of cost·v by weak duality, whatever the solver's status:
        far along a dual ray that proves a slice empty it falls below every value, and without one no row counts."""
        self.lp.cost(cost)
        self.lp.within(low, high)
        solution = self.lp.solve()
        if not solution.infeasible:
            return solution.x[: self.size], self.bound(cost, np.maximum(0.0, solution.row_dual[1:]), low, high)
        ray = np.zeros(len(self.rows)) if (found := self.lp.ray()) is None else found[1:] / np.abs(found).max()
        return None, min(self.bound(cost, np.maximum(0.0, far * ray), low, high) for far in (0.0, -1 / DUST, 1 / DUST))

    def bound(self, cost: Floats, price: Floats, low: Floats, high: Floats) -> float:
        """max cost·v ≤ max (cost − price·A)·v over the box and Σv = 1, plus what floating point may have lost.

        The reduced costs are sums of at most m + 1 products and the last sum has at most n + 1 terms, so half-units of
        (m + n) times the sum of absolute values cover both, and as much again covers the rounding of A itself.
        """
        aside = float(np.maximum(0.0, -(price @ self.side)).sum())
        size = np.abs(cost) + price @ np.abs(self.rows)
        extra = float((price @ np.abs(self.side)).sum())
        lost = 4.0 * (sum(self.rows.shape) + 8) * UNIT * (float(size.max(initial=0.0)) + extra)
        return knapsack(cost - price @ self.rows, low, high) + aside + lost


def knapsack(cost: Floats, low: Floats, high: Floats) -> float:
    """max cost·v over l ≤ v ≤ u, Σv = 1, by filling in order of cost; −∞ if clearly empty."""
    order = np.argsort(-cost)
    room = np.minimum(high - low, 1.0)[order]
    left = 1.0 - float(low.sum())
    if left < -DUST or float(room.sum()) < left - DUST:
        return -np.inf
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    return float(cost @ low + cost[order] @ np.clip(left - before, 0.0, room))


def chords(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Slope and offset of the chord of v log v on [l, u], which lies above it; the tangent where l = u."""
    f_low, f_high = xlogy(low, low), xlogy(high, high)
    wide = high - low > SUMMED
    slope = np.where(wide, (f_high - f_low) / np.where(wide, high - low, 1.0), 0.0)
    return slope, f_low - slope * low


def _tidy(point: Floats) -> Floats:
    point = np.where(point > TIDY, point, 0.0)
    return np.asarray(point / point.sum())


class Branches:
    """max f(v) − λ·v over a slice by branch and bound, for fixed prices λ: v log v ≤ its chord, so a box is an LP."""

    def __init__(self, piece: Slice, prices: Floats, goal: float) -> None:
        self.piece, self.prices, self.goal = piece, prices, goal
        self.found: list[Floats] = []  # points that improve: columns for the mixture
        self.best, self.ticks = -np.inf, count()
        self.heap: list[tuple[float, int, Floats, Floats, Floats]] = []

    def visit(self, low: Floats, high: Floats) -> None:
        """Bound a box, and keep it for later where it may hold more than the goal."""
        slope, offset = chords(low, high)
        met, bound = self.piece.best(slope - self.prices, low, high)
        bound += float(offset.sum()) + DUST  # of at most a few hundred offsets, each below one
        point = (low + high) / 2 if met is None else _tidy(met)
        if met is not None:
            value = float(xlogy(point, point).sum() - self.prices @ point)
            self.best = max(self.best, value)
            if value > max(self.goal, REPAIRED):
                self.found.append(point)
        if bound > self.goal:
            heapq.heappush(self.heap, (-bound, next(self.ticks), point, low, high))

    def split(self) -> None:
        """The box with the greatest bound in two, at the coordinate whose chord is furthest above."""
        _, _, point, low, high = heapq.heappop(self.heap)
        slope, offset = chords(low, high)
        x = int((slope * point + offset - xlogy(point, point)).argmax())
        room = 0.1 * (high[x] - low[x])
        middle = float(np.clip(point[x], low[x] + room, high[x] - room))
        for below in (True, False):
            least, most = low.copy(), high.copy()
            (most if below else least)[x] = middle
            self.visit(least, np.minimum(most, 1.0 - (least.sum() - least)))

    def run(self, high: Floats, budget: Budget, enough: int) -> float:
        """A proved bound, when it meets the goal, enough points are found or time ends; `high` must bound the slice."""
        self.visit(np.zeros(self.piece.size), high)
        while self.heap and -self.heap[0][0] > max(self.goal, self.best + DUST):
            if budget.over or len(self.found) >= enough:
                break
            self.split()
        return max(-self.heap[0][0] if self.heap else -np.inf, self.goal, self.best)


# --- columns by search, until branch and bound proves that there are no more ------------------------------------------


def envelope(mean: Floats, rows: Floats, budget: Budget, *, extra: int = 0, gap: float = 1e-6) -> Cover:
    """max Σ_y α_y f(v_y), f(v) = Σ v log v, over mixtures Σ α_y v_y = mean of points of {v ≥ 0, Σv = 1, A v ≤ 0}.

    For any prices λ and any δ ≥ max f(v) − λ·v over the polytope, λ·mean + δ is a bound (Σ mean = 1).
    """
    piece, random, size = Slice(rows, extra), np.random.default_rng(0), len(mean)
    none, full = np.zeros(size), np.ones(size)
    corners = [(None, 1.0) if budget.over else piece.best(unit, none, full) for unit in np.eye(size)]
    high = np.minimum(1.0, np.array([bound for _, bound in corners]))
    master, bound = Mixture(mean), float(mean @ np.log(high)) + DUST  # the chord on [0, u] alone
    fresh = np.array([mean] + [_tidy(point) for point, _ in corners if point is not None])
    while len(fresh):
        master.offer(fresh, xlogy(fresh, fresh).sum(axis=1))
        weights, prices, _ = master.best()
        fresh = _searched(piece, prices, master.points, weights, random, budget.part())
        if len(fresh) == 0 or budget.over:
            branches = Branches(piece, prices, gap)
            top = branches.run(high, budget, 4 * size)
            lost = (size + 4) * UNIT * float(np.abs(prices) @ mean)
            bound = min(bound, float(prices @ mean) + lost + max(0.0, top))
            fresh = _improving(prices, np.array(branches.found).reshape(-1, size))
        if budget.over:
            break
    alpha, points = weights[weights > DUST], master.points[weights > DUST]
    value = float(xlogy(points, points).sum(axis=1) @ alpha)
    return Cover(alpha, points, value, prices, max(bound, value))


def _climbed(piece: Slice, prices: Floats, point: Floats) -> Floats:
    """Follow the linearisation of f − λ to a vertex that is its own maximiser; a floor keeps zeros from being final."""
    value, none, full = -np.inf, np.zeros(piece.size), np.ones(piece.size)
    while True:  # each turn but the last gains; three or four are the rule
        met, _ = piece.best(np.log(np.maximum(point, FLOOR)) - prices, none, full)
        if met is None:
            return point
        other = _tidy(met)
        reached = float(xlogy(other, other).sum() - prices @ other)
        if not reached > value + DUST:  # nor where it is no number
            return point
        point, value = other, reached


def _searched(
    piece: Slice, prices: Floats, points: Floats, weights: Floats, random: np.random.Generator, budget: Budget
) -> Floats:
    """Vertices with positive reduced worth, climbed to from every coordinate and from mixtures of columns in use."""
    found: list[Floats] = []
    used = points[weights > DUST]
    mixtures = random.dirichlet(np.full(len(used), 0.3), piece.size // 2) @ used
    for start in np.concatenate([0.9 * np.eye(piece.size) + 0.1 * points[0], mixtures]):
        found.append(_climbed(piece, prices, start))
        if budget.over:
            break
    return _improving(prices, np.array(found))


def _improving(prices: Floats, points: Floats) -> Floats:
    better = points[xlogy(points, points).sum(axis=1) - points @ prices > REPAIRED]
    return np.unique(better.round(13), axis=0) if len(better) else better
