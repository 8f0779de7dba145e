"""Linear objectives over laws, under sums of homogeneous power and entropy terms: solved by Clarabel, bounded by hand.

    Σ_j f_j(x) ≤ limit   for sums of terms, beside the laws, boxes and rows of a `LawProgramme`
        power:    (κ u)^a / (v^b w^d)  with a = 1 + b + d      entropy:  u log(u / v)

u, v, w are entries of x. The solver's duals only suggest: any tangents of the terms of a sum (each term is convex and
homogeneous) add up to a linear row that holds, and the bound is that of the rows:

    (κu)^a v^{−b} w^{−d} ≥ a·A^{b/a} C^{d/a}·κu − b·A·v − d·C·w     for all A, C ≥ 0
    u log(u/v)           ≥ (1 + log A)·u − A·v                       for all A > 0
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, SOLVED, Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.conic import ConicProgramme, ConicSolution, exponential, power
from sfumato.optimise.law_programme import LawProgramme
from sfumato.tolerances import LEAST

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
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)  # of every term

    @property
    def a(self) -> float:
        return 1 + self.b + self.d

    def tangent(self, first: Floats, second: Floats) -> Tangents:
        """Slopes in u, v (and w) of the tangents with A = first, C = second: below every term."""
        lift = self.a * first ** (self.b / self.a) * second ** (self.d / self.a) * self.scale
        last = [(self.w, -self.d * second)] if self.d > 0 else []
        return [(self.u, lift), (self.v, -self.b * first), *last]

    def cones(self, t: Ints, conic: ConicProgramme) -> Ints:
        """One cone a term, t at least the term; returns the first rows."""
        one = np.ones(t.size)
        below, middle = [(self.v, one)], [(self.u, self.scale * one)]
        if self.d == 0:  # t^{1/a} v^{b/a} ≥ κu
            return conic.each(power(1 / self.a, self.b / self.a), [(t, one)], below, middle)
        exponents = 1 / self.a, self.b / self.a, 1 - (1 + self.b) / self.a
        return conic.each(power(*exponents), [(t, one)], below, [(self.w, one)], middle)

    def priced(self, z: Floats, first: Ints) -> Tangents:
        """The tangents that the duals of the cones suggest."""
        zt = np.maximum(z[first], LEAST)
        second = np.maximum(z[first + 2], 0) / zt / self.d if self.d > 0 else np.ones(first.size)
        return self.tangent(np.maximum(z[first + 1], 0) / zt / self.b, second)

    def touched(self, x: Floats, steepest: float) -> Tangents:
        """The tangents at x, or at a point near it where they are tame."""
        u, v, w = x[self.u], x[self.v], x[self.w] if self.d > 0 else np.ones(self.u.size)
        steep = self.a * np.log(self.scale) + (self.a - 1) * np.log(u) - self.b * np.log(v) - self.d * np.log(w)
        tamed = np.minimum(steep, steepest)
        height = np.exp(tamed) * u / np.exp((steep - tamed) / (self.a - 1))
        return self.tangent(height / v, height / w if self.d > 0 else w)


@dataclass(frozen=True, slots=True, eq=False)
class EntropySum:
    """Σ_j u_j log(u_j / v_j) ≤ limit."""

    limit: float
    u: Ints
    v: Ints

    @property
    def range(self) -> tuple[float, float]:
        """Of every term: none is less than −1/e, so none exceeds the limit by more than that of all others."""
        return -1.0 / np.e, self.limit + self.u.size / np.e

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


Sums = list[PowerSum | EntropySum]


@dataclass(frozen=True, slots=True, eq=False)
class TermSolution:
    """The solver's point, and the bound recomputed from its multipliers."""

    x: Floats
    bound: float
    status: str


def solve(programme: LawProgramme, sums: Sums, budget: Budget) -> TermSolution:
    """Clarabel's answer with a bound that does not trust it."""
    conic, linear = programme.conic()
    totals, cones = [], []
    for part in sums:
        t = conic.fresh(part.u.size)
        nothing = np.zeros(t.size, dtype=np.int64)
        totals.append(conic.nonnegative(nothing, t, -np.ones(t.size), np.array([part.limit]))[0])
        cones.append(part.cones(t, conic))
    answer = _answered(conic, programme, budget)
    z = answer.z if np.all(np.isfinite(answer.z)) else np.zeros_like(answer.z)
    proof, prices = copy(programme), [np.maximum(z[linear], 0.0)]
    for part, total, first in zip(sums, totals, cones, strict=True):
        if z[total] > 0:
            names, slopes = (np.concatenate(entries) for entries in zip(*part.priced(z, first), strict=True))
            proof.limit(names[None], slopes, part.limit)
            prices.append(z[[total]])
    return TermSolution(answer.x[: programme.size], proof.bound(np.concatenate(prices)), answer.status)


def _answered(conic: ConicProgramme, programme: LawProgramme, budget: Budget) -> ConicSolution:
    """Clarabel's answer. Next to α = 1 its power cones may give up by an assertion of Rust, which is no Exception: then
    even laws and no prices are as good a suggestion as any, and tangents find the rest."""
    try:
        return conic.solve(programme.cost, tolerance=SOLVED, refine=True, budget=budget)
    except BaseException as broken:
        if type(broken).__name__ != "PanicException":
            raise
    even = 1.0 / np.bincount(programme.group + 1)[programme.group + 1]
    x = np.append(np.where(programme.group >= 0, even, 1.0), np.ones(conic.variables - programme.size))
    return ConicSolution("given up", x, np.zeros(conic.rows))


# --- sharper bounds by outer approximation: tangents at points, one linear programme a round --------------------------
# High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Replacing every convex term by
# the largest of a few tangents gives a linear programme that is a relaxation, and its prices prove a bound.


STEEPEST = np.linspace(5.0, 19.0, 14)  # log of term/u in each round, above which v and w grow before a tangent is taken


def loose(value: float, bound: float) -> bool:
    """Whether a bound is worth being sharpened: sealing costs as much as a smaller gap."""
    return value - bound > SEALING * max(1.0, abs(value))


def sharpened(
    programme: LawProgramme, sums: Sums, inside: Floats, value: float, bound: float, budget: Budget
) -> tuple[float, Floats]:
    """Rounds of tangents, taken ever nearer to the vertices of the relaxation: a better bound, and the last vertex,
    nearly feasible and often better than the cone's point."""
    relaxation, point, last = copy(programme), inside, inside
    terms = [relaxation.box(part.u.size, 0.0, *part.range) for part in sums]
    for part, t in zip(sums, terms, strict=True):
        relaxation.limit(t[None], 1.0, part.limit)
    for turn, steepest in enumerate(STEEPEST):
        for part, t in zip(sums, terms, strict=True):
            _touch(relaxation, part, t, np.maximum(point, REPAIRED), steepest)
        answer = relaxation.solve()
        bound = max(bound, relaxation.proved(answer)) if answer.optimal else bound
        if not answer.optimal or budget.over or not loose(value, bound):
            break
        last = answer.x[: programme.size]
        point = last + 0.5 ** (turn + 1) * (inside - last)
    return bound, last


def _touch(relaxation: LawProgramme, part: PowerSum | EntropySum, t: Ints, x: Floats, steepest: float) -> None:
    """Rows by which the terms t are at least their tangents at x, which is lifted off zero: any point gives valid ones,
    tame ones help."""
    names, slopes = (np.stack(entries, 1) for entries in zip(*part.touched(x, steepest), strict=True))
    values = np.column_stack([slopes, -np.ones(t.size)])
    relaxation.limit(np.column_stack([names, t]), values / np.abs(values).max(axis=1, keepdims=True))
