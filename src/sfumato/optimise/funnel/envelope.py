"""The concave envelope of Σ v log v over a polytope, at its mean: columns by search, proof by branching."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from sfumato.optimise.arrays import DUST, TIDY, UNIT, Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.peak import CHORD_ROUNDING, IMPROVING, Slice, peak
from sfumato.optimise.linear import CoverProgramme

SEARCHING = 0.2  # share of what is left that one round of local search may take
CLIMBS = 12  # linearisations followed from one start; three or four are the rule
FLOORS = (1e-2, 1e-4)  # of coordinates whose logarithm is taken, so that zeros are not final
POLISHED = 64  # points of a proof that are climbed from


@dataclass(frozen=True, slots=True, eq=False)
class ConcaveEnvelope:
    """A mixture of points of the polytope with the given mean, its value Σ α f(v), and a proved bound."""

    weights: Floats
    points: Floats
    value: float
    bound: float


def envelope(mean: Floats, rows: Floats, budget: Budget, *, extra: int = 0, gap: float = 1e-6) -> ConcaveEnvelope:
    """max Σ_y α_y f(v_y), f(v) = Σ v log v, over mixtures Σ α_y v_y = mean of points of {v ≥ 0, Σv = 1, A v ≤ 0}.

    For any prices λ and any δ ≥ max f(v) − λ·v over the polytope, λ·mean + δ is a bound (Σ mean = 1). Local search
    finds columns; when it dries up, branch and bound either finds more or proves δ ≤ gap.
    """
    piece, random = Slice(rows, extra), np.random.default_rng(0)
    size = len(mean)
    corners = [piece.best(unit, np.zeros(size), np.ones(size)) for unit in np.eye(size)]
    high = np.minimum(1.0, np.array([corner.bound for corner in corners]))
    master = CoverProgramme(mean)
    first = np.array([mean] + [_tidy(corner.point) for corner in corners if corner.point is not None])
    master.offer(first, xlogy(first, first).sum(axis=1))
    bound = float(mean @ np.log(high)) + CHORD_ROUNDING  # the chord on [0, u] alone
    weights, prices, _ = master.solve()
    while True:
        fresh = _searched(piece, prices, master.points, weights, random, budget.part(SEARCHING))
        if len(fresh) == 0:
            found = peak(piece, prices, high, goal=gap, budget=budget, enough=4 * size)
            lost = (size + 4) * UNIT * float(np.abs(prices) @ mean)
            bound = min(bound, float(prices @ mean) + lost + max(0.0, found.bound))
            fresh = _polished(piece, prices, found.points)
        if len(fresh) == 0 or budget.over:
            break
        master.offer(fresh, xlogy(fresh, fresh).sum(axis=1))
        weights, prices, _ = master.solve()
    alpha, points = master.mixture(weights)
    value = float(xlogy(points, points).sum(axis=1) @ alpha)
    return ConcaveEnvelope(alpha, points, value, max(bound, value))


def _tidy(point: Floats) -> Floats:
    point = np.where(point > TIDY, point, 0.0)
    return np.asarray(point / point.sum())


def _climbed(piece: Slice, prices: Floats, point: Floats, floor: float) -> Floats:
    """Follow the linearisation of f − λ to a vertex that is its own maximiser; `floor` keeps zeros from being final."""
    full = np.ones(piece.size)
    value = -np.inf
    for _ in range(CLIMBS):
        answer = piece.best(np.log(np.maximum(point, floor)) - prices, np.zeros(piece.size), full)
        if answer.point is None:
            break
        other = _tidy(answer.point)
        reached = float(xlogy(other, other).sum() - prices @ other)
        if reached <= value + DUST:
            break
        point, value = other, reached
    return point


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
    climbed = np.array([_climbed(piece, prices, point, 1e-6) for point in points[:POLISHED]])
    return _improving(prices, np.concatenate([climbed, [_tidy(point) for point in points]]))


def _improving(prices: Floats, points: Floats) -> Floats:
    reduced = xlogy(points, points).sum(axis=1) - points @ prices
    better = points[reduced > IMPROVING]
    return np.unique(better.round(13), axis=0) if len(better) else better
