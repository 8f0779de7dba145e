"""Sharper bounds for a homogeneous programme by outer approximation: tangents at points, one linear programme a round.

High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Replacing every convex term by
the largest of a few tangents gives a linear programme that is a relaxation; its multipliers go into the same
closed-form Lagrangian as the conic ones, so what is returned is proved whatever HiGHS did.
"""

from __future__ import annotations

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
TANGENT_ROUNDS = 14


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
    steepest, step, end = STEEPEST
    relaxation, point, last = TangentRelaxation(programme), inside, inside
    for turn in range(TANGENT_ROUNDS):
        relaxation.touch(point, steepest)
        vertex, proved = relaxation.solve()
        bound = max(bound, proved)
        if vertex is None or budget.over or value - bound <= ENOUGH * max(1.0, abs(value)):
            break
        last = vertex
        share = max(LEAST_SHARE, 0.5 ** (turn + 1))
        steepest = min(end, steepest + step)
        point = (1 - share) * vertex + share * inside
    return Sharpened(bound, last)


class TangentRelaxation:
    """The linear programme over x and one variable a term: linear rows, one row a sum, laws, the tangents so far."""

    def __init__(self, programme: HomogeneousProgramme) -> None:
        self.programme, self.cuts = programme, list[TangentCut]()
        self.slots = np.cumsum([programme.size] + [part.u.size for part in programme.sums])  # where terms start
        size, linear = int(self.slots[-1]), len(programme.rows)
        lower, upper = np.zeros(size), np.full(size, INFINITY)
        for box in programme.boxes:
            upper[box] = 1
        for k, part in enumerate(programme.sums):
            if isinstance(part, EntropySum):
                lower[self.slots[k] : self.slots[k + 1]] = -INFINITY
        self.lp = LinearProgramme(np.append(programme.costs, np.zeros(size - programme.size)), lower, upper)
        row, name, weight, right = programme.triplets()
        terms = np.arange(programme.size, size)
        sums = sparse.csr_matrix((np.ones(terms.size), terms, self.slots - programme.size), (len(programme.sums), size))
        self.lp.at_most(sparse.csr_matrix((weight, (row, name)), (linear, size)), right)
        self.lp.at_most(sums, np.array([part.limit for part in programme.sums]))
        member = np.concatenate([np.full(group.size, g) for g, group in enumerate(programme.groups)])
        inside = np.ones(member.size), (member, np.concatenate(programme.groups))
        self.lp.equal(sparse.csr_matrix(inside, (len(programme.groups), size)), 1.0)
        self.base = self.lp.rows

    def touch(self, x: Floats, steepest: float) -> None:
        """Append the tangents of every term at x."""
        for k in range(len(self.programme.sums)):
            cut = _cut(self.programme, k, x, steepest)
            term = np.arange(self.slots[k], self.slots[k + 1])
            names = np.column_stack([cut.names, term])
            values = np.column_stack([cut.scale[:, None] * cut.slopes, -cut.scale])
            line = np.repeat(np.arange(term.size), names.shape[1])
            entries = values.ravel(), (line, names.ravel())
            self.lp.at_most(sparse.csr_matrix(entries, (term.size, int(self.slots[-1]))))
            self.cuts.append(cut)

    def solve(self) -> tuple[Floats | None, float]:
        """The point of the relaxation, and the Lagrangian bound at its multipliers."""
        answer = self.lp.solve()
        if not answer.optimal:
            return None, -np.inf
        return answer.x[: self.programme.size], self._proved(np.maximum(-answer.row_dual, 0))

    def _proved(self, duals: Floats) -> float:
        """A term's multipliers over its tangents may not exceed its sum's: they are scaled down if they do."""
        programme, linear = self.programme, len(self.programme.rows)
        found = Lagrangian(programme.costs)
        found.linear(programme, duals[:linear])
        shares, at = [], self.base
        totals = [np.zeros(part.u.size) for part in programme.sums]
        for cut in self.cuts:
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
        for cut, share in zip(self.cuts, shares, strict=True):
            found.add(cut.names, (share * totals[cut.part])[:, None] * cut.slopes)
        return found.least(programme)
