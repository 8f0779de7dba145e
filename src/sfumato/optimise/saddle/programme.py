"""Linear objectives over laws, under sums of homogeneous power and entropy terms: solved by Clarabel, bounded by hand.

    minimise  c·x   over  groups of x that are laws, other x in [0, 1]
    subject to  G x ≤ h   and   Σ_j f_j(x) ≤ limit   for sums of terms
        power:    (κ u)^a / (v^b w^d)  with a = 1 + b + d      entropy:  u log(u / v)

u, v, w are entries of x. The solver's duals only suggest: the bound is the Lagrangian at repaired multipliers,
minimised in closed form, which holds for any numbers λ ≥ 0 and any tangents (each term is convex and homogeneous):

    (κu)^a v^{−b} w^{−d} ≥ a·A^{b/a} C^{d/a}·κu − b·A·v − d·C·w     for all A, C ≥ 0
    u log(u/v)           ≥ (1 + log A)·u − A·v                       for all A > 0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, REPAIRED, SOLVED, Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.conic import ConicProgramme, ConicSolution, exponential, power
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.tolerances import LEAST, UNIT

TAME = (-14.0, 5.0, 19.0)  # log of term/u, outside of which v and w are shrunk together before a tangent is taken: not
# below the first, and not above a limit that rises from the second to the third
Tangents = list[tuple[Ints, Floats]]  # variables of every term of a sum, with the slopes of a function below the terms


@dataclass(frozen=True, slots=True, eq=False)
class PowerSum:
    """Σ_j (κ u_j)^a v_j^{−b} w_j^{−d} ≤ 1; d = 0 leaves w out. Indices into x."""

    scale: float
    b: float
    d: float
    u: Ints
    v: Ints
    w: Ints
    limit: ClassVar[float] = 1.0
    signed: ClassVar[bool] = False  # whether terms may be negative

    @property
    def a(self) -> float:
        return 1 + self.b + self.d

    @property
    def square(self) -> bool:
        """Square terms use the second-order cone, which the solver likes best."""
        return self.d == 0 and self.b == 1

    def tangent(self, first: Floats, second: Floats) -> Tangents:
        """Slopes in u, v (and w) of the tangents with A = first, C = second: below every term."""
        lift = self.a * first ** (self.b / self.a) * second ** (self.d / self.a) * self.scale
        last = [(self.w, -self.d * second)] if self.d > 0 else []
        return [(self.u, lift), (self.v, -self.b * first), *last]

    def cones(self, t: Ints, conic: ConicProgramme) -> Ints:
        """One cone a term, t at least the term; returns the first rows."""
        one = np.ones(t.size)
        top, below, middle = [(t, one)], [(self.v, one)], [(self.u, self.scale * one)]
        if self.square:
            return conic.products(top, below, middle)
        if self.d == 0:  # t^{1/a} v^{b/a} ≥ κu
            return conic.each(power(1 / self.a, self.b / self.a), top, below, middle)
        exponents = 1 / self.a, self.b / self.a, 1 - (1 + self.b) / self.a
        return conic.each(power(*exponents), top, below, [(self.w, one)], middle)

    def priced(self, z: Floats, first: Ints) -> Tangents:
        """The tangents that the duals of the cones suggest."""
        zt = np.maximum(z[first] + z[first + 1] if self.square else z[first], LEAST)
        zv = z[first] - z[first + 1] if self.square else z[first + 1]
        second = np.maximum(z[first + 2], 0) / zt / self.d if self.d > 0 else np.ones(first.size)
        return self.tangent(np.maximum(zv, 0) / zt / self.b, second)

    def touched(self, x: Floats, steepest: float) -> Tangents:
        """The tangents at x, or at a point near it where they are tame."""
        u, v, w = x[self.u], x[self.v], x[self.w] if self.d > 0 else np.ones(self.u.size)
        steep = self.a * np.log(self.scale) + (self.a - 1) * np.log(u) - self.b * np.log(v) - self.d * np.log(w)
        tamed = np.clip(steep, TAME[0], steepest)
        height = np.exp(tamed) * u / np.exp((steep - tamed) / (self.a - 1))
        return self.tangent(height / v, height / w if self.d > 0 else w)


@dataclass(frozen=True, slots=True, eq=False)
class EntropySum:
    """Σ_j u_j log(u_j / v_j) ≤ limit."""

    limit: float
    u: Ints
    v: Ints
    signed: ClassVar[bool] = True

    def tangent(self, slope: Floats) -> Tangents:
        """Slopes in u and v of the tangents with A = slope."""
        slope = np.clip(slope, DUST, 1 / DUST)
        return [(self.u, 1 + np.log(slope)), (self.v, -slope)]

    def cones(self, t: Ints, conic: ConicProgramme) -> Ints:
        """One cone a term, t at least the term; returns the first rows."""
        one = np.ones(t.size)
        return conic.each(exponential, [(t, -one)], [(self.u, one)], [(self.v, one)])

    def priced(self, z: Floats, first: Ints) -> Tangents:
        """The tangents that the duals of the cones suggest."""
        return self.tangent(np.maximum(z[first + 2], LEAST) / np.maximum(-z[first], LEAST))

    def touched(self, x: Floats, steepest: float) -> Tangents:
        """The tangents at x."""
        return self.tangent(x[self.u] / x[self.v])


@dataclass(slots=True, eq=False)
class HomogeneousProgramme:
    """Built up by the caller; `size` counts the variables so far."""

    cost: list[Floats] = field(default_factory=list)
    groups: list[Ints] = field(default_factory=list)
    boxes: list[Ints] = field(default_factory=list)
    rows: list[tuple[Ints, Floats, float]] = field(default_factory=list)
    sums: list[PowerSum | EntropySum] = field(default_factory=list)
    size: int = 0

    def law(self, cost: Floats) -> Ints:
        """A new group of variables that is a law, with its costs."""
        self.groups.append(self._new(cost))
        return self.groups[-1]

    def box(self, count: int) -> Ints:
        """New variables in [0, 1] without cost."""
        self.boxes.append(self._new(np.zeros(count)))
        return self.boxes[-1]

    def at_most(self, names: Ints, weights: Floats, limit: float) -> None:
        """Σ weights·x[names] ≤ limit."""
        self.rows.append((names, weights, limit))

    @property
    def costs(self) -> Floats:
        """c, of all variables."""
        return np.concatenate(self.cost)

    def triplets(self) -> tuple[Ints, Ints, Floats, Floats]:
        """The linear rows as row, variable, weight, and their right-hand sides."""
        sizes = [names.size for names, _, _ in self.rows]
        names = np.concatenate([np.zeros(0, dtype=np.int64), *(names for names, _, _ in self.rows)])
        weights = np.concatenate([np.zeros(0), *(weights for _, weights, _ in self.rows)])
        return np.repeat(np.arange(len(sizes)), sizes), names, weights, np.array([right for _, _, right in self.rows])

    def _new(self, cost: Floats) -> Ints:
        names = np.arange(self.size, self.size + cost.size)
        self.size += cost.size
        self.cost.append(cost)
        return names


class Lagrangian:
    """Reduced costs at multipliers ≥ 0, and the least value they allow, less what rounding may have added."""

    def __init__(self, programme: HomogeneousProgramme, multipliers: Floats) -> None:
        """Every linear row times its multiplier."""
        self.programme, self.reduced, self.sizes = programme, programme.costs, np.abs(programme.costs)
        self.constant, self.largest, self.parts = 0.0, 0.0, 16
        for (names, weights, right), multiplier in zip(programme.rows, multipliers, strict=True):
            self.add(names, multiplier * weights)
            self.less(multiplier * right)

    def add(self, names: Ints, weights: Floats) -> None:
        """Add weights to the costs of some variables."""
        np.add.at(self.reduced, names, weights)
        np.add.at(self.sizes, names, np.abs(weights))
        self.parts += 1

    def less(self, amount: float) -> None:
        """Take an amount off the value."""
        self.constant -= amount
        self.largest += abs(amount)

    def least(self) -> float:
        """The minimum over laws and boxes. Each sum of k floats is off by at most k units of its absolute sum."""
        groups, boxes = self.programme.groups, self.programme.boxes
        value = self.constant + sum(float(self.reduced[group].min()) for group in groups)
        value += sum(float(np.minimum(self.reduced[box], 0).sum()) for box in boxes)
        worst = self.largest + sum(float(self.sizes[group].max()) for group in groups)
        worst += sum(float(self.sizes[box].sum()) for box in boxes)
        return value - 2 * UNIT * (self.parts + len(groups) + len(boxes)) * worst


@dataclass(frozen=True, slots=True, eq=False)
class HomogeneousSolution:
    """The solver's point, and the bound recomputed from repaired multipliers."""

    x: Floats
    bound: float
    status: str


def solve(programme: HomogeneousProgramme, budget: Budget) -> HomogeneousSolution:
    """Clarabel's answer with a bound that does not trust it."""
    conic = ConicProgramme(programme.size)
    for group in programme.groups:
        conic.equal(np.zeros(group.size, dtype=np.int64), group, np.ones(group.size), -np.ones(1))
    conic.hold([(np.arange(programme.size), np.ones(programme.size))])
    rows, names, weights, right = programme.triplets()
    linear = conic.nonnegative(rows, names, -weights, right) if right.size else np.zeros(0, dtype=np.int64)
    totals, cones = [], []
    for part in programme.sums:
        t = conic.fresh(part.u.size)
        nothing = np.zeros(t.size, dtype=np.int64)
        totals.append(conic.nonnegative(nothing, t, -np.ones(t.size), np.array([part.limit])))
        cones.append(part.cones(t, conic))
    answer = _answered(conic, programme, budget)
    z = answer.z if np.all(np.isfinite(answer.z)) else np.zeros_like(answer.z)
    found = Lagrangian(programme, np.maximum(z[linear], 0.0))
    for part, total, first in zip(programme.sums, totals, cones, strict=True):
        multiplier = max(0.0, float(z[total[0]]))
        found.less(multiplier * part.limit)
        for variables, slopes in part.priced(z, first) if multiplier > 0 else ():
            found.add(variables, multiplier * slopes)
    return HomogeneousSolution(answer.x[: programme.size], found.least(), answer.status)


def _answered(conic: ConicProgramme, programme: HomogeneousProgramme, budget: Budget) -> ConicSolution:
    """Clarabel's answer. Next to α = 1 its power cones may give up by an assertion of Rust, which is no Exception: then
    even laws and no prices are as good a suggestion as any, and tangents find the rest."""
    try:
        return conic.solve(programme.costs, tolerance=SOLVED, refine=True, budget=budget)
    except BaseException as broken:
        if type(broken).__name__ != "PanicException":
            raise
    x = np.ones(conic.variables)
    for group in programme.groups:
        x[group] = 1 / group.size
    return ConicSolution("given up", x, np.zeros(conic.rows))


# --- sharper bounds by outer approximation: tangents at points, one linear programme a round --------------------------
# High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Replacing every convex term by
# the largest of a few tangents gives a linear programme that is a relaxation; its multipliers go into the same
# closed-form Lagrangian as the conic ones, so what is returned is proved whatever HiGHS did.


ENOUGH = 1e-8  # gap, relative where the value is above 1, that is worth no linear programme
TANGENT_ROUNDS = 14  # and points that are half as far from the vertex each time


@dataclass(frozen=True, slots=True, eq=False)
class TangentCut:
    """term[j] ≥ Σ_k slopes[j, k]·x[names[j, k]] for the terms of one sum; rows are solved times `scale`."""

    part: int
    names: Ints
    slopes: Floats
    scale: Floats


def loose(value: float, bound: float) -> bool:
    """Whether a bound is worth being sharpened."""
    return value - bound > ENOUGH * max(1.0, abs(value))


def sharpened(
    programme: HomogeneousProgramme, inside: Floats, value: float, bound: float, budget: Budget
) -> tuple[float, Floats]:
    """Rounds of tangents, taken ever nearer to the vertices of the relaxation: a better bound, and the last vertex,
    nearly feasible and often better than the cone's point."""
    relaxation, point, last = TangentRelaxation(programme), inside, inside
    for turn, steepest in enumerate(np.linspace(*TAME[1:], TANGENT_ROUNDS)):
        relaxation.touch(point, steepest)
        vertex, proved = relaxation.solve()
        bound = max(bound, proved)
        if vertex is None or budget.over or not loose(value, bound):
            break
        last = vertex
        point = vertex + 0.5 ** (turn + 1) * (inside - vertex)
    return bound, last


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
            if part.signed:
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
        """Append the tangents of every term at x, lifted off zero: any point gives valid ones, tame ones help."""
        lifted = np.maximum(x, REPAIRED)
        for k, part in enumerate(self.programme.sums):
            names, slopes = (np.stack(entries, 1) for entries in zip(*part.touched(lifted, steepest), strict=True))
            scale = 1 / np.maximum(1.0, np.abs(slopes).max(axis=1))
            term = np.arange(self.slots[k], self.slots[k + 1])
            every = np.column_stack([names, term])
            values = np.column_stack([scale[:, None] * slopes, -scale])
            entries = values.ravel(), (np.repeat(np.arange(term.size), every.shape[1]), every.ravel())
            self.lp.at_most(sparse.csr_matrix(entries, (term.size, int(self.slots[-1]))))
            self.cuts.append(TangentCut(k, names, slopes, scale))

    def solve(self) -> tuple[Floats | None, float]:
        """The point of the relaxation, and the Lagrangian bound at its multipliers."""
        answer = self.lp.solve()
        if not answer.optimal:
            return None, -np.inf
        return answer.x[: self.programme.size], self._proved(np.maximum(-answer.row_dual, 0))

    def _proved(self, duals: Floats) -> float:
        """A term's multipliers over its tangents may not exceed its sum's: they are scaled down if they do."""
        sums, linear = self.programme.sums, len(self.programme.rows)
        found = Lagrangian(self.programme, duals[:linear])
        ends = np.cumsum([len(cut.names) for cut in self.cuts])
        shares = [x * cut.scale for cut, x in zip(self.cuts, np.split(duals[self.base :], ends[:-1]), strict=True)]
        totals = [np.zeros(part.u.size) for part in sums]
        for cut, share in zip(self.cuts, shares, strict=True):
            totals[cut.part] += share
        for k, part in enumerate(sums):
            multiplier = float(duals[linear + k])
            if part.signed:  # terms may be negative: weights must add up to the multiplier exactly
                multiplier = max(multiplier, float(totals[k].max()))
            found.less(multiplier * part.limit)
            fill = np.divide(multiplier, totals[k], out=np.zeros_like(totals[k]), where=totals[k] > 0)
            totals[k] = fill if part.signed else np.minimum(fill, 1.0)
        for cut, share in zip(self.cuts, shares, strict=True):
            found.add(cut.names, (share * totals[cut.part])[:, None] * cut.slopes)
        return found.least()
