"""What `auto` aims at: the best estimates, or the most information.

Bits and estimates are different things. An output may stand for one useful value with each secret: it says much about
a record to somebody who knows the distribution, and little about the distribution to somebody who does not. Whoever
reads a release wants estimates, so that they are what is aimed at when nobody says; bits are the aim of the papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sfumato.designers.base import LARGEST, RELATIVE, Draft, Task
from sfumato.designers.closed_forms import grr, oue, srr, sue
from sfumato.designers.ir import ir
from sfumato.errors import ClaimError, InputError, unknown
from sfumato.mechanism import Mechanism
from sfumato.optimise.budget import patience
from sfumato.optimise.estimates.closed import closed_errors, untouched_errors
from sfumato.privacy.ldp import compared

AIMS = ("estimates", "information", "either", "closed")  # either is estimates; closed are those that need no search
AIM = "estimates"  # what `auto` aims at when nobody says, in Python and on the command line
SEARCHED = 600  # cells up to which the best estimates are searched for
SOON, LATE, EACH = 3.0, 12.0, 25.0  # seconds of search where nobody says: the first, and the last; cells for one more
CLOSED: dict[str, tuple[Callable[[Task], Draft], ...]] = {"both": (srr, grr, oue, sue, ir), "useful": (grr, oue, sue)}


def aimed(task: Task, aim: str, informative: Callable[[], Draft], time_limit: float | None) -> Draft:
    """The draft for an aim: the least expected error, of all that is found or of the closed forms, or the most bits."""
    if aim not in AIMS:
        raise unknown("an aim", aim, AIMS)
    if aim == "information":
        return informative()
    if aim != "closed" and searched(task):
        from sfumato.designers.precise import precise

        return noted(precise(task, target="each", time_limit=time_limit, working=seconds_of(task)))
    return _best_closed(task) or _blind(informative())


def seconds_of(task: Task) -> float:
    """Of work, where nobody says."""
    return patience() * min(SOON + task.joint.p.size / EACH, LATE)


def noted(draft: Draft) -> Draft:
    return replace(draft, notes=(*draft.notes, "auto took precise: the least errors of the whole table, the secret and "
                                               "each useful column (aim='information' for the most bits)"))


def _blind(draft: Draft) -> Draft:
    why = "nothing can be estimated from any closed form here, so that auto kept the most bits instead"
    return replace(draft, notes=(*draft.notes, why))


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """The closed forms for a task with their errors, and the least error of each part of the table."""

    drafts: dict[str, tuple[Draft, dict[str, float]]]
    best: dict[str, float]

    @classmethod
    def of(cls, task: Task) -> Closed:
        found, columns = {}, [c.size for c in task.joint.useful.columns]
        for make in CLOSED[task.reads]:
            try:
                draft = make(task)
            except (InputError, ClaimError):  # it is not calibrated to this promise
                continue
            errors = closed_errors(draft.law, task.joint, task.reads, columns)
            if errors is not None:
                found[draft.method] = draft, errors
        parts = untouched_errors(task.joint, task.reads, columns)
        return cls(found, {part: min((e[part] for _, e in found.values()), default=math.inf) for part in parts})

    def mean(self, errors: Mapping[str, float]) -> float:
        """The mean of the errors, each in units of the least of its own."""
        return float(np.mean([errors[k] / b if 0 < b < math.inf else 1.0 for k, b in self.best.items()]))

    @property
    def means(self) -> dict[str, float]:
        """By method, of those from which everything can be estimated."""
        finite = {x: e for x, (_, e) in self.drafts.items() if all(map(math.isfinite, e.values()))}
        return {name: self.mean(errors) for name, errors in finite.items()}


def _best_closed(task: Task) -> Draft | None:
    """The closed form with the least mean of variances, each in units of the least of its own; None if none is finite.

    SRR loses the secret where |U| is near e^ε + 1 (docs/choosing.md); its error is then infinite, and it is not taken.
    """
    columns, closed = [c.size for c in task.joint.useful.columns], Closed.of(task)
    if not (means := closed.means):
        return None
    name = min(means, key=lambda x: means[x])
    draft, listed = closed.drafts[name][0], ", ".join(f"{x} {math.sqrt(v):.3g}" for x, v in means.items())

    def score(mechanism: Mechanism) -> float:
        own = closed_errors(mechanism.law, task.joint, task.reads, columns)
        return math.nan if own is None else math.sqrt(closed.mean(own))

    least = math.sqrt(min(closed.mean(untouched_errors(task.joint, task.reads, columns)), means[name]))
    why = f"auto took {name}: the least errors of the closed forms ({RELATIVE}: {listed})"
    return replace(draft, score=score, bound=least, unit=RELATIVE, notes=(*draft.notes, why))


def searched(task: Task) -> bool:
    fits = task.notion == "rldp" and 0 < task.epsilon <= LARGEST
    return fits and task.joint.p.size <= SEARCHED and len(compared(task.within)) > 1
