"""Sharper bounds for a homogeneous programme by outer approximation: tangents at points, one linear programme a round.

High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Replacing every convex term by
the largest of a few tangents gives a linear programme that is a relaxation; its multipliers go into the same
closed-form Lagrangian as the conic ones, so what is returned is proved whatever HiGHS did.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from sfumato.alphabet import Floats, Ints
from sfumato.solve.programme import EntropySum, Lagrangian, Programme, limit

FLOOR = 1e-9  # entries below it are lifted before a tangent is taken: any point gives a valid one, tame ones help
FLATTEST = -14.0  # log of term/u below which v and w are shrunk together before a tangent is taken
STEEPEST = (5.0, 1.5, 19.0)  # likewise from above: tame tangents first, steeper by a step each round, up to an end
LEAST_SHARE = 1e-6  # of the interior point that is mixed into a vertex before tangents are taken there
ENOUGH = 1e-8  # relative gap that ends the rounds
ROUNDS = 14


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """term[terms[j]] ≥ Σ_k slopes[j, k]·x[names[j, k]] for some terms of one sum; rows are solved times `scale`."""

    part: int
    terms: Ints
    names: Ints
    slopes: Floats
    scale: Floats


def _cut(programme: Programme, index: int, x: Floats, steepest: float) -> _Cut:
    part = programme.sums[index]
    u, v = np.maximum(x[part.u], FLOOR), np.maximum(x[part.v], FLOOR)
    if isinstance(part, EntropySum):
        tangent = np.stack([1 + np.log(u / v), -u / v], 1)
        return _Cut(index, np.arange(u.size), np.stack([part.u, part.v], 1), tangent, np.ones(u.size))
    w = np.maximum(x[part.w], FLOOR) if part.d > 0 else np.ones_like(u)
    steep = part.a * np.log(part.scale) + (part.a - 1) * np.log(u) - part.b * np.log(v) - part.d * np.log(w)
    tamed = np.clip(steep, FLATTEST, steepest)
    stretch = np.exp((steep - tamed) / (part.a - 1))
    first = np.exp(tamed) * u / (v * stretch)
    second = np.exp(tamed) * u / (w * stretch) if part.d > 0 else np.ones_like(u)
    slopes = [part.a * part.scale * first ** (part.b / part.a) * second ** (part.d / part.a), -part.b * first]
    names = [part.u, part.v]
    if part.d > 0:
        slopes.append(-part.d * second)
        names.append(part.w)
    rows = np.stack(slopes, 1)
    return _Cut(
        index, np.arange(u.size), np.stack(names, 1), rows, 1 / np.maximum(1.0, np.abs(rows).max(axis=1))
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sharpened:
    """A better bound, and the last vertex of the relaxation: nearly feasible, often better than the cone's point."""

    bound: float
    vertex: Floats


def sharpened(
    programme: Programme, inside: Floats, value: float, bound: float, *, seconds: float = 5.0
) -> Sharpened:
    """Rounds of tangents, taken ever nearer to the vertices of the relaxation."""
    cost = np.concatenate(programme.cost)
    every = range(len(programme.sums))
    steepest, step, end = STEEPEST
    cuts = [_cut(programme, k, inside, steepest) for k in every]
    last = inside
    started = time.monotonic()
    for turn in range(ROUNDS):
        vertex, proved = _relaxed(programme, cost, cuts)
        bound = max(bound, proved)
        late = time.monotonic() - started > seconds
        if vertex is None or late or value - bound <= ENOUGH * max(1.0, abs(value)):
            break
        last = vertex
        share = max(LEAST_SHARE, 0.5 ** (turn + 1))
        steepest = min(end, steepest + step)
        cuts += [_cut(programme, k, (1 - share) * vertex + share * inside, steepest) for k in every]
    return Sharpened(bound, last)


def _slots(programme: Programme) -> Ints:
    """Where each sum's terms start among the columns; the last entry is the number of columns."""
    return np.cumsum([programme.size] + [part.u.size for part in programme.sums])


def _inequalities(programme: Programme, cuts: list[_Cut], slots: Ints) -> tuple[sparse.csr_matrix, Floats]:
    """Rows A x ≤ b in the order: linear rows, one row a sum, the tangents."""
    names = [row[0] for row in programme.rows] + [np.arange(a, b) for a, b in itertools.pairwise(slots)]
    weights = [row[1] for row in programme.rows] + [np.ones(part.u.size) for part in programme.sums]
    right = [row[2] for row in programme.rows] + [limit(part) for part in programme.sums]
    rows = [np.full(group.size, k) for k, group in enumerate(names)]
    height = len(names)
    for cut in cuts:
        count, width = cut.names.shape
        here = height + np.arange(count)
        rows += [np.repeat(here, width), here]
        names += [cut.names.ravel(), slots[cut.part] + cut.terms]
        weights += [(cut.scale[:, None] * cut.slopes).ravel(), -cut.scale]
        right += [0.0] * count
        height += count
    if not names:
        return sparse.csr_matrix((0, int(slots[-1]))), np.zeros(0)
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(names)))
    return sparse.csr_matrix(entries, shape=(height, int(slots[-1]))), np.array(right)


def _relaxed(programme: Programme, cost: Floats, cuts: list[_Cut]) -> tuple[Floats | None, float]:
    """Solve the linear relaxation; return its point and the Lagrangian bound at its multipliers."""
    slots = _slots(programme)
    matrix, right = _inequalities(programme, cuts, slots)
    member = np.concatenate([np.full(group.size, g) for g, group in enumerate(programme.groups)])
    inside = (np.ones(member.size), (member, np.concatenate(programme.groups)))
    laws = sparse.csr_matrix(inside, shape=(len(programme.groups), int(slots[-1])))
    ends = np.zeros((int(slots[-1]), 2))
    ends[:, 1] = np.inf
    for box in programme.boxes:
        ends[box, 1] = 1
    for k, part in enumerate(programme.sums):
        if isinstance(part, EntropySum):
            ends[slots[k] : slots[k + 1], 0] = -np.inf
    objective = np.concatenate([cost, np.zeros(int(slots[-1]) - cost.size)])
    answer = linprog(objective, matrix, right, laws, np.ones(len(programme.groups)), ends, method="highs-ds")
    if answer.status != 0:
        return None, -np.inf
    duals = np.maximum(-np.asarray(answer.ineqlin.marginals), 0)
    start = len(programme.rows) + len(programme.sums)
    return np.asarray(answer.x[: programme.size]), _proved(programme, cost, cuts, duals, start)


def _proved(programme: Programme, cost: Floats, cuts: list[_Cut], duals: Floats, start: int) -> float:
    """The Lagrangian: a term's multipliers over its tangents may not exceed its sum's, so they are scaled down if they
    do."""
    found = Lagrangian(cost)
    for k, (names, weights, right) in enumerate(programme.rows):
        found.add(names, duals[k] * weights)
        found.less(duals[k] * right)
    shares, at = [], start
    totals = [np.zeros(part.u.size) for part in programme.sums]
    for cut in cuts:
        share = duals[at : at + len(cut.names)] * cut.scale
        at += len(cut.names)
        shares.append(share)
        np.add.at(totals[cut.part], cut.terms, share)
    for k, part in enumerate(programme.sums):
        multiplier = duals[len(programme.rows) + k]
        if isinstance(part, EntropySum):  # terms may be negative: weights must add up to the multiplier exactly
            multiplier = max(multiplier, float(totals[k].max()))
        found.less(multiplier * limit(part))
        with np.errstate(divide="ignore", invalid="ignore"):
            fill = np.where(totals[k] > 0, multiplier / totals[k], 0.0)
        totals[k] = fill if isinstance(part, EntropySum) else np.minimum(fill, 1.0)
    for cut, share in zip(cuts, shares, strict=True):
        weight = (share * totals[cut.part][cut.terms])[:, None] * cut.slopes
        found.add(cut.names, weight)
    return found.least(programme)
