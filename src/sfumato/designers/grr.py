"""GRR: generalised randomised response, the truth or any other value with equal chance."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.designers.base import Draft, Task
from sfumato.designers.calibration import lip_value, single_cell, single_value
from sfumato.mechanism import Cells, Constant, Law


def response(rows: int, useful: int, t: float) -> Law:
    """Q(y|x) ∝ 1 + t if y = x, 1 otherwise; t = 0 ignores the input, t = ∞ tells the truth."""
    if t == 0:
        return Constant(rows, useful)
    if math.isinf(t):
        return Cells(rows, useful, 1.0, 0.0, 0.0, 0.0)
    other = 1 / (rows * useful + t)
    return Cells(rows, useful, (1 + t) * other, other, other, other)


def strength(task: Task) -> float:
    """t = e^α − 1 for the notion asked for, and for any distribution where a level is promised there too."""
    if task.anywhere is not None:
        return min(strength(replace(task, at_most=None)), strength(task.anywhere))
    if task.reads == "both" or task.notion == "ldp":
        if task.notion == "ldp":
            return math.expm1(task.epsilon) if task.rows * task.joint.useful.size > 1 else math.inf
        return single_cell(task)
    return lip_value(task) if task.notion == "lip" else single_value(task.within, task.epsilon)


def grr(task: Task) -> Draft:
    """Generalised randomised response over what the mechanism reads [000, (56)], calibrated in closed form.

    Over F the level is log(1 + t·max P(u|s)) when the secret is read, and max (1 + tR₁)/(1 + tR₂) when it is not.
    """
    t = strength(task)
    law = response(task.rows, task.joint.useful.size, t)
    return Draft(law, "grr", details={"strength": math.log1p(t)})
