"""Recoverable designs: now and then an answer from which the whole table can be estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.designers.base import Draft, Task
from sfumato.designers.grr import response, strength
from sfumato.errors import InputError
from sfumato.mechanism import Table
from sfumato.mechanism.law import MATRIX_CELLS

SHARE = 0.05  # of the answers, when none is given


def recoverable(task: Task, draft: Draft, share: float = SHARE) -> Draft:
    """The design with probability 1 − λ, else GRR, and the output says which (ours).

    Every row of the mixture is a row of one of the two, up to a factor, so the level is the greater of the two: both
    are designed for ε. GRR is a multiple of the identity plus a constant, so it has full rank, and so has the mixture
    (SRR has not when e^ε = |U| − 1). Information mixes linearly: the cost is λ·(value − value of GRR).
    """
    if not 0 < share < 1:
        raise InputError(f"recoverable takes True or a share of answers between 0 and 1, got {share!r}.")
    if draft.score is not None:
        raise InputError(f"{draft.method} has no recoverable variant: its outputs are values, not symbols.")
    rows, useful = task.rows, task.joint.useful.size
    if 2 * (rows * useful) ** 2 > MATRIX_CELLS:
        raise InputError(f"recoverable designs list a matrix; {rows} × {useful} inputs are too many.")
    plain = response(rows, useful, strength(task))
    first, second = draft.law.matrix(), plain.matrix()
    if first is None or second is None or task.epsilon == 0:
        raise InputError("this design cannot be made recoverable: its outputs are too many to list, or ε is 0.")
    law = Table(np.vstack([(1 - share) * first, share * second]), rows)
    kept, other = draft.value(task), Draft(plain, "").value(task)
    cost = share * (kept - other)
    lost = cost / kept if kept > 0 else 0.0
    note = f"recoverable: {share:.0%} of the answers come from grr, at a cost of {lost:.2%} of what is kept"
    mixed = None if draft.bound is None else (1 - share) * draft.bound + share * other
    bound = mixed if draft.score is None else draft.bound  # of another objective, which holds for every mechanism
    return replace(draft, law=law, bound=bound, notes=(*draft.notes, note), details={**draft.details, "cost": cost})
