"""lip: the most informative mechanism on X under ε-LIP about S, at one distribution or over a ball."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.funnel import funnel_draft, perfect, robust_or_known
from sfumato.designers.posteriors import Funnel, likelihood, optimum, repaired


def lip_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A v ≤ 0 iff e^{−ε} ≤ g_s·v ≤ e^ε for every s (Σv = 1) [001, (15)]: a + 2c inequalities."""
    g = likelihood(p)
    return np.concatenate([g - np.exp(epsilon), np.exp(-epsilon) - g])


def lip_level(matrix: Floats, p: Floats) -> float:
    """max over y, s of |log P(y|s)/P(y)|; outputs and secrets that never occur do not count."""
    secret = p.sum(axis=1)
    joint = matrix @ p.T
    q = joint.sum(axis=1)
    ratio = joint[q > 0.0][:, secret > 0.0] / np.outer(q[q > 0.0], secret[secret > 0.0])
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(ratio)).max(initial=0.0))


def best_lip(p: Floats, epsilon: float, *, gap: float = 1e-6, time_limit: float = 60.0) -> Funnel:
    """The mechanism Q[y, x] with the largest I(X;Y) such that e^{−ε} ≤ P(y|s)/P(y) ≤ e^ε at p."""
    p = p / p.sum()
    found = optimum(p.sum(axis=0), lip_rows(p, epsilon), gap=gap, time_limit=time_limit)
    return repaired(found, p, epsilon, lip_level)


def lip(task: Task, *, time_limit: float = 60.0, gap: float = 1e-6) -> Draft:
    """The mechanism that reads X alone and keeps the most I(X;Y) under ε-LIP about S [001, Thm 3].

    Small cones: all extreme rays and an LP. Large ones: column generation, with a bound from branch and bound. Over a
    χ² ball: cutting planes, each a distribution in the ball [ours]. ε = 0 asks for an output independent of S.
    """
    if robust_or_known(task, "lip"):
        from sfumato.designers.robust_funnel import robust_lip

        return robust_lip(task, time_limit=time_limit)
    if task.epsilon == 0.0:
        return perfect(task, "lip")
    return funnel_draft(best_lip(task.joint.p, task.epsilon, gap=gap, time_limit=time_limit), "lip")
