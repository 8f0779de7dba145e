"""Least loss at many levels: members of F do not contain ε, so cuts of one start the next; cones go in threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sfumato.solve.distortion import Answer, engine_for, few_cones, least_loss
from sfumato.solve.distortion_cones import solve_by_cones
from sfumato.solve.distortion_problem import Cuts, Problem

ACCURACY = 1e-3  # of the tolerance of a point: the solver's own


def losses(problem: Problem, epsilons: Sequence[float], *, tolerance: float) -> Iterator[Answer]:
    """The answers at the given ε, in this order: neighbours in the list should be neighbours on the curve."""
    problems = [replace(problem, epsilon=float(epsilon)) for epsilon in epsilons]
    if few_cones(problem) and engine_for(problem) == "cones":
        return _together(problems, tolerance)
    return _in_turn(problems, tolerance)


def _in_turn(problems: Sequence[Problem], tolerance: float) -> Iterator[Answer]:
    start: Cuts | None = None
    for problem in problems:
        answer = least_loss(problem, tolerance=tolerance, start=start)
        start = answer.cuts if answer.engine == "cuts" else None
        yield answer


def _together(problems: Sequence[Problem], tolerance: float) -> Iterator[Answer]:
    """Small programs, each in a plain thread: Clarabel releases the interpreter's lock while it works."""

    def one(problem: Problem) -> Answer:
        if problem.epsilon <= 0.0:
            return least_loss(problem, tolerance=tolerance)
        found = solve_by_cones(problem, tolerance=min(max(ACCURACY * tolerance, 1e-9), 1e-7))
        return Answer(found.q, found.value, found.bound, "cones", found.cuts)

    with ThreadPoolExecutor(min(len(problems), os.cpu_count() or 1)) as pool:
        yield from pool.map(one, problems)
