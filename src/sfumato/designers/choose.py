"""Which designer answers a method name, what each does in a sentence, and which one `auto` takes."""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

from sfumato.certification.proving import check_confidence
from sfumato.decimals import percent, with_unit
from sfumato.designers.base import LARGEST, RELATIVE, Design, Draft, Options, Task, finished, silent
from sfumato.designers.closed_forms import SHARE
from sfumato.designers.closed_forms import recoverable as made_recoverable
from sfumato.designers.worth import AIM, AIMS, best_closed, errors_of, noted, searched, seconds_of
from sfumato.errors import LIMIT_OF_TIME, ClaimError, InputError, designed_epsilon, is_number, unknown
from sfumato.joint import Joint, checked_joint
from sfumato.libraries import loaded
from sfumato.mechanism import Mechanism
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, RenyiBall, UncertaintySet
from sfumato.uncertainty.sets import is_set

_HOMES = {
    **dict.fromkeys(("grr", "sue", "oue", "srr", "ir", "cr"), "closed_forms"),
    "polyopt": "robust", "ballopt": "robust", "nr": "robust", "precise": "precise",
    "leakage": "distortion", "distortion": "distortion", "hamming": "least",
    **dict.fromkeys(("pml", "lip", "ldp", "srlip", "srlip-paper", "mi-funnel"), "funnel"),
}
# The module of each method, which has a function of its name; loaded on first use, as closed forms need no solver.
_FUNNEL = {"lip": "lip", "ldp": "rldp", "srlip": "srlip", "srlip-paper": "srlip", "mi-funnel": "mi"}
# The notion that a funnel method implies; all of them read the useful variable alone.
_CLOSED = {"both": ("ir", "srr", "grr", "cr"), "useful": ("grr",)}  # what `auto` always compares
_FOUND = ("ballopt", "polyopt", "nr", "precise", "pml", "lip", "ldp")  # whose laws are searched for in floats
_CAPPED = {"grr", "sue", "oue", "srr", "ir", "cr", "polyopt", "ballopt", "nr", "precise", "pml", "auto"}
_NEARNESS = ("distance", "values", "outputs")  # options that only a method with a distance can mean
_VALUED = ("distortion", "least")  # modules of methods whose outputs are values
_BITS = ("gap", "robust_utility")  # options that only the aim 'information' has
Designer = Callable[..., Draft]
REGISTERED: dict[str, Designer] = {}  # methods of others, while a programme runs
SHARING = ("ballopt", "precise")  # methods whose searches at several ε share what they find, by their `…_along`
OPTIMISED_CELLS = 4_000  # cells up to which `auto` optimises


def methods() -> tuple[str, ...]:
    """The method names that `design` takes."""
    return (*_HOMES, *REGISTERED, "auto")


def design(
    within: UncertaintySet | Joint, epsilon: float, method: str = "auto", *, notion: str = "rldp", reads: str = "both",
    recoverable: bool | float = False, at_most: float | None = None, releases: int | None = None,
    budget: float | None = None, **options: Any,
) -> Design:
    """A sealed and certified mechanism for every distribution in `within`, by a method from `methods()`.

    A joint stands for the ball of all distributions that a χ² test at 95 % would not reject by its counts.
    notion is 'rldp' (about the secret, over the set), 'lip' (about the secret, at P̂), 'pml' (no belief about the
    secret rises too far; the method 'pml') or 'ldp' (about the input). reads='useful' designs a mechanism that never
    sees the secret; the funnel methods (lip, ldp, srlip, srlip-paper, mi-funnel) imply it and their notion.
    recoverable=True (or a share of the answers) makes sure that the whole distribution can be estimated. Other options
    go to the designer; those of 'auto' are time_limit, gap (relative, to what is proved to be out of reach) and aim:
    'estimates' or 'either' (the default: the least errors of the whole table, the secret and each useful column),
    'closed' (the same among closed forms, at once) or 'information' (the most bits). d.unit says what d.value is.

    at_most=κ is a second promise: a level up to κ for any distribution (docs/promises.md). With at_most=epsilon the
    design is for `Anything`, at an even weighting of the labels unless `within` is such a set, and holds no counts.
    releases=k with budget=B takes the κ with which k such releases of the same people stay within B nats for any
    distribution, what noisy design counts cost included: levels for any distribution add up.
    """
    started = time.perf_counter()
    within = as_set(within)
    if method not in methods():
        raise unknown("a method", method, methods())
    _check_numbers(options)
    if releases is not None or budget is not None:
        at_most = _planned(within, epsilon, releases, budget, at_most)
    if at_most is not None:
        within, at_most = _second(within, epsilon, at_most, method, notion, options)
    if not (isinstance(recoverable, bool) or (is_number(recoverable) and 0 < recoverable < 1)):
        raise InputError(f"recoverable takes True or a share of answers between 0 and 1, got {recoverable!r}.")
    method, notion, reads = _implied(method, notion, reads, recoverable is not False, options)
    if method == "nr" or (notion == "lip" and method != "lip"):
        within = Exactly(within.joint)  # private at P̂ alone: closed forms promise LIP there and say so
    task = Task(within, epsilon, notion, reads, at_most)
    check_confidence(None if notion == "ldp" else within)  # before a search, which could not be sealed
    draft = _auto(task, options) if method == "auto" else _draft(method, task, options)
    if recoverable is not False:
        draft = _recoverable(task, draft, SHARE if recoverable is True else recoverable)
    return _ended(task, draft, started)


def _recoverable(task: Task, draft: Draft, share: float) -> Draft:
    """A design from which everything can be estimated: one for estimates as it is, others with GRR mixed in."""
    if draft.score is None:
        return made_recoverable(task, draft, share)
    own = task if draft.task is None else draft.task
    errors, _ = errors_of(draft.mechanism(own), own.joint)
    if own.reads != task.reads or not all(map(math.isfinite, errors.values())):
        raise InputError("not everything can be estimated from it", next="Ask for ε above 0 and target='each'.")
    return draft.with_note("recoverable: everything can be estimated from this design as it is")


def _ended(task: Task, draft: Draft, started: float) -> Design:
    """The draft, sealed; in place of a found law that cannot be proved the closed form that any set has, or silence.

    Laws of others, and those that are asked for by name, are refused where they cannot be proved."""
    try:
        return finished(task, draft, started)
    except ClaimError:
        if draft.method not in _FOUND or draft.claim is not None:
            raise
        own = replace(task if draft.task is None else draft.task, notion="rldp")  # which implies the others
        for other in (designer("grr")(own), silent(own, "silence")):
            note = f"nothing could be proved of the law found: {other.method} is taken"
            with contextlib.suppress(ClaimError):
                return finished(task, replace(draft, law=other.law, fine=False).with_note(note), started)
        raise  # of no law: the claim itself is


def _implied(method: str, notion: str, reads: str, recoverable: bool, options: Options) -> tuple[str, str, str]:
    """The method, the notion and what is read, where some of them say the others."""
    if recoverable and (_HOMES.get(method) in _VALUED or any(options.get(name) is not None for name in _NEARNESS)):
        raise InputError(f"{method} has no recoverable variant here: its outputs are values, not symbols.")
    if method in _FUNNEL:
        if recoverable:
            raise InputError(f"{method} has no recoverable variant; use ballopt with reads='useful'.")
        return method, _FUNNEL[method], "useful"
    if "pml" in (method, notion):
        if method not in ("pml", "auto"):
            raise InputError(f"{method} is not calibrated to pml. Use method='pml', or notion='rldp': it implies pml.")
        if recoverable:
            raise InputError("pml has no recoverable variant; use ballopt, whose promise implies it.")
        if options.pop("aim", "either") == "estimates":
            raise InputError("pml keeps information and has no aim 'estimates'; use notion='rldp', which implies it.")
        return "pml", "pml", reads
    return method, notion, reads


def _planned(
    within: UncertaintySet, epsilon: float, releases: int | None, budget: float | None, at_most: float | None
) -> float:
    """The cap of each of several releases that together stay within a budget for any distribution."""
    if releases is None or budget is None or not is_number(budget) or at_most is not None:
        raise InputError("planned repetition takes releases= and budget=, a number of nats, together, and no at_most=, "
                         "which they give.")
    if isinstance(releases, bool) or not isinstance(releases, int) or releases < 1:
        raise InputError(f"releases must be a whole number, 1 or more, got {releases!r}.")
    spent = 0.0 if within.joint.noise is None else within.joint.noise.epsilon
    each = (budget - spent) / releases
    if not each >= epsilon:
        beside = f", less ε_d = {spent:g} for the design counts" if spent else ""
        raise InputError(
            f"{releases} releases within {with_unit(f'{budget:g}', 'nat')}{beside} leave {each:.6g} for "
            f"each, less than ε = {epsilon:g}. Plan fewer releases, a larger budget, or a smaller ε."
        )
    return each


def _second(
    within: UncertaintySet, epsilon: float, at_most: float, method: str, notion: str, options: Options
) -> tuple[UncertaintySet, float | None]:
    """The set and the cap that a second promise leaves: none beside the promise for any distribution, if it is that."""
    if method not in _CAPPED or any(options.get(name) is not None for name in _NEARNESS):
        raise InputError(f"{method} has no second promise; at_most goes with {', '.join(sorted(_CAPPED))}.")
    Task(within, epsilon, at_most=at_most)  # κ is a number, and not less than ε
    if isinstance(within, Anything):
        return within, None
    if at_most == epsilon and notion == "rldp" and method not in ("nr", "pml", "polyopt"):
        return Anything(within.joint.evened), None
    return within, at_most


def options_of(method: str) -> tuple[str, ...]:
    """The options that a method has of its own.

    >>> options_of("grr"), "time_limit" in options_of("auto")
    ((), True)
    """
    if method == "auto":
        return ("time_limit", *_BITS, "aim", *_NEARNESS)
    if method not in methods():
        raise unknown("a method", method, methods())
    return keywords_of(designer(method))


def designer(method: str) -> Designer:
    """The function behind the name of a method."""
    return REGISTERED.get(method) or cast(Designer, getattr(home_of(method), method.replace("-", "_")))


def home_of(method: str) -> ModuleType:
    """The module of a method."""
    return loaded(f"sfumato.designers.{_HOMES[method]}")


def most_kept(
    names: Sequence[str], within: UncertaintySet, epsilon: float, notion: str, reads: str
) -> tuple[Mechanism, float] | None:
    """Of some methods the one that keeps most of a record at P̂, in floats, with how much; None where none of them is
    calibrated to the promise. Those that search do so by work, not by time: the same on every machine."""
    task, found = Task(within, epsilon, notion, reads), []
    for name in names:
        with contextlib.suppress(InputError):
            draft = designer(name)(task, **({"quick": True} if "quick" in options_of(name) else {}))
            found.append((draft.mechanism(task), draft.value(task)))
    return max((x for x in found if x[1] == x[1]), key=lambda x: x[1], default=None)


def as_set(within: UncertaintySet | Joint) -> UncertaintySet:
    """The set itself, or the confidence ball around a joint."""
    return within if is_set(within) else ChiSquareBall(checked_joint(within, "a design"))


def _check_options(method: str, options: Iterable[str], known: Sequence[str]) -> None:
    """A misspelt option is refused: a search without it would look like one with it."""
    if strange := [name for name in options if name not in known]:
        raise unknown(f"an option of {method}", strange[0], known) if known else InputError(
            f"{method} takes no options", value=strange[0], next="Leave it out."
        )


def _check_numbers(options: Options) -> None:
    """Limits of a search are positive, whichever method takes them."""
    for name, what in (("time_limit", f"{LIMIT_OF_TIME} must be a positive number of seconds"),
                       ("working", "working must be a number of seconds, above zero"),
                       ("gap", "gap must be a positive number, a share of what is kept")):
        if (given := options.get(name)) is not None and not (is_number(given) and given > 0):
            raise InputError(what, value=given)


def _draft(method: str, task: Task, options: Options) -> Draft:
    _check_options(method, options, options_of(method))
    made = designer(method)(task, **options)
    if not isinstance(made, Draft):
        raise InputError(f"the designer {method!r} returned a {type(made).__name__} instead of a sf.Draft.")
    return made


def _auto(task: Task, options: Options) -> Draft:
    """The nearest release where options speak of nearness, and what is aimed at otherwise."""
    _check_options("auto", options, options_of("auto"))
    if near := [f"{name}=" for name in _NEARNESS if options.get(name) is not None]:
        draft = _draft("distortion", task, {k: v for k, v in options.items() if k != "aim"})
        return draft.with_note(f"auto took distortion: it is the method that {', '.join(near)} are for")
    given = {k: v for k, v in options.items() if k not in _NEARNESS}
    return aimed(task, given.pop("aim", "information" if any(given.get(name) for name in _BITS) else AIM), given)


def aimed(task: Task, aim: str, given: Options) -> Draft:
    """The draft for an aim: the least expected error, of all that is found or of the closed forms, or the most bits."""
    if aim not in AIMS:
        raise unknown("an aim", aim, AIMS)
    if aim in ("estimates", "either") and searched(task):
        limits = {"time_limit": given.get("time_limit"), "working": seconds_of(task)}
        return noted(designer("precise")(task, target="each", **limits))
    if aim == "information":
        return most_informative(task, **given)
    blind = "nothing can be estimated from any closed form here, so that auto kept the most bits instead"
    return best_closed(task) or most_informative(task, **given).with_note(blind)


def most_informative(
    task: Task, optimised: Draft | None = None, *, time_limit: float | None = None, gap: float | None = None,
    robust_utility: bool = False,
) -> Draft:
    """The draft that keeps most of the input: closed forms, and the optimum where the table is small enough for it.

    robust_utility=True compares what is proved to be kept at every distribution in the set instead of at P̂.
    """
    limit, best_of = {"time_limit": time_limit, **({} if gap is None else {"gap": gap})}, optimum(task)
    tried = [designer(name)(task) for name in _CLOSED[task.reads]]
    if best_of is not None:
        tried.append(_draft(best_of, task, limit) if optimised is None else optimised)
        ball = best_of == "ballopt" and task.reads == "both" and isinstance(task.within, (ChiSquareBall, RenyiBall))
        tried += [_draft("polyopt", task, limit)] if robust_utility and ball else []
    values = [draft.least(task) if robust_utility else draft.value(task) for draft in tried]
    proved = min((x.bound for x in tried if x.bound is not None), default=None)  # by whichever, for all
    best = replace(tried[values.index(max(values))], bound=proved)
    whole = task.joint.entropy if task.reads == "both" else task.joint.entropy_useful
    shares = [percent(v / whole if whole else 0.0, 1) for v in values]
    listed = ", ".join(f"{x.method} {share}" for x, share in zip(tried, shares, strict=True))
    why = " at every distribution in the set" if robust_utility else ""
    return best.with_note(f"auto took {best.method}: it keeps most of the closed forms{_beside(task, best_of)}{why} "
                          f"(of a record: {listed})")


def _beside(task: Task, best_of: str | None) -> str:
    """What else was compared, or why nothing was."""
    if best_of is not None:
        return f" and {best_of}"
    if task.joint.p.size > OPTIMISED_CELLS:
        return f" ({task.joint.p.size:,} cells are more than the {OPTIMISED_CELLS:,} up to which auto optimises)"
    return f" (auto optimises up to ε = {LARGEST:g})" if task.epsilon > LARGEST else ""


def optimum(task: Task) -> str | None:
    """The optimiser that fits the task, if its size allows one."""
    if task.notion != "rldp" or not 0 < task.epsilon <= LARGEST or task.joint.p.size > OPTIMISED_CELLS:
        return None
    if (task.joint.p_secret > 0).sum() < 2 or isinstance(task.within, Custom):
        return None
    return "nr" if isinstance(task.within, Exactly) and task.reads == "both" else "ballopt"


# --- designs at several ε of one table, which share what their searches find: far less work than one by one -----------


def designs(
    within: UncertaintySet | Joint, epsilons: Sequence[float] | float, method: str = "auto", *, notion: str = "rldp",
    reads: str = "both", at_most: float | None = None, **options: Any,
) -> tuple[Design, ...]:
    """A sealed and certified design at each ε, in increasing order and each once; about a third of the work.

    ballopt, precise and auto share their searches (`optimise.all_levels`); of other methods each point is designed
    alone. `working` are the seconds of work that one design alone may take. No value is worse than that of a smaller ε,
    whose mechanism has the promise too; no bound is weaker than that of a larger one. Of auto, whose errors are told in
    units of the least at their own ε, values do not compare, and `foreseen` does.
    """
    several = [epsilons] if isinstance(epsilons, (str, float, int)) else list(epsilons)
    listed = sorted({designed_epsilon(x) for x in several})
    if not listed:
        raise InputError("give at least one ε")
    if method == "auto":
        _check_options(method, options, (*options_of(method), "working"))
    shared, within = method in (*SHARING, "auto"), as_set(within)
    if "time_limit" in options and shared:
        raise InputError("a curve is limited by its work", next="Say working=, the seconds that one design may take.")
    _check_numbers(options)
    if listed[0] > 0 and (at_most is None or at_most > listed[-1]):  # elsewhere one of the levels has no search
        tasks = [Task(within, x, notion, reads, at_most) for x in listed]
        check_confidence(None if notion == "ldp" else within)
        if (drafts := _sharing(tasks, method, options)) is not None:
            return _settled(tasks, drafts)
    if shared and "working" not in options_of(method):  # nothing is shared: `design` has no limit
        options.pop("working", None)
    return tuple(design(within, x, method, notion=notion, reads=reads, at_most=at_most, **options) for x in listed)


def _sharing(tasks: Sequence[Task], method: str, options: Options) -> Iterator[Draft] | None:
    """The drafts of a method at increasing ε that share their searches; None for a method that has none to share."""
    if method != "auto":
        return _along(method, tasks, options) if method in SHARING else None
    given = {k: v for k, v in options.items() if k != "aim"}
    if given.keys() - {"working"} or not all(map(searched, tasks)):
        return None
    aim = options.get("aim", AIM)
    if aim in ("estimates", "either"):
        return map(noted, _along("precise", tasks, {"target": "each", **given}))
    if aim != "information" or any(optimum(task) != "ballopt" for task in tasks):
        return None
    return map(most_informative, tasks, _along("ballopt", tasks, given))


def _along(method: str, tasks: Sequence[Task], options: Options) -> Iterator[Draft]:
    make: Callable[..., Iterator[Draft]] = getattr(home_of(method), f"{method}_along")
    _check_options(method, options, keywords_of(make))
    return make(tasks, **options)


def _settled(tasks: Sequence[Task], drafts: Iterator[Draft]) -> tuple[Design, ...]:
    """Each draft sealed; where the mechanism of a smaller ε does better, that one under this promise. What no mechanism
    at a larger ε exceeds, none at a smaller one does; errors relative to others do not compare."""
    made, laws, started = list[Design](), list[Draft](), time.perf_counter()
    for task, draft in zip(tasks, drafts, strict=True):
        one = _ended(task, draft, started)
        if made and _worth(draft, made[-1]) > _worth(draft, one):
            draft = replace(draft, law=laws[-1].law, method=laws[-1].method, task=None)
            one = _ended(task, draft, started)
        made.append(one)
        laws.append(draft)
        started = time.perf_counter()
    for i in reversed(range(len(made) - 1)):
        if made[i].unit == made[i + 1].unit != RELATIVE:
            pick = min if made[i].unit == "nats" else max
            made[i] = replace(made[i], bound=pick(made[i].bound, made[i + 1].bound))
    return tuple(made)


def _worth(draft: Draft, design: Design) -> float:
    """What a mechanism is worth by the measure of a draft; greater is better."""
    if draft.score is not None:
        return -draft.score(design.mechanism)
    return design.information.both if design.information else -math.inf


# --- methods of others, registered while a programme runs -------------------------------------------------------------


def register(name: str, designer: Designer, *, replace: bool = False) -> None:
    """Make `designer(task, **options) -> Draft` a method by this name: for design, auto's rivals and compare.

    Drafts are sealed and certified for the task's claim as all others. Keyword-only parameters are its options.
    """
    if not callable(designer):
        raise InputError(f"a designer is a function of a task, got a {type(designer).__name__}.")
    if not (isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise InputError(f"a method's name has letters, digits and hyphens, got {name!r}.")
    if name in methods() and not (replace and name in REGISTERED):
        raise InputError(f"there is a method {name!r} already: choose another name (or replace=True, if it is yours).")
    REGISTERED[name] = designer


def keywords_of(designer: Callable[..., object]) -> tuple[str, ...]:
    """The names of its keyword-only parameters."""
    return tuple(p.name for p in inspect.signature(designer).parameters.values() if p.kind is p.KEYWORD_ONLY)


# --- what every method does, in one sentence for people who do not design mechanisms ----------------------------------


METHODS = {
    "grr": "Randomised response: the true cell with a set probability, else any other cell, all alike.",
    "sue": "Symmetric unary encoding: a list of yes/no answers, one for each value, each flipped at random.",
    "oue": "Optimised unary encoding: a list of yes/no answers, one for each value, each flipped at random.",
    "distortion": "The released value stays as near to the true one as the promise allows.",
    "hamming": "A response to the value that lies as seldom as the promise allows.",
    "ballopt": "The most informative answers found that keep the promise for every distribution in the set.",
    "polyopt": "The most informative answers found that keep the promise over simplices around the set.",
    "nr": "The most informative answers that keep the promise at the design distribution.",
    "srr": "Secret randomised response: a lie about the secret is likelier than one about the rest alone.",
    "ir": "Independent reporting: the secret and the rest are randomised one by one.",
    "pml": "The most informative answers found that raise no belief about the secret too far.",
    "lip": "The most informative answers on the rest alone that move no belief about the secret too far.",
    "ldp": "The most informative answers on the rest alone that move no odds of the secret too far.",
    "srlip": "Answers on several columns, safe also against readers who know some of these columns.",
    "srlip-paper": "Answers column by column as in the paper, whose composition theorem does not hold.",
    "mi-funnel": "Answers on the rest alone that tell little about the secret on average.",
    "leakage": "A table of probabilities with the least expected distortion that its limits on leakage allow.",
    "precise": "A table of probabilities from which the true distribution can be estimated as well as possible.",
    "cr": "Conditional reporting: the rest is kept, or drawn anew as if the secret were another.",
}
