"""Sets of source distributions, answers that hold against all of them, and the Hamming distance, exactly [003; errata].

e^{ε*} = min { 1 + (M − 1 − ΣD_j)/min_i D_i : D ∈ [0,1]^M, P·D ≤ budget for all P, ΣD ≤ M − 1 }, D_i = 1 − Q(i|i).
With z = D/min D and τ = 1/min D it is linear: min 1 + (M−1)τ − Σz, z ≥ 1, z ≤ τ, P·z ≤ budget·τ, Σz ≤ (M−1)τ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, SOLVED, TIDY, Floats
from sfumato.optimise.laws import LawProgramme
from sfumato.optimise.linear import INFINITY, LinearProgramme, Solution
from sfumato.optimise.loss.problem import around
from sfumato.tolerances import SUMS_TO_ONE, UNIT
from sfumato.uncertainty.sets import UncertaintySet

# --- sets of source distributions, known by the largest value of a linear function over them --------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """A closed set of distributions, seen through the largest value of a linear function."""

    members: Floats  # [k, M], some to start with
    worst: Callable[[Floats], tuple[float, Floats]]
    """c ↦ max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    def __post_init__(self) -> None:
        p = self.members
        if p.ndim != 2 or p.size == 0:
            raise InputError("the source set is empty: give at least one distribution.")
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > SUMS_TO_ONE:
            raise InputError("sources must be distributions: nonnegative rows that sum to 1.")

    @property
    def size(self) -> int:
        """M, the number of letters."""
        return int(self.members.shape[1])

    @staticmethod
    def listed(p: Floats) -> Sources:
        """Finitely many distributions (or their convex hull: the same thing here [003, Lemma 2])."""

        def worst(c: Floats) -> tuple[float, Floats]:
            values = p @ c
            return float(values.max()), p[int(np.argmax(values))]

        return Sources(p, worst)

    @staticmethod
    def chi_square(p: Floats, radius: float) -> Sources:
        """The χ² ball of the given radius around p."""
        return Sources.of(around(p[None, :], radius))

    @staticmethod
    def of(within: UncertaintySet) -> Sources:
        """The marginals on U of a set."""

        def worst(c: Floats) -> tuple[float, Floats]:
            found = within.support(np.broadcast_to(c, within.joint.shape).copy())
            return found.value, found.p.sum(axis=0)

        return Sources(within.joint.p_useful[None, :], worst)


# --- the least of the worst: relax to some members, answer them, ask who is worst off, and let that member in ---------


CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class Response(Generic[Made]):
    """The best answer to some members: its loss for every letter, and what a mixture of them proves about all answers.

    The first loss is what is minimised; others are kept in bounds, and only bring members in.
    """

    made: Made
    losses: tuple[Floats, ...]
    bound: float
    source: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Settled(Generic[Made]):
    """What has the least worst-case loss, this loss, the highest proved bound with its source, and all members met."""

    made: Made
    value: float
    bound: float
    source: Floats
    members: Floats


def against(
    sources: Sources, respond: Callable[[Floats], Response[Made]], enough: Callable[[float, float], bool],
    members: Floats | None = None,
) -> Settled[Made]:
    """The best answer to every source: respond(fresh) answers the members told so far, these among them.

    Members are all that enters, so every answer is one to a relaxation, and its bound holds for the whole set. It ends
    when value and bound are near enough, or when those who are worst off have been met before.
    """
    met, fresh = np.zeros((0, sources.size)), sources.members if members is None else members
    best: Settled[Made] | None = None
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


# --- the least ε for a Hamming budget, the least loss at a level, and the class of a set of sources -------------------


@dataclass(frozen=True, slots=True)
class HammingResponse:
    """The least ε for a budget, or the least worst-case loss at a level; who attains it, and a proved lower bound."""

    value: float
    bound: float
    q: Floats
    levels: Floats  # D_i


def attaining(levels: Floats, epsilon: float) -> Floats:
    """A mechanism with Q(i|i) = 1 − D_i and level ε: Q(j|i) = (1 − D_j)e^{−ε}, the rest D_i − … shared out.

    Column j may hold anything between (1 − D_j)e^{−ε} and (1 − D_j) off the diagonal. Row i needs
    D_i = Σ_{j≠i} Q(j|i) ≥ e^{−ε}Σ_{j≠i}(1 − D_j), which is what e^ε ≥ 1 + (M−1−ΣD)/min D says; the surplus fits because
    Σ_{j≠i}(1 − D_j) ≥ D_i is ΣD ≤ M − 1.
    """
    keep = 1.0 - levels
    total = keep.sum() - keep  # Σ_{j≠i} (1 − D_j)
    safe = np.where(total > 0.0, total, 1.0)
    share = np.clip(np.where(total > 0.0, levels / safe, np.exp(-epsilon)), np.exp(-epsilon), 1.0)
    q = keep[:, None] * share[None, :]  # [y, x]: off the diagonal input x has the same share of every cap
    np.fill_diagonal(q, keep)
    return np.asarray(q / q.sum(axis=0))


def _tradeoff(p: Floats) -> tuple[Floats, Floats]:
    """θ and h(θ) = (M−1)θ − Σ(θ − p_i)₊ at the corners of h: no mechanism loses less than min(h(θ), 1 − θe^ε) at p.

    It is the Lagrangian of min p·D with (e^ε − 1)·min D + ΣD ≥ M − 1, D ≤ 1, at the price θ of the sum: D_i = 1 where
    p_i < θ, and what is left of the other terms is Σ_{p≥θ}(p − θ) − θ(e^ε − 1) = 1 − θe^ε − h(θ) times min D ∈ [0, 1].
    h rises up to θ = max p, where it is 1 − max p, what the best constant loses. Any θ is valid; the best one has
    h(θ) = 1 − θe^ε, so along it lie the least losses h(θ) of all levels e^ε = (1 − h(θ))/θ.
    """
    theta = np.concatenate([[0.0], np.sort(p)])
    below = np.maximum(np.arange(len(theta)) - 1, 0)  # letters rarer than θ
    return theta, theta * (len(p) - 1.0 - below) + np.cumsum(theta) - theta


def level_at(p: Floats, budget: float) -> float:
    """e^ε below which nothing meets the budget at one source: (1 − budget)/θ with h(θ) = budget, θ rounded up."""
    theta, lost = _tradeoff(p)
    if budget >= lost[-1]:
        return 1.0
    return float((1.0 - budget) / (np.interp(budget, lost, theta) * (1.0 + len(p) * UNIT)))


def loss_at(p: Floats, e: float) -> float:
    """The loss below which nothing stays at one source and a level log e."""
    theta, lost = _tradeoff(p)
    best = np.interp(1.0, lost + e * theta, theta)
    return float(max(0.0, min(np.interp(best, theta, lost), 1.0 - e * best)))


def least_epsilon_hamming(sources: Sources, budget: float) -> HammingResponse:
    """ε* and a mechanism, for any set of sources: the linear program above, with sources added as they are violated.

    Often the worst source is one at which the best constant just meets the budget: there the bound of a single source
    jumps to ε = 0, and a solver's digits decide on which side it lies. What the best constant loses, 1 − max p, is
    concave, so it is known how much of a source where that exceeds the budget puts it on the right one.
    """
    m = sources.size
    if budget <= 0.0:
        return HammingResponse(float("inf"), float("inf"), np.eye(m), np.zeros(m))
    free = _least_losses(sources, 0.0)
    if free.value <= budget + DUST:  # by constant laws; those that give one letter always are at the programme's edge
        return HammingResponse(0.0, 0.0, attaining(free.made, 0.0), free.made)
    lp = LinearProgramme(np.append(-np.ones(m), m - 1.0), np.ones(m + 1), np.full(m + 1, INFINITY))
    lp.at_most(sparse.hstack([sparse.eye(m), -np.ones((m, 1))]))
    lp.at_most(np.append(np.ones(m), -(m - 1.0))[None, :])
    rows = MemberRows(lp, lambda p: np.append(p, -budget))

    def respond(fresh: Floats) -> Response[Floats]:
        solution, p = rows.solve(fresh)
        levels = np.clip(solution.x[:m] / solution.x[m], 0.0, 1.0)
        short = max(0.0, budget - 1.0 + float(p.max())) + 4.0 * m * UNIT
        trace = min(1.0, short / (short + max(0.0, free.bound - budget)))
        return Response(levels, (levels,), level_at((1.0 - trace) * p + trace * free.source, budget), p)

    found = against(sources, respond, lambda spent, _: spent <= budget * (1.0 + TIDY))
    levels = found.made * min(1.0, budget / found.value) if found.value > 0.0 else found.made
    e = 1.0 + max(0.0, m - 1.0 - levels.sum()) / levels.min()
    return HammingResponse(float(np.log(e)), float(np.log(min(found.bound, e))), attaining(levels, np.log(e)), levels)


def least_hamming(sources: Sources, epsilon: float) -> HammingResponse:
    """The least worst-case loss at a level."""
    found = _least_losses(sources, epsilon)
    q = attaining(found.made, epsilon)
    return HammingResponse(float(sources.worst(1.0 - np.diag(q))[0]), found.bound, q, found.made)


def _least_losses(sources: Sources, epsilon: float) -> Settled[Floats]:
    """The same program read the other way: min max_P P·D with (e^ε − 1)·min D + ΣD ≥ M − 1, D ∈ [0, 1]^M."""
    m = sources.size
    lp = LinearProgramme(np.eye(m + 2)[-1], np.zeros(m + 2), np.append(np.ones(m + 1), INFINITY))  # D, min D, loss
    lp.at_most(sparse.hstack([-sparse.eye(m), np.ones((m, 1)), np.zeros((m, 1))]))
    lp.at_least(np.array([[*np.ones(m), np.expm1(epsilon), 0.0]]), m - 1.0)
    rows = MemberRows(lp, lambda p: np.array([*p, 0.0, -1.0]))

    def respond(fresh: Floats) -> Response[Floats]:
        solution, p = rows.solve(fresh)
        levels = np.clip(solution.x[:m], 0.0, 1.0)
        return Response(levels, (levels,), loss_at(p, float(np.exp(epsilon))), p)

    return against(sources, respond, lambda spent, low: spent - low <= TIDY)


def class_of(sources: Sources) -> str:
    """'I' if the uniform law is in the hull, 'II' if one order of letters fits every member, else 'III' [003, Def. 1].

    I: no direction separates the uniform law. II: P_i ≥ P_j for all members, for every consecutive pair of some order.
    """
    if _holds_uniform(sources):
        return "I"
    order, unit = np.argsort(-sources.members.mean(axis=0), kind="stable"), np.eye(sources.size)
    fits = all(sources.worst(unit[j] - unit[i])[0] <= DUST for i, j in itertools.pairwise(order))
    return "II" if fits else "III"


def _holds_uniform(sources: Sources) -> bool:
    """Is 1/M in the convex hull? A direction c ∈ [−1,1]^M with max_P c·P < c·u says no; that none is left says yes."""
    m = sources.size
    lp = LinearProgramme(np.append(np.zeros(m), -1.0), np.append(-np.ones(m), 0.0), np.ones(m + 1))
    rows = MemberRows(lp, lambda p: np.append(p - 1.0 / m, 1.0))

    def respond(fresh: Floats) -> Response[None]:
        solution, p = rows.solve(fresh)
        c = solution.x[:m]
        return Response(None, (c - c.mean(),), -float(solution.x[m]), p)

    return against(sources, respond, lambda apart, low: apart < -SOLVED or low >= -SOLVED).bound >= -SOLVED
