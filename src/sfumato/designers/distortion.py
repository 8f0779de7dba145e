"""distortion: the release that stays nearest to the data, under privacy of the secret."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.distances import Distance, measured
from sfumato.errors import InputError, unknown
from sfumato.mechanism import Mechanism, Table
from sfumato.optimise.arrays import GHOST
from sfumato.optimise.budget import Budget
from sfumato.optimise.loss.least import least_loss
from sfumato.optimise.loss.problem import LeastLoss, LossProblem
from sfumato.optimise.loss.sources import least_loss_anywhere
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly
from sfumato.utility import expected_distortion

ENGINES = ("auto", "cones", "cuts")
TIME_LIMIT = 60.0  # seconds, unless another is asked for
APART = 1e-3  # of the range of values: chosen outputs closer than this are one
CHOOSING = 2  # rounds in which chosen outputs are moved to where they are cheapest
NAMES = {(False, False): "NUNP", (True, False): "NURP", (False, True): "RUNP", (True, True): "RURP"}


def distortion(
    task: Task, *, distance: Any = "squared", values: Any = None, outputs: Any = None, robust_privacy: bool = True,
    robust_utility: bool = False, engine: str = "auto", tolerance: float = 1e-6, time_limit: float | None = None,
) -> Draft:
    """Least E d(U, Y) under ε-privacy of S [002, (7)–(10)]: utility and privacy each at P̂ or over the ball.

    distance is 'squared', 'absolute', 'hamming', a matrix d[u, y] or a function; values= are the numbers that useful
    values stand for. outputs= is a list of numbers, the number of points of an even grid, 'chosen', or the useful
    values. robust_privacy=False claims privacy at P̂ alone; over Anything it holds whatever the distribution. The value
    is that of the sealed mechanism: at P̂, or the worst over the set with robust_utility=True. The bound holds for
    every mechanism with these outputs.
    """
    if task.notion != "rldp":
        raise InputError(f"distortion is for notion='rldp', got {task.notion!r}.")
    if not isinstance(task.within, ChiSquareBall | Exactly | Anything):
        raise InputError(f"distortion needs a χ² ball, Exactly or Anything, got a set of kind {task.within.kind!r}.")
    if isinstance(task.within, Anything) and not robust_privacy:
        raise InputError("robust_privacy=False means privacy at P̂ alone: give Exactly(joint), not Anything.")
    if engine not in ENGINES:
        raise unknown("an engine", engine, ENGINES)
    if not (0 < tolerance < 1) or (time_limit is not None and not time_limit > 0):
        raise InputError(f"tolerance and time_limit must be positive, got {tolerance!r} and {time_limit!r}.")
    chosen = isinstance(outputs, str)
    if chosen and outputs != "chosen":
        raise InputError(f"outputs must be numbers, a number of points or 'chosen', got {outputs!r}.")
    measure = measured(task.joint.useful, distance, values, None if chosen else outputs)
    narrowed = task if robust_privacy else replace(task, within=Exactly(task.joint))
    options: dict[str, Any] = {"engine": engine, "tolerance": tolerance}
    budget = Budget.of(time_limit or TIME_LIMIT)
    robust = (robust_privacy, robust_utility)
    if chosen:
        measure = _chosen(task, measure, robust, budget, options)
    answer = _solved(task, measure, robust, budget, options)
    return _drafted(narrowed, task, measure, answer, robust, chosen)


def problem_of(task: Task, measure: Distance, robust: tuple[bool, bool]) -> LossProblem:
    """The numbers, with distances scaled so that the best constant output costs 1: solvers have absolute tolerances."""
    radius = getattr(task.within, "radius", 0.0)
    matrix = measure.matrix / unit_of(task, measure)
    return LossProblem(task.joint.p, radius, task.epsilon, matrix, *robust, task.reads == "both")


def unit_of(task: Task, measure: Distance) -> float:
    """What the best constant output costs at P̂, unless that is nothing."""
    return float((task.joint.p_useful @ measure.matrix).min()) or float(measure.matrix.max()) or 1.0


def _solved(
    task: Task, measure: Distance, robust: tuple[bool, bool], budget: Budget, options: dict[str, Any]
) -> LeastLoss:
    problem = problem_of(task, measure, robust)
    free = isinstance(task.within, Anything)
    answer = least_loss_anywhere(problem) if free else least_loss(problem, budget=budget, **options)
    scale = unit_of(task, measure)
    least = float(task.joint.p_useful @ measure.matrix.min(axis=1))  # if every value went to the output nearest to it
    return replace(answer, value=answer.value * scale, bound=max(answer.bound * scale, least))


def _drafted(
    narrowed: Task, task: Task, measure: Distance, answer: LeastLoss, robust: tuple[bool, bool], chosen: bool
) -> Draft:
    live = np.flatnonzero(answer.q.max(axis=1) > GHOST / 10)
    q, measure = answer.q[live] / answer.q[live].sum(axis=0), measure.only(live)
    judged = task.within if robust[1] else task.joint

    def loss(mechanism: Mechanism) -> float:
        return expected_distortion(mechanism, judged, measure.matrix)

    notes = [] if robust[0] or isinstance(task.within, Exactly) else [
        "private at the design distribution only: robust_privacy=True promises it for the whole ball"
    ]
    if chosen:
        notes.append("outputs were moved to where they are cheapest; the bound is for these outputs")
    details = {"problem": NAMES[robust], "engine": answer.engine, "distance": measure.matrix, "points": measure.points}
    return Draft(
        Table(q, task.rows), "distortion", answer.bound, tuple(notes), details, score=loss, answers=measure.answers,
        task=narrowed, unit="of distance",
    )


def _chosen(
    task: Task, measure: Distance, robust: tuple[bool, bool], budget: Budget, options: dict[str, Any]
) -> Distance:
    """Outputs where they are cheapest: from a finer grid, moved to the mean or median of what they stand for.

    Moving an output changes no probability, so privacy is untouched and the distortion falls; then the mechanism is
    designed again for the moved outputs together with the useful values.
    """
    if not measure.movable or measure.values is None:
        raise InputError("outputs='chosen' needs distance 'squared' or 'absolute': outputs must be points of the line.")
    own = np.unique(measure.values)
    grid = np.unique(np.concatenate([own, (own[1:] + own[:-1]) / 2]))
    for _ in range(CHOOSING):
        found = _solved(task, measure.at(grid), robust, budget.part(1 / (CHOOSING + 1)), options)
        live = found.q.max(axis=1) > GHOST
        moved = _centres(task, found.q[live], measure, grid[live])
        grid = _apart(own, moved)
    return measure.at(grid)


def _apart(own: Floats, moved: Floats) -> Floats:
    """The useful values, and moved points that are apart from them and from each other.

    Two outputs in nearly the same place would share one column's information between them and leave a mechanism that
    can hardly be inverted, for a gain of at most the square of their distance.
    """
    room = APART * float(np.ptp(own))
    points = list(own)
    for x in np.unique(moved):
        if min(abs(x - y) for y in points) > room:
            points.append(float(x))
    return np.sort(np.asarray(points))


def _centres(task: Task, q: Floats, measure: Distance, points: Floats) -> Floats:
    """The point with the least expected distance for each output, under P̂."""
    assert measure.values is not None
    p = task.joint.p if task.reads == "both" else task.joint.p_useful[None, :]
    weight = np.einsum("ysu,su->yu", q.reshape(len(q), *p.shape), p)
    total = weight.sum(1)
    if measure.name == "squared":
        return np.where(total > 0, weight @ measure.values / np.where(total > 0, total, 1.0), points)
    order = np.argsort(measure.values)
    middle = (np.cumsum(weight[:, order], axis=1) >= total[:, None] / 2).argmax(axis=1)
    return np.asarray(measure.values[order][middle])
