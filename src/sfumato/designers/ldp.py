"""ldp: the most informative mechanism on X under ε-LDP about S, at one distribution or over a ball."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.funnel import funnel_draft, perfect, robust_or_known
from sfumato.designers.posteriors import Funnel, likelihood, optimum, repaired


def ldp_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A (v, m) ≤ 0 iff m ≤ g_s·v ≤ e^ε m for every s.

    One extra coordinate m instead of c(c − 1) pairs: with pairs, all of {tight above} × {tight below} meet at a ray,
    so the cone is never simple; with m it is, and a ray has at most c positive values of x [ours].
    """
    g = likelihood(p)
    one = np.ones((len(g), 1))
    return np.concatenate([np.hstack([g, -np.exp(epsilon) * one]), np.hstack([-g, one])])


def ldp_level(matrix: Floats, p: Floats) -> float:
    """max over y, s, s' of log P(y|s)/P(y|s'); outputs and secrets that never occur do not count."""
    live = p[p.sum(axis=1) > 0.0]
    given = matrix @ (live / live.sum(axis=1, keepdims=True)).T
    given = given[given.max(axis=1) > 0.0]
    with np.errstate(divide="ignore"):
        return float((np.log(given.max(axis=1)) - np.log(given.min(axis=1))).max(initial=0.0))


def best_ldp(p: Floats, epsilon: float, *, gap: float = 1e-6, time_limit: float = 60.0) -> Funnel:
    """The mechanism Q[y, x] with the largest I(X;Y) such that P(y|s) ≤ e^ε P(y|s') at p."""
    p = p / p.sum()
    found = optimum(p.sum(axis=0), ldp_rows(p, epsilon), extra=1, gap=gap, time_limit=time_limit)
    return repaired(found, p, epsilon, ldp_level)


def ldp(task: Task, *, time_limit: float = 60.0, gap: float = 1e-6) -> Draft:
    """The mechanism that reads X alone and keeps the most I(X;Y) under ε-LDP about S [001, Thm 2, by a shorter way].

    The paper lists vertices in a² − a dimensions; the extreme rays of the a-dimensional cone and an LP give the same.
    """
    if robust_or_known(task, "ldp"):
        from sfumato.designers.robust_funnel import robust_ldp

        return robust_ldp(task, time_limit=time_limit)
    if task.epsilon == 0.0:
        return perfect(task, "ldp")
    return funnel_draft(best_ldp(task.joint.p, task.epsilon, gap=gap, time_limit=time_limit), "ldp")
