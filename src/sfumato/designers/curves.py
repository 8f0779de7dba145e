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

from sfumato.alphabet import Floats
from sfumato.demand import loaded
from sfumato.designers.base import LARGEST, RELATIVE, SHARING, Design, Draft, Task, finished
from sfumato.errors import InputError, designed_epsilon
from sfumato.joint import Joint
from sfumato.optimise.budget import Budget
from sfumato.uncertainty import ChiSquareBall, RenyiBall, UncertaintySet

FIRST, NEXT = 0.5, 0.25  # of the time of a design alone: for the first of a curve, and for each of the others
Known = TypeVar("Known")


def curve_seconds(points: int, seconds: float) -> float:
    """Of work for a whole curve, where a design alone takes so many."""
    return (FIRST + NEXT * points) * seconds


def along(
    tasks: Sequence[Task], one: Callable[[Task, Budget, Known | None], tuple[Draft, Known | None]], seconds: float
) -> Iterator[Draft]:
    """Drafts at increasing ε, the last of them the first once more, each with what the one before it found.

    `seconds` are those of a design alone. What a point leaves of its time is for those after it.
    """
    rest = NEXT * len(tasks)
    whole, known, second = Budget.of_work(curve_seconds(len(tasks), seconds)), None, None
    for i, task in enumerate(tasks):
        draft, known = one(task, whole.part(FIRST / (FIRST + rest) if i == 0 else 1 / (len(tasks) - i + 1)), known)
        second = known if i == 1 else second
        yield draft
    if len(tasks) > 1:
        yield one(tasks[0], whole.part(1.0, NEXT * seconds), second)[0]


def designs(
    within: UncertaintySet | Joint, epsilons: Sequence[float], method: str = "auto", *, notion: str = "rldp",
    reads: str = "both", at_most: float | None = None, **options: Any,
) -> tuple[Design, ...]:
    """A sealed and certified design at each ε, in increasing order; the work of about a third of as many designs.

    ballopt, precise and auto share their searches; polyopt's optimum is listed where its rows are few; of other methods
    each point is designed alone. `working` are the seconds of work that one design alone may take. No value is worse
    than that of a smaller ε, whose mechanism has the promise too; no bound is weaker than that of a larger one. Of
    auto, whose errors are told in units of the least at their own ε, values do not compare, and `foreseen` does.
    """
    listed = sorted({designed_epsilon(x) for x in epsilons})
    if not listed:
        raise InputError("give at least one ε")
    if "time_limit" in options and method in (*SHARING, "auto"):
        raise InputError("a curve is limited by its work", next="Say working=, the seconds that one design may take.")
    common: dict[str, Any] = {"notion": notion, "reads": reads, "at_most": at_most}
    shared = _sharing(within, listed, method, common, options)
    if shared is None:
        from sfumato.designers.choose import design

        return tuple(design(within, x, method, **common, **options) for x in listed)
    return _bounded(tuple(shared))


def _sharing(
    within: Any, epsilons: list[float], method: str, common: dict[str, Any], options: dict[str, Any]
) -> list[Design] | None:
    """The designs of a method that shares; None for others, and where one of the levels has no search."""
    from sfumato.designers.choose import as_set, searching

    within = as_set(within)
    if epsilons[0] == 0 or (common["at_most"] is not None and common["at_most"] <= epsilons[-1]):
        return None
    tasks = [Task(within, x, common["notion"], common["reads"], common["at_most"]) for x in epsilons]
    found = _listed(tasks, **options) if method == "polyopt" else searching(tasks, method, dict(options))
    return None if found is None else list(_settled(tasks, found))


def _listed(
    tasks: Sequence[Task], *, limit: float | None = None, working: float | None = None, **options: Any
) -> Iterator[Draft] | None:
    """PolyOpt's optimum at each ε from all of its extreme rows; None where these are not listed, or more is asked for.

    `limit` is a bound that is proved already: no other is looked for. `working` is what a design alone may take.
    """
    from sfumato.designers.robust import PROOF, usual_seconds
    from sfumato.optimise.starts import Simplices, best_over_simplices

    first, last = tasks[0], tasks[-1]
    asked = first.notion == "rldp" and first.reads == "both" and first.at_most is None and last.epsilon <= LARGEST
    if (first.joint.p.sum(1) > 0).sum() < 2:
        return None
    if options or not asked or not isinstance(first.within, (ChiSquareBall, RenyiBall)):
        return None
    found = [best_over_simplices(Simplices(first.within), math.exp(task.epsilon)) for task in tasks]
    seconds = PROOF * (usual_seconds(first) if working is None else working) if limit is None else 0.0
    listed = [(x, *y, min(x.ceiling, limit or math.inf), seconds) for x, y in zip(tasks, found, strict=True) if y]
    return (_optimal(*x) for x in listed) if len(listed) == len(tasks) else None


def _optimal(task: Task, rows: Floats, value: float, limit: float, seconds: float) -> Draft:
    """A draft of polyopt, with the least bound of its set that is found in so many seconds."""
    from sfumato.mechanism import Table
    from sfumato.optimise.bound import bound
    from sfumato.optimise.chain import GAP

    found = bound(task.joint.p, task.within, task.epsilon, value=value, gap=GAP, budget=Budget.of_work(seconds))
    return Draft(Table(rows, task.rows), "polyopt", min(found.value, limit),
                 details={"family": value, "bounds": found.routes})


def drafts_along(method: str, tasks: Sequence[Task], options: dict[str, Any]) -> Iterator[Draft]:
    make: Callable[..., Iterator[Draft]] = getattr(loaded(f"sfumato.designers.{SHARING[method]}"), f"{method}_along")
    return make(tasks, **options)


def _settled(tasks: Sequence[Task], drafts: Iterator[Draft]) -> Iterator[Design]:
    """Each draft sealed; where the mechanism of a smaller ε does better, that one under this promise."""
    started, made, listed = time.perf_counter(), [], list(zip(drafts, [*tasks, tasks[0]], strict=False))
    for draft, task in listed:
        made.append((finished(task, draft, started), draft))
        started = time.perf_counter()
    if len(made) > len(tasks):
        made[0] = _better(made[0], made.pop())
    best, taken = made[0]
    yield best
    for task, (design, draft) in zip(tasks[1:], made[1:], strict=True):
        if _worth(draft, best) > _worth(draft, design):
            draft = replace(draft, law=taken.law, method=taken.method, task=None)
            design = finished(task, draft, time.perf_counter())
        best, taken = design, draft
        yield design


def _better(one: tuple[Design, Draft], other: tuple[Design, Draft]) -> tuple[Design, Draft]:
    return max(one, other, key=lambda x: _worth(one[1], x[0]))


def _worth(draft: Draft, design: Design) -> float:
    """What a mechanism is worth by the measure of a draft; greater is better."""
    if draft.score is not None:
        return -draft.score(design.mechanism)
    return design.information.both if design.information else -math.inf


def _bounded(made: tuple[Design, ...]) -> tuple[Design, ...]:
    """What no mechanism at a larger ε exceeds, none at a smaller one does; errors relative to others do not compare."""
    out = list(made)
    for i in reversed(range(len(made) - 1)):
        if out[i].unit == out[i + 1].unit != RELATIVE:
            pick = min if out[i].unit == "nats" else max
            out[i] = replace(out[i], bound=pick(out[i].bound, out[i + 1].bound))
    return tuple(out)
