"""Designs at several ε of one table, which share what their searches find: far less work than one by one.

A row that is private at ε is private at any larger one, and rows of one level become rows of another
(optimise/all_levels.py), so each search begins where its neighbour's ended. The promise of each point is its own: every
mechanism is sealed and certified at its ε, as if it had been designed alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sfumato.designers.aiming import AIM, noted, searched
from sfumato.designers.base import RELATIVE, SEARCH, SHARING, Design, Draft, Task, finished
from sfumato.designers.choose import as_set, design, home_of, most_informative, optimum
from sfumato.errors import InputError, designed_epsilon
from sfumato.joint import Joint
from sfumato.optimise.budget import Budget
from sfumato.uncertainty import UncertaintySet

FIRST, NEXT = 0.75, 0.25  # of the time of a design alone: for the first of a curve, and for each of the others
Known = TypeVar("Known")


def curve_seconds(points: int, seconds: float) -> float:
    """Of work for a whole curve, where a design alone takes so many."""
    return (FIRST + NEXT * (points - 1)) * seconds


def proof_seconds(seconds: float) -> float:
    """Of them, for the bound of one of the others."""
    return (1 - SEARCH) * NEXT * seconds


def along(
    tasks: Sequence[Task], one: Callable[[Task, Budget, Known | None], tuple[Draft, Known | None]], seconds: float
) -> Iterator[Draft]:
    """Drafts at increasing ε, each with what the one before it found.

    `seconds` are those of a design alone. What a point leaves of its time is for those after it.
    """
    whole, known = Budget.of_work(curve_seconds(len(tasks), seconds)), None
    for i, task in enumerate(tasks):
        budget = whole.part(1 / (len(tasks) - i)) if i else whole.part(1.0, FIRST * seconds)
        draft, known = one(task, budget, known)
        yield draft


def designs(
    within: UncertaintySet | Joint, epsilons: Sequence[float] | float, method: str = "auto", *, notion: str = "rldp",
    reads: str = "both", at_most: float | None = None, **options: Any,
) -> tuple[Design, ...]:
    """A sealed and certified design at each ε, in increasing order and each once; about a third of the work.

    ballopt, precise and auto share their searches; polyopt's optimum is listed where its rows are few; of other methods
    each point is designed alone. `working` are the seconds of work that one design alone may take. No value is worse
    than that of a smaller ε, whose mechanism has the promise too; no bound is weaker than that of a larger one. Of
    auto, whose errors are told in units of the least at their own ε, values do not compare, and `foreseen` does.
    """
    several = [epsilons] if isinstance(epsilons, (str, float, int)) else list(epsilons)
    listed = sorted({designed_epsilon(x) for x in several})
    if not listed:
        raise InputError("give at least one ε")
    if "time_limit" in options and method in (*SHARING, "auto"):
        raise InputError("a curve is limited by its work", next="Say working=, the seconds that one design may take.")
    within = as_set(within)
    if listed[0] > 0 and (at_most is None or at_most > listed[-1]):  # elsewhere one of the levels has no search
        tasks = [Task(within, x, notion, reads, at_most) for x in listed]
        if (drafts := _sharing(tasks, method, options)) is not None:
            return _bounded(list(_settled(tasks, drafts)))
    common: dict[str, Any] = {"notion": notion, "reads": reads, "at_most": at_most}
    return tuple(design(within, x, method, **common, **options) for x in listed)


def _sharing(tasks: Sequence[Task], method: str, options: dict[str, Any]) -> Iterator[Draft] | None:
    """The drafts of a method at increasing ε that share their searches; None for a method that has none to share."""
    if method != "auto":
        return _along(method, tasks, options) if method in (*SHARING, "polyopt") else None
    given = {k: v for k, v in options.items() if k != "aim"}
    if given.keys() - {"working"} or not all(map(searched, tasks)):
        return None
    aim = options.get("aim", AIM)
    if aim in ("estimates", "either"):
        return map(noted, _along("precise", tasks, {"target": "each", **given}))
    if aim != "information" or any(optimum(task) != "ballopt" for task in tasks):
        return None
    return map(most_informative, tasks, _along("ballopt", tasks, given))


def _along(method: str, tasks: Sequence[Task], options: dict[str, Any]) -> Iterator[Draft]:
    make: Callable[..., Iterator[Draft]] = getattr(home_of(method), f"{method}_along")
    return make(tasks, **options)


def _settled(tasks: Sequence[Task], drafts: Iterator[Draft]) -> Iterator[Design]:
    """Each draft sealed; where the mechanism of a smaller ε does better, that one under this promise."""
    below: tuple[Design, Draft] | None = None
    started = time.perf_counter()
    for task, draft in zip(tasks, drafts, strict=True):
        made = finished(task, draft, started)
        if below is not None and _worth(draft, below[0]) > _worth(draft, made):
            draft = replace(draft, law=below[1].law, method=below[1].method, task=None)
            made = finished(task, draft, started)
        below, started = (made, draft), time.perf_counter()
        yield made


def _worth(draft: Draft, design: Design) -> float:
    """What a mechanism is worth by the measure of a draft; greater is better."""
    if draft.score is not None:
        return -draft.score(design.mechanism)
    return design.information.both if design.information else -math.inf


def _bounded(made: list[Design]) -> tuple[Design, ...]:
    """What no mechanism at a larger ε exceeds, none at a smaller one does; errors relative to others do not compare."""
    for i in reversed(range(len(made) - 1)):
        if made[i].unit == made[i + 1].unit != RELATIVE:
            pick = min if made[i].unit == "nats" else max
            made[i] = replace(made[i], bound=pick(made[i].bound, made[i + 1].bound))
    return tuple(made)
