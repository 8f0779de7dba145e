"""CR: conditional reporting, the truth or a draw as if S were another secret."""

from __future__ import annotations

import math

import numpy as np

from sfumato.designers.base import Draft, Task
from sfumato.designers.calibration import least_quotient, lip_value
from sfumato.errors import InputError
from sfumato.mechanism import Conditional, Law
from sfumato.privacy.rldp import compared


def response(task: Task, keep: float) -> Law:
    """Q(y|s,u) ∝ κ·1{y = u} + Σ_{s'} p(y|s') − min(κ, 1)·p(y|s).

    κ = e^α ≥ 1 is conditional reporting [001, Alg. 1, (46) corrected]; 0 ≤ κ < 1 continues it down to a law that
    ignores the input, so that every ε can be reached over every set.
    """
    q = task.joint.useful_given_secret
    if math.isinf(keep):
        return Conditional(np.ones(len(q)), np.zeros(q.shape))
    base = np.maximum(q.sum(0) - min(keep, 1.0) * q, 0.0)
    total = base.sum(1) + keep
    return Conditional(keep / total, base / total[:, None])


def cr(task: Task) -> Draft:
    """Conditional reporting: S is masked by randomised response; where the mask slips U is told, elsewhere it is
    redrawn from P̂(U|s̃) [001, Alg. 1]. The notion's inequality is linear in κ = e^α, so the calibration is closed."""
    if task.reads != "both":
        raise InputError("cr reads the secret; ask for reads='both', or use grr with reads='useful'.")
    keep = {"rldp": _robust, "lip": _lip, "ldp": _input}[task.notion](task)
    if task.anywhere is not None:
        keep = min(keep, _robust(task.anywhere))
    strength = math.log(keep) if keep > 0 else -math.inf
    return Draft(response(task, keep), "cr", details={"strength": strength})


def _lip(task: Task) -> float:
    return 1 + lip_value(task, task.joint.useful_given_secret.sum(0))


def _robust(task: Task) -> float:
    """max κ with (c_y − min(κ,1)p₁ + κR₁) ≤ E(c_y − min(κ,1)p₂ + κR₂) for all reachable R₁, R₂."""
    secrets, E = compared(task.within), math.exp(task.epsilon)
    if len(secrets) < 2:
        return math.inf
    low, high = (r[secrets] for r in task.within.spikes())
    q = task.joint.useful_given_secret
    total, q = q.sum(0), q[secrets]
    small = large = math.inf
    for i in range(len(secrets)):
        others = np.arange(len(secrets)) != i
        small = min(small, least_quotient((E - 1) * total, (high[i] - q[i]) + E * (q - low)[others]))
        large = min(large, least_quotient(E * (total - q[others]) - (total - q[i]), high[i] - E * low[others]))
    return small if small < 1 else max(1.0, large)


def _input(task: Task) -> float:
    """The same about the whole input: every weight of an output against every other."""
    E, q = math.exp(task.epsilon), task.joint.useful_given_secret
    total, low, high = q.sum(0), q.min(0), q.max(0)
    if q.shape[1] < 2:
        return math.inf
    small = least_quotient((E - 1) * total, 1 - low + E * high)
    return small if small < 1 else max(1.0, float((E * (total - high) - (total - low)).min()))
