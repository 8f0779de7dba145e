"""What `auto` aims at: the best estimates or the most information.

Bits are the aim of the papers; whoever reads a release wants estimates, another thing (docs/choosing.md, "By numbers").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from sfumato.designers.base import LARGEST, RELATIVE, Draft, Task
from sfumato.designers.closed_forms import grr, oue, srr, sue
from sfumato.designers.splitting import ir
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Mechanism
from sfumato.optimise.budget import patience
from sfumato.optimise.estimates.goal import closed_errors, untouched_errors

AIMS = ("estimates", "information", "either", "closed")  # either is estimates; closed are those that need no search
AIM = "estimates"  # what `auto` aims at when nobody says, in Python and on the command line
SEARCHED_CELLS = 600  # cells up to which the best estimates are searched for
SOON, LATE, CELLS_A_SECOND = 3.0, 12.0, 25.0  # seconds of search where nobody says: at least, at most, and between
CLOSED: dict[str, tuple[Callable[[Task], Draft], ...]] = {"both": (srr, grr, oue, sue, ir), "useful": (grr, oue, sue)}


def searched(task: Task) -> bool:
    fits = task.notion == "rldp" and 0 < task.epsilon <= LARGEST
    return fits and task.joint.p.size <= SEARCHED_CELLS and len(task.within.possible) > 1


def seconds_of(task: Task) -> float:
    """Of work, where nobody says."""
    return patience() * min(SOON + task.joint.p.size / CELLS_A_SECOND, LATE)


def noted(draft: Draft) -> Draft:
    return draft.with_note("auto took precise: the least errors of the whole table, the secret and each useful column "
                           "(the aim information keeps the most bits)")


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """The closed forms for a task with their errors, and the least error of each part of the table."""

    drafts: dict[str, tuple[Draft, dict[str, float]]]
    best: dict[str, float]

    @classmethod
    def of(cls, task: Task) -> Closed:
        found = {}
        for make in CLOSED[task.reads]:
            with suppress(InputError, ClaimError):  # it is not calibrated to this promise
                draft = make(task)
                if (errors := closed_errors(draft.law, task.joint, task.reads)) is not None:
                    found[draft.method] = draft, errors
        each = [errors for _, errors in found.values()]
        return cls(found, {part: min(errors[part] for errors in each) for part in each[0]} if each else {})

    def mean(self, errors: Mapping[str, float]) -> float:
        """The mean of the errors, each in units of the least of its own."""
        return float(np.mean([errors[k] / b if 0 < b < math.inf else 1.0 for k, b in self.best.items()]))

    @property
    def means(self) -> dict[str, float]:
        """By method, of those from which everything can be estimated."""
        return {x: self.mean(e) for x, (_, e) in self.drafts.items() if all(map(math.isfinite, e.values()))}


    @property
    def least(self) -> str | None:
        """The method with the least mean, None if none is finite: SRR's may not be (docs/choosing.md)."""
        means = self.means
        return min(means, key=means.__getitem__, default=None)


def best_closed(task: Task) -> Draft | None:
    """The closed form with the least `Closed.mean`."""
    closed = Closed.of(task)
    if (name := closed.least) is None:
        return None
    listed = ", ".join(f"{x} {math.sqrt(v):.3g}" for x, v in closed.means.items())

    def score(mechanism: Mechanism) -> float:
        own = closed_errors(mechanism.law, task.joint, task.reads)
        return math.nan if own is None else math.sqrt(closed.mean(own))

    least = math.sqrt(min(closed.mean(untouched_errors(task.joint, task.reads)), closed.means[name]))
    note = f"auto took {name}: the least errors of the closed forms ({RELATIVE}: {listed})"
    return replace(closed.drafts[name][0].with_note(note), score=score, bound=least, unit=RELATIVE)
