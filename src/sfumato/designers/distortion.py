"""distortion and leakage: the release nearest to the data, under privacy of the secret or limits on (α, β)-leakage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import ENDED, LIMIT, Details, Draft, Task
from sfumato.designers.closed_forms import given_secrets
from sfumato.designers.distances import NUMERIC, Distance, Outputs, finite, measured
from sfumato.errors import InputError, checked_epsilon, is_number, option, unknown
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.optimise.arrays import GHOST
from sfumato.optimise.budget import Budget
from sfumato.optimise.leakage_limits import LeakageLimit, least_distortion, under_ldp, under_maximal_leakage
from sfumato.optimise.loss.least_loss import least_loss
from sfumato.optimise.loss.problem import LeastLoss, LossProblem
from sfumato.privacy import expected_distortion, information
from sfumato.privacy.dependence import Leakage
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, UncertaintySet

ENGINES = ("auto", "cones", "cuts")
LEAST_APART = 1e-3  # of the range of values: chosen outputs closer than this are one
FINE = 501  # points of the range, further apart than that, among which outputs are chosen
CHOOSING = 3  # rounds in which chosen outputs are moved to where they are cheapest
FOUR = {(False, False): "NUNP", (True, False): "NURP", (False, True): "RUNP", (True, True): "RURP"}


def distortion(
    task: Task, *, distance: object = "squared", values: object = None, outputs: Outputs = None,
    robust_privacy: bool = True, robust_utility: bool = False, engine: str = "auto", tolerance: float = 1e-6,
    time_limit: float | None = None,
) -> Draft:
    """Least E d(U, Y) under ε-privacy of S [002, (7)–(10)]: utility and privacy each at P̂ or over the ball.

    Options: docs/distortion.md. The value is that of the sealed mechanism, at P̂ or (robust_utility=True) the worst over
    the set; the bound holds for every mechanism with these outputs.
    """
    _check(task, robust_privacy, engine, tolerance, outputs)
    chosen, robust = isinstance(outputs, str), (robust_privacy, robust_utility)
    measure = measured(task.joint.useful, distance, values, None if chosen else outputs)
    budget = Budget.of(time_limit or LIMIT)

    def nearest(measure: Distance, budget: Budget) -> LeastLoss:
        return least_loss(problem_of(task, measure, robust), engine=engine, tolerance=tolerance, budget=budget)

    if chosen:
        measure = _chosen(task, measure, nearest, budget)
    answer = nearest(measure, budget)
    least = float(task.joint.p_useful @ measure.matrix.min(axis=1))  # if every value went to the output nearest to it
    bound = max(answer.bound * unit_of(task, measure), least)
    notes = [] if robust_privacy or isinstance(task.within, Exactly) else [
        "private at the design distribution only: robust_privacy=True promises it for the whole ball"
    ]
    if math.isinf(answer.bound) or budget.over:
        notes.append(f"{ENDED}: one output for all inputs" if math.isinf(answer.bound) else ENDED)
    if chosen:
        notes.append("outputs were moved to where they are cheapest; the bound is for these outputs")
    told = task if robust_privacy else replace(task, within=Exactly(task.joint))
    details = {"problem": FOUR[robust], "engine": answer.engine}
    judged = task.within if robust_utility else task.joint
    return near(told, "distortion", answer.q, measure, bound, judged, details, tuple(notes))


def _check(task: Task, robust_privacy: bool, engine: str, tolerance: float, outputs: Outputs) -> None:
    if task.notion != "rldp":
        wanted = option("--notion rldp", "notion='rldp'")
        raise InputError(f"distortion is for {wanted}", value=task.notion)
    if not isinstance(task.within, ChiSquareBall | Exactly | Anything):
        raise InputError(f"distortion needs a χ² ball, Exactly or Anything, got a set of kind {task.within.kind!r}.")
    if isinstance(task.within, Anything) and not robust_privacy:
        raise InputError("robust_privacy=False means privacy at P̂ alone: give Exactly(joint), not Anything.")
    if engine not in ENGINES:
        raise unknown("an engine", engine, ENGINES)
    if not is_number(tolerance) or not 0 < tolerance < 1:
        raise InputError(f"tolerance must be positive and below 1, got {tolerance!r}.")
    if isinstance(outputs, str) and outputs != "chosen":
        raise InputError(f"outputs must be numbers, a number of points or 'chosen', got {outputs!r}.")


def problem_of(task: Task, measure: Distance, robust: tuple[bool, bool]) -> LossProblem:
    """The numbers, with distances scaled so that the best constant output costs 1: solvers have absolute tolerances."""
    within, judged = (task.within if asked else Exactly(task.joint) for asked in robust)
    return LossProblem(within, judged, task.epsilon, measure.matrix / unit_of(task, measure), task.reads == "both")


def unit_of(task: Task, measure: Distance) -> float:
    """What the best constant output costs at P̂, unless that is nothing."""
    return float((task.joint.p_useful @ measure.matrix).min()) or float(measure.matrix.max()) or 1.0


def near(
    task: Task, method: str, q: Floats, measure: Distance, bound: float, judged: UncertaintySet | Joint,
    details: Details, notes: tuple[str, ...] = (),
) -> Draft:
    """A law of outputs at a distance, for what it was designed for, scored by the distortion over a set or at P̂."""
    q, measure = measure.seen(q)
    return Draft(
        Table(q, task.rows), method, bound, notes, {**details, "distance": measure.matrix, "points": measure.points},
        score=lambda mechanism: expected_distortion(mechanism, judged, measure.matrix), answers=measure.answers,
        task=task, unit="of distance",
    )


def _chosen(
    task: Task, measure: Distance, nearest: Callable[[Distance, Budget], LeastLoss], budget: Budget
) -> Distance:
    """Outputs where they are cheapest: the useful values and their middles, moved to the point nearest to what they
    stand for at P̂.

    Moving changes no probability: privacy stays, distortion falls. Then it is designed again, with the useful values.
    Two in nearly one place would share a column's information: hard to invert, for a gain of at most their distance².
    """
    if measure.name not in NUMERIC or measure.values is None:
        chosen = option("--outputs chosen", "outputs='chosen'")
        raise InputError(f"{chosen} needs distance 'squared' or 'absolute': outputs must be points of the line.")
    own, p = np.unique(measure.values), task.joint.p if task.reads == "both" else task.joint.p_useful[None, :]
    grid, fine = np.unique([own, np.append(own[1:] + own[:-1], 2 * own[-1]) / 2]), np.linspace(own[0], own[-1], FINE)
    for _ in range(CHOOSING):
        q = nearest(measure.at(grid), budget.part(1 / (CHOOSING + 1))).q
        weight = np.einsum("ysu,su->yu", q.reshape(len(q), *p.shape), p)[q.max(axis=1) > GHOST]
        moved = fine[np.unique(np.argmin(weight @ NUMERIC[measure.name](measure.values[:, None], fine), axis=1))]
        apart = np.abs(moved[:, None] - own).min(axis=1) > LEAST_APART * np.ptp(own)
        grid = np.sort(np.concatenate([own, moved[apart]]))
    return measure.at(grid)


# --- the same under limits on maximal (α, β)-leakage, or the most information there -----------------------------------


ABOUT = ("input", "secret")
CONIC_INPUTS = 64  # n² cones of |Y| terms each: beyond it a conic solver is the wrong tool


def leakage(
    task: Task, *, alpha: float = math.inf, beta: float = 1.0, distance: object = "hamming",
    also: Sequence[tuple[float, float, float]] = (), about: str = "input", utility: str = "distortion",
    time_limit: float = LIMIT,
) -> Draft:
    """The least expected distortion with L_{α,β} ≤ ε, and L ≤ ℓ for every (α, β, ℓ) in `also` (ours).

    Limits are convex sets: finitely many power cones (docs/leakage.md). `distance` is "hamming" or a matrix d[x, y] (or
    d[u, y], whatever the secret). about="secret" limits what is told about S through p(s, x) at P̂, for every p(s).
    utility="information" maximises I(X;Y) instead, under order (∞, 1) or (∞, ∞) alone, up to 16 inputs. `value` is that
    of the sealed mechanism, `bound` what no mechanism within the limits can pass.
    """
    limits = [_limit(alpha, beta, task.epsilon), *(_limit(*one) for one in also)]
    if about not in ABOUT:
        raise unknown("what leakage is about", about, ABOUT)
    if utility not in _UTILITIES:
        raise unknown("a utility of leakage", utility, _UTILITIES)
    within = Exactly(task.joint) if about == "secret" else None
    first, *rest = (Claim("leakage", one.level, within, one.alpha, one.beta) for one in limits)
    draft = _UTILITIES[utility](task, limits, about, distance, time_limit)
    return replace(draft, claim=replace(first, also=tuple(rest)))


def _limit(alpha: float, beta: float, level: float) -> LeakageLimit:
    if not (alpha >= 1 and beta >= 1):
        raise InputError(f"alpha and beta must be 1 or more, got {alpha} and {beta}.")
    return LeakageLimit(float(alpha), float(beta), checked_epsilon(level))


def certified(limit: LeakageLimit, channel: Floats) -> float:
    """The leakage that a limit is about, bounded from above."""
    return Leakage(limit.alpha, limit.beta).of(channel).bound


def _prior(task: Task) -> Floats:
    return task.joint.p.ravel() if task.reads == "both" else task.joint.p_useful


def _distances(task: Task, distance: object) -> Floats:
    """d[x, y] for the inputs the mechanism reads."""
    inputs = task.rows * task.joint.useful.size
    if isinstance(distance, str) and distance != "hamming":
        raise unknown("a distance of leakage", distance, ("hamming", "a matrix d[x, y]"))
    d = 1.0 - np.eye(inputs) if isinstance(distance, str) else finite(distance, "distance", 2)
    if d.shape[0] not in (inputs, task.joint.useful.size):
        raise InputError(f"a distance is a finite matrix d[x, y] with {inputs} rows, got shape {d.shape}.")
    return d if d.shape[0] == inputs else np.tile(d, (task.rows, 1))


def _distortion(task: Task, limits: list[LeakageLimit], about: str, distance: object, time_limit: float) -> Draft:
    d, prior = _distances(task, distance), _prior(task)
    if max(d.shape) > CONIC_INPUTS:
        raise InputError(f"leakage designs take up to {CONIC_INPUTS} inputs and outputs, got {d.shape}.")
    given = given_secrets(task)[task.joint.p_secret > 0] if about == "secret" else None
    found = least_distortion(prior, d, limits, certified, given=given, budget=Budget.of(time_limit))
    same = d.shape[0] == d.shape[1]  # outputs are inputs, known by their place
    used = np.arange(d.shape[1]) if same else np.flatnonzero(found.matrix.any(axis=1))
    meaning = "symbol" if not same else "cell" if task.rows > 1 else "useful"
    cost = (prior[:, None] * d[:, used]).T

    def score(mechanism: Mechanism) -> float:
        assert mechanism.matrix is not None
        return float((mechanism.matrix * cost).sum())

    law = Table(found.matrix[used], task.rows, None, meaning)
    details: Details = {"status": found.status, "distance": d[:, used]}
    gap = found.value - found.bound
    closed = gap <= 1e-6 * max(1.0, abs(found.value))
    notes = () if closed else (f"the gap of {gap:.2g} is open: the solver ended with {found.status}",)
    return Draft(law, "leakage", found.bound, notes, details, score=score, unit="of distance")


def _information(task: Task, limits: list[LeakageLimit], about: str, distance: object, time_limit: float) -> Draft:
    first = limits[0]
    solver = _INFORMATION.get((first.alpha, first.beta))
    if solver is None or len(limits) > 1 or about != "input":
        raise InputError(
            "I(X;Y) is maximised under one limit about the input, of orders (∞, 1) or (∞, ∞): elsewhere the problem is "
            "not convex and no bound is known. Use utility='distortion'."
        )
    prior = _prior(task)
    live = np.flatnonzero(prior > 0)
    best = solver(prior[live] / prior[live].sum(), first.level, partial(certified, first))
    channel = np.repeat((best.matrix @ prior[live])[:, None], prior.size, axis=1)  # inputs without mass tell nothing
    channel[:, live] = best.matrix
    return Draft(Table(channel, task.rows), "leakage", best.bound, score=lambda m: information(m, task.joint).both)


_INFORMATION = {(math.inf, 1.0): under_maximal_leakage, (math.inf, math.inf): under_ldp}
_UTILITIES = {"distortion": _distortion, "information": _information}
