"""compare: who takes part, at which levels, and the run of all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato import reporting, sources
from sfumato.designers.base import Options
from sfumato.designers.choose import REGISTERED, SHARING, keywords_of
from sfumato.errors import LIMIT_OF_TIME, InputError, designed_epsilon, unknown
from sfumato.joint import Joint
from sfumato.reporting.comparison import Comparison, FigureCache, Missing, Point, cache_folder, digest
from sfumato.uncertainty import ChiSquareBall, UncertaintySet
from sfumato.uncertainty.sets import is_set

# --- the levels of a comparison ---------------------------------------------------------------------------------------


POINTS = 12
Names = str | Iterable[str]  # of columns
Levels = str | float | Sequence[float]  # of ε, or a grid of them in words
MOST = 200  # levels in one comparison


def levels(epsilon: Levels, points: int = POINTS) -> tuple[float, ...]:
    """ε as a grid: '0.1:4' (equal ratios between the ends), '0.5,1,2', a number or numbers; increasing, each once.

    >>> levels("0.5:2", 3)
    (0.5, 1.0, 2.0)
    >>> levels([2, 0.5])
    (0.5, 2.0)
    """
    found = _read(epsilon, points) if isinstance(epsilon, str) else epsilon
    listed = [found] if isinstance(found, (int, float)) else list(found)
    out = tuple(sorted({designed_epsilon(x) for x in listed}))
    if not out or len(out) > MOST:
        raise InputError(f"give between 1 and {MOST} levels of ε, got {len(out)}.")
    return out


def _read(text: str, points: int) -> Sequence[float]:
    try:
        numbers = [float(x) for x in text.replace(":", ",").split(",")]
    except ValueError:
        raise _unread(text) from None
    if ":" not in text:
        return numbers
    if len(numbers) != 2 or "," in text:
        raise _unread(text)
    low, high = numbers
    if not (0 < low < high and math.isfinite(high)):
        raise InputError(f"a range of ε runs from a positive number to a larger one, got {text!r}.")
    if not 2 <= points <= MOST:
        raise InputError(f"a range needs between 2 and {MOST} points, got {points}.")
    inside = [float(f"{low * (high / low) ** (i / (points - 1)):.6g}") for i in range(1, points - 1)]
    return [low, *inside, high]  # six digits, so that the same range is the same grid on every machine


def _unread(text: str) -> InputError:
    return InputError(f"{text!r} is no grid of ε; write 0.1:4 for a range or 0.5,1,2 for a list.")


# --- every designer, and the ordinary LDP protocols for scale ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entrant:
    """How a name is designed for a comparison, and what its value means."""

    designer: str
    options: Options = field(default_factory=dict)
    along: Options = field(default_factory=dict)  # more of them, where its levels share a search
    known: bool = False  # designed for the counts as they are, so private there and nowhere else
    informs: bool = True  # it maximises I(input; Y), so its bound limits what is kept
    timed: bool = False  # it takes a time limit
    comparable: bool = True  # it promises ε about the secret over the whole set
    after: str | None = None  # the method whose designs help this one's, where both are compared
    within: str | None = None  # the method whose bounds hold for this one's designs too
    effort: float = 1.0  # of the seconds of a search: less where it is shared or helped, and nothing more is seen

    @property
    def shares(self) -> bool:
        """Whether its levels share a search, so that what one finds depends on which others there are."""
        return self.designer in SHARING


PICTURE_GAP = 4e-4  # relative gap between value and bound at which a search ends: a picture shows no more
# A turn of moves that gains less is the last of a level: of a value, of a variance, of one begun with another's rows.
ONCE = {"value": 1e-3, "error": 5e-3, "helped": 2e-2}
_OWN = {
    "ballopt": Entrant("ballopt", {"gap": PICTURE_GAP}, {"once": ONCE["value"]}, timed=True),
    "polyopt": Entrant("polyopt", timed=True, within="ballopt"),
    "precise": Entrant("precise", {}, {"bounded": False, "once": ONCE["error"]},
                       informs=False, timed=True, effort=0.42),
    "precise-useful": Entrant("precise", {"target": "useful"}, {"bounded": False, "once": ONCE["helped"]},
                              informs=False, timed=True, after="precise", effort=0.42),
    "ir": Entrant("ir"), "srr": Entrant("srr"), "cr": Entrant("cr"),
    "grr": Entrant("grr"), "oue": Entrant("oue"), "sue": Entrant("sue"),
    "ldp": Entrant("ldp", {"gap": PICTURE_GAP}, timed=True),
    "distortion": Entrant("distortion", informs=False), "hamming": Entrant("hamming", informs=False, comparable=False),
    "leakage": Entrant("leakage", informs=False, comparable=False),
    "lip": Entrant("lip", {"gap": PICTURE_GAP}, timed=True, comparable=False),
    "pml": Entrant("pml", timed=True, comparable=False, after="ballopt", effort=0.08),
    "nr": Entrant("nr", known=True, timed=True, comparable=False),
    "srlip": Entrant("srlip", known=True, timed=True, comparable=False),
    "srlip-paper": Entrant("srlip-paper", known=True, comparable=False),
    "mi-funnel": Entrant("mi-funnel", known=True, timed=True, comparable=False),
    "plain-grr": Entrant("grr", {"notion": "ldp"}), "plain-oue": Entrant("oue", {"notion": "ldp"}),
    "plain-olh": Entrant("olh"),
}


class _Entrants(dict[str, Entrant]):
    """Ours, and methods of others by the names that they were registered under."""

    def __missing__(self, name: str) -> Entrant:
        return Entrant(name, informs=False, timed="time_limit" in keywords_of(REGISTERED[name]))


ENTRANTS = _Entrants(_OWN)
# All of methods() but auto, which is the best of the others. The plain ones are ε-LDP about the whole record, as they
# are used elsewhere: more than is asked for here, so they show what knowing the secret is worth.
CLOSED = ("ir", "srr", "cr", "grr", "oue", "sue", "olh")  # formulas: something to look at while searches run
PLAIN = ("plain-grr", "plain-oue", "plain-olh")


def entrants(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names to compare, each once and in the order of the table; all of them when none are given.

    >>> entrants(["srr", "ir", "srr"])
    ('ir', 'srr')
    """
    if names is None:
        return (*ENTRANTS, *REGISTERED)
    if isinstance(names, str):
        names = [names]
    for name in names:
        if name == "auto":
            raise InputError("auto takes the best of the others at each ε; leave it out and read the recommendation.")
        if name not in ENTRANTS and name not in REGISTERED:
            raise unknown("a method to compare", name, (*ENTRANTS, *REGISTERED))
    if not names:
        raise InputError("there is no method to compare.")
    return tuple(name for name in (*ENTRANTS, *REGISTERED) if name in names)


# --- a joint and a set around it, named before anything heavy is loaded -----------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """The joint, the set's description for the cache (None when it has none), and how the set is made."""

    joint: Joint
    described: dict[str, object] | None
    within: Callable[[], UncertaintySet]


def question(
    source: object, secret: Names | None, useful: Names | None, confidence: float | None, counting: Options
) -> Subject:
    """From a set, a joint, or a table of people with the names of its columns."""
    if is_set(source):
        if confidence is not None or secret is not None or useful is not None or counting:
            raise InputError("an uncertainty set says everything already; leave out confidence=, secret= and useful=.")
        return Subject(source.joint, _described(source), lambda: source)
    if isinstance(source, Joint):
        if secret is not None or useful is not None or counting:
            raise InputError("a Joint has its columns already; leave out secret= and useful=.")
        return _ball(source, confidence)
    if secret is None or useful is None:
        raise InputError("say which columns of the table are compared: secret= and useful=.")
    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    return _ball(sources.tabulate(path, secret, useful, **counting), confidence)


def _ball(joint: Joint, confidence: float | None) -> Subject:
    level = 0.95 if confidence is None else confidence
    if not 0 < level < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence!r}.")
    if joint.n is None:
        raise InputError(
            "a comparison surrounds the counts with a confidence ball, but this joint does not say how many rows it "
            "was counted from. Give a set instead, sf.Exactly(joint) or sf.ChiSquareBall(joint, radius=…)."
        )

    described = {"kind": "chi-square-ball", "confidence": level, "calibration": "asymptotic"}
    return Subject(joint, described, lambda: ChiSquareBall(joint, confidence=level))


def _described(within: UncertaintySet) -> dict[str, object] | None:
    """The set's own numbers; None for sets made of functions, which are not cached."""
    if isinstance(within, ChiSquareBall) and within.calibration == "asymptotic":
        return {"kind": within.kind, "confidence": within.confidence, "calibration": within.calibration}
    out: dict[str, object] = {"kind": within.kind}
    for name in getattr(type(within), "__slots__", ()) or vars(within):
        value = getattr(within, name)
        if isinstance(value, Joint):
            out[name] = value.fingerprint
        elif value is None or isinstance(value, (bool, int, float, str)):
            out[name] = value
        elif isinstance(value, np.ndarray):
            out[name] = [str(value.shape), value.tobytes().hex()]
        else:
            return None
    return out


# --- compare: every applicable mechanism over a grid of ε, from the cache where it was seen before --------------------


SECONDS = 20.0  # for one design that searches
Progress = Callable[[int, int, str], None]  # done, of how many, what was done last
Task = tuple[str, float]  # method, ε
Found = dict[Task, Point | Missing]
Early = Callable[[Comparison], None]  # what there is to look at so far


def compare(
    source: object, secret: Names | None = None, useful: Names | None = None, *, epsilon: Levels = "0.1:4",
    points: int = POINTS, methods: Sequence[str] | None = None, confidence: float | None = None, n: int | None = None,
    time_limit: float | None = SECONDS, workers: int | None = None, cache: bool = True,
    progress: Progress | None = None, at_most: float | None = None, early: Early | None = None, **counting: Any,
) -> Comparison:
    """Every applicable mechanism over a grid of ε: what it keeps, what it promises, how well one can estimate from it.

    `source` is a set around a joint, a joint (a confidence ball is put around it) or a table of people with the names
    of its columns. epsilon is '0.1:4' with `points` levels in equal ratios, '0.5,1,2' or numbers; n is how many rows
    will be released (as many as were counted). Designs run in processes of their own, `time_limit` seconds each.
    at_most asks each of them for a second promise, for any distribution; methods that have none drop out.
    Figures are kept in the user's cache, so that asking again is instant. Ctrl-C returns what is done, and says so.
    Levels of a method that searches share their searches (`sf.designs`). `early` is called with the comparison so far
    whenever a method is complete, first those that need no search.

    >>> from sfumato import Joint
    >>> joint = Joint.from_counts([[30, 10], [20, 40]])
    >>> found = compare(joint, epsilon=[1.0], methods=["srr", "grr"], cache=False, workers=1)
    >>> [p.method for p in found.points]
    ['srr', 'grr']
    """
    grid, names = levels(epsilon, points), entrants(methods)
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"{LIMIT_OF_TIME} must be a positive number of seconds", value=time_limit)
    asked = question(source, secret, useful, confidence, counting)
    rows = asked.joint.n if n is None else n
    if rows is not None and not (isinstance(rows, int) and rows > 0):
        raise InputError(f"n is the number of rows to release, one or more, got {n!r}.")
    tasks = [(name, e) for name in names for e in grid]
    options = {"n": rows, "time_limit": time_limit, **({} if at_most is None else {"at_most": float(at_most)})}

    def gathered(found: Found, complete: bool) -> Comparison:
        listed = [_limited(found[task], found) for task in tasks if task in found]
        return Comparison(
            asked.joint, rows, grid, tuple(p for p in listed if isinstance(p, Point)),
            tuple(p for p in listed if isinstance(p, Missing)), complete,
        )

    def tell(found: Found, last: Task) -> None:
        if progress is not None:
            progress(len(found), len(tasks), f"{last[0]} at ε = {last[1]:g}")
        if early is not None and len(found) < len(tasks) and all(x in found for x in tasks if x[0] == last[0]):
            early(gathered(found, False))

    return gathered(*_answered(asked, tasks, options, _workers(workers), cache, tell))


def _limited(point: Point | Missing, found: Found) -> Point | Missing:
    """What no mechanism of a larger family exceeds at this ε, or at a larger one, this one does not."""
    if isinstance(point, Missing) or point.bound is None or ENTRANTS[point.method].within is None:
        return point
    others = [x.bound for (name, e), x in found.items() if name == ENTRANTS[point.method].within and e >= point.epsilon
              and isinstance(x, Point) and x.bound is not None]
    return replace(point, bound=min([point.bound, *others]))


def curve(
    source: object, epsilon: Levels = "0.1:4", methods: Sequence[str] | None = None, **options: Any
) -> tuple[Point, ...]:
    """The points of a comparison alone, by method and then by ε; see `compare` for the options."""
    return compare(source, epsilon=epsilon, methods=methods, **options).points


def _workers(wanted: int | None) -> int:
    if wanted is not None and not (isinstance(wanted, int) and wanted > 0):
        raise InputError(f"workers is a number of processes, one or more, got {wanted!r}.")
    return min(os.cpu_count() or 1, 8) if wanted is None else wanted


def _keys(asked: Subject, tasks: list[Task], options: Options) -> dict[Task, str]:
    """The names of tasks in the cache, by all that their figures follow from: also the tasks that share a search."""
    beside = {name: [x for x in tasks if (x[0] == name and ENTRANTS[name].shares)
                     or x[0] in (ENTRANTS[name].after, ENTRANTS[name].within)] for name, _ in tasks}
    common = {"joint": asked.joint.fingerprint, "set": asked.described, **options}
    return {
        (name, e): digest({**common, "entrant": repr(ENTRANTS[name]), "method": name, "epsilon": e,
                           "beside": beside[name]}) for name, e in tasks
    }


def _answered(
    asked: Subject, tasks: list[Task], options: Options, workers: int, cache: bool,
    tell: Callable[[Found, Task], None],
) -> tuple[Found, bool]:
    """Answers by task, and whether all of them came before somebody pressed Ctrl-C."""
    store = FigureCache(cache_folder() if cache and asked.described is not None else None)
    key = dict.fromkeys(tasks, "") if store.folder is None else _keys(asked, tasks, options)
    kept = [task for task in tasks if task[0] not in REGISTERED]  # what others register may change at any time
    found = {task: point for task in kept if (point := store.read(key[task])) is not None}
    if len(found) == len(tasks):
        return found, True
    helping = {ENTRANTS[method].after for method, e in tasks if (method, e) not in found}
    left = [task for task in tasks if task not in found or task[0] in helping]
    coming = reporting.answers(asked.within(), left, workers, {**options, "beside": tuple(dict(tasks))})
    try:
        for task, point, lasting in coming:
            found[task] = point
            if lasting and task in kept:
                store.write(key[task], point)
            tell(found, task)
    except KeyboardInterrupt:
        return found, False
    finally:
        coming.close()  # type: ignore[attr-defined]  # a generator
    return found, True
