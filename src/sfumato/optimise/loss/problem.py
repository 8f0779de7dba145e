"""Least expected loss under bounded ratios: the problem, its sources and worst cases, answers made private.

min_Q max_{P ∈ F_u} Σ P_{su} Q(y|s,u) d(u,y)  subject to  R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·) for (R1,R2) ∈ F_{U|s1,s2}
[002, (7)–(10)]; F_u or F shrink to P̂ where robustness is not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import GHOST, MARGIN, REPAIRED, Floats, Ints, goal, lifted, mixed
from sfumato.optimise.conic import LawProgramme
from sfumato.tolerances import SUMS_TO_ONE
from sfumato.uncertainty.sets import Anything, Exactly, Extreme, Pairs, UncertaintySet, is_set

SHARPENING = 5.0  # seconds of linear programmes for a bound that cones have left loose
VANISHING = 1e-6  # of what the best constant loses: less counts as this much
PairIndex = tuple[Ints, Ints, Ints]  # y, s1, s2


def all_pairs(ys: int, ss: int) -> PairIndex:
    """Every output with every ordered pair of different secrets."""
    y, s1, s2 = np.nonzero(np.broadcast_to(~np.eye(ss, dtype=np.bool_), (ys, ss, ss)))
    return y, s1, s2


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """A closed set of distributions, seen through the largest value of a linear function."""

    members: Floats  # [k, M], some to start with
    worst: Callable[[Floats], tuple[float, Floats]]
    """c ↦ max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    def support(self, c: Floats) -> Extreme:
        """max ⟨c, P⟩ for c[s, u] as `UncertaintySet.support`, where secrets share the letters evenly."""
        value, p = self.worst(c.mean(axis=0))
        return Extreme(value, np.tile(p / len(c), (len(c), 1)))

    @staticmethod
    def of(given: object) -> Sources:
        """An array of distributions (or their hull: the same here [003, Lemma 2]), or the marginals on U of a set."""
        if is_set(given):
            p = np.eye(given.joint.useful.size) if isinstance(given, Anything) else given.joint.p_useful[None, :]

            def worst(c: Floats) -> tuple[float, Floats]:
                found = given.support(np.broadcast_to(c, given.joint.shape).copy())
                return found.value, found.p.sum(axis=0)

            return Sources(p, worst)
        try:
            p = np.atleast_2d(np.asarray(given, float))
        except (TypeError, ValueError):
            raise InputError(f"sources must be distributions or an uncertainty set, got {str(given)[:60]!r}.") from None
        if p.ndim != 2 or p.size == 0:
            raise InputError("the source set is empty: give at least one distribution.")
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > SUMS_TO_ONE:
            raise InputError("sources must be distributions: nonnegative rows that sum to 1.")
        return Sources(p, lambda c: (float((p @ c).max()), p[int(np.argmax(p @ c))]))


def radius_of(within: UncertaintySet | Sources) -> float:
    """Of a χ² ball, which is P̂ at radius 0; ∞ of other sets."""
    return 0.0 if isinstance(within, Exactly) else float(getattr(within, "radius", math.inf))


@dataclass(frozen=True, eq=False)
class LossProblem:
    """One of NUNP, NURP, RUNP, RURP: privacy over one set around P̂ and the worst loss of another.

    Each is a χ² ball, P̂ alone or everything, or sources of U are judged. distance[u, y]; the mechanism reads (s, u), or
    u alone: about everything it is then LDP about u.
    """

    within: UncertaintySet
    judged: UncertaintySet | Sources
    epsilon: float
    distance: Floats
    reads_both: bool = True

    @cached_property
    def privacy_radius(self) -> float:
        return radius_of(self.within)

    @cached_property
    def utility_radius(self) -> float:
        return radius_of(self.judged)

    @property
    def p(self) -> Floats:
        """P̂[s, u]."""
        return self.within.joint.p

    @property
    def marginal(self) -> Floats:
        """P̂_s."""
        return self.within.joint.p_secret

    @cached_property
    def conditional(self) -> Floats:
        """P̂_{u|s}; rows of empty secrets are zero."""
        return np.where(self.marginal[:, None] > 0.0, self.within.joint.useful_given_secret, 0.0)

    @property
    def members(self) -> Floats:
        """Some laws of inputs whose loss counts, to start with."""
        if isinstance(self.judged, Sources):
            return self.judged.members
        return np.eye(self.inputs) if isinstance(self.judged, Anything) else self.read(self.p)[None]

    @property
    def slack(self) -> float:
        """b = √(B+1) − 1, the same for every pair [002, Thm 3], written without cancellation."""
        return self.privacy_radius / (math.sqrt(self.privacy_radius + 1.0) + 1.0)

    @property
    def outputs(self) -> int:
        """|Y|."""
        return int(self.distance.shape[1])

    @property
    def inputs(self) -> int:
        """|X|: columns of Q."""
        return int(self.p.size if self.reads_both else self.p.shape[1])

    def at(self, y: Ints, s: Ints) -> Ints:
        """The variables Q(y|s, ·) among Q[y, x], a row for every entry."""
        us = self.p.shape[1]
        return (y * self.inputs + (s * us if self.reads_both else 0))[:, None] + np.arange(us)

    def expand(self, q: Floats) -> Floats:
        """Q[y, x] as [y, s, u]."""
        return np.broadcast_to(q.reshape(len(q), -1, self.p.shape[1]), (len(q), *self.p.shape))

    def read(self, p: Floats) -> Floats:
        """The law of inputs x at the distribution p[s, u]."""
        return p.ravel() if self.reads_both else p.sum(axis=0)

    def cost(self, p: Floats) -> Floats:
        """c[y, x] with Σ c Q the distortion at a law of inputs."""
        return np.tile(self.distance.T, self.inputs // len(self.distance)) * p

    def spent(self, p: Floats, size: int) -> Floats:
        """The row of D ≥ Σ c Q at a law of inputs, for D the last of so many variables."""
        cost = self.cost(p).ravel()
        return np.concatenate([cost, np.zeros(size - len(cost) - 1), [-1.0]])

    def distortion(self, q: Floats) -> tuple[float, Floats]:
        """max_{P ∈ F_u} E d(U, Y), by its dual bound (never too small), and the law of inputs that attains it."""
        found = self.judged.support(np.einsum("ysu,uy->su", self.expand(q), self.distance))
        return found.value, self.read(found.p)

    def worst(self, q: Floats, pairs: PairIndex | None = None) -> tuple[PairIndex, Pairs]:
        """Members of F that attain the greatest R1·Q(y|s1,·) / R2·Q(y|s2,·) of the listed pairs, or of every pair of
        secrets and output that is sent; q[y, x]. At radius 0 secrets that never occur have none."""
        wide = self.expand(q)
        if pairs is None:
            y, s1, s2 = all_pairs(*wide.shape[:2])
            seen = (self.marginal > 0.0) | (self.privacy_radius > 0.0)
            keep = (wide.max(axis=(1, 2))[y] > 0.0) & seen[s1] & seen[s2]
            pairs = y[keep], s1[keep], s2[keep]
        y, s1, s2 = pairs
        return pairs, self.within.pairs(wide[y, s1], wide[y, s2], s1, s2)

    def excess(self, q: Floats, e: float) -> Floats:
        """Per output the greatest P(y|s1) − e·P(y|s2) over the set, at least 0."""
        ((y, s1, s2), worst), wide, over = self.worst(q), self.expand(q), np.zeros(len(q))
        most, least = (worst.first * wide[y, s1]).sum(axis=1), (worst.second * wide[y, s2]).sum(axis=1)
        np.maximum.at(over, y, most - e * least)
        return over

    def rows(self, pairs: PairIndex, first: Floats, second: Floats) -> sparse.csr_matrix:
        """R1·Q(y|s1,·) − e^ε R2·Q(y|s2,·), at most 0 for members R1, R2 [k, u] of F: a sparse row over Q[y, x] each."""
        at = [self.at(pairs[0], s) for s in pairs[1:]]
        values = np.hstack([first, -np.exp(self.epsilon) * second])
        lines = np.arange(len(values) + 1) * values.shape[1]
        shape = len(values), self.outputs * self.inputs
        found = sparse.csr_matrix((values.ravel(), np.hstack(at).ravel(), lines), shape)
        found.sum_duplicates()  # of inputs that all secrets share
        return found

    def columns(self, x: Floats) -> Floats:
        """Q[y, x] from the first entries of a solver's answer, columns summing to 1; even where it has none yet."""
        q = np.zeros((self.outputs, self.inputs))
        q.ravel()[: len(x)] = np.maximum(np.nan_to_num(x[: q.size]), 0.0)
        q[:, ~q.any(axis=0)] = 1.0
        return np.asarray(q / q.sum(axis=0))


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """A mended Q[y, x], or what else is sought, its (worst-case) loss, a proved lower bound, and who found it."""

    q: Floats
    value: float
    bound: float
    engine: str
    source: Floats = field(default_factory=lambda: np.zeros(0))  # the mixture of members that proves the bound
    members: Floats = field(default_factory=lambda: np.zeros(0))  # all that were met
    relaxed: LawProgramme | None = None  # whose rows, members of F, prove the bound
    unmended: Floats | None = None  # the solver's own answer, for comparison

    def within(self, tolerance: float) -> bool:
        """Whether value and bound agree, of losses that do not vanish."""
        return self.value - self.bound <= tolerance * max(abs(self.value), VANISHING)

    def or_else(self, other: LeastLoss) -> LeastLoss:
        """The mechanism of the lower value with the proof of the higher bound."""
        made, proof = min(other, self, key=lambda x: x.value), max(other, self, key=lambda x: x.bound)
        return replace(proof, q=made.q, value=made.value)


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
    q, robust = swept(q, problem.cost(problem.read(problem.p))), problem.privacy_radius > 0.0
    if problem.p.shape[0] < 2:
        return q
    silent = np.repeat(q.mean(axis=1, keepdims=True), q.shape[1], axis=1)  # private whatever happens
    if problem.epsilon <= 2.0 * MARGIN:  # integers keep equal means at P̂ only where the laws themselves are equal
        alike = not np.ptp(problem.conditional[problem.marginal > 0.0], axis=0).any()
        return q if alike and not robust and not problem.excess(q, 1.0).any() else silent
    e = float(np.exp(goal(problem.epsilon)))
    begun = mixed(q, REPAIRED * q.max(axis=1)) if robust else q
    found = lifted(begun, lambda q: problem.excess(q, e), e - 1.0)
    return silent if found is None else found
