"""The least of the worst: sets of source distributions, answers that hold against all of them, and the least ε.

ε*(D) is the least ε at which min_Q max_P E d ≤ D with Q(y|x) ≤ e^ε Q(y|x') for all x, x' [003, (4)], for any distance
d[x, y] and any set of sources. Its value falls in ε, and prices of the rows prove bounds: bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, SOLVED, Floats, Ints
from sfumato.optimise.conic import LawProgramme
from sfumato.optimise.linear import LinearProgramme, Solution
from sfumato.optimise.repair import lifted
from sfumato.tolerances import SUMS_TO_ONE
from sfumato.uncertainty.sets import UncertaintySet

LEAST_EPSILON = 1e-3  # nats: the tolerance is relative to ε, and to this where ε is smaller
ATTEMPTED = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)  # nats: a budget that the last does not meet is out of reach


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """A closed set of distributions, seen through the largest value of a linear function."""

    members: Floats  # [k, M], some to start with
    worst: Callable[[Floats], tuple[float, Floats]]
    """c ↦ max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    @property
    def size(self) -> int:
        """M, the number of letters."""
        return int(self.members.shape[1])

    @staticmethod
    def listed(p: Floats) -> Sources:
        """Finitely many distributions (or their convex hull: the same thing here [003, Lemma 2])."""
        if p.ndim != 2 or p.size == 0:
            raise InputError("the source set is empty: give at least one distribution.")
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > SUMS_TO_ONE:
            raise InputError("sources must be distributions: nonnegative rows that sum to 1.")

        def worst(c: Floats) -> tuple[float, Floats]:
            values = p @ c
            return float(values.max()), p[int(np.argmax(values))]

        return Sources(p, worst)

    @staticmethod
    def of(within: UncertaintySet) -> Sources:
        """The marginals on U of a set."""

        def worst(c: Floats) -> tuple[float, Floats]:
            found = within.support(np.broadcast_to(c, within.joint.shape).copy())
            return found.value, found.p.sum(axis=0)

        return Sources(within.joint.p_useful[None, :], worst)


# --- the least of the worst: relax to some members, answer them, ask who is worst off, and let that member in ---------


CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule
Found = TypeVar("Found")
Trial = Callable[[float], tuple[float, float, Found]]  # ε ↦ a loss, a bound of it, and what has this loss


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """The best answer to some members: its loss for every letter, and what a mixture of them proves about all answers.

    The first loss is what is minimised; others are kept in bounds, and only bring members in.
    """

    made: Floats
    losses: tuple[Floats, ...]
    bound: float
    source: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """What has the least worst-case loss, this loss, the highest proved bound with its source, and all members met."""

    made: Floats
    value: float
    bound: float
    source: Floats
    members: Floats


def against(
    sources: Sources, respond: Callable[[Floats], Response], enough: Callable[[float, float], bool]
) -> Settled:
    """The best answer to every source: respond(fresh) answers the members told so far, these among them.

    Members are all that enters, so every answer is one to a relaxation, and its bound holds for the whole set. It ends
    when value and bound are near enough, or when those who are worst off have been met before.
    """
    met, fresh = np.zeros((0, sources.size)), sources.members
    best: Settled | None = None
    for _ in range(CUTTING_ROUNDS):
        met, found = np.vstack([met, fresh]), respond(fresh)
        (value, _), *_ = asked = [sources.worst(loss) for loss in found.losses]
        made, bound, source = found.made, found.bound, found.source
        if best is not None and best.value <= value:
            made, value = best.made, best.value
        if best is not None and best.bound >= bound:
            bound, source = best.bound, best.source
        best = Settled(made, value, bound, source, met)
        fresh = np.array([p for _, p in asked if np.abs(met - p).max(axis=1).min() > DUST])
        if not len(fresh) or enough(value, bound):
            break
    assert best is not None
    return best


class MemberRows:
    """A linear programme with a row, at most 0, for every member; their prices mix the members into one source."""

    def __init__(self, lp: LinearProgramme | LawProgramme, row: Callable[[Floats], Floats]) -> None:
        self.lp, self.row, self.base, self.members = lp, row, lp.rows, list[Floats]()

    def solve(self, fresh: Floats) -> tuple[Solution, Floats]:
        """The optimum with more members, and the source that it is priced by."""
        self.members.extend(fresh)
        self.lp.at_most(np.array([self.row(p) for p in fresh]))
        solution = self.lp.solve()
        price = np.maximum(-solution.row_dual[self.base :], 0.0)
        mixed = price @ np.array(self.members) / price.sum() if price.sum() > 0.0 else self.members[0]
        return solution, np.asarray(mixed)


# --- bounded ratios with a floor under every output, and the least ε for a budget -------------------------------------


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
        return np.full((means, 1), e), np.ones((means, 1)), np.zeros((0, 1))
    one = np.eye(int(own.max()) + 1)
    first, second = np.nonzero(1.0 - one)
    blank = np.zeros((means, len(one)))
    return np.hstack([one[own], blank]), np.hstack([blank, one[own]]), np.hstack([one[first], -e * one[second]])


def least_distortion(sources: Sources, distance: Floats, epsilon: float) -> Settled:
    """min_Q max_P E d at this ε."""
    (xs, ys), e = distance.shape, float(np.exp(epsilon))
    ends = float(distance.min()), float(distance.max())
    programme = FloorProgramme(np.eye(xs), e, np.zeros((ys, xs)), ends)
    rows = MemberRows(programme, lambda p: programme.loss(p * distance.T))

    def respond(fresh: Floats) -> Response:
        solution, p = rows.solve(fresh)
        q = private(solution.x[: ys * xs].reshape(ys, xs), e)
        return Response(q, (lost(q, distance),), programme.proved(solution), p)

    return against(sources, respond, lambda value, low: value - low <= SOLVED * max(1.0, abs(value)))


def lost(q: Floats, distance: Floats) -> Floats:
    """E d of every letter."""
    return np.asarray(np.einsum("yx,xy->x", q, distance))


def private(q: Floats, e: float) -> Floats:
    """Q with a constant mixed in where rounding left a ratio above e."""
    q = np.maximum(q, 0.0)
    q = q / q.sum(axis=0)
    found = lifted(q, lambda q: np.asarray(q.max(axis=1) - e * q.min(axis=1)), e - 1.0)
    return np.repeat(q.mean(axis=1)[:, None], q.shape[1], axis=1) if found is None else found


def least_epsilon_for(
    sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8
) -> tuple[float, Floats]:
    """The ε below which nothing meets the budget, and a Q that does; by certified answers, as close as these get."""

    def tried(epsilon: float) -> tuple[float, float, Floats]:
        nonlocal sources
        found = least_distortion(sources, distance, epsilon)
        sources = replace(sources, members=found.members)
        return found.value, found.bound, found.made

    low, q = bisected(tried, budget, tolerance)
    if q is None:
        raise InputError(f"no mechanism below ε = {ATTEMPTED[-1]} meets the budget {budget}.")
    return low, q


def bisected(tried: Trial[Found], budget: float, tolerance: float) -> tuple[float, Found | None]:
    """The greatest ε found that is proved to be too small for a budget, and what meets it at the least ε found.

    The budget may lie between loss and bound, which is as close as a solver gets.
    """
    low = 0.0
    for high in ATTEMPTED:
        value, bound, made = tried(high)
        if value <= budget:
            break
        low = high if bound > budget else low
    else:
        return low, None
    while high - low > tolerance * max(high, LEAST_EPSILON):
        middle = 0.5 * (low + high)
        value, bound, found = tried(middle)
        if value <= budget:
            made, high = found, middle
        elif bound > budget:
            low = middle
        else:
            break
    return low, made
