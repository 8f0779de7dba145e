"""The largest saddle value over all reference columns of a channel: many small concave problems, most of them skipped.

All references climb together by multiplicative steps (two matrix products a round). A reference leaves as soon as its
upper bound falls below the best lower bound. Newton's method finishes the most promising one; its curvature then
serves one Newton step for all the others at once, which usually proves that they cannot win.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, lu_factor, lu_solve

from sfumato.optimise.arrays import TINY, Floats, Ints, log_sum_exp
from sfumato.optimise.saddle.tilted import NEAR_ONE, Orders, Saddle, SaddleProblem, ascend, climb, moved

CROWD_ROUNDS = 24  # multiplicative rounds before Newton takes over: about the cost of two Newton solves at 100 × 100
CHECK_EVERY = 4
SHARED_STEPS = 3
SUPPORT = 1e-7  # inputs below this weight stay put in a shared step


@dataclass(frozen=True, slots=True)
class WorstReference:
    """The saddle of the worst reference column, and where every column had got to (to start a neighbour from)."""

    saddle: Saddle
    reference: int
    crowd: Floats  # [reference, x]


class _Crowd(Protocol):
    """Every reference column's p, looked at together."""

    def look(self, who: Ints, p: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, upper bounds and excesses e[reference, x] of the chosen references at p[reference, x]."""


class _Products:
    """All references by matrix products, for orders where (r − 1)/(α−1) keeps its digits."""

    def __init__(self, channel: Floats, orders: Orders) -> None:
        top = channel.max(axis=1)
        self.orders = orders
        self.powers = (channel / top[:, None]) ** orders.alpha
        self.log_weight = orders.beta * np.log(top) + (1 - orders.beta) * np.log(channel.T)

    def look(self, who: Ints, p: Floats) -> tuple[Floats, Floats, Floats]:
        means = np.maximum(p @ self.powers.T, TINY)
        logs = self.log_weight[who] + self.orders.theta * np.log(means)
        total = log_sum_exp(logs)
        r = (np.exp(logs - total[:, None]) / means) @ self.powers
        scale = self.orders.alpha - 1
        value = total / (self.orders.theta * scale)
        noise = 1e-14 * (1 + 1 / scale)
        upper = value + np.log(np.maximum(r.max(axis=1), 1.0)) / scale + noise
        return value, upper, (r - 1) / scale


class _Careful:
    """The same near α = 1, one reference at a time by the formulas of SaddleProblem."""

    def __init__(self, channel: Floats, orders: Orders) -> None:
        self.problems = [SaddleProblem(channel, orders, column) for column in channel.T]

    def look(self, who: Ints, p: Floats) -> tuple[Floats, Floats, Floats]:
        e = np.empty_like(p)
        value, upper = np.empty(who.size), np.empty(who.size)
        for i, x in enumerate(who):
            e[i] = self.problems[x].excess(p[i])[0]
            saddle = self.problems[x].saddle(p[i], 0)
            value[i], upper[i] = saddle.value, saddle.bound
        return value, upper, e


def worst_reference(channel: Floats, orders: Orders, gap: float, start: Floats | None = None) -> WorstReference:
    """max over x' of the saddle value with c = Q(·|x'), 0 < τ < 1. The channel must be positive."""
    n = channel.shape[1]
    p = np.full((n, n), 1 / n) if start is None else 0.999 * start + 0.001 / n
    if orders.alpha < NEAR_ONE:
        careful = _Careful(channel, orders)
        p = np.array([ascend(problem, row, 3) for problem, row in zip(careful.problems, p, strict=True)])
        return _finish(channel, orders, gap, p, careful.look(np.arange(n), p)[1], careful)
    crowd = _Products(channel, orders)
    alive: Ints = np.arange(n)
    upper = np.full(n, np.inf)
    best = -np.inf
    for turn in range(CROWD_ROUNDS):
        value, upper[alive], e = crowd.look(alive, p[alive])
        best = max(best, float(value.max()))
        stay = (upper[alive] > best + gap / 2) | (value >= best)
        if stay.sum() <= 1:
            break
        if turn % CHECK_EVERY == 0:
            alive, e = alive[stay], e[stay]
        p[alive] = moved(orders, p[alive], e)
    return _finish(channel, orders, gap, p, upper, crowd)


def _finish(channel: Floats, orders: Orders, gap: float, p: Floats, upper: Floats, crowd: _Crowd) -> WorstReference:
    """Newton on the reference with the largest bound, a shared step for the rest, until no bound exceeds the best."""
    n = upper.size
    champion: Saddle | None = None
    who, shared = 0, False
    solved = np.zeros(n, dtype=bool)
    while not solved.all():
        open_bounds = np.where(solved, -np.inf, upper)
        x = int(np.argmax(open_bounds))
        if champion is not None and open_bounds[x] <= champion.value + gap / 2:
            break
        found = climb(SaddleProblem(channel, orders, channel[:, x]), p[x], gap / 4)
        p[x], upper[x], solved[x] = found.p, found.bound, True
        if champion is None or found.value > champion.value:
            champion, who, shared = found, x, False
        rest = np.flatnonzero(~solved & (upper > champion.value + gap / 2))
        if rest.size > 2 and not shared:
            shared = True
            _share(SaddleProblem(channel, orders, channel[:, who]), champion.p, crowd, rest, p, upper)
    assert champion is not None
    bound = max(champion.value, float(upper.max()))
    return WorstReference(Saddle(champion.value, bound, champion.p, champion.q, champion.steps), who, p)


def _share(problem: SaddleProblem, centre: Floats, crowd: _Crowd, rest: Ints, p: Floats, upper: Floats) -> None:
    """Newton steps for all of `rest` with the champion's curvature, from its p; bounds that fall are kept, in place."""
    live = np.flatnonzero(centre > SUPPORT)
    k = live.size
    e, q, means, _ = problem.excess(centre)
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = problem.curvature(e, q, means)[np.ix_(live, live)] + 1e-13 * np.eye(k)
    system[k, k] = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            factors = lu_factor(system, check_finite=False)
    except (LinAlgError, LinAlgWarning):  # a singular curvature has no step to share
        return
    trial = np.repeat(centre[None, :], rest.size, axis=0)
    for _ in range(SHARED_STEPS):
        right = np.zeros((k + 1, rest.size))
        right[:k] = crowd.look(rest, trial)[2][:, live].T
        trial[:, live] += lu_solve(factors, right, check_finite=False)[:k].T
        trial = np.maximum(trial, 1e-25)
        trial /= trial.sum(axis=1, keepdims=True)
        bounds = crowd.look(rest, trial)[1]
        better = bounds < upper[rest]
        upper[rest[better]], p[rest[better]] = bounds[better], trial[better]
