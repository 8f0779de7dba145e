"""polyopt, ballopt and nr: the mechanisms with the highest mutual information, over a set or at a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from sfumato.alphabet import Floats, given_up
from sfumato.designers import base
from sfumato.designers.base import ENDED, LARGEST, SEARCH, Details, Draft, Task, listed_rows, silent
from sfumato.designers.closed_forms import grr, ir, srr
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Constant, Law, Layout, Mechanism, Table
from sfumato.optimise import informative
from sfumato.optimise.all_levels import Carried
from sfumato.optimise.bound import bound
from sfumato.optimise.budget import FREE, NUMBER, Budget, OutOfTime, Progress, patience
from sfumato.optimise.cone import Coordinates
from sfumato.optimise.informative import FEW, GAP, Sought, listable
from sfumato.optimise.linear import LP_PASSES
from sfumato.optimise.product.blocks import Arrangement
from sfumato.optimise.product.two_level import Profile, capped
from sfumato.optimise.starts import Simplices, best_at_a_point, best_over_simplices
from sfumato.tolerances import ALIKE, LEAST, TABLE
from sfumato.uncertainty import ChiSquareBall, Custom, RenyiBall
from sfumato.uncertainty.sets import WorstPairs

USUAL = 3.0, 0.2, 60.0  # seconds of a design when no time_limit is given: at least, for each cell, at most
LAID, WEIGHED = 1e-4, 1e-7  # seconds of proof and value for each cell of a layout, and for each cell and secret
AT_A_POINT = 2.5e-8  # the same of nr, for each cell and each secret and useful value
ALONG_GAP = 1e-3  # relative, at which neither value nor bound of a point of a curve is worked on: it shows no more


def budget_of(task: Task, time_limit: float | None, progress: Progress | None) -> Budget:
    """The time of a whole design: by the clock on the wall where somebody says it, else of counted work."""
    return Budget.counted(usual_seconds(task), progress) if time_limit is None else Budget.of(time_limit, progress)


def usual_seconds(task: Task) -> float:
    """Of work, for a design that nobody limits."""
    least, each, most = USUAL
    return patience() * min(least + each * task.rows * task.joint.useful.size, most)


def _checked(task: Task, method: str) -> None:
    if task.notion != "rldp":
        raise InputError(f"{method} is for notion='rldp', got {task.notion!r}.")
    if task.epsilon > LARGEST:
        raise InputError(
            f"{method} designs up to ε = {LARGEST:g} nats, got {task.epsilon:g}; there grr loses next to nothing."
        )
    if (task.joint.p_secret > 0).sum() < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
    if method != "ballopt" and task.reads != "both":
        raise InputError(f"{method} reads the secret; use ballopt with reads='useful'.")


@dataclass(eq=False)
class Found:
    """A law that was found, what it keeps, and what none that is private over the set can exceed."""

    law: Law
    value: float
    notes: list[str] = field(default_factory=list)
    bound: float = math.inf
    details: Details = field(default_factory=dict)
    carried: Carried | None = None  # what a search at another ε may begin with

    @classmethod
    def of(cls, task: Task, rows: informative.InformativeRows) -> Found:
        law = Table(rows.rows, task.rows)
        return cls(law, rows.value, rows.notes, rows.bound, {"stages": rows.stages}, rows.carried)

    def draft(
        self, task: Task, method: str, closed: Sequence[Draft], gap: float, budget: Budget, known: float | None = None
    ) -> Draft:
        """The law, or a closed form that keeps more, and the least of the bounds, worked on within the budget unless
        one is `known`."""
        law, value, notes = self.law, self.value, self.notes
        for other in closed:
            if (kept := other.value(task)) > value * (1 + ALIKE):
                law, value = other.law, kept
                notes = [*notes, f"{other.method} keeps more than what was found in the time: it is taken"]
        met = known is not None or self.bound - value <= gap * value
        after = budget.part(0.0 if met else 1.0)
        limit = bound(task.joint.p, task.within, task.epsilon, value=value, gap=gap, budget=after)
        least = min(limit.value, self.bound, task.ceiling, math.inf if known is None else known)
        return Draft(law, method, least, tuple(notes), {**self.details, "bounds": limit.routes})


def ballopt(
    task: Task, *, gap: float = GAP, profile: tuple[float, float] | None = None, quick: bool = False,
    starts: Sequence[Mechanism] = (), time_limit: float | None = None, progress: Progress | None = None,
) -> Draft:
    """The most informative rows for every distribution in the set (ours): any rows, a pool of every origin, moves.

    The bound holds for every mechanism that is private over the set. profile=(drop, power) keeps to two-level rows
    under one profile of the shared slack. The search ends when nothing gains, at the gap or with the time; quick=True
    does little work where rows are listed. starts are mechanisms for the same table at any ε, whose rows join the pool.
    """
    _checked(task, "ballopt")
    if isinstance(task.within, Custom):
        raise InputError("ballopt needs a set that names its worst distributions; a custom set only gives ranges.")
    given = None if profile is None else replace(capped(task.epsilon, task.at_most), drop=profile[0], power=profile[1])
    others, budget = listed_rows(task, [x.law for x in starts]), budget_of(task, time_limit, progress)
    asked = Sought(task.reads, gap, quick, given, task.at_most, others=others)
    return _drafted(task, "ballopt", budget, asked)[0]


def ballopt_along(
    tasks: Sequence[Task], *, gap: float = ALONG_GAP, working: float | None = None, once: float | None = None
) -> Iterator[Draft]:
    """The same at increasing ε, in one search where the set allows it (`once` as in `Together.run`, of relative gains),
    else each begun with the rows and the worst cases of the one before."""
    for task in tasks:
        _checked(task, "ballopt")
    usual, first = usual_seconds(tasks[0]) if working is None else working, tasks[0]
    if len(tasks) > 1 and first.epsilon > 0 and first.at_most is None and listable(first.within, first.reads, FREE):
        closed = [_closed(task) for task in tasks]
        found = informative.informative_along(
            first.within, [x.epsilon for x in tasks], Budget.of_work(base.curve_seconds(len(tasks), usual)), gap=gap,
            reads=first.reads, starts=[listed_rows(x, [y.law for y in z]) for x, z in zip(tasks, closed, strict=True)],
            once=once,
        )
        if found is not None:
            return (
                Found.of(x, y).draft(x, "ballopt", z, gap, Budget.of_work((1 - SEARCH) * base.NEXT_OF_CURVE * usual))
                for x, y, z in zip(tasks, found, closed, strict=True)
            )
    return _one_by_one(tasks, gap, usual)


def _one_by_one(tasks: Sequence[Task], gap: float, seconds: float) -> Iterator[Draft]:
    """Each begun with what the one before found, and with what it left of its time."""
    whole, carried = Budget.of_work(base.curve_seconds(len(tasks), seconds)), None
    for i, task in enumerate(tasks):
        budget = whole.part(1 / (len(tasks) - i)) if i else whole.part(1.0, base.FIRST_OF_CURVE * seconds)
        asked = Sought(task.reads, gap, at_most=task.at_most, carried=carried)
        draft, carried = _drafted(task, "ballopt", budget, asked)
        yield draft


def polyopt(
    task: Task, *, same_secret: bool = True, gap: float = GAP, quick: bool = False, time_limit: float | None = None,
    progress: Progress | None = None, limit: float | None = None, working: float | None = None,
) -> Draft:
    """PolyOpt: rows that are private over the simplices which enclose the conditional balls [000, Thm 3], at any size:
    the optimum of all extreme rows where these are few and products, else what the search of ballopt finds.

    same_secret=True keeps the s₁ = s₂ inequalities of the paper's cone; False drops them, which privacy does not need.
    limit is a bound over all mechanisms that is proved already: no other is sought. `working` are seconds of work.
    """
    _checked(task, "polyopt")
    if not isinstance(task.within, (ChiSquareBall, RenyiBall)):
        raise InputError(f"polyopt needs a ball, got a set of kind {task.within.kind!r}. Use method='ballopt'.")
    asked = Sought(task.reads, gap, quick, at_most=task.at_most, bounding=limit is None)
    budget = budget_of(task, time_limit, progress) if working is None else Budget.of_work(working, progress)
    draft, _ = _drafted(task, "polyopt", budget, asked, Simplices(task.within, same_secret), limit)
    return replace(draft, details={**draft.details, "same_secret": same_secret})


def nr(task: Task, *, gap: float = GAP, time_limit: float | None = None, progress: Progress | None = None) -> Draft:
    """NR: the best mechanism that is private at P̂ itself and nowhere else [000, §8], at any size (ours).

    Y may reveal U in full given S, so the optimum is H(U|S) + max I(S;Y) over ε-LDP responses to S.
    """
    _checked(task, "nr")
    if task.epsilon == 0:
        return silent(task, "nr")
    p, budget = task.joint.p, budget_of(task, time_limit, progress)
    note = "private at the design distribution only: use ballopt for data whose distribution was estimated"
    if task.at_most is not None:
        return _drafted(task, "nr", budget, Sought(gap=gap, at_most=task.at_most))[0].with_note(note)
    seen = np.flatnonzero(p.sum(1) > 0)
    search = budget.less(AT_A_POINT * p.size * sum(p.shape)).part(SEARCH)
    layout = best_at_a_point(p[seen], task.epsilon, search)
    return Found(_law_of(layout, p), layout.value(p[seen]), [note]).draft(task, "nr", (), gap, budget)


# --- the search, over the set itself or over another one that encloses it ---------------------------------------------


def _closed(task: Task) -> list[Draft]:
    """The closed forms that keep the promise."""
    return [srr(task), ir(task), grr(task)] if task.reads == "both" else [grr(task)]


def _drafted(
    task: Task, method: str, budget: Budget, asked: Sought, inner: Simplices | None = None, known: float | None = None
) -> tuple[Draft, Carried | None]:
    """The draft of a search over the set, or over `inner`, which encloses it; and what another ε may begin with."""
    if task.epsilon == 0:
        return silent(task, method), None
    started, closed = budget.clock(), _closed(task)
    found, beside = _found(task, inner, closed, budget, asked)
    found.details["outside" if inner is None else "family"] = found.bound
    if inner is not None:  # it bounds the family alone; grr compares any two inputs, so it is in every family
        found.bound, closed = math.inf, closed[-1:]
    most = 1.0 + budget.clock() - started  # no longer than the search, and a second more
    after = beside.part(0.0 if asked.quick else 1.0, most)
    draft = found.draft(task, method, closed if task.at_most is None else (), asked.gap, after, known)
    assert draft.bound is not None
    handed = None if found.carried is None else replace(found.carried, gap=draft.bound / max(found.value, LEAST) - 1.0)
    return draft, handed


def _found(
    task: Task, inner: Simplices | None, closed: Sequence[Draft], budget: Budget, asked: Sought
) -> tuple[Found, Budget]:
    """What a search finds, or the optimum where it can be listed; and the time beside the proof of what was found."""
    within, beside = inner or task.within, budget.less(task.proving)
    every = None if inner is None or task.at_most is not None else best_over_simplices(inner, math.exp(task.epsilon))
    if every is not None:
        return Found(Table(every[0], task.rows), every[1], bound=every[1]), beside
    search = FREE if asked.quick else beside.part(SEARCH)
    listed, laid = listable(within, task.reads, search), _laid(within, task)
    numbers = Coordinates.count(task.joint, task.reads)
    few, brief = numbers <= informative.LISTED_ROW, 2.0 * informative.pairing(task.joint, numbers)
    if listed or (few and not laid and search.firm.fits(brief)):
        inputs = task.rows * task.joint.useful.size
        known = closed if search.firm.fits(len(closed) * LP_PASSES * NUMBER * inputs**2) else ()  # to list and to mix
        begun = replace(asked, starts=listed_rows(task, [x.law for x in known]))
        found = Found.of(task, informative.most_informative(within, task.epsilon, search, begun))
    elif few and not laid:  # no time for a row: a closed form will be taken
        found = Found(Constant(task.rows, task.joint.useful.size), 0.0)
    else:
        each = task.joint.useful.size * (LAID + WEIGHED * task.rows)  # seconds of the proof for a secret
        beside, search = budget.less(task.rows * each), budget.part(SEARCH)
        found = _wide(task, within, budget, search, asked.profile, each)
        if isinstance(found.law, Table):
            beside = budget.less(base.PROVED * found.law.outputs * task.joint.p.size * task.joint.secret.size)
    found.notes = [*found.notes, *([ENDED] if search.over else [])]
    return found, beside


def _laid(within: WorstPairs, task: Task) -> TypeGuard[ChiSquareBall | RenyiBall]:
    """Whether rows may be a layout."""
    return isinstance(within, (ChiSquareBall, RenyiBall)) and task.reads == "both"


def _wide(
    task: Task, within: WorstPairs, whole: Budget, budget: Budget, profile: Profile | None, each: float
) -> Found:
    """Rows that are not listed: a layout for the secrets that occur, or rows of a coarser table if these keep more."""
    p = task.joint.p
    if not _laid(within, task):
        raise InputError(f"this table has {p.size:,} cells, too many for this set or method; use ballopt over a ball.")
    seen = np.flatnonzero(p.sum(1) > 0)
    smaller = within.around(Joint.from_probabilities(p[seen], n=task.joint.n))
    coarse = None
    if profile is None:
        coarse = informative.coarse_rows(within, task.epsilon, budget.part(FEW), task.at_most)
    try:
        layout, used = informative.widest(smaller, task.epsilon, budget, profile, task.at_most, each)
        listed = whole.firm.fits(base.PROVED * sum(map(len, layout.lengths)) * p.size * len(p))
        found = Found(_law_of(layout, p, listed), layout.value(p[seen]), details={"profile": (used.drop, used.power)})
    except (OutOfTime, *informative.FAILURES) as error:
        note = f"the layout was left out ({type(error).__name__}: {error})"  # a closed form will be taken
        found = Found(Constant(*task.joint.shape), 0.0, [] if isinstance(error, OutOfTime) else [note])
    return found if coarse is None or coarse.value <= found.value else Found.of(task, coarse)


def _law_of(layout: Arrangement, p: Floats, listed: bool = True) -> Law:
    """The layout of the secrets that occur, with a constant for the others; as a table while it is small, if it may."""
    seen = np.flatnonzero(p.sum(1) > 0).tolist()
    atoms = dict(zip(seen, zip(layout.lengths, layout.heights, strict=True), strict=True))
    flat = (np.array([layout.total]), np.full((1, p.shape[1]), 1 / layout.total))
    lengths, heights = zip(*(atoms.get(s, flat) for s in range(len(p))), strict=True)
    if listed and sum(map(len, lengths)) * p.size <= TABLE:
        return Table(Arrangement(layout.total, lengths, heights).rows(), len(p))
    shares = tuple(x / x.sum() for x in lengths)
    return Layout(shares, tuple(given_up(h / (x @ h)) for x, h in zip(shares, heights, strict=True)))
