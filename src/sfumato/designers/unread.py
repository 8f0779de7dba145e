"""Optimal robust designs that never read the secret: all secrets share one row."""

from __future__ import annotations

import math
import time

from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError
from sfumato.mechanism import Constant, Table
from sfumato.solve.useful_rows import useful
from sfumato.uncertainty import ChiSquareBall


def ballopt_unread(task: Task, *, time_limit: float | None = None) -> Draft:
    """The best mechanism that reads U alone and is private over the ball, by columns and cuts (ours).

    Rows are vectors over U with R₁·v ≤ E·R₂·v for all pairs in F: an intersection of |S|(|S|−1) cones in |U|
    dimensions. The bound is the LP's dual plus the best price over boxes, where the convex gain lies below its chord.
    """
    if not isinstance(task.within, ChiSquareBall):
        raise InputError(f"ballopt needs a χ² ball, got a set of kind {task.within.kind!r}.")
    if task.epsilon == 0:
        return Draft(Constant(1, task.joint.useful.size), "ballopt", notes=("ε = 0: the output ignores the input",))
    p = task.joint.p
    if (p.sum(1) <= 0).any() or (p.sum(0) <= 0).any():
        raise InputError("a secret or a useful value never occurs in the table; leave it out, or use method='grr'.")
    until = math.inf if time_limit is None else time.monotonic() + time_limit
    found = useful(p, task.within.slack, task.epsilon, deadline=until)
    law = Table(found.rows / found.rows.sum(0), 1)
    return Draft(law, "ballopt", min(found.bound, task.ceiling), details={"route": "unread"})
