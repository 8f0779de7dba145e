"""Least expected loss under bounded ratios: the problem, its worst cases, answers made private.

min_Q max_{P ∈ F_u} Σ P_{su} Q(y|s,u) d(u,y)  subject to  R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·) for (R1,R2) ∈ F_{U|s1,s2}
[002, (7)–(10)]; F_u or F shrink to P̂ where robustness is not asked for. The slack b = √(1+B) − 1 is the same for every
pair [002, Thm 3], and all pairs are searched at once. What the ratios of an answer exceed is paid by a constant law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import GHOST, MARGIN, REPAIRED, Floats, Ints, goal, lifted, mixed
from sfumato.optimise.conic import LawProgramme
from sfumato.uncertainty.sets import Anything, Pairs, UncertaintySet

SHARPENING = 5.0  # seconds of linear programmes for a bound that cones have left loose
PairIndex = tuple[Ints, Ints, Ints]  # y, s1, s2


def all_pairs(ys: int, ss: int) -> PairIndex:
    """Every output with every ordered pair of different secrets."""
    y, s1, s2 = (x.ravel() for x in np.indices((ys, ss, ss)))
    keep = s1 != s2
    return y[keep], s1[keep], s2[keep]


def radius_of(within: UncertaintySet) -> float:
    """Of a χ² ball, which is P̂ at radius 0 and every distribution at radius ∞."""
    return math.inf if isinstance(within, Anything) else float(getattr(within, "radius", 0.0))


@dataclass(frozen=True, eq=False)
class LossProblem:
    """One of NUNP, NURP, RUNP, RURP: privacy over one set around P̂ and the worst loss of another.

    Each is a χ² ball, P̂ alone or everything. distance[u, y]; the mechanism reads (s, u), or u alone.
    """

    within: UncertaintySet
    judged: UncertaintySet
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
    def slack(self) -> float:
        """b = √(B+1) − 1, written without cancellation."""
        return self.privacy_radius / (math.sqrt(self.privacy_radius + 1.0) + 1.0)

    @property
    def outputs(self) -> int:
        """|Y|."""
        return int(self.distance.shape[1])

    @property
    def inputs(self) -> int:
        """|X|: columns of Q."""
        return int(self.p.size if self.reads_both else self.p.shape[1])

    @cached_property
    def scale(self) -> float:
        """Of losses that vanish."""
        return max(REPAIRED, 1e-6 * float(np.abs(self.distance).max()))

    def start(self, y: Ints, s: Ints) -> Ints:
        """The variable Q(y|s, 0) among Q[y, x]."""
        return y * self.inputs + (s * self.p.shape[1] if self.reads_both else 0)

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
        at = [self.start(pairs[0], s)[:, None] + np.arange(first.shape[1]) for s in pairs[1:]]
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


class FloorProgramme(LawProgramme):
    """The LP over Q[y, x], floors f and the loss D, with mean_k·Q(y|·) ≤ e mean_l·Q(y|·) for the rows of mean[k, x].

    One floor for every output turns k² ratios into 2k rows: f_y ≤ mean_k·Q(y|·) ≤ e f_y. Where means of the same
    secret are not compared (`own` says whose each is), every secret has a top and a bottom, B_ys ≤ mean_k·Q ≤ T_ys,
    and T_ys1 ≤ e B_ys2 for s1 ≠ s2. Whatever else is asked for is appended after these rows.
    """

    def __init__(
        self, mean: Floats, e: float, cost: Floats, ends: tuple[float, float] | None = None, own: Ints | None = None
    ) -> None:
        """The loss is Σ cost·Q for cost[y, x]; with `ends` it is D, which lies between them."""
        super().__init__()
        (ys, xs), (high, low, apart) = cost.shape, _floors(len(mean), e, own)
        self.laws(cost if ends is None else np.zeros(cost.shape))
        self.box(ys * high.shape[1])
        for means, floors in ((mean, -high), (-mean, low), (np.zeros((len(apart), xs)), apart)):
            self.at_most(sparse.hstack([sparse.kron(sparse.eye(ys), sparse.csr_matrix(x)) for x in (means, floors)]))
        if ends is not None:
            self.box(1, 1.0, *ends)

    def loss(self, cost: Floats) -> Floats:
        """The row of D ≥ Σ cost·Q for the costs [y, x] of one source."""
        return np.concatenate([cost.ravel(), np.zeros(self.size - cost.size - 1), [-1.0]])


def _floors(means: int, e: float, own: Ints | None) -> tuple[Floats, Floats, Floats]:
    """How floors enter above and below each mean, and the rows that hold them together: [·, floor of an output]."""
    if own is None:
        floors = min(means, 1)
        return np.full((means, floors), e), np.ones((means, floors)), np.zeros((0, floors))
    one = np.eye(int(own.max()) + 1)
    first, second = np.nonzero(1.0 - one)
    blank = np.zeros((means, len(one)))
    return np.hstack([one[own], blank]), np.hstack([blank, one[own]]), np.hstack([one[first], -e * one[second]])


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """A mended Q[y, x], its (worst-case) loss, a proved lower bound, and who found it."""

    q: Floats
    value: float
    bound: float
    engine: str
    relaxed: FloorProgramme | None = None  # whose rows, members of F, prove the bound
    unmended: Floats | None = None  # the solver's own answer, for comparison

    def within(self, tolerance: float, least: float = 0.0) -> bool:
        """Whether value and bound agree."""
        return self.value - self.bound <= tolerance * max(abs(self.value), least)

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
    q, robust = swept(q, problem.cost(problem.p)), problem.privacy_radius > 0.0
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:  # integers keep equal means at P̂ only where the laws themselves are equal
        alike = not np.ptp(problem.conditional[problem.marginal > 0.0], axis=0).any()
        return q if alike and not robust and not problem.excess(q, 1.0).any() else constant(problem)
    e = float(np.exp(goal(problem.epsilon)))
    begun = mixed(q, REPAIRED * q.max(axis=1)) if robust else q
    found = lifted(begun, lambda q: problem.excess(q, e), e - 1.0)
    return constant(problem) if found is None else found


def constant(problem: LossProblem) -> Floats:
    """The best single output, always sent: private whatever happens."""
    lost = [problem.judged.support(np.tile(d, (len(problem.p), 1))).value for d in problem.distance.T]
    return np.repeat(np.eye(problem.outputs)[:, [int(np.argmin(lost))]], problem.inputs, axis=1)
