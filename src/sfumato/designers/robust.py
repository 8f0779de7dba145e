"""polyopt, ballopt and nr: the mechanisms with the highest mutual information, over a set or at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import BETTER, LARGEST, Draft, Task, listed_rows, silent
from sfumato.designers.closed_forms import grr, srr
from sfumato.designers.curves import along, curve_seconds
from sfumato.designers.splitting import ir
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Constant, Law, Layout, Mechanism, Table
from sfumato.optimise.all_levels import Carried
from sfumato.optimise.arrays import TINY
from sfumato.optimise.bound import bound
from sfumato.optimise.budget import FREE, Budget, Progress, patience
from sfumato.optimise.chain import FAILURES, GAP, InformativeRows
from sfumato.optimise.cone import Coordinates
from sfumato.optimise.informative import LISTED, informative_along, listable, most_informative, widest
from sfumato.optimise.product.profiles import Arrangement, capped
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.starts import Simplices, best_at_a_point
from sfumato.uncertainty import ChiSquareBall, Custom, RenyiBall

LISTED_CELLS = 1_000_000  # |Y|·|X| up to which a design is kept as a table; beyond, as a layout
SECONDS, EACH, MOST = 3.0, 0.2, 60.0  # of a design when no time_limit is given: at least, for each cell, at most
SEARCH, WIDE_SEARCH = 0.65, 0.8  # of the time beside the proof; what is left is for the bound
PROVED = 4e-7  # seconds of a proof for each output, pair of secrets and value
LAID, WEIGHED = 1e-4, 5e-7  # the same for each cell of a layout, and for each cell and secret
ALONG = 0.85  # of the time of a design that begins with another one's rows, for its search
AFTER = 0.2  # of the time of its search, for its bound
ALONG_GAP = 1e-3  # relative, at which neither its value nor its bound is worked on: a curve shows no more
PROOF = 0.05  # of the time of a design alone, for the bound of a point of a curve that was not cut at from outside


def budget_of(task: Task, time_limit: float | None, progress: Progress | None) -> Budget:
    """The time of a whole design: by the clock on the wall where somebody says it, else of counted work."""
    if time_limit is not None:
        return Budget.of(time_limit, progress)
    return Budget.counted(usual_seconds(task), progress)


def usual_seconds(task: Task) -> float:
    """Of work, for a design that nobody limits."""
    return patience() * min(SECONDS + EACH * task.rows * task.joint.useful.size, MOST)


def _checked(task: Task, method: str) -> None:
    if task.notion != "rldp":
        raise InputError(f"{method} is for notion='rldp', got {task.notion!r}.")
    if task.epsilon > LARGEST:
        raise InputError(
            f"{method} designs up to ε = {LARGEST:g} nats, got {task.epsilon:g}; there grr loses next to nothing."
        )
    if (task.joint.p_secret > 0).sum() < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")


def _closed(task: Task) -> list[Draft]:
    """The closed forms that keep the promise."""
    drafts: list[Callable[..., Draft]] = [srr, ir, grr] if task.reads == "both" else [grr]
    return [closed(task) for closed in drafts]


def ballopt(
    task: Task, *, gap: float = GAP, profile: tuple[float, float] | None = None, quick: bool = False,
    starts: Sequence[Mechanism] = (), time_limit: float | None = None, progress: Progress | None = None,
) -> Draft:
    """The most informative rows for every distribution in the set (ours): any rows, a pool of every origin, moves.

    The bound holds for every mechanism that is private over the set. profile=(drop, power) keeps to two-level rows
    under one profile of the shared slack. The search ends when nothing gains, at the gap or with the time; quick=True
    does a small amount of work, the same on every machine. starts are mechanisms for the same table at any ε, whose
    rows join the pool: along a curve over ε each design begins with the last one.
    """
    _checked(task, "ballopt")
    if isinstance(task.within, Custom):
        raise InputError("ballopt needs a set that names its worst distributions; a custom set only gives ranges.")
    given = None if profile is None else replace(capped(task.epsilon, task.at_most), drop=profile[0], power=profile[1])
    budget = budget_of(task, time_limit, progress)
    others = listed_rows(task, [x.law for x in starts])
    return _drafted(task, "ballopt", task.within, gap, budget, given, quick, others)[0]


def ballopt_along(
    tasks: Sequence[Task], *, gap: float = ALONG_GAP, working: float | None = None, once: float | None = None
) -> Iterator[Draft]:
    """The same design at increasing ε, all in one search where the set allows it, else each begun with the rows and the
    worst cases of the one before; then the first once more in the end, with those of the second: it began with nothing,
    and at a small ε that is hardest. `once` is the relative gain of a turn of moves below which it is a level's last:
    without it two in a row may gain little."""
    for task in tasks:
        _checked(task, "ballopt")
    usual = usual_seconds(tasks[0]) if working is None else working
    first = tasks[0]
    if len(tasks) > 1 and first.epsilon > 0 and first.at_most is None and listable(first.within, first.reads, FREE):
        closed = [_closed(task) for task in tasks]
        found = informative_along(
            first.within, [x.epsilon for x in tasks], Budget.of_work(curve_seconds(len(tasks), usual)), gap=gap,
            reads=first.reads, starts=[listed_rows(x, [y.law for y in z]) for x, z in zip(tasks, closed, strict=True)],
            once=once,
        )
        if found is not None:
            return (_completed(x, y, z, gap, PROOF * usual) for x, y, z in zip(tasks, found, closed, strict=True))

    def one(task: Task, budget: Budget, known: Carried | None) -> tuple[Draft, Carried | None]:
        return _drafted(task, "ballopt", task.within, gap, budget, carried=known)

    return along(tasks, one, usual)


def _completed(task: Task, found: InformativeRows, closed: list[Draft], gap: float, seconds: float) -> Draft:
    """Rows of a curve, or a closed form that keeps more, and the least of the bounds, worked on so long at most."""
    law, value, notes = _with_closed(task, closed, Table(found.rows, task.rows), found.value, found.notes)
    cut = found.bound < float("inf")  # then no other route says more in as much time
    budget = Budget.of_work(0.0 if cut else seconds)
    limit = bound(task.joint.p, task.within, task.epsilon, value=value, gap=gap, budget=budget)
    return Draft(law, "ballopt", min(limit.value, found.bound, task.ceiling), tuple(notes),
                 {"stages": found.stages, "outside": found.bound, "bounds": limit.routes})


def polyopt(
    task: Task, *, same_secret: bool = True, gap: float = GAP, quick: bool = False, time_limit: float | None = None,
    progress: Progress | None = None, limit: float | None = None, working: float | None = None,
) -> Draft:
    """PolyOpt: rows that are private over the simplices which enclose the conditional balls [000, Thm 3], at any size.

    same_secret=True keeps the s₁ = s₂ inequalities of the paper's cone; False drops them, which privacy does not need.
    limit is a bound that is proved already, of every mechanism that is private over the set; no other is looked for.
    `working` are seconds of work instead of a time limit, whatever else the machine does.
    """
    _checked(task, "polyopt")
    if task.reads != "both":
        raise InputError("polyopt reads the secret; use ballopt with reads='useful'.")
    if not isinstance(task.within, (ChiSquareBall, RenyiBall)):
        raise InputError(f"polyopt needs a ball, got a set of kind {task.within.kind!r}. Use method='ballopt'.")
    inner = Simplices(task.within, same_secret)
    budget = budget_of(task, time_limit, progress) if working is None else Budget.of_work(working, progress)
    return _drafted(task, "polyopt", inner, gap, budget, quick=quick, known=limit, same_secret=same_secret)[0]


def _drafted(
    task: Task, method: str, inner: Any, gap: float, budget: Budget, profile: Profile | None = None,
    quick: bool = False, others: Sequence[Floats] = (), carried: Carried | None = None, known: float | None = None,
    **details: Any,
) -> tuple[Draft, Carried | None]:
    """The draft of a search over `inner`, and what another ε may begin with."""
    if task.epsilon == 0:
        return silent(task, method), None
    (S, U), closed, started = task.joint.shape, _closed(task), budget.clock()
    wide = isinstance(inner, (ChiSquareBall, RenyiBall)) and task.reads == "both"  # may be a layout
    whole, own, handed = budget, float("inf"), None
    budget = budget.less(PROVED * S * U * S * (S - 1) * U)
    search = FREE if quick else budget.part(SEARCH if carried is None else ALONG)
    if listable(inner, task.reads, search) or (not wide and len(Coordinates.of(task.joint, task.reads).p) <= LISTED):
        found = most_informative(
            inner, task.epsilon, search, reads=task.reads, starts=listed_rows(task, [x.law for x in closed]),
            others=others, profile=profile, gap=gap, quick=quick, at_most=task.at_most, carried=carried,
            bounding=known is None,
        )
        law: Law
        law, value, notes, own = Table(found.rows, task.rows), found.value, found.notes, found.bound
        details["stages"], handed = found.stages, found.carried
    elif wide:
        budget, search = whole.less(S * U * (LAID + WEIGHED * S)), whole.part(WIDE_SEARCH)
        try:
            law, value, notes, used = _wide(task, inner, search, profile)
            details["profile"] = (used.drop, used.power)
        except FAILURES as error:  # a closed form is taken instead
            law, value = Constant(*task.joint.shape), 0.0
            notes = [f"the layout was left out ({type(error).__name__}: {error})"]
    else:
        raise InputError(
            f"this table has {task.joint.p.size:,} cells, too many for this set or method; use ballopt over a ball."
        )
    if inner is not task.within:
        closed = closed[-1:]  # grr compares any two inputs, so it is in every family; the others may be outside
    law, value, notes = _with_closed(task, closed if task.at_most is None else [], law, value, notes)
    if search.over:
        notes = [*notes, "stopped at the time limit: the best design so far"]
    took = budget.clock() - started
    most = 1.0 + took if carried is None else AFTER * took  # no longer than the search, and a second more
    details["family" if inner is not task.within else "outside"] = own
    own = own if inner is task.within else float("inf")  # over a larger set it bounds the family alone
    close = own - value <= max(gap, 1e-5) * value
    time_left = budget.part(0.0 if close or quick or known is not None else 1.0, most)
    limit = bound(task.joint.p, task.within, task.epsilon, value=value, gap=gap, budget=time_left)
    details["bounds"] = limit.routes
    least = min(limit.value, own, task.ceiling, float("inf") if known is None else known)
    handed = None if handed is None else replace(handed, gap=least / max(value, TINY) - 1.0)
    return Draft(law, method, least, tuple(notes), details), handed


def _with_closed(
    task: Task, closed: Sequence[Draft], law: Law, value: float, notes: list[str]
) -> tuple[Law, float, list[str]]:
    """A closed form, where it keeps more."""
    for other in closed:
        kept = other.value(task)
        if kept > value * (1.0 + BETTER):
            law, value = other.law, kept
            notes = [*notes, f"{other.method} keeps more than what was found in the time: it is taken"]
    return law, value, notes


def _wide(
    task: Task, inner: Any, budget: Budget, profile: Profile | None
) -> tuple[Law, float, list[str], Profile]:
    """Rows that are not listed: a layout for the secrets that occur, a constant for the others."""
    p = task.joint.p
    seen = np.flatnonzero(p.sum(1) > 0)
    smaller = inner.around(Joint.from_probabilities(p[seen], n=task.joint.n))
    each = p.shape[1] * (LAID + WEIGHED * len(p))
    layout, used = widest(smaller, task.epsilon, budget, profile, task.at_most, each)
    return _for_all(layout, p), layout.value(p[seen]), [], used


def _for_all(layout: Arrangement, p: Floats) -> Law:
    """The layout of the secrets that occur, with a constant for the others."""
    seen = np.flatnonzero(p.sum(1) > 0).tolist()
    atoms = dict(zip(seen, zip(layout.lengths, layout.heights, strict=True), strict=True))
    flat = (np.array([layout.total]), np.full((1, p.shape[1]), 1 / layout.total))
    lengths, heights = zip(*(atoms.get(s, flat) for s in range(len(p))), strict=True)
    return law_of(Arrangement(layout.total, lengths, heights), p)


def law_of(arrangement: Arrangement, p: Floats) -> Law:
    """The design as a table while it is small, as a layout beyond."""
    atoms = sum(len(x) for x in arrangement.lengths)
    if atoms * p.size <= LISTED_CELLS:
        return Table(arrangement.rows(), len(arrangement.lengths))
    shares = [x / x.sum() for x in arrangement.lengths]
    heights = [h / (x @ h) for x, h in zip(shares, arrangement.heights, strict=True)]
    return Layout(tuple(shares), tuple(heights))


def nr(
    task: Task, *, gap: float = GAP, time_limit: float | None = None, progress: Progress | None = None
) -> Draft:
    """NR: the best mechanism that is private at P̂ itself and nowhere else [000, §8], at any size (ours).

    Y may reveal U in full given S, so the optimum is H(U|S) + max I(S;Y) over ε-LDP responses to S.
    """
    _checked(task, "nr")
    if task.reads != "both":
        raise InputError("nr reads the secret; use ballopt with reads='useful'.")
    if task.epsilon == 0:
        return silent(task, "nr")
    p, budget = task.joint.p, budget_of(task, time_limit, progress)
    note = "private at the design distribution only: use a ball for data whose distribution was estimated"
    if task.at_most is not None:
        capped_too, _ = _drafted(task, "nr", task.within, gap, budget)
        return replace(capped_too, notes=(*capped_too.notes, note))
    seen = np.flatnonzero(p.sum(1) > 0)
    layout = best_at_a_point(p[seen], task.epsilon, budget.part(SEARCH))
    limit = bound(p, task.within, task.epsilon, value=layout.value(p[seen]), gap=gap, budget=budget)
    return Draft(_for_all(layout, p), "nr", min(limit.value, task.ceiling), (note,))
