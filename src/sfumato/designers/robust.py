"""polyopt, ballopt and nr: the mechanisms with the highest mutual information, over a ball or at a point."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.unread import ballopt_unread
from sfumato.errors import InputError
from sfumato.mechanism import Constant, Law, Layout, Table
from sfumato.solve.ball_rows import Profile
from sfumato.solve.ball_rows import ballopt as best_over_ball
from sfumato.solve.few import few as best_of_few
from sfumato.solve.known_rows import known_limit
from sfumato.solve.known_rows import nr as best_at_a_point
from sfumato.solve.layout import Layout as Arrangement
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.margin import with_margin
from sfumato.solve.mixture import no_more_than_inputs
from sfumato.solve.optimum import optimum as best_of_all
from sfumato.solve.product import Outcome
from sfumato.solve.simplex_rows import polyopt as best_over_simplices
from sfumato.solve.simplex_rows import polyopt_apart
from sfumato.solve.watch import Progress, Watch
from sfumato.solve.wide import wide as best_of_wide
from sfumato.uncertainty import ChiSquareBall, Exactly
from sfumato.uncertainty.tilting import greatest_mean, spread_of

LISTED_CELLS = 1_000_000  # |Y|·|X| up to which a design is kept as a table; beyond, as a layout
MANY_CELLS = 2_000  # cells beyond which certifying takes a large part of the time
FEW_SECRETS, FEW_VALUES = 6, 8  # up to which rows with a distinguished secret are searched
LARGE_GAP = 1e-4  # of a family's bound, at which the search of a large table ends
START_GAP = 1e-5  # of the rows from which general ones start
BESIDE = 1e-7  # nats left for rounding where an empty secret meets the others
LARGEST = 12.0  # nats up to which the optimisers work: heights up to e^ε exceed an LP's digits from about 16 on
LISTED_VALUES = 20  # useful values up to which polyopt lists the extreme points of its cones: 2^|U| of them
PRESENT = 1e-15  # mass below which a secret cannot be designed for


def _ball(task: Task, method: str) -> ChiSquareBall:
    """The ball a robust method works on; other sets have their own best method."""
    if task.notion != "rldp" or task.reads != "both":
        raise InputError(f"{method} is for notion='rldp' and reads='both', got {task.notion!r} and {task.reads!r}.")
    if not isinstance(task.within, ChiSquareBall):
        hint = "nr" if isinstance(task.within, Exactly) else "srr"
        raise InputError(f"{method} needs a χ² ball, got a set of kind {task.within.kind!r}. Use method={hint!r}.")
    return task.within


def watch_for(time_limit: float | None, progress: Progress | None, cells: int) -> Watch:
    """A watch that leaves a part of the time for sealing and certifying."""
    if time_limit is None:
        return Watch(progress=progress)
    if not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}.")
    return Watch(time.monotonic() + time_limit * (0.85 if cells <= MANY_CELLS else 0.55), progress)


def law_of(arrangement: Arrangement, p: Floats) -> Law:
    """The design as a table while it is small, as a layout beyond."""
    atoms = sum(len(x) for x in arrangement.lengths)
    if atoms * p.size <= LISTED_CELLS:
        rows = without_repeats(arrangement.rows())
        rows = no_more_than_inputs(rows, p.ravel())
        return Table(rows / rows.sum(0), len(arrangement.lengths))
    shares = [x / x.sum() for x in arrangement.lengths]
    heights = [h / (x @ h) for x, h in zip(shares, arrangement.heights, strict=True)]
    return Layout(tuple(shares), tuple(heights))


def without_repeats(rows: Floats) -> Floats:
    """Rows that are multiples of one another as one: they say the same, so nothing is lost."""
    shape = rows / np.maximum(rows.max(1, keepdims=True), 1e-300)
    _, group = np.unique(shape.round(10), axis=0, return_inverse=True)
    out = np.zeros((int(group.max()) + 1, rows.shape[1]))
    np.add.at(out, group.ravel(), rows)
    return np.asarray(out)


def with_empty_secrets(task: Task, design: Callable[[Floats], Outcome]) -> tuple[Arrangement, Outcome]:
    """Design for the secrets that occur and give the others a constant row.

    An empty secret's conditional is free within a ball, so only a row that is constant in u is private for it: height
    1/T on all of [0, T] lies between what the other secrets may show.
    """
    p = task.joint.p
    seen = np.flatnonzero(p.sum(1) > PRESENT)
    if len(seen) < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
    outcome = design(p[seen])
    if len(seen) == len(p):
        return outcome.layout, outcome
    total, at = outcome.layout.total, {int(s): i for i, s in enumerate(seen)}
    flat = (np.array([total]), np.full((1, p.shape[1]), 1 / total))
    atoms = [
        (outcome.layout.lengths[at[s]], outcome.layout.heights[at[s]]) if s in at else flat for s in range(len(p))
    ]
    share = _beside_a_constant(task, p[seen], outcome.layout)
    heights = tuple((1 - share) * h + share / total for _, h in atoms)
    return Arrangement(total, tuple(x for x, _ in atoms), heights), outcome


def _beside_a_constant(task: Task, p: Floats, layout: Arrangement) -> float:
    """How much of the constant law makes every atom ε-private beside a row of constant height 1/T: all of the slack may
    go to the atom's secret, because an empty one takes none."""
    if not isinstance(task.within, ChiSquareBall):
        return 0.0
    c, E, most = 1 / layout.total, math.exp(task.epsilon - BESIDE), 0.0
    for q, h in zip(p, layout.heights, strict=True):
        spread, centre = np.full(len(h), spread_of(task.within.slack, q.sum())), np.broadcast_to(q / q.sum(), h.shape)
        top, low = (sign * greatest_mean(sign * h, centre, spread).value for sign in (1.0, -1.0))
        above, below = (top - E * c) / np.maximum(top - c, 1e-300), (c / E - low) / np.maximum(c - low, 1e-300)
        most = max(most, float(above[top > E * c].max(initial=0.0)), float(below[low < c / E].max(initial=0.0)))
    return min(most, 1.0)


def _drafted(task: Task, method: str, design: Callable[[Floats], Outcome], watch: Watch, **details: Any) -> Draft:
    if task.epsilon == 0:
        return Draft(Constant(*task.joint.shape), method, notes=("ε = 0: the output ignores the input",))
    if task.epsilon > LARGEST:
        raise InputError(
            f"{method} designs up to ε = {LARGEST:g} nats, got {task.epsilon:g}; there grr loses next to nothing."
        )
    notes: tuple[str, ...] = ()

    def best_so_far(p: Floats) -> Outcome:
        nonlocal notes
        try:
            return design(p)
        except KeyboardInterrupt:
            if watch.best is None:
                raise
            notes = ("interrupted: the best design so far",)
            layout = watch.best
            if isinstance(task.within, ChiSquareBall):
                layout = with_margin(layout, p, task.within.slack, task.epsilon)
            return Outcome(layout, layout.value(p), watch.bound, "interrupted")

    arrangement, outcome = with_empty_secrets(task, best_so_far)
    law = law_of(arrangement, task.joint.p)
    if watch.over:
        notes = (*notes, "stopped at the time limit: the best design so far")
    return Draft(law, method, min(outcome.bound, task.ceiling), notes, {"route": outcome.route, **details})


def polyopt(
    task: Task, *, same_secret: bool = True, gap: float = 1e-7, time_limit: float | None = None,
    progress: Progress | None = None,
) -> Draft:
    """PolyOpt: optimal over the simplices that enclose the conditional balls [000, Thm 3], by its product structure.

    same_secret=True keeps the s₁ = s₂ inequalities of the paper's cone; False drops them, which privacy does not need
    (few secrets and useful values). The bound is that of the cone.
    """
    ball, watch = _ball(task, "polyopt"), watch_for(time_limit, progress, task.joint.p.size)

    def design(p: Floats) -> Outcome:
        if p.shape[1] > LISTED_VALUES:
            raise InputError(
                f"polyopt lists every subset of the useful values, for at most {LISTED_VALUES}; this table has "
                f"{p.shape[1]}. Use method='ballopt', or fewer useful columns."
            )
        if same_secret:
            return best_over_simplices(p, ball.slack, task.epsilon, gap=gap, watch=watch)
        _check_few(p, "polyopt with same_secret=False")
        return polyopt_apart(p, ball.slack, task.epsilon, gap=max(gap, 1e-6), watch=watch)

    return _drafted(task, "polyopt", design, watch, same_secret=same_secret)


def _check_few(p: Floats, what: str) -> None:
    if p.shape[0] > FEW_SECRETS or p.shape[1] > FEW_VALUES:
        raise InputError(
            f"{what} searches rows with a distinguished secret, for at most {FEW_SECRETS} × {FEW_VALUES} values; "
            f"this table is {p.shape[0]} × {p.shape[1]}."
        )


def ballopt(
    task: Task, *, gap: float | None = None, profile: tuple[float, float] | None = None,
    time_limit: float | None = None, progress: Progress | None = None,
) -> Draft:
    """BallOpt: rows for the exact ball with the slack shared between secrets (ours).

    Few secrets and values: general rows, moved from the best two-level ones until nothing near is better; the bound is
    the optimum at P̂, which bounds every mechanism. Asked for a gap, the search goes on with cuts from outside until
    value and bound, now that of every mechanism private over the ball, are within it (about ten cells; seconds).

    Larger tables: two-level rows under an optimised profile. Budgets add [002, Thm 3]: asking m_s(v; b') ≥ f(b') and
    M_s(v; b') ≤ E·f(b − b') for a decreasing f makes every pair private and decouples the secrets. profile=(drop,
    power) fixes f instead of searching it. The bound is that of two-level rows under the profile.
    """
    if task.reads == "useful" and task.notion == "rldp":
        return ballopt_unread(task, time_limit=time_limit)
    ball, watch = _ball(task, "ballopt"), watch_for(time_limit, progress, task.joint.p.size)
    details: dict[str, Any] = {}

    def design(p: Floats) -> Outcome:
        if profile is None and p.shape[0] <= FEW_SECRETS and p.shape[1] <= FEW_VALUES:
            return _few(p, ball.slack, task.epsilon, gap, watch)
        given = None if profile is None else Profile(*profile)
        if p.size > MANY_CELLS:
            outcome, used = best_of_wide(p, ball.slack, task.epsilon, profile=given, watch=watch)
            details["profile"] = (used.drop, used.power)
            return outcome
        outcome, used = best_over_ball(p, ball.slack, task.epsilon, profile=given, gap=gap or LARGE_GAP, watch=watch)
        details["profile"] = (used.drop, used.power)
        return outcome

    draft = _drafted(task, "ballopt", design, watch)
    draft.details.update(details)
    return draft


def _few(p: Floats, slack: float, epsilon: float, gap: float | None, watch: Watch) -> Outcome:
    """Few secrets and values: polyopt's rows and two-level ones, then general rows, then all of them if asked."""
    limit = known_limit(p, epsilon, watch=watch)
    plain = best_over_simplices(p, slack, epsilon, gap=START_GAP, watch=watch)
    found = best_of_few(p, slack, epsilon, plain.layout.rows(), watch=watch)
    route = "few"
    watch.keep(layout_of_rows(found.rows, p), found.value, limit)
    if gap is not None:
        best = best_of_all(found, p, slack, epsilon, gap=gap, watch=watch)
        found, limit, route = best.found, min(limit, best.bound), "optimum"
    if plain.value > found.value:  # by what is left for sealing
        return Outcome(plain.layout, plain.value, limit, "simplices")
    return Outcome(layout_of_rows(found.rows, p), found.value, limit, route)


def nr(
    task: Task, *, gap: float = 1e-7, time_limit: float | None = None, progress: Progress | None = None
) -> Draft:
    """NR: the best mechanism that is private at P̂ itself and nowhere else [000, §8], at any size (ours).

    Y may reveal U in full given S, so the optimum is H(U|S) + max I(S;Y) over ε-LDP responses to S.
    """
    watch = watch_for(time_limit, progress, task.joint.p.size)
    note = "private at the design distribution only: use a ball for data whose distribution was estimated"
    draft = _drafted(task, "nr", lambda p: best_at_a_point(p, task.epsilon, gap=gap, watch=watch), watch)
    return Draft(draft.law, "nr", draft.bound, (*draft.notes, note), draft.details)
