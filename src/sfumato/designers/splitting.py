"""IR: independent reporting, randomised response on S and on U side by side, between which ε is split."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.closed_forms import grr_response, l1_radius, reachable, single_values
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Cells, Constant, Law
from sfumato.optimise.arrays import xlogx
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, RenyiBall

SPLITS = 65, 17, 9  # the objective is not unimodal in the split [000, (82)]: a grid with both ends, then finer and
# finer grids around its best point, each an eighth as wide: 2⁻³³ of ε apart at the end
COARSE_SPLITS = 9, 9, 3  # the same where a table is larger than this:
SPLITS_AT_ONCE = 200_000  # cells × splits that are evaluated together
RULES = ("tight", "paper")
Strength = Callable[[ArrayLike], Floats]  # of a response to U, at some levels


def response(rows: int, useful: int, epsilon1: float, t: float) -> Law:
    """GRR at ε₁ on S and, independently, 1 + t against 1 on U."""
    e, z = math.exp(epsilon1), math.exp(epsilon1) + rows - 1
    if math.isinf(t):
        return Cells(rows, useful, e / z, 0.0, 1 / z, 0.0)
    hit, miss = (1 + t) / (useful + t), 1 / (useful + t)
    if epsilon1 == 0 and t == 0:
        return Constant(rows, useful)
    return Cells(rows, useful, e / z * hit, e / z * miss, hit / z, miss / z)


def total_variation(task: Task) -> float:
    """d = min{2, 2·max rad_s + max ‖P̂(·|s) − P̂(·|s')‖₁} [000, (62)], with rad_s from the exact range of every set."""
    within, q = task.within, task.joint.useful_given_secret
    if isinstance(within, Anything):
        return 2.0
    radii = np.zeros(len(q))
    if isinstance(within, ChiSquareBall):
        radii = l1_radius(within) if q.shape[1] > 2 else 2 * np.abs(np.stack(within.spikes()) - q).max((0, 2))
    elif isinstance(within, RenyiBall):
        radii = within.rad()
    elif not isinstance(within, Exactly):
        raise InputError(f"rule='paper' is not defined over a set of kind {within.kind!r}.")
    apart = max(float(np.abs(q - row).sum(1).max()) for row in q)
    return min(2.0, float(2 * radii.max()) + apart)


def strength_rule(task: Task, rule: str) -> Strength:
    """ε₂ ↦ t, how strongly U may be reported when ε₂ of the budget is left for it; takes many ε₂ at once.

    For any distribution the level is ε₁ + log(1 + t), so a cap of κ leaves 1 + t ≤ e^{κ − ε₁}.
    """
    if task.at_most is not None and task.joint.useful.size > 1:
        over_the_set, room = strength_rule(replace(task, at_most=None), rule), task.at_most - task.epsilon
        return lambda epsilon2: np.minimum(over_the_set(epsilon2), np.expm1(room + np.asarray(epsilon2, float)))
    if rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
    if task.notion == "ldp":
        return lambda epsilon2: np.expm1(np.asarray(epsilon2, float))
    if rule == "tight":
        return partial(single_values, reachable(task))
    d = total_variation(task)
    return lambda epsilon2: np.asarray(2 * np.expm1(epsilon2) / d if d > 0 else np.full(np.shape(epsilon2), np.inf))


def ir(task: Task, *, rule: str = "tight") -> Draft:
    """Independent reporting: ε₁-LDP response on S and t-strong response on U, ε₁ + ε₂ = ε [000, Thm 5, corrected].

    rule='tight' (default, ours) takes t from max (1 + t·max P(u|s)) / (1 + t·min P(u|s')) = e^{ε₂};
    rule='paper' takes δ₂ = log(1 + 2(e^{ε₂} − 1)/d). Read from U alone there is nothing to split, and it is GRR on U.
    """
    strength = strength_rule(task, rule)
    rows, useful = task.rows, task.joint.useful.size
    if task.reads == "useful":
        law = grr_response(1, useful, float(strength(task.epsilon)))
        return Draft(law, "ir", details={"rule": rule, "split": task.epsilon})
    split, _ = best_split(task.joint, task.epsilon, strength)
    law = response(rows, useful, task.epsilon - split, float(strength(split)))
    note = "the split of ε between S and U comes from a search; only the ceiling bounds what another split could reach"
    return Draft(law, "ir", task.ceiling, (note,), {"rule": rule, "split": split})


def best_split(joint: Joint, epsilon: float, strength: Strength) -> tuple[float, float]:
    """The ε₂ with the highest mutual information, and that information."""
    first, then, turns = SPLITS if joint.p.size <= SPLITS_AT_ONCE else COARSE_SPLITS
    low, high, points, best = 0.0, epsilon, first, (0.0, -math.inf)
    for _ in range(turns + 1):
        splits = np.linspace(low, high, points)
        found = kept(joint, np.maximum(epsilon - splits, 0.0), strength(splits))
        i = int(np.argmax(found))
        best = max(best, (float(splits[i]), float(found[i])), key=lambda pair: pair[1])
        low, high, points = float(splits[max(i - 1, 0)]), float(splits[min(i + 1, points - 1)]), then
    return best


def kept(joint: Joint, epsilon1: Floats, t: Floats) -> Floats:
    """I(S, U; Y) of `response` at every pair of ε₁ and t: H(Y) minus the entropies of the two responses.

    P(y) is bilinear in what S and U answer: Σ_x p(x) a(s', s) b(u', u) with a = a₀ + (a₁ − a₀)·1{s' = s}, likewise b.
    """
    rows, useful = joint.shape
    e = np.exp(-epsilon1)
    own = 1 / (1 + (rows - 1) * e)
    with np.errstate(invalid="ignore"):
        match = np.where(np.isinf(t), 1.0, (1 + t) / (useful + t))
    other, miss = own * e, (1 - match) / max(useful - 1, 1)
    given = -(xlogx(own) + (rows - 1) * xlogx(other) + xlogx(match) + (useful - 1) * xlogx(miss))
    ps, pu = joint.p_secret[:, None], joint.p_useful[None, :]
    step, out = max(1, SPLITS_AT_ONCE // joint.p.size), []
    for i in range(0, len(t), step):
        a1, a0, b1, b0 = (x[i : i + step, None, None] for x in (own, other, match, miss))
        mean = a0 * b0 + (a1 - a0) * b0 * ps + a0 * (b1 - b0) * pu + (a1 - a0) * (b1 - b0) * joint.p
        out.append(-xlogx(mean).sum((1, 2)))
    return np.asarray(np.concatenate(out) - given)
