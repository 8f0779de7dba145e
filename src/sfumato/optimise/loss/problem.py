"""Least expected loss under bounded ratios: the problem, its worst cases, bounds from below, answers made private.

min_Q max_{P ∈ F_u} Σ P_{su} Q(y|s,u) d(u,y)  subject to  R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·) for (R1,R2) ∈ F_{U|s1,s2}
[002, (7)–(10)]; F_u or F shrink to P̂ where robustness is not asked for. The slack b = √(1+B) − 1 is the same for every
pair [002, Thm 3], and all pairs are searched at once. What the ratios of an answer exceed is paid by a constant law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.optimise.arrays import GHOST, MARGIN, REPAIRED, Floats, Ints
from sfumato.optimise.repair import goal, lifted, mixed
from sfumato.tolerances import SUMS_TO_ONE
from sfumato.uncertainty.chi_square import ChiSquareBall
from sfumato.uncertainty.sets import Anything, Exactly, UncertaintySet

SHARPENING = 5.0  # seconds of linear programmes for a bound that cones have left loose
PairIndex = tuple[Ints, Ints, Ints]  # y, s1, s2


@dataclass(frozen=True, slots=True)
class PairCuts:
    """Privacy constraints R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·). They do not contain ε: valid for all of them."""

    y: Ints
    s1: Ints
    s2: Ints
    r1: Floats  # [k, u]
    r2: Floats  # [k, u]

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, which: Ints) -> Self:
        return type(self)(*(getattr(self, f.name)[which] for f in fields(self)))

    def __add__(self, other: PairCuts) -> PairCuts:
        return PairCuts(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(PairCuts)))

    @staticmethod
    def none(useful: int) -> PairCuts:
        """An empty list."""
        empty = np.zeros(0, dtype=np.int64)
        return PairCuts(empty, empty, empty, np.zeros((0, useful)), np.zeros((0, useful)))

    def rows(self, problem: LossProblem) -> sparse.csr_matrix:
        """One sparse row per cut over the variables Q[y, x]."""
        k, us, xs = len(self), problem.p.shape[1], problem.inputs
        first, second = (self.y * xs + (s * us if problem.reads_both else 0) for s in (self.s1, self.s2))
        columns = np.concatenate([first[:, None] + np.arange(us), second[:, None] + np.arange(us)], axis=1).ravel()
        values = np.concatenate([self.r1, -np.exp(problem.epsilon) * self.r2], axis=1).ravel()
        lines = np.repeat(np.arange(k), 2 * us)
        return sparse.csr_matrix((values, (lines, columns)), shape=(k, problem.outputs * xs))

    def excess(self, q: Floats, e: float) -> Floats:
        """Per output the greatest N − e·M of these pairs, at least 0; q[y, s, u]."""
        found, side = np.zeros(len(q)), "ku,ku->k"
        over = np.einsum(side, self.r1, q[self.y, self.s1]) - e * np.einsum(side, self.r2, q[self.y, self.s2])
        np.maximum.at(found, self.y, over)
        return found


@dataclass(frozen=True, slots=True)
class WorstPairs(PairCuts):
    """Members of F that attain the greatest R1·Q(y|s1,·) / R2·Q(y|s2,·) of the listed pairs, and this ratio."""

    ratio: Floats


def all_pairs(ys: int, ss: int) -> PairIndex:
    """Every output with every ordered pair of different secrets."""
    y, s1, s2 = (x.ravel() for x in np.indices((ys, ss, ss)))
    keep = s1 != s2
    return y[keep], s1[keep], s2[keep]


SHARES = (0.0, *(4.0**-k for k in range(26, -1, -1)))  # of P̂ to mix in, until a point is inside the ball


def around(p: Floats, radius: float) -> UncertaintySet:
    """The χ² ball around p[s, u]: p itself at radius 0, and every distribution at radius ∞."""
    joint = Joint.from_probabilities(p)
    if np.isinf(radius):
        return Anything(joint)
    return ChiSquareBall(joint, radius=radius) if radius > 0.0 else Exactly(joint)


@dataclass(frozen=True, eq=False)
class LossProblem:
    """One of NUNP, NURP, RUNP, RURP over a χ² ball, which is P̂ at radius 0 and every distribution at radius ∞.

    distance[u, y]; the mechanism reads (s, u), or u alone.
    """

    p: Floats
    radius: float
    epsilon: float
    distance: Floats
    robust_privacy: bool = True
    robust_utility: bool = False
    reads_both: bool = True

    def __post_init__(self) -> None:
        p, d = self.p, self.distance
        if p.ndim != 2 or not np.all(np.isfinite(p)) or (p < 0.0).any() or abs(p.sum() - 1.0) > SUMS_TO_ONE:
            raise InputError("p must be a matrix [s, u] of probabilities that sum to 1.")
        if d.ndim != 2 or d.shape[0] != p.shape[1] or not np.all(np.isfinite(d)):
            raise InputError(f"distance must be a finite matrix [u, y] with {p.shape[1]} rows, got shape {d.shape}.")
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise InputError(f"epsilon must be a finite number of nats, zero or more, got {self.epsilon}.")
        if not self.radius >= 0.0:
            raise InputError(f"radius must be zero or more, got {self.radius}.")

    @property
    def privacy_radius(self) -> float:
        """Radius of the set that privacy must hold over."""
        return self.radius if self.robust_privacy else 0.0

    @cached_property
    def within(self) -> UncertaintySet:
        """That set."""
        return around(self.p, self.privacy_radius)

    @cached_property
    def judged(self) -> UncertaintySet:
        """The set that the distortion is the worst of."""
        return around(self.p, self.utility_radius)

    @cached_property
    def marginal(self) -> Floats:
        """P̂_s."""
        return np.asarray(self.p.sum(axis=1), dtype=np.float64)

    @cached_property
    def conditional(self) -> Floats:
        """P̂_{u|s}; rows of empty secrets are zero."""
        return self.p / np.where(self.marginal > 0.0, self.marginal, 1.0)[:, None]

    @property
    def slack(self) -> float:
        """b = √(B+1) − 1, written without cancellation."""
        return float(self.privacy_radius / (np.sqrt(self.privacy_radius + 1.0) + 1.0))

    @property
    def utility_radius(self) -> float:
        """Radius of the set that the distortion is the worst of."""
        return self.radius if self.robust_utility else 0.0

    @property
    def corners(self) -> Floats:
        """Sources [k, s, u] that a worst loss is begun with: P̂, or all there are where any distribution may occur."""
        return np.eye(self.p.size).reshape(-1, *self.p.shape) if np.isinf(self.utility_radius) else self.p[None]

    @property
    def outputs(self) -> int:
        """|Y|."""
        return int(self.distance.shape[1])

    @property
    def inputs(self) -> int:
        """|X|: columns of Q."""
        return int(self.p.size if self.reads_both else self.p.shape[1])

    def expand(self, q: Floats) -> Floats:
        """Q[y, x] as [y, s, u]."""
        ss, us = self.p.shape
        if self.reads_both:
            return q.reshape(-1, ss, us)
        return np.broadcast_to(q[:, None, :], (q.shape[0], ss, us))

    def cost(self, p: Floats) -> Floats:
        """c[y, x] with Σ c Q the distortion at the distribution p[s, u]."""
        if self.reads_both:
            return np.asarray((p[None] * self.distance.T[:, None, :]).reshape(self.outputs, -1))
        return np.asarray(p.sum(axis=0)[None] * self.distance.T)

    def distortion(self, q: Floats) -> tuple[float, Floats]:
        """max_{P ∈ F_u} E d(U, Y), by its dual bound (never too small), and the P that attains it."""
        found = self.judged.support(np.einsum("ysu,uy->su", self.expand(q), self.distance))
        return found.value, found.p

    def worst(self, q: Floats, pairs: PairIndex | None = None) -> WorstPairs:
        """The worst case of the listed pairs, or of every pair of secrets and output that is sent; q[y, x].

        At radius 0 secrets that never occur have none.
        """
        wide = self.expand(q)
        if pairs is None:
            y, s1, s2 = all_pairs(*wide.shape[:2])
            seen = (self.marginal > 0.0) | (self.privacy_radius > 0.0)
            keep = (wide.max(axis=(1, 2))[y] > 0.0) & seen[s1] & seen[s2]
            pairs = y[keep], s1[keep], s2[keep]
        y, s1, s2 = pairs
        found = self.within.pairs(wide[y, s1], wide[y, s2], s1, s2)
        return WorstPairs(y, s1, s2, found.first, found.second, found.ratio)

    def excess(self, q: Floats, e: float) -> Floats:
        """Per output the greatest P(y|s1) − e·P(y|s2) over the set, at least 0."""
        return self.worst(q).excess(self.expand(q), e)

    def columns(self, x: Floats) -> Floats:
        """Q[y, x] from the first entries of a solver's answer, columns summing to 1."""
        q = np.maximum(x[: self.outputs * self.inputs].reshape(self.outputs, -1), 0.0)
        return np.asarray(q / q.sum(axis=0))


def centre_cuts(problem: LossProblem) -> PairCuts:
    """The constraints at P̂ itself for every output and pair of occupied secrets."""
    y, s1, s2 = all_pairs(problem.outputs, problem.p.shape[0])
    keep = (problem.marginal[s1] > 0.0) & (problem.marginal[s2] > 0.0)
    return PairCuts(y[keep], s1[keep], s2[keep], problem.conditional[s1[keep]], problem.conditional[s2[keep]])


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """A mended Q[y, x], its (worst-case) loss, a proved lower bound, who found it, and what proves it."""

    q: Floats
    value: float
    bound: float
    engine: str
    cuts: PairCuts | None = None  # members of F, to start from at another ε
    source: Floats | None = None  # the P in F_u that the bound rests on
    unmended: Floats | None = None  # the solver's own answer, for comparison

    def within(self, tolerance: float) -> bool:
        """Whether value and bound agree."""
        return self.value - self.bound <= tolerance * abs(self.value)


def lagrangian(problem: LossProblem, cuts: PairCuts, weights: Floats, p: Floats) -> float:
    """min over columns in the simplex of Σ (c_{yx}(P) + Σ_cuts π (R1 − e^ε R2)_x) Q: a lower bound of the optimum from
    any weights π ≥ 0 on cuts and any P in F_u. Members of F are all that is needed; how good the solver was does not
    matter.
    """
    cost = problem.cost(p)
    price = (np.maximum(weights, 0.0) @ cuts.rows(problem)).reshape(cost.shape) if len(cuts) else 0.0
    return float((cost + price).min(axis=0).sum())


def into_pairs(problem: LossProblem, pairs: PairIndex, first: Floats, second: Floats) -> tuple[PairCuts, Floats]:
    """A solver's multipliers of x1 and x2 are weight·R1 and weight·R2: members of F once moved inside, with prices."""
    y, s1, s2 = pairs
    weights, other = first.sum(axis=1), second.sum(axis=1)
    keep = np.flatnonzero((weights > 0.0) & (other > 0.0))
    y, s1, s2 = y[keep], s1[keep], s2[keep]
    sides = ((s1, first[keep] / weights[keep, None]), (s2, second[keep] / other[keep, None]))
    most = problem.slack + problem.marginal[s1] + problem.marginal[s2]
    inside = _inside([(problem.p[s], r, problem.conditional[s]) for s, r in sides], most)
    return PairCuts(y, s1, s2, *inside), weights[keep]


def _inside(parts: Sequence[tuple[Floats, Floats, Floats]], most: Floats) -> tuple[Floats, ...]:
    """R of every part (p, R, centre), moved towards its centre by the least share of those tried, for each of its rows,
    at which Σ_parts √(Σ p²/R) ≤ most; what has no mass is free."""
    share = np.zeros((len(most), 1))
    for step in SHARES:
        now = tuple(np.where(p.any(axis=1, keepdims=True), r + share * (centre - r), r) for p, r, centre in parts)
        out = sum(_size(p, r) for (p, _, _), r in zip(parts, now, strict=True)) > most
        if not out.any():
            break
        share[out] = step
    return now


def _size(p: Floats, r: Floats) -> Floats:
    """√(Σ p²/R) along the last axis, ∞ where R misses a cell."""
    squares = np.divide(p * p, r, out=np.where(p > 0.0, np.inf, 0.0), where=r > 0.0)
    return np.asarray(np.sqrt(squares.sum(axis=-1)))


def into_ball(problem: LossProblem, p: Floats) -> Floats:
    """P moved towards P̂ until Σ P̂²/P ≤ 1 + B."""
    centre = problem.p.reshape(1, -1)
    return _inside([(centre, p.reshape(1, -1), centre)], np.sqrt([1.0 + problem.radius]))[0].reshape(p.shape)


# --- answers made private: what ratios exceed is paid by a constant law -----------------------------------------------


def swept(q: Floats, cost: Floats) -> Floats:
    """Q clipped and normalised, the mass of hardly ever sent outputs given to the live output where it is cheapest."""
    q = np.maximum(q, 0.0)
    q = q / q.sum(axis=0)
    ghost = q.max(axis=1) < GHOST
    live = np.flatnonzero(~ghost)
    for y in np.flatnonzero(ghost):
        q[live[np.argmin(cost[live] @ q[y])]] += q[y]
        q[y] = 0.0
    return np.asarray(q / q.sum(axis=0))


def mended(problem: LossProblem, q: Floats) -> Floats:
    """Q mixed with as little of a constant law as brings the worst ratio in floats below e^ε by a margin.

    A first trace of it is added unseen over a ball, because solvers stop that far outside, and a check costs more.
    """
    q, robust = swept(q, problem.cost(problem.p)), problem.privacy_radius > 0.0
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:  # integers keep equal means at P̂ only where they are equal without rounding
        return q if not robust and not problem.excess(q, 1.0).any() else constant(problem)
    e = float(np.exp(goal(problem.epsilon)))
    found = lifted(mixed(q, REPAIRED * q.max(axis=1)) if robust else q, lambda q: problem.excess(q, e), e - 1.0)
    return constant(problem) if found is None else found


def constant(problem: LossProblem) -> Floats:
    """The best single output, always sent: private whatever happens."""
    alone = [np.repeat(row[:, None], problem.inputs, axis=1) for row in np.eye(problem.outputs)]
    return min(alone, key=lambda q: problem.distortion(q)[0])
