"""The funnel over a χ² ball: the most I(X;Y) at P̂ under ε-LIP or ε-LDP about S for every P in the ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError
from sfumato.mechanism import Constant, Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.posteriors import LISTING_ALLOWANCE, as_matrix, best_rows, conditional_gain
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays
from sfumato.uncertainty import ChiSquareBall
from sfumato.uncertainty.chi_square import worst_pairs
from sfumato.uncertainty.shifts import worst_shifts

MARGIN = 2e-6  # designs stop this far (relative) below e^ε, so that the proof by duality goes through
STOP = 1e-6  # relative violation at which cutting stops and mixing takes over
RAYS = 100_000
CUT_ROOM = 1e-9  # cuts are loosened by this share of their size, more than the error with which P lies in the ball


@dataclass(frozen=True, slots=True, eq=False)
class FunnelCuts:
    """For each case the worst ratio, and a row with row·r ≤ 0 for every private r."""

    ratio: Floats
    rows: Floats


Oracle = Callable[[Floats], FunnelCuts]


def lip_oracle(ball: ChiSquareBall, epsilon: float) -> Oracle:
    """Every row, secret and side at once: the worst P in the ball and the linear inequality it imposes."""
    E, c = math.exp(epsilon), ball.joint.secret.size

    def worst(rows: Floats) -> FunnelCuts:
        y, s, above = (x.ravel() for x in np.meshgrid(range(len(rows)), range(c), [True, False], indexing="ij"))
        found = worst_shifts(ball, (rows / rows.max(1, keepdims=True))[y], s, above)
        up = above[:, None]
        return FunnelCuts(found.ratio, np.where(up, found.given - E * found.overall, found.overall - E * found.given))

    return worst


def ldp_oracle(ball: ChiSquareBall, epsilon: float) -> Oracle:
    """The same for ε-LDP: every ordered pair of secrets."""
    E, c = math.exp(epsilon), ball.joint.secret.size
    q, ps = ball.joint.useful_given_secret, ball.joint.p_secret
    pairs = np.array([(i, j) for i in range(c) for j in range(c) if i != j])

    def worst(rows: Floats) -> FunnelCuts:
        y, k = (x.ravel() for x in np.meshgrid(range(len(rows)), range(len(pairs)), indexing="ij"))
        s1, s2 = pairs[k].T
        v = (rows / rows.max(1, keepdims=True))[y]
        found = worst_pairs(v, q[s1], ps[s1], v, q[s2], ps[s2], ball.slack)
        return FunnelCuts(found.ratio, found.first - E * found.second)

    return worst


def robust_lip(task: Task, *, time_limit: float) -> Draft:
    """ε-LIP for every P in the ball: Σ P̂²/P ≤ 1 + B [001, first open problem; ours]."""
    return _designed(task, "lip", lip_oracle(_ball(task), task.epsilon), time_limit)


def robust_ldp(task: Task, *, time_limit: float) -> Draft:
    """ε-LDP about S for every P in the ball: RLDP for a mechanism that reads X alone."""
    return _designed(task, "ldp", ldp_oracle(_ball(task), task.epsilon), time_limit)


def _ball(task: Task) -> ChiSquareBall:
    assert isinstance(task.within, ChiSquareBall)
    return task.within


def _designed(task: Task, method: str, oracle: Oracle, time_limit: float) -> Draft:
    """Cut, mix until no ratio exceeds e^ε less a margin, seal and prove."""
    a, c = task.joint.useful.size, task.joint.secret.size
    if task.epsilon == 0.0 or a == 1:
        note = "over a ball ε = 0 leaves constant answers" if a > 1 else "one useful value: nothing to tell"
        return Draft(Constant(1, a), method, 0.0, (note,))
    if c == 1:
        return Draft(Table(np.eye(a), 1), method, task.joint.entropy_useful, fine=True)
    matrix, bound, rounds, done = _cutting_planes(task.joint.p, oracle, task.epsilon, time_limit)
    goal = math.exp(task.epsilon) * (1 - MARGIN)
    mixed = _mixed(matrix, task.joint.p_useful, oracle, goal)
    notes = [f"{rounds} rounds of cutting planes; the bound is for every mechanism on X private over the ball"]
    if not done:
        notes.append("time ran out before the cuts settled: value and bound are valid, but could be closer")
    return Draft(Table(mixed, 1), method, bound, tuple(notes), {"rounds": rounds}, fine=True)


def _cutting_planes(p: Floats, oracle: Oracle, epsilon: float, time_limit: float) -> tuple[Floats, float, int, bool]:
    """Solve over finitely many P, find the P that its rows violate most, repeat; returns Q, a bound, rounds, settled.

    Each round is a relaxation (fewer P), so its bound is valid for the ball.
    """
    budget, goal, size = Budget.of(time_limit), math.exp(epsilon), p.shape[1]
    live = p.sum(0) > 0
    gain = conditional_gain(p.sum(axis=0)[None, :])
    cuts = _loosened(oracle(np.eye(size) + 0.05).rows)
    matrix, bound = np.ones((1, size)), float(-(p.sum(0)[live] * np.log(p.sum(0)[live])).sum())
    for rounds in range(1, 1000):
        try:
            cover = best_rows(cuts, gain, dimension=size, limit=RAYS, budget=budget)
        except (TooManyRays, Degenerate) as error:
            if rounds == 1:
                raise InputError(
                    f"the robust funnel lists extreme rays; {size} useful values under {len(p)} secrets have too many "
                    f"({error}). Use fewer values, sf.Exactly(joint), or grr with reads='useful'."
                ) from None
            return matrix, bound, rounds, False
        matrix, bound = as_matrix(cover), min(bound, cover.bound + LISTING_ALLOWANCE)
        found = oracle(matrix)
        over = found.ratio > goal * (1 + 1e-9)
        if not over.any() or found.ratio.max() <= goal * (1 + STOP):
            return matrix, bound, rounds, True
        if budget.over:
            return matrix, bound, rounds, False
        cuts = np.concatenate([cuts, _loosened(found.rows[over])])
    return matrix, bound, rounds, False


def _loosened(rows: Floats) -> Any:
    """Cuts from P that lies in the ball up to rounding, relaxed so that they are valid for the ball itself."""
    return rows - CUT_ROOM * np.abs(rows).max(axis=1, keepdims=True)


def _mixed(matrix: Floats, column: Floats, oracle: Oracle, target: float) -> Floats:
    """(1 − η) Q + η q 1ᵀ with the least η (to 1 %) at which no ratio over the ball exceeds the target."""
    q = (matrix @ column)[:, None]

    def mixture(eta: float) -> Floats:
        mixed = (1.0 - eta) * matrix + eta * q
        return np.asarray(mixed / mixed.sum(axis=0))

    def worst(eta: float) -> float:
        return float(oracle(mixture(eta)).ratio.max())

    high = 8e-6
    while high < 1.0 and worst(high) > target:
        high *= 4.0
    high = min(high, 1.0)
    low = high / 4.0
    for _ in range(4 if high > 1e-4 else 0):  # below that a finer search would gain less than the gap
        middle = math.sqrt(low * high)
        low, high = (middle, high) if worst(middle) > target else (low, middle)
    return mixture(high)
