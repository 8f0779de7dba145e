"""What `auto` aims at: the most information, the best estimates, or information from which something can be estimated.

Bits and estimates are different things. An output may stand for one useful value with each secret: it says much about
a record to somebody who knows the distribution, and little about the distribution to somebody who does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError, unknown
from sfumato.mechanism import Mechanism
from sfumato.privacy.rldp import compared
from sfumato.utility import recovery

AIMS = ("information", "estimates", "either")
AIM = "either"  # what `auto` aims at when nobody says, in Python and on the command line
QUICK_SECONDS = 10.0  # of search for the best estimates, where nobody asked for one
Named = Callable[[str, dict[str, float]], Draft]  # a draft by method and options


def aimed(task: Task, aim: str, informative: Callable[[], Draft], named: Named, time_limit: float | None) -> Draft:
    """The draft for an aim. 'either' is the most informative design if the whole distribution can be estimated from
    it, else the one from which it is estimated best."""
    if aim not in AIMS:
        raise unknown("an aim", aim, AIMS)
    if aim == "estimates":
        return _estimable(task, named, time_limit)
    draft = informative()
    if aim == "information" or _error(task, draft) < math.inf:
        return draft
    if not _searchable(task):
        return replace(draft, notes=(*draft.notes, "the aim 'estimates' designs for estimates instead of bits"))
    best = _estimable(task, named, QUICK_SECONDS if time_limit is None else time_limit)
    kept = f"with the aim 'information' {draft.method} keeps {draft.value(task):.4g} nats, not {best.value(task):.4g}"
    why = f"the distribution could not be estimated from the most informative design; {kept}"
    return replace(best, notes=(*best.notes, why))


def _estimable(task: Task, named: Named, time_limit: float | None) -> Draft:
    """The least standard errors: by search where there is one, else the best closed form."""
    if _searchable(task):
        draft = named("precise", {} if time_limit is None else {"time_limit": time_limit})
        return replace(draft, notes=(*draft.notes, "auto took precise: it is designed for estimates"))
    closed = [named(name, {}) for name in (("srr", "grr") if task.reads == "both" else ("grr",))]
    draft = min(closed, key=lambda one: _error(task, one))
    return replace(draft, notes=(*draft.notes, f"auto took {draft.method}: the best estimates of the closed forms"))


def _searchable(task: Task) -> bool:
    return task.notion == "rldp" and task.epsilon > 0 and len(compared(task.within)) > 1


def _error(task: Task, draft: Draft) -> float:
    """The mean standard error of the cells; ∞ if they cannot be estimated, 0 if that is not known."""
    joint = task.joint
    try:
        found = recovery(Mechanism(draft.law, joint.secret, joint.useful, task.reads), joint)
    except InputError:
        return 0.0
    if found is None:
        return 0.0
    return math.inf if found.standard_errors is None else float(found.standard_errors.mean())
