"""Least loss under bounded ratios: which engine, the cones of some pairs, and many levels at once."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import REPAIRED, Bools, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.loss.cones import ConeForm, solve_by_cones
from sfumato.optimise.loss.cutting import solve_by_cuts
from sfumato.optimise.loss.hamming import Sources
from sfumato.optimise.loss.least_told import least_distortion
from sfumato.optimise.loss.problem import SHARPENING, LeastLoss, LossProblem, PairCuts, PairIndex, all_pairs

SMALL_CONES = 4000  # cells of cones (outputs × pairs × 2U) up to which the cones of all pairs are the fastest
CUT_VALUES, CUT_RADIUS = 10, 1e-2  # |U| and radius up to which cuts win: measured at 8 × 8 and 15 × 5 against 5 × 8
FIRST_ACCURACY = 1e-5  # accuracy of the solver in the first two programmes: halves only, and a look at the chosen pairs
NEARLY = (3e-3, 3e-2, 1e-6)  # a ratio this close to e^ε earns a pair its exact cone; after a rough look one is generous
PROGRAMMES = 6  # of growing sets of pairs


def few_cones(problem: LossProblem) -> bool:
    """Whether the cones of all pairs are the fastest way."""
    ss, us = problem.p.shape
    return problem.privacy_radius <= 0.0 or problem.outputs * ss * (ss - 1) * 2 * us <= SMALL_CONES


def engine_for(problem: LossProblem) -> str:
    """Linear problems by LP; small ones by the cones of all pairs; large ones by cuts or the cones of some pairs."""
    if math.isinf(problem.privacy_radius):
        return "cuts"  # cones are those of a ball
    if problem.privacy_radius <= 0.0:
        return "cuts" if problem.utility_radius <= 0.0 else "cones"
    flat = problem.p.shape[1] <= CUT_VALUES and problem.radius <= CUT_RADIUS
    return "cuts" if flat and not few_cones(problem) else "cones"


def least_loss(
    problem: LossProblem, *, engine: str = "auto", tolerance: float = 1e-6, budget: Budget = FREE,
    start: PairCuts | None = None,
) -> LeastLoss:
    """The mechanism with the least (worst-case) loss, with a proved bound."""
    if problem.epsilon <= 0.0 and problem.privacy_radius > 0.0:
        return best_constant(problem)
    if problem.epsilon**2 < REPAIRED and problem.privacy_radius > 0.0:  # mending takes more than such a level gives
        known = replace(best_constant(problem), bound=-math.inf)
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, start=start, known=known)
    chosen = engine_for(problem) if engine == "auto" or math.isinf(problem.privacy_radius) else engine
    if chosen == "cuts":
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, start=start)
    if few_cones(problem):
        return proved(problem, solve_by_cones(problem, budget=budget), tolerance=tolerance, budget=budget)
    return solve_by_active_cones(problem, tolerance=tolerance, budget=budget)


def best_constant(problem: LossProblem) -> LeastLoss:
    """The best law that ignores its input: least loss at ε = 0 about U, whose marginals over a χ² ball are one too."""
    within = Sources.chi_square(problem.p.sum(axis=0), problem.utility_radius)
    found = least_distortion(within, problem.distance, 0.0)
    q = np.repeat(found.made[:, :1], problem.inputs, axis=1)
    return LeastLoss(q, problem.distortion(q)[0], found.bound, "constant")


def proved(problem: LossProblem, cone: LeastLoss, *, tolerance: float, budget: Budget = FREE) -> LeastLoss:
    """The answer of the cones; where their multipliers prove too little, cuts from the same members of F prove more.

    Now and then (about one small table in a hundred at n = 15,000) two secrets weigh so differently that prices are
    good to a few digits only, while the mechanism is right: the linear programme over the members prices them anew.
    """
    if cone.within(tolerance) or problem.privacy_radius <= 0.0 or budget.over:
        return cone
    within = budget.part(1.0, SHARPENING)
    cut = solve_by_cuts(problem, tolerance=tolerance, budget=within, start=cone.cuts, known=cone)
    return replace(cone, q=cut.q, value=cut.value, bound=cut.bound)


def solve_by_active_cones(problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE) -> LeastLoss:
    """Cones for the pairs of secrets that need them: most constraints of a large table are slack at the optimum.

    All pairs hold with the slack split in halves (2|Y||S| sides, cheap and nearly right); those that the answer breaks,
    or nearly, get the exact cone in the next, larger programme. Each is a relaxation, so each of them proves a bound.
    """
    pairs = all_pairs(problem.outputs, problem.p.shape[0])
    exact: Bools = np.zeros(len(pairs[0]), dtype=np.bool_)
    best: LeastLoss | None = None
    accuracy = max(REPAIRED, tolerance**2)  # values are good to its root
    for turn in range(PROGRAMMES):
        began = time.monotonic()
        y, s1, s2 = (x[exact] for x in pairs)
        rough = FIRST_ACCURACY if turn < 2 else accuracy
        found = solve_by_cones(problem, exact=(y, s1, s2), tolerance=rough, budget=budget)
        best = found if best is None else _better(best, found)
        if best.within(tolerance) or time.monotonic() - began > budget.left:  # the next is no smaller
            break
        assert found.unmended is not None
        grown = _nearly_broken(problem, pairs, found.unmended, turn) | exact  # a pair once broken would be broken again
        if turn >= 2 and np.array_equal(grown, exact):
            break
        exact = grown
    assert best is not None
    return best


def _better(best: LeastLoss, found: LeastLoss) -> LeastLoss:
    """The mechanism of the lower value with the proof of the higher bound."""
    proof = found if found.bound >= best.bound else best
    made = found if found.value <= best.value else best
    return replace(proof, q=made.q, value=made.value, unmended=made.unmended)


def _nearly_broken(problem: LossProblem, pairs: PairIndex, q: Floats, turn: int) -> Bools:
    ratio = problem.worst(q, pairs).ratio
    return np.asarray(ratio > float(np.exp(problem.epsilon)) * (1.0 - NEARLY[min(turn, 2)]))


def losses(
    problem: LossProblem, epsilons: Sequence[float], *, tolerance: float, seconds: float
) -> Iterator[LeastLoss]:
    """The answers at the given ε, in this order: neighbours in the list should be neighbours on the curve.

    Members of F do not contain ε, so cuts of one start the next, and cones are built once and filled anew, in threads.
    """
    problems = [replace(problem, epsilon=float(epsilon)) for epsilon in epsilons]
    if few_cones(problem) and engine_for(problem) == "cones":
        return _together(problems, tolerance)
    return _in_turn(problems, tolerance, seconds)


def _in_turn(problems: Sequence[LossProblem], tolerance: float, seconds: float) -> Iterator[LeastLoss]:
    start: PairCuts | None = None
    for problem in problems:
        answer = least_loss(problem, tolerance=tolerance, start=start, budget=Budget.of(seconds))
        start = answer.cuts if answer.engine == "cuts" else None
        yield answer


class ConeFamily:
    """The cone programmes of one problem at many ε: one is built and taken in by the solver, and then filled anew.

    Every entry of A is a + b·e^ε, so two of the programmes give all of them. One thread at a time.
    """

    def __init__(self, problem: LossProblem, tolerance: float) -> None:
        first, second = (ConeForm.of(replace(problem, epsilon=x)) for x in (0.0, math.log(2.0)))  # e^ε is 1, and 2
        self.form, self.tolerance = first, tolerance
        self.solver = first.programme.solver(first.cost)
        self.data = first.programme.matrix().data
        self.rise = second.programme.matrix().data - self.data

    def answer(self, problem: LossProblem) -> LeastLoss:
        """The answer at the ε of `problem`."""
        if problem.epsilon <= 0.0:
            return least_loss(problem, tolerance=self.tolerance)
        entries = self.data + self.rise * math.expm1(problem.epsilon)
        return proved(problem, self.form.read(problem, self.solver.solve(entries)), tolerance=self.tolerance)


def _together(problems: Sequence[LossProblem], tolerance: float) -> Iterator[LeastLoss]:
    """Small programmes in threads, each with a share of the curve: Clarabel works without the interpreter's lock."""
    workers = min(len(problems), os.cpu_count() or 1)

    def share(start: int) -> list[LeastLoss]:
        family = ConeFamily(problems[0], tolerance)
        return [family.answer(problem) for problem in problems[start::workers]]

    with ThreadPoolExecutor(workers) as pool:
        shares = list(pool.map(share, range(workers)))
    for i in range(len(problems)):
        yield shares[i % workers][i // workers]
