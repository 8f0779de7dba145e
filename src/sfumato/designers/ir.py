"""IR: independent reporting, randomised response on S and on U side by side."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sfumato.designers.base import Draft, Task
from sfumato.designers.calibration import l1_radius, single_value
from sfumato.designers.grr import response as grr_response
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Cells, Constant, Law
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, RenyiBall
from sfumato.utility.information import _cells

GRID = 65  # the objective is not unimodal in the split [000, (82)]: a grid with both ends, then golden section
RULES = ("tight", "paper")


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


def strength_rule(task: Task, rule: str) -> Callable[[float], float]:
    """ε₂ ↦ t, how strongly U may be reported when ε₂ of the budget is left for it."""
    if rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
    if task.notion == "ldp":
        return math.expm1
    if rule == "tight":
        spikes = task.within.spikes()
        return lambda epsilon2: single_value(task.within, epsilon2, spikes)
    d = total_variation(task)
    return lambda epsilon2: 2 * math.expm1(epsilon2) / d if d > 0 else math.inf  # [000, Thm 5, corrected]


def ir(task: Task, *, rule: str = "tight") -> Draft:
    """Independent reporting: ε₁-LDP response on S and t-strong response on U, ε₁ + ε₂ = ε [000, Thm 5, corrected].

    rule='tight' (default, ours) takes t from max (1 + t·max P(u|s)) / (1 + t·min P(u|s')) = e^{ε₂};
    rule='paper' takes δ₂ = log(1 + 2(e^{ε₂} − 1)/d). The split is searched on a grid and refined.
    Read from U alone there is nothing to split, and it is GRR on U.
    """
    strength = strength_rule(task, rule)
    rows, useful = task.rows, task.joint.useful.size
    if task.reads == "useful":
        law = grr_response(1, useful, strength(task.epsilon))
        return Draft(law, "ir", details={"rule": rule, "split": task.epsilon})
    split, _ = best_split(task.joint, task.epsilon, strength)
    law = response(rows, useful, task.epsilon - split, strength(split))
    note = "the split of ε between S and U comes from a search; only the ceiling bounds what another split could reach"
    return Draft(law, "ir", task.ceiling, (note,), {"rule": rule, "split": split})


def best_split(joint: Joint, epsilon: float, strength: Callable[[float], float]) -> tuple[float, float]:
    """The ε₂ with the highest mutual information, and that information."""

    def value(split: float) -> float:
        law = response(*joint.shape, max(epsilon - split, 0.0), strength(split))
        return _cells(law, joint.p).both if isinstance(law, Cells) else 0.0

    grid = np.linspace(0, epsilon, GRID if joint.p.size <= 100_000 else 9)
    values = [value(float(x)) for x in grid]
    i = int(np.argmax(values))
    low, high = float(grid[max(i - 1, 0)]), float(grid[min(i + 1, len(grid) - 1)])
    best = (float(grid[i]), values[i])
    for _ in range(40 if joint.p.size <= 100_000 else 10):
        left, right = high - 0.618034 * (high - low), low + 0.618034 * (high - low)
        a, b = value(left), value(right)
        best = max(best, (left, a), (right, b), key=lambda pair: pair[1])
        low, high = (left, high) if a < b else (low, right)
    return best
