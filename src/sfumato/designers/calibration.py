"""How much a closed form may tell: the greatest parameter for which the notion holds, without root finding.

All of them have rows of the form 1 + t·(mass of some inputs), so a ratio stays within E = e^ε as long as
t·(mass given s₁ − E·mass given s₂) ≤ E − 1: t is a minimum of (E − 1) over positive differences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Task
from sfumato.optimise.arrays import greatest_gap
from sfumato.privacy.ldp import compared
from sfumato.uncertainty import Anything, ChiSquareBall
from sfumato.uncertainty.sets import UncertaintySet


def least_quotient(top: Any, bottom: Any) -> float:
    """min top / bottom over positive bottoms; ∞ when there are none."""
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    positive = bottom > 0
    return float((top[positive] / bottom[positive]).min()) if positive.any() else math.inf


def single_value(within: UncertaintySet, epsilon: float) -> float:
    """t for rows 1 + t·1{u = u₀} common to all secrets (GRR on U): over F, the tighter rule for IR too (ours)."""
    return float(single_values(within, epsilon, within.spikes()))


def single_values(within: UncertaintySet, epsilon: Any, spikes: tuple[Floats, Floats]) -> Floats:
    """`single_value` at many levels, given the least and greatest P(u|s) over the set."""
    secrets, level = compared(within), np.asarray(epsilon, float)
    if len(secrets) < 2:
        return np.full(level.shape, np.inf)
    low, high = spikes
    gap = greatest_gap(high[secrets], low[secrets], np.exp(level)[..., None]).max(-1)
    return np.where(gap > 0, np.expm1(level) / np.where(gap > 0, gap, 1.0), np.inf)


def single_cell(task: Task) -> float:
    """t for rows 1 + t·1{x = x₀} of GRR on (s, u): only the secret of x₀ moves, so t·max P(u|s) ≤ E − 1."""
    secrets, rise = compared(task.within), math.expm1(task.epsilon)
    if task.notion == "ldp":
        return rise if task.joint.p.size > 1 else math.inf
    if len(secrets) < 2:
        return math.inf
    if task.notion == "lip":
        p, q = task.joint.p, task.joint.useful_given_secret
        own = least_quotient(rise, (q - math.exp(task.epsilon) * p)[secrets])
        return min(own, least_quotient(rise, p))
    return least_quotient(rise, task.within.spikes()[1][secrets])


def lip_value(task: Task, offset: Any = 1.0) -> float:
    """t for ε-LIP of rows offset_u + t·1{u = u₀}, read from U alone [001, root finding replaced].

    (c + t·p(u|s)) / (c + t·p(u)) ≤ E and its inverse, for every s and u.
    """
    q, p, rise = task.joint.useful_given_secret, task.joint.p_useful, math.exp(task.epsilon)
    secrets = compared(task.within)
    c = np.broadcast_to(offset, q.shape)[secrets]
    above = least_quotient(c * (rise - 1), q[secrets] - rise * p)
    return min(above, least_quotient(c * (1 - 1 / rise), p / rise - q[secrets]))


def subsets(task: Task) -> float:
    """t for rows 1 + t·1{x ∈ H} over every subset H (SUE, OUE) [001, C = 1 is unsafe here].

    Sets gather mass: max_H P(H|s₁) − E·P(H|s₂) = Σ_x (p(x|s₁) − E·p(x|s₂))₊. A mechanism that reads the secret has
    sets with all of s₁ and none of s₂, so t = E − 1 as for LDP.
    """
    if task.anywhere is not None:
        return min(subsets(replace(task, at_most=None)), subsets(task.anywhere))
    E, rise = math.exp(task.epsilon), math.expm1(task.epsilon)
    secrets = compared(task.within)
    if task.notion == "ldp" or (task.reads == "both" and task.notion == "rldp" and len(secrets) > 1):
        return rise if task.rows * task.joint.useful.size > 1 else math.inf
    if task.notion == "lip":
        return _subsets_lip(task, secrets, E)
    gathered = [_gathered(task.within, s1, s2, E) for s1 in secrets for s2 in secrets if s1 != s2]
    return least_quotient(rise, gathered) if gathered else math.inf


def _subsets_lip(task: Task, secrets: Any, E: float) -> float:
    ps = task.joint.p_secret
    q = task.joint.useful_given_secret
    if task.reads == "both":
        q = (np.eye(len(q))[:, :, None] * q[:, None, :]).reshape(len(q), -1)
    p = ps @ q
    above = np.maximum(q[secrets] - E * p, 0).sum(1)
    below = np.maximum(p / E - q[secrets], 0).sum(1)
    return min(least_quotient(E - 1, above), least_quotient(1 - 1 / E, below))


def _gathered(within: UncertaintySet, s1: int, s2: int, E: float) -> float:
    """An upper bound of Σ_u (R₁ − E·R₂)₊ over F; exact for one distribution and for any."""
    if isinstance(within, Anything):
        return 1.0
    low, high = within.spikes()
    each = float(np.maximum(high[s1] - E * low[s2], 0).sum())
    if not isinstance(within, ChiSquareBall):
        return min(1.0, each)
    q, radii = within.joint.useful_given_secret, l1_radius(within)
    moved = float(np.maximum(q[s1] - E * q[s2], 0).sum() + (radii[s1] + E * radii[s2]) / 2)
    return min(1.0, each, moved)


def l1_radius(ball: ChiSquareBall) -> Floats:
    """√(C_s − 1) ≥ max ‖R − P̂(·|s)‖₁ given s [000, Prop. 2 item 3, as the upper bound it is], at most 2."""
    return np.minimum(np.sqrt(ball.spread() - 1), 2.0)
