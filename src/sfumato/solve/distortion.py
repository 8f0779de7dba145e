"""Least loss under bounded ratios: which engine, and the case where only constant laws are left."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats
from sfumato.solve.distortion_active import solve_by_active_cones
from sfumato.solve.distortion_cones import Found as Cone
from sfumato.solve.distortion_cones import solve_by_cones
from sfumato.solve.distortion_cuts import Known, solve_by_cuts
from sfumato.solve.distortion_problem import Cuts, Problem
from sfumato.solve.growing import GrowingLP

SMALL = 4000  # cells of cones (outputs × pairs × 2U) up to which the cones of all pairs are the fastest
FEW_VALUES, SMALL_BALL = 10, 1e-2  # |U| and radius up to which cuts win: measured at 8 × 8 and 15 × 5 against 5 × 8
PROVING = 2.0  # seconds of cuts for a bound that the cones left loose
CLOSE = 1e-10  # relative gap at which the best constant law is settled


@dataclass(frozen=True, slots=True)
class Answer:
    """A mended Q[y, x], its (worst-case) loss, a proved lower bound, which engine, and cuts to start from next time."""

    q: Floats
    value: float
    bound: float
    engine: str
    cuts: Cuts | None = None


def few_cones(problem: Problem) -> bool:
    """Whether the cones of all pairs are the fastest way."""
    ss, us = problem.p.shape
    return problem.ball.radius <= 0.0 or problem.outputs * ss * (ss - 1) * 2 * us <= SMALL


def engine_for(problem: Problem) -> str:
    """Linear problems by LP; small ones by the cones of all pairs; large ones by cuts or the cones of some pairs."""
    if problem.ball.radius <= 0.0:
        return "cuts" if problem.utility_radius <= 0.0 else "cones"
    flat = problem.p.shape[1] <= FEW_VALUES and problem.radius <= SMALL_BALL
    return "cuts" if flat and not few_cones(problem) else "cones"


def least_loss(
    problem: Problem, *, engine: str = "auto", tolerance: float = 1e-6, time_limit: float = 60.0,
    start: Cuts | None = None,
) -> Answer:
    """The mechanism with the least (worst-case) loss, with a proved bound."""
    if problem.epsilon <= 0.0 and problem.ball.radius > 0.0:
        q, low = best_constant(problem)
        return Answer(q, problem.distortion(q)[0], low, "constant")
    chosen = engine_for(problem) if engine == "auto" else engine
    if chosen == "cones" and few_cones(problem):
        return by_all_cones(problem, tolerance=tolerance, time_limit=time_limit)
    if chosen == "cones":
        cone = solve_by_active_cones(problem, tolerance=tolerance, time_limit=time_limit)
        return Answer(cone.q, cone.value, cone.bound, chosen, cone.cuts)
    cut = solve_by_cuts(problem, tolerance=tolerance, time_limit=time_limit, start=start)
    return Answer(cut.q, cut.value, cut.bound, chosen, cut.cuts)


def by_all_cones(problem: Problem, *, tolerance: float, time_limit: float = 60.0) -> Answer:
    """The cones of all pairs, and cuts where those prove too little."""
    began = time.monotonic()
    cone = solve_by_cones(problem, time_limit=time_limit)
    return proved(problem, cone, tolerance=tolerance, time_limit=time_limit - (time.monotonic() - began))


def proved(problem: Problem, cone: Cone, *, tolerance: float, time_limit: float = 60.0) -> Answer:
    """The answer of the cones; where their multipliers prove too little, cuts from the same members of F prove more.

    Now and then (about one small table in a hundred at n = 15,000) two secrets weigh so differently that prices are
    good to a few digits only, while the mechanism is right: the linear programme over the members prices them anew.
    """
    tight = cone.value - cone.bound <= tolerance * abs(cone.value)
    if tight or problem.ball.radius <= 0.0 or time_limit <= 0.0:
        return Answer(cone.q, cone.value, cone.bound, "cones", cone.cuts)
    known = Known(cone.q, cone.value, cone.bound, cone.source)
    limit = min(time_limit, PROVING)
    cut = solve_by_cuts(problem, tolerance=tolerance, time_limit=limit, start=cone.cuts, known=known)
    return Answer(cut.q, cut.value, cut.bound, "cones", cone.cuts)


def best_constant(problem: Problem, rounds: int = 200) -> tuple[Floats, float]:
    """min_w max_{P ∈ F_u} Σ_y w_y Σ P d(u, y) by cutting planes: the best law that ignores its input, and a bound."""
    ys = problem.outputs
    lp = GrowingLP(np.eye(ys + 1)[-1], np.append(np.zeros(ys), -np.inf), np.append(np.ones(ys), np.inf))
    lp.add(sparse.csr_matrix(np.append(np.ones(ys), 0.0)[None]), np.ones(1), np.ones(1))
    w, best, value, low = np.full(ys, 1.0 / ys), np.full(ys, 1.0 / ys), np.inf, -np.inf
    rows: list[Floats] = []
    for _ in range(rounds):
        reached, worst = problem.distortion(np.repeat(w[:, None], problem.inputs, axis=1))
        if reached < value:
            best, value = w, reached
        if value - low <= CLOSE * max(1.0, abs(value)):
            break
        rows.append(np.asarray(worst.sum(axis=0) @ problem.distance))
        lp.add(sparse.csr_matrix(np.append(rows[-1], -1.0)[None]), np.array([-np.inf]), np.zeros(1))
        solution = lp.solve()
        w = np.maximum(solution.x[:ys], 0.0)
        w /= w.sum()
        price = np.maximum(-solution.row_dual[1:], 0.0)
        low = max(low, float((price / price.sum() @ np.array(rows)).min())) if price.sum() > 0 else low
    return np.repeat(best[:, None], problem.inputs, axis=1), low
