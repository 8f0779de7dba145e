"""leakage: the highest utility under limits on maximal (α, β)-leakage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError, checked_epsilon, unknown
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.saddle.limits import LeakageLimit, LeastLeakingDistortion, least_distortion
from sfumato.optimise.saddle.mutual import under_ldp, under_maximal_leakage
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.beliefs import MaximalLeakage
from sfumato.privacy.ldp import LDP
from sfumato.uncertainty import Exactly
from sfumato.utility import information

ABOUT = ("input", "secret")
MOST_INPUTS = 64  # n² cones of |Y| terms each: beyond it a conic solver is the wrong tool


def leakage(
    task: Task, *, alpha: float = math.inf, beta: float = 1.0, distance: Any = "hamming",
    also: Sequence[tuple[float, float, float]] = (), about: str = "input", utility: str = "distortion",
    time_limit: float = 60.0,
) -> Draft:
    """The least expected distortion with L_{α,β} ≤ ε, and L ≤ ℓ for every (α, β, ℓ) in `also` (ours).

    e^{((α−1)β/α)·L} is convex in the channel, so limits are convex sets: finitely many power cones (docs/leakage.md).
    `distance` is "hamming" or a matrix d[x, y] (or d[u, y], whatever the secret). about="secret" limits what is
    told about S through p(s, x) at P̂, for every p(s). utility="information" maximises I(X;Y) instead, where that is
    tractable: orders (∞, 1) or (∞, ∞) alone, up to 16 inputs. `value` is the distortion of the sealed mechanism (or its
    information), `bound` what no mechanism within the limits can pass.
    """
    limits = [_limit(alpha, beta, task.epsilon), *(_limit(*one) for one in also)]
    if about not in ABOUT:
        raise unknown("what leakage is about", about, ABOUT)
    if utility not in _UTILITIES:
        raise unknown("a utility of leakage", utility, _UTILITIES)
    return _UTILITIES[utility](task, limits, about, distance, time_limit)


def _limit(alpha: float, beta: float, level: float) -> LeakageLimit:
    if not (alpha >= 1 and beta >= 1):
        raise InputError(f"alpha and beta must be 1 or more, got {alpha} and {beta}.")
    return LeakageLimit(float(alpha), float(beta), checked_epsilon(level))


def certified(limit: LeakageLimit, channel: Floats) -> float:
    """The leakage that a limit is about, bounded from above."""
    return Leakage(limit.alpha, limit.beta).of(channel).bound


def _claim(task: Task, limits: list[LeakageLimit], about: str) -> Claim:
    within = Exactly(task.joint) if about == "secret" else None
    first, *rest = (Claim("leakage", one.level, within, one.alpha, one.beta) for one in limits)
    return Claim("leakage", first.epsilon, within, first.alpha, first.beta, tuple(rest))


def _prior(task: Task) -> Floats:
    return task.joint.p.ravel() if task.reads == "both" else task.joint.p_useful


def _distances(task: Task, distance: Any) -> Floats:
    """d[x, y] for the inputs the mechanism reads."""
    inputs = task.rows * task.joint.useful.size
    if isinstance(distance, str):
        if distance != "hamming":
            raise unknown("a distance of leakage", distance, ("hamming", "a matrix d[x, y]"))
        return 1.0 - np.eye(inputs)
    d = np.asarray(distance, float)
    if d.ndim != 2 or d.shape[0] not in (inputs, task.joint.useful.size) or not np.all(np.isfinite(d)):
        raise InputError(f"a distance is a finite matrix d[x, y] with {inputs} rows, got shape {d.shape}.")
    return d if d.shape[0] == inputs else np.tile(d, (task.rows, 1))


def _given(task: Task) -> Floats:
    """p(x|s) for the secrets that occur, over the inputs the mechanism reads."""
    seen = np.flatnonzero(task.joint.p_secret > 0)
    given = task.joint.useful_given_secret[seen]
    if task.reads == "useful":
        return given
    wide = np.zeros((len(seen), task.rows, task.joint.useful.size))
    wide[np.arange(len(seen)), seen] = given
    return wide.reshape(len(seen), -1)


def _distortion(task: Task, limits: list[LeakageLimit], about: str, distance: Any, time_limit: float) -> Draft:
    d, prior = _distances(task, distance), _prior(task)
    if max(d.shape) > MOST_INPUTS:
        raise InputError(f"leakage designs take up to {MOST_INPUTS} inputs and outputs, got {d.shape}.")
    given = _given(task) if about == "secret" else None
    found = least_distortion(prior, d, limits, certified, given=given, budget=Budget.of(time_limit))
    same = d.shape[0] == d.shape[1]  # outputs are inputs, known by their place
    used = np.arange(d.shape[1]) if same else np.flatnonzero(found.channel.any(axis=1))
    meaning = "symbol" if not same else "cell" if task.rows > 1 else "useful"
    cost = (prior[:, None] * d[:, used]).T

    def score(mechanism: Mechanism) -> float:
        """The expected distortion."""
        assert mechanism.matrix is not None
        return float((mechanism.matrix * cost).sum())

    law = Table(found.channel[used], task.rows, None, meaning)
    details = {"status": found.status, "distance": d[:, used]}
    return Draft(law, "leakage", found.bound, _notes(found), details, _claim(task, limits, about), score)


def _notes(found: LeastLeakingDistortion) -> tuple[str, ...]:
    if found.value - found.bound <= 1e-6 * max(1.0, abs(found.value)):
        return ()
    return (f"the gap of {found.value - found.bound:.2g} is open: the solver ended with {found.status}",)


def _information(task: Task, limits: list[LeakageLimit], about: str, distance: Any, time_limit: float) -> Draft:
    first = limits[0]
    known = _INFORMATION.get((first.alpha, first.beta))
    if known is None or len(limits) > 1 or about != "input":
        raise InputError(
            "I(X;Y) is maximised under one limit about the input, of orders (∞, 1) or (∞, ∞): elsewhere the problem is "
            "not convex and no bound is known. Use utility='distortion'."
        )
    prior = _prior(task)
    live = np.flatnonzero(prior > 0)
    solver, measure = known
    best = solver(prior[live] / prior[live].sum(), first.level, lambda q: measure.of(q).value)
    channel = np.repeat((best.channel @ prior[live])[:, None], prior.size, axis=1)  # inputs without mass tell nothing
    channel[:, live] = best.channel
    claim = _claim(task, limits, about)
    return Draft(
        Table(channel, task.rows), "leakage", best.bound, claim=claim, score=lambda m: information(m, task.joint).both
    )


_INFORMATION = {
    (math.inf, 1.0): (under_maximal_leakage, MaximalLeakage()), (math.inf, math.inf): (under_ldp, LDP()),
}
_UTILITIES = {"distortion": _distortion, "information": _information}
