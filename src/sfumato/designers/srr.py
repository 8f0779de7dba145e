"""SRR: secret randomised response."""

from __future__ import annotations

import math

import numpy as np

from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError
from sfumato.mechanism import Cells, Constant, Law
from sfumato.privacy.rldp import compared


def response(rows: int, useful: int, alpha: float) -> Law:
    """Q(y|x) ∝ e^α if y = x, e^{−α} if only the secret agrees, 1 otherwise [000, Def. 4]."""
    if alpha == 0:
        return Constant(rows, useful)
    up, down = math.exp(alpha), math.exp(-alpha)
    total = up + down * (useful - 1) + (rows - 1) * useful
    return Cells(rows, useful, up / total, down / total, 1 / total, 1 / total)


def srr(task: Task, *, fit: bool = False) -> Draft:
    """Secret randomised response: lies about S cost 1, lies about U within the same S cost e^{−ε} [000, Def. 4].

    Ratios reach e^{2ε} only between inputs with the same secret, so the level is ε for any F [000, Prop. 3].
    With fit=True the parameter grows until the level over this F is ε. For LDP it is ε/2; under LIP, ε as it stands
    (ε-RLDP implies ε-LIP).
    """
    if task.reads != "both":
        raise InputError("srr reads the secret; ask for reads='both', or use grr or ir with reads='useful'.")
    alpha = task.epsilon
    if task.notion == "ldp" and task.joint.useful.size > 1:
        alpha = task.epsilon / 2
    elif fit and task.notion == "rldp":
        alpha = fitted(task) if task.at_most is None else min(fitted(task), task.at_most)
    return Draft(response(*task.joint.shape, alpha), "srr", details={"strength": alpha})


def fitted(task: Task) -> float:
    """The greatest α with e^{−α}(1 − R) + e^α R within [e^{−ε}, e^ε] for every reachable R = P(u|s) (ours).

    Both are quadratics in x = e^α: R x² − E x + 1 − R ≤ 0 at the greatest R, R x² − x/E + 1 − R ≥ 0 at every R.
    """
    secrets, E = compared(task.within), math.exp(task.epsilon)
    low, high = (r[secrets] for r in task.within.spikes())
    x = float(((E + np.sqrt(np.maximum(E * E - 4 * high * (1 - high), 0))) / np.maximum(2 * high, 1e-300)).min())
    for r in (low, high):
        inner = 1 / E**2 - 4 * r * (1 - r)
        root = np.where(inner > 0, 2 * (1 - r) / (1 / E + np.sqrt(np.maximum(inner, 0))), np.inf)
        x = min(x, float(root.min()))
    return math.log(max(x, E))
