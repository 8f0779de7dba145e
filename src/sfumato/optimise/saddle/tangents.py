"""Sharper bounds for a homogeneous programme by outer approximation: tangents at points, one linear programme a round.

High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Replacing every convex term by
the largest of a few tangents gives a linear programme that is a relaxation; its multipliers go into the same
closed-form Lagrangian as the conic ones, so what is returned is proved whatever HiGHS did.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.optimise.saddle.programme import EntropySum, HomogeneousProgramme, Lagrangian

FLOOR = 1e-9  # entries below it are lifted before a tangent is taken: any point gives a valid one, tame ones help
FLATTEST = -14.0  # log of term/u below which v and w are shrunk together before a tangent is taken
STEEPEST = (5.0, 1.5, 19.0)  # likewise from above: tame tangents first, steeper by a step each round, up to an end
LEAST_SHARE = 1e-6  # of the interior point that is mixed into a vertex before tangents are taken there
ENOUGH = 1e-8  # relative gap that ends the rounds
ROUNDS = 14


@dataclass(frozen=True, slots=True, eq=False)
class TangentCut:
    """term[j] ≥ Σ_k slopes[j, k]·x[names[j, k]] for the terms of one sum; rows are solved times `scale`."""

    part: int
    names: Ints
    slopes: Floats
    scale: Floats


def _cut(programme: HomogeneousProgramme, index: int, x: Floats, steepest: float) -> TangentCut:
    part = programme.sums[index]
    u, v = np.maximum(x[part.u], FLOOR), np.maximum(x[part.v], FLOOR)
    if isinstance(part, EntropySum):
        tangent = part.tangent(u / v)
    else:
        w = np.maximum(x[part.w], FLOOR) if part.d > 0 else np.ones_like(u)
        steep = part.a * np.log(part.scale) + (part.a - 1) * np.log(u) - part.b * np.log(v) - part.d * np.log(w)
        tamed = np.clip(steep, FLATTEST, steepest)
        height = np.exp(tamed) * u / np.exp((steep - tamed) / (part.a - 1))
        tangent = part.tangent(height / v, height / w if part.d > 0 else np.ones_like(u))
    names, slopes = (np.stack(entries, 1) for entries in zip(*tangent, strict=True))
    scale = np.ones(u.size) if isinstance(part, EntropySum) else 1 / np.maximum(1.0, np.abs(slopes).max(axis=1))
    return TangentCut(index, names, slopes, scale)


@dataclass(frozen=True, slots=True, eq=False)
class Sharpened:
    """A better bound, and the last vertex of the relaxation: nearly feasible, often better than the cone's point."""

    bound: float
    vertex: Floats


def sharpened(
    programme: HomogeneousProgramme, inside: Floats, value: float, bound: float, budget: Budget
) -> Sharpened:
    """Rounds of tangents, taken ever nearer to the vertices of the relaxation."""
    every = range(len(programme.sums))
    steepest, step, end = STEEPEST
    cuts = [_cut(programme, k, inside, steepest) for k in every]
    last = inside
    for turn in range(ROUNDS):
        vertex, proved = _relaxed(programme, cuts)
        bound = max(bound, proved)
        if vertex is None or budget.over or value - bound <= ENOUGH * max(1.0, abs(value)):
            break
        last = vertex
        share = max(LEAST_SHARE, 0.5 ** (turn + 1))
        steepest = min(end, steepest + step)
        cuts += [_cut(programme, k, (1 - share) * vertex + share * inside, steepest) for k in every]
    return Sharpened(bound, last)


def _slots(programme: HomogeneousProgramme) -> Ints:
    """Where each sum's terms start among the columns; the last entry is the number of columns."""
    return np.cumsum([programme.size] + [part.u.size for part in programme.sums])


def _inequalities(
    programme: HomogeneousProgramme, cuts: list[TangentCut], slots: Ints
) -> tuple[sparse.csr_matrix, Floats]:
    """Rows A x ≤ b in the order: linear rows, one row a sum, the tangents."""
    row, name, weight, right = programme.triplets()
    rows, names, weights, height = [row], [name], [weight], right.size
    for start, end in itertools.pairwise(slots):
        rows.append(np.full(end - start, height))
        names.append(np.arange(start, end))
        weights.append(np.ones(end - start))
        height += 1
    for cut in cuts:
        count, width = cut.names.shape
        here = height + np.arange(count)
        rows += [np.repeat(here, width), here]
        names += [cut.names.ravel(), np.arange(slots[cut.part], slots[cut.part + 1])]
        weights += [(cut.scale[:, None] * cut.slopes).ravel(), -cut.scale]
        height += count
    entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(names))
    limits = np.concatenate([right, [part.limit for part in programme.sums]])
    upper = np.concatenate([limits, np.zeros(height - limits.size)])
    return sparse.csr_matrix(entries, shape=(height, int(slots[-1]))), upper


def _relaxed(programme: HomogeneousProgramme, cuts: list[TangentCut]) -> tuple[Floats | None, float]:
    """Solve the linear relaxation; return its point and the Lagrangian bound at its multipliers."""
    slots = _slots(programme)
    size = int(slots[-1])
    lower, upper = np.zeros(size), np.full(size, INFINITY)
    for box in programme.boxes:
        upper[box] = 1
    for k, part in enumerate(programme.sums):
        if isinstance(part, EntropySum):
            lower[slots[k] : slots[k + 1]] = -INFINITY
    lp = LinearProgramme(np.concatenate([programme.costs, np.zeros(size - programme.size)]), lower, upper)
    lp.at_most(*_inequalities(programme, cuts, slots))
    member = np.concatenate([np.full(group.size, g) for g, group in enumerate(programme.groups)])
    inside = np.ones(member.size), (member, np.concatenate(programme.groups))
    lp.equal(sparse.csr_matrix(inside, shape=(len(programme.groups), size)), 1.0)
    answer = lp.solve()
    if not answer.optimal:
        return None, -np.inf
    return answer.x[: programme.size], _proved(programme, cuts, np.maximum(-answer.row_dual, 0))


def _proved(programme: HomogeneousProgramme, cuts: list[TangentCut], duals: Floats) -> float:
    """The Lagrangian: a term's multipliers over its tangents may not exceed its sum's: they are scaled down if they do.
    """
    linear = len(programme.rows)
    found = Lagrangian(programme.costs)
    found.linear(programme, duals[:linear])
    shares, at = [], linear + len(programme.sums)
    totals = [np.zeros(part.u.size) for part in programme.sums]
    for cut in cuts:
        shares.append(duals[at : at + len(cut.names)] * cut.scale)
        totals[cut.part] += shares[-1]
        at += len(cut.names)
    for k, part in enumerate(programme.sums):
        multiplier = float(duals[linear + k])
        if isinstance(part, EntropySum):  # terms may be negative: weights must add up to the multiplier exactly
            multiplier = max(multiplier, float(totals[k].max()))
        found.less(multiplier * part.limit)
        fill = np.divide(multiplier, totals[k], out=np.zeros_like(totals[k]), where=totals[k] > 0)
        totals[k] = fill if isinstance(part, EntropySum) else np.minimum(fill, 1.0)
    for cut, share in zip(cuts, shares, strict=True):
        found.add(cut.names, (share * totals[cut.part])[:, None] * cut.slopes)
    return found.least(programme)
