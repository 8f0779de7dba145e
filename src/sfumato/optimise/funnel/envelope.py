"""The concave envelope of Σ v log v over a polytope, at its mean: columns by search, proof by branch and bound."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from scipy.special import xlogy

from sfumato.optimise.arrays import DUST, REPAIRED, SUMMED, TIDY, Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import Cover, LinearProgramme, Mixture
from sfumato.tolerances import UNIT

LEVELS = (0.0, 0.12, 0.25, 0.4, 0.6, 1.0)  # sizes of the largest coordinate by which the polytope is first cut up


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
        """A maximiser v, if there is one, and an upper bound of cost·v by weak duality, whatever the solver's status.

        Any prices ≥ 0 of the rows give a bound, so the solver is trusted for none of it. A slice that it calls empty is
        dropped only if its ray is a Farkas certificate; else the bound without rows stands and there is no point.
        """
        self.lp.cost(cost)
        self.lp.within(low, high)
        solution = self.lp.solve()
        if solution.infeasible:
            without = self.bound(cost, np.zeros(len(self.rows)), low, high)
            return None, -np.inf if self._empty(low, high) else without
        price = np.maximum(0.0, solution.row_dual[1:])
        return solution.x[: self.size], self.bound(cost, price, low, high)

    def bound(self, cost: Floats, price: Floats, low: Floats, high: Floats) -> float:
        """max cost·v ≤ max (cost − price·A)·v over the box and Σv = 1, plus what floating point may have lost.

        The reduced costs are sums of at most m + 1 products and the last sum has at most n + 1 terms, so half-units of
        (m + n) times the sum of absolute values cover both, and as much again covers the rounding of A itself.
        """
        reduced = cost - price @ self.rows
        aside = float(np.maximum(0.0, -(price @ self.side)).sum())
        size = np.abs(cost) + price @ np.abs(self.rows)
        extra = float((price @ np.abs(self.side)).sum())
        lost = 4.0 * (sum(self.rows.shape) + 8) * UNIT * (float(size.max(initial=0.0)) + extra)
        return knapsack(reduced, low, high) + aside + lost

    def _empty(self, low: Floats, high: Floats) -> bool:
        """Whether the solver's dual ray is a proof that the slice is empty: max −(y·A)v < 0 for some y ≥ 0."""
        ray = self.lp.ray()
        if ray is None:
            return False
        for sign in (1.0, -1.0):
            price = np.maximum(0.0, sign * ray[1:])
            if price.max(initial=0.0) > 0.0 and self.bound(np.zeros(self.size), price / price.max(), low, high) < 0.0:
                return True
        return False


def knapsack(cost: Floats, low: Floats, high: Floats) -> float:
    """max cost·v over l ≤ v ≤ u, Σv = 1, by filling in order of cost; −∞ if clearly empty."""
    order = np.argsort(-cost)
    room = np.minimum(high - low, 1.0)[order]
    left = 1.0 - float(low.sum())
    if left < -DUST or float(room.sum()) < left - DUST:
        return -np.inf
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    fill = np.clip(left - before, 0.0, room)
    return float(cost @ low + cost[order] @ fill)


def chords(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Slope and offset of the chord of v log v on [l, u], which lies above it; the tangent where l = u."""
    f_low, f_high = xlogy(low, low), xlogy(high, high)
    wide = high - low > SUMMED
    slope = np.where(wide, (f_high - f_low) / np.where(wide, high - low, 1.0), 0.0)
    return slope, f_low - slope * low


def _by_largest(high: Floats) -> list[tuple[Floats, Floats]]:
    """Boxes that cover every v: by which coordinate is largest and how large, since the others are then no larger.

    Chords on [0, t] have slope log t, so this alone brings the bound near; blind bisection would find it slowly.
    """
    boxes = [(np.zeros(len(high)), np.minimum(high, LEVELS[1]))]
    for low, top in pairwise(LEVELS[1:]):
        for x in np.flatnonzero(high > low):
            floor = np.zeros(len(high))
            floor[x] = low
            ceiling = np.minimum(high, min(top, 1.0 - low))
            ceiling[x] = min(top, high[x])
            boxes.append((floor, ceiling))
    return boxes


def peak(
    piece: Slice, prices: Floats, high: Floats, *, goal: float, budget: Budget, enough: int
) -> tuple[Floats, float]:
    """Branch on the coordinate whose chord is furthest above, best bound first, until bound ≤ goal or time is up.

    v log v ≤ its chord on [l, u], so every node is a linear programme whose dual bounds the node. `high` must hold over
    the whole slice. Returns points that improve, which are columns for the master, and a proved bound on all of them.
    """
    found: list[Floats] = []
    best, tick = -np.inf, 0
    heap: list[tuple[float, int, Floats, Floats, Floats]] = []

    def visit(low: Floats, top: Floats) -> None:
        nonlocal best, tick
        slope, offset = chords(low, top)
        met, bound = piece.best(slope - prices, low, top)
        bound += float(offset.sum()) + DUST  # of at most a few hundred offsets, each below one
        point = (low + top) / 2 if met is None else np.clip(met, 0.0, 1.0)
        if met is not None:
            value = float(xlogy(point, point).sum() - prices @ point)
            best = max(best, value)
            if value > max(goal, REPAIRED):
                found.append(point)
        if bound > goal:
            tick += 1
            heapq.heappush(heap, (-bound, tick, point, low, top))

    for low, top in _by_largest(high):
        visit(low, top)
        if budget.over:  # not all of the partition was seen: fall back on the whole
            visit(np.zeros(piece.size), high)
            break
    while heap and -heap[0][0] > max(goal, best + DUST) and not budget.over and len(found) < enough:
        _, _, point, low, top = heapq.heappop(heap)
        slope, offset = chords(low, top)
        error = slope * point + offset - xlogy(point, point)
        x = int(error.argmax())
        split = float(np.clip(point[x], low[x] + 0.1 * (top[x] - low[x]), top[x] - 0.1 * (top[x] - low[x])))
        for side in (0, 1):
            below, above = low.copy(), top.copy()
            (above if side == 0 else below)[x] = split
            visit(below, np.minimum(above, 1.0 - (below.sum() - below)))
    bound = max(-heap[0][0] if heap else -np.inf, goal if np.isfinite(goal) else -np.inf, best)
    return np.array(found).reshape(-1, piece.size), bound


# --- columns by search, until the peak proves that there are no more --------------------------------------------------


SEARCHING = 0.2  # share of what is left that one round of local search may take
FLOORS = (1e-2, 1e-4)  # of coordinates whose logarithm is taken, so that zeros are not final


def envelope(mean: Floats, rows: Floats, budget: Budget, *, extra: int = 0, gap: float = 1e-6) -> Cover:
    """max Σ_y α_y f(v_y), f(v) = Σ v log v, over mixtures Σ α_y v_y = mean of points of {v ≥ 0, Σv = 1, A v ≤ 0}.

    For any prices λ and any δ ≥ max f(v) − λ·v over the polytope, λ·mean + δ is a bound (Σ mean = 1). Local search
    finds columns; when it dries up, branch and bound either finds more or proves δ ≤ gap.
    """
    piece, random = Slice(rows, extra), np.random.default_rng(0)
    size = len(mean)
    corners = [piece.best(unit, np.zeros(size), np.ones(size)) for unit in np.eye(size)]
    high = np.minimum(1.0, np.array([bound for _, bound in corners]))
    master = Mixture(mean)
    first = np.array([mean] + [_tidy(point) for point, _ in corners if point is not None])
    master.offer(first, xlogy(first, first).sum(axis=1))
    bound = float(mean @ np.log(high)) + DUST  # the chord on [0, u] alone
    weights, prices, _ = master.best()
    while True:
        fresh = _searched(piece, prices, master.points, weights, random, budget.part(SEARCHING))
        if len(fresh) == 0:
            better, top = peak(piece, prices, high, goal=gap, budget=budget, enough=4 * size)
            lost = (size + 4) * UNIT * float(np.abs(prices) @ mean)
            bound = min(bound, float(prices @ mean) + lost + max(0.0, top))
            fresh = _polished(piece, prices, better)
        if len(fresh) == 0:
            break
        master.offer(fresh, xlogy(fresh, fresh).sum(axis=1))
        weights, prices, _ = master.best()
        if budget.over:
            break
    alpha, points = master.exact(weights)
    value = float(xlogy(points, points).sum(axis=1) @ alpha)
    return Cover(alpha, points, value, prices, max(bound, value))


def _tidy(point: Floats) -> Floats:
    point = np.where(point > TIDY, point, 0.0)
    return np.asarray(point / point.sum())


def _climbed(piece: Slice, prices: Floats, point: Floats, floor: float) -> Floats:
    """Follow the linearisation of f − λ to a vertex that is its own maximiser; `floor` keeps zeros from being final."""
    full = np.ones(piece.size)
    value = -np.inf
    while True:  # each turn but the last gains; three or four are the rule
        met, _ = piece.best(np.log(np.maximum(point, floor)) - prices, np.zeros(piece.size), full)
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
    starts = [0.9 * unit + 0.1 * points[0] for unit in np.eye(piece.size)]
    for _ in range(piece.size // 2):
        starts.append(random.dirichlet(np.full(len(used), 0.3)) @ used)
    for floor, start in zip(np.tile(FLOORS, len(starts)), starts, strict=False):
        found.append(_climbed(piece, prices, start, floor))
        if budget.over:
            break
    return _improving(prices, np.array(found))


def _polished(piece: Slice, prices: Floats, points: Floats) -> Floats:
    if len(points) == 0:
        return points
    climbed = np.array([_climbed(piece, prices, point, 1e-6) for point in points])
    return _improving(prices, np.concatenate([climbed, [_tidy(point) for point in points]]))


def _improving(prices: Floats, points: Floats) -> Floats:
    reduced = xlogy(points, points).sum(axis=1) - points @ prices
    better = points[reduced > REPAIRED]
    return np.unique(better.round(13), axis=0) if len(better) else better
