"""mi-funnel: the classic privacy funnel, I(X;Y) large with I(S;Y) ≤ ε. An average-case promise, unlike every other."""

from __future__ import annotations

from sfumato.designers.base import Draft, Task
from sfumato.designers.funnel import perfect
from sfumato.errors import InputError
from sfumato.mechanism import Table
from sfumato.optimise.budget import Budget
from sfumato.uncertainty import Exactly


def mi_funnel(task: Task, *, time_limit: float = 5.0) -> Draft:
    """High I(X;Y) with I(S;Y) ≤ ε nats (M in the literature), by greedy merging and local ascent. A baseline.

    Makhdoumi et al. 2014; Ding and Sadeghi 2019. The promise is about the average: single outputs may tell S outright.
    The certificate proves I(S;Y) ≤ ε and states the worst-case level beside it. Not a global optimum.
    """
    from sfumato.optimise.funnel.average import best_mutual

    if not isinstance(task.within, Exactly):
        raise InputError(f"mi-funnel is for a known distribution; give sf.Exactly(joint), not {task.within.kind!r}.")
    if task.epsilon == 0.0:
        return perfect(task, "mi-funnel")  # no average can hide anything: this is perfect privacy
    found = best_mutual(task.joint.p, task.epsilon, Budget.of(time_limit))
    note = "average case: I(S;Y) ≤ ε says nothing about single outputs; see the worst output in the certificate"
    return Draft(Table(found.matrix, 1), "mi-funnel", found.bound, (note,), fine=True)
