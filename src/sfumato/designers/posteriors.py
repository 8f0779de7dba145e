"""The funnel in posterior form: a mechanism on X is a way to write p_X as a mixture of posteriors from a cone.

I(X;Y) = H(X) + Σ_y α_y f(v_y) with α_y = P(y), v_y = P(X|y) and f(v) = Σ v log v convex, so posteriors may be split
until they are extreme [001, Thm 3]: the optimum is a linear programme over extreme rays, or columns of one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.alphabet import Floats

LISTING_ALLOWANCE = 1e-10
"""Added to bounds from listed rays: weak duality needs the rays, and these are floats good to about 1e-13."""
ROUNDING = 1e-12
"""Added to bounds from columns, whose own allowances are explicit: H(X) is a sum of few terms of size one."""
NOISE = 1e-13
"""p(s|x)/p(s) − 1 below this is taken to be 0 when the output must be independent of S."""
ENTRIES = 7_500_000
"""Numbers held while listing rays (about 0.4 GB with the lists of facets and neighbours) before turning to columns."""
LISTING = 0.25
"""Share of the time spent on listing rays before turning to columns."""
ROOM = 1e-14
"""Left below ε, so that the level summed in another order is still at most ε."""


@dataclass(frozen=True, slots=True, eq=False)
class Funnel:
    """A mechanism Q[y, x] with I(X;Y) = value, and a number no mechanism of the family exceeds."""

    matrix: Floats
    value: float
    bound: float
    status: str


def xlogx(x: Any) -> Floats:
    x = np.asarray(x, float)
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0)


def information(matrix: Floats, p: Floats) -> float:
    """I(X;Y) in nats for Q[y, x] and the law p of x."""
    joint = matrix * p
    return float(xlogx(joint).sum() - xlogx(joint.sum(axis=1)).sum() - xlogx(p).sum())


def likelihood(p: Floats) -> Floats:
    """g[s, x] = p(s|x) / p(s) for secrets and values that occur; P(y|s)/P(y) = g_s · P(X|y)."""
    p = p[p.sum(axis=1) > 0.0]
    column = p.sum(axis=0)
    return np.asarray(p / np.where(column > 0.0, column, 1.0) / p.sum(axis=1, keepdims=True))


def independence_rows(p: Floats) -> Floats:
    """Rows E with E v = 0 iff g_s·v = 1 for every s: the output says nothing about S.

    Entries that are rounding noise are zero; leaving out a condition relaxes the problem, so bounds stay valid.
    """
    rows = likelihood(p) - 1.0
    return np.where(np.abs(rows) > NOISE, rows, 0.0)


def mechanism(weights: Floats, points: Floats, p: Floats) -> Floats:
    """Q(y|x) = α_y v_y(x) / p(x); a value that never occurs is answered as p_X is."""
    joint = weights[:, None] * points
    live = p > 0.0
    matrix = np.repeat(joint.sum(axis=1, keepdims=True) / joint.sum(), len(p), axis=1)
    matrix[:, live] = joint[:, live] / joint[:, live].sum(axis=0)
    return matrix


def enumerated(
    p: Floats, rows: Floats, equalities: Floats | None = None, *, extra: int = 0, limit: int | None = None,
    deadline: float = math.inf,
) -> Funnel:
    """Largest I(X;Y) with posteriors in {v ≥ 0 : A v ≤ 0, E v = 0}, by all extreme rays and an LP.

    The last `extra` coordinates of the cone are auxiliary and are dropped from the rays.
    """
    from sfumato.solve.cover import best_cover
    from sfumato.solve.rays import extreme_rays

    live = np.flatnonzero(p > 0.0)
    keep = np.concatenate([live, np.arange(len(p), len(p) + extra)])
    flat = None if equalities is None else equalities[:, keep]
    most = limit or ENTRIES // len(keep)
    rays = extreme_rays(rows[:, keep], flat, dimension=len(keep), limit=most, deadline=deadline)
    points = rays.vectors[:, : len(live)]
    mass = points.sum(axis=1)
    points = np.concatenate([points[mass > 1e-9] / mass[mass > 1e-9, None], p[None, live]])
    cover = best_cover(p[live], points, xlogx(points).sum(axis=1))
    status = "all extreme rays" if rays.proved else "all extreme rays of a degenerate cone"
    return _answer(p, live, cover.weights, cover.points, cover.bound + LISTING_ALLOWANCE, status)


def generated(p: Floats, rows: Floats, *, extra: int = 0, gap: float = 1e-6, time_limit: float = 60.0) -> Funnel:
    """The same optimum by column generation with a proved bound, for cones with too many rays to list."""
    from sfumato.solve.column_generation import envelope

    live = np.flatnonzero(p > 0.0)
    keep = np.concatenate([live, np.arange(len(p), len(p) + extra)])
    found = envelope(p[live], rows[:, keep], extra=extra, gap=gap, time_limit=time_limit)
    return _answer(p, live, found.weights, found.points, found.bound + ROUNDING, "column generation")


def _answer(p: Floats, live: Any, weights: Floats, points: Floats, bound: float, status: str) -> Funnel:
    spread = np.zeros((len(weights), len(p)))
    spread[:, live] = points
    matrix = mechanism(weights, spread, p)
    return Funnel(matrix, information(matrix, p), bound - float(xlogx(p).sum()), status)


def optimum(p: Floats, rows: Floats, *, extra: int = 0, gap: float = 1e-6, time_limit: float = 60.0) -> Funnel:
    """All rays where they fit, columns otherwise: a value and a proved bound in either case."""
    from sfumato.solve.rays import Degenerate, TooManyRays

    started = time.monotonic()
    try:
        return enumerated(p, rows, extra=extra, deadline=started + LISTING * time_limit)
    except (TooManyRays, Degenerate):
        left = max(1.0, time_limit - (time.monotonic() - started))
        return generated(p, rows, extra=extra, gap=gap, time_limit=left)


def repaired(found: Funnel, p: Floats, epsilon: float, level: Callable[[Floats, Floats], float]) -> Funnel:
    """The design mixed with as little of the constant law as brings its level, a float, to ε or below.

    Q' = (1 − η) Q + η q 1ᵀ with q the law of Y: every ratio moves towards 1.
    """
    if level(found.matrix, p) <= epsilon - ROOM:
        return found
    column = p.sum(axis=0)
    q = found.matrix @ column
    mixed = found.matrix
    for power in range(-52, 1):
        eta = 2.0**power
        mixed = (1.0 - eta) * found.matrix + eta * q[:, None]
        mixed /= mixed.sum(axis=0)
        if level(mixed, p) <= epsilon - ROOM:
            break
    return replace(found, matrix=mixed, value=information(mixed, column))
