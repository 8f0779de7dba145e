"""Least loss at many levels: members of F do not contain ε, so cuts of one start the next, and cones
are built once and filled anew, in threads."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sfumato.solve.distortion import Answer, engine_for, few_cones, least_loss, proved
from sfumato.solve.distortion_cones import Program
from sfumato.solve.distortion_problem import Cuts, Problem

ACCURACY = 1e-4  # of the tolerance of a point: the solver's own
ENDS = (0.0, 1.0)  # two ε whose programs give all the others


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


class Family:
    """The cone programs of one problem at many ε: one is built and taken in by the solver, and then filled anew.

    Every entry of A is a + b·e^ε, so two of the programs give all of them. One thread at a time.
    """

    def __init__(self, problem: Problem, tolerance: float) -> None:
        first, second = (Program.of(replace(problem, epsilon=x)) for x in ENDS)
        accuracy = min(max(ACCURACY * tolerance, 1e-9), 1e-8)
        self.program, self.tolerance = first, tolerance
        self.solver = first.builder.program.solver(first.cost, tolerance=accuracy)
        self.data = first.builder.program.matrix().data
        self.rise = (second.builder.program.matrix().data - self.data) / (math.exp(ENDS[1]) - math.exp(ENDS[0]))

    def answer(self, problem: Problem) -> Answer:
        """The answer at the ε of `problem`."""
        if problem.epsilon <= 0.0:
            return least_loss(problem, tolerance=self.tolerance)
        entries = self.data + self.rise * (math.exp(problem.epsilon) - math.exp(ENDS[0]))
        return proved(problem, self.program.read(problem, self.solver.solve(entries)), tolerance=self.tolerance)


def _together(problems: Sequence[Problem], tolerance: float) -> Iterator[Answer]:
    """Small programs in threads, each with a share of the curve: Clarabel works without the interpreter's lock."""
    workers = min(len(problems), os.cpu_count() or 1)

    def share(start: int) -> list[Answer]:
        family = Family(problems[0], tolerance)
        return [family.answer(problem) for problem in problems[start::workers]]

    with ThreadPoolExecutor(workers) as pool:
        shares = list(pool.map(share, range(workers)))
    for i in range(len(problems)):
        yield shares[i % workers][i // workers]
