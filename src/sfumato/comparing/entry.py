"""compare: every applicable mechanism over a grid of ε, from the cache where it was seen before."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from sfumato.comparing.comparison import Comparison
from sfumato.comparing.field import ENTRANTS, entrants
from sfumato.comparing.grid import POINTS, levels
from sfumato.comparing.points import Missing, Point
from sfumato.comparing.questions import Question, question
from sfumato.comparing.store import Store, cache_folder, digest
from sfumato.designers.registry import REGISTERED
from sfumato.errors import InputError

SECONDS = 20.0  # for one design that searches
WORKERS = 8  # processes at most
Progress = Callable[[int, int, str], None]  # done, of how many, what was done last


def compare(
    source: Any, secret: Any = None, useful: Any = None, *, epsilon: str | float | Sequence[float] = "0.1:4",
    points: int = POINTS, methods: Sequence[str] | None = None, confidence: float | None = None, n: int | None = None,
    time_limit: float | None = SECONDS, workers: int | None = None, cache: bool = True,
    progress: Progress | None = None, at_most: float | None = None, **counting: Any,
) -> Comparison:
    """Every applicable mechanism over a grid of ε: what it keeps, what it promises, how well one can estimate from it.

    `source` is a set around a joint, a joint (a confidence ball is put around it) or a table of people with the names
    of its columns. epsilon is '0.1:4' with `points` levels in equal ratios, '0.5,1,2' or numbers; n is how many rows
    will be released (as many as were counted). Designs run in processes of their own, `time_limit` seconds each.
    at_most asks each of them for a second promise, for any distribution; methods that have none drop out.
    Figures are kept in the user's cache, so that asking again is instant. Ctrl-C returns what is done, and says so.

    >>> from sfumato import Joint
    >>> joint = Joint.from_counts([[30, 10], [20, 40]])
    >>> found = compare(joint, epsilon=[1.0], methods=["srr", "grr"], cache=False, workers=1)
    >>> [p.method for p in found.points]
    ['srr', 'grr']
    """
    grid, names = levels(epsilon, points), entrants(methods)
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}.")
    asked = question(source, secret, useful, confidence, counting)
    rows = asked.joint.n if n is None else n
    if rows is not None and not (isinstance(rows, int) and rows > 0):
        raise InputError(f"n is the number of rows to release, one or more, got {n!r}.")
    tasks = [(name, e) for name in names for e in grid]
    options = {"n": rows, "time_limit": time_limit, **({} if at_most is None else {"at_most": float(at_most)})}
    found, complete = _answered(asked, tasks, options, _workers(workers), cache, progress)
    listed = [found[task] for task in tasks if task in found]
    return Comparison(
        asked.joint, rows, grid, tuple(p for p in listed if isinstance(p, Point)),
        tuple(p for p in listed if isinstance(p, Missing)), complete,
    )


def curve(
    source: Any, epsilon: str | float | Sequence[float] = "0.1:4", methods: Sequence[str] | None = None, **options: Any
) -> tuple[Point, ...]:
    """The points of a comparison alone, by method and then by ε; see `compare` for the options."""
    return compare(source, epsilon=epsilon, methods=methods, **options).points


def _workers(wanted: int | None) -> int:
    if wanted is not None and not (isinstance(wanted, int) and wanted > 0):
        raise InputError(f"workers is a number of processes, one or more, got {wanted!r}.")
    return min(os.cpu_count() or 1, WORKERS) if wanted is None else wanted


def _answered(
    asked: Question, tasks: list[tuple[str, float]], options: dict[str, Any], workers: int, cache: bool,
    progress: Progress | None,
) -> tuple[dict[tuple[str, float], Point | Missing], bool]:
    """Answers by task, and whether all of them came before somebody pressed Ctrl-C."""
    store = Store(cache_folder() if cache and asked.described is not None else None)
    common = {"joint": asked.joint.fingerprint, "set": asked.described, **options}
    key = {
        task: digest({**common, "entrant": repr(ENTRANTS[task[0]]), "method": task[0], "epsilon": task[1]})
        for task in tasks
    } if store.folder is not None else dict.fromkeys(tasks, "")
    kept = [task for task in tasks if task[0] not in REGISTERED]  # what others register may change at any time
    found = {task: point for task in kept if (point := store.read(key[task])) is not None}
    left = [task for task in tasks if task not in found]
    if not left:
        return found, True
    from sfumato.comparing.workers import answers

    coming = answers(asked.within(), left, workers, options)
    try:
        for task, point, lasting in coming:
            found[task] = point
            if lasting and task in kept:
                store.write(key[task], point)
            if progress is not None:
                progress(len(found), len(tasks), f"{task[0]} at ε = {task[1]:g}")
    except KeyboardInterrupt:
        return found, False
    finally:
        coming.close()  # type: ignore[attr-defined]  # a generator
    return found, True
