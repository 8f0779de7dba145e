"""Sets of source distributions, and the least ε for a Hamming budget over them, exactly [003; errata 003].

e^{ε*} = min { 1 + (M − 1 − ΣD_j)/min_i D_i : D ∈ [0,1]^M, P·D ≤ budget for all P, ΣD ≤ M − 1 }, D_i = 1 − Q(i|i).
With z = D/min D and τ = 1/min D it is linear: min 1 + (M−1)τ − Σz, z ≥ 1, z ≤ τ, P·z ≤ budget·τ, Σz ≤ (M−1)τ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, SOLVED, Floats
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.optimise.loss.problem import WHOLE, support

# --- sets of source distributions, known by the largest value of a linear function over them --------------------------


CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule


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
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > WHOLE:
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
        return Sources(p[None, :], lambda c: support(c, p, radius))


# --- the least ε for a Hamming budget, the least loss at a level, and the class of a set of sources -------------------


CLOSE = 1e-11  # of a share: gap, or violation of a source constraint, that ends the cutting planes
BLENDS = (0.0, *(4.0**k * 1e-16 for k in range(20)))  # traces of prices whose slope is surely positive


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


def _bound(members: Floats, prices: Floats, budget: float) -> float:
    """A lower bound of e^{ε*} from any weights on members, by weak duality of the linear form.

    With P = Σ prices·members: 1 + min over τ ≥ 1, 1 ≤ z ≤ τ, Σz ≤ (M−1)τ of (M−1)τ − Σz + P·z − |prices|·budget·τ.
    For a price θ ≥ 0 of the sum rule, z_i = τ where 1 − P_i > θ and z_i = 1 elsewhere; τ = 1 if its slope is ≥ 0.
    At the optimum that slope is 0, and rounding may put it below. Prices with a positive slope exist whenever ε* > 0
    (those of max Σζ, 0 ≤ ζ ≤ 1, P·ζ ≤ budget, which stays below M − 1); value and slope are concave in the prices, so
    blending in a trace of them repairs the slope at no visible cost.
    """
    best = _bound_at(members, prices, budget)
    m = members.shape[1]
    inner = LinearProgramme(-np.ones(m), np.zeros(m), np.ones(m))
    inner.at_most(members, budget)
    safe = np.maximum(-inner.solve().row_dual, 0.0) * (1.0 + 1e-9)
    for blend in BLENDS:
        found = _bound_at(members, (1.0 - blend) * prices + blend * safe, budget)
        best = max(best, found)
        if found > 1.0 and blend > 0.0:
            break
    return best


def _bound_at(members: Floats, prices: Floats, budget: float) -> float:
    """The best θ for these prices: a breakpoint, or where the slope next to one crosses zero."""
    gain = np.sort(1.0 - prices @ members)  # what a unit of z_i earns
    m = members.shape[1]
    spent = float(prices.sum()) * budget
    head = np.concatenate([[0.0], np.cumsum(gain)])
    tail = np.concatenate([np.cumsum(gain[::-1])[::-1], [0.0]])

    def terms(theta: Floats) -> tuple[Floats, Floats, Floats]:
        below = np.searchsorted(gain, theta, side="right")
        slope = (m - 1.0) * (1.0 - theta) - spent - (tail[below] - (m - below) * theta)
        return np.asarray(slope), np.asarray(1.0 + below * theta - head[below] + slope), (1.0 - below).astype(float)

    theta = np.concatenate([[0.0], np.maximum(gain, 0.0)])
    slope, _, rise = terms(theta)
    crossing = theta - np.divide(slope, rise, out=np.zeros_like(slope), where=rise != 0.0)
    nearby = np.concatenate([crossing * (1.0 + k) for k in (-1e-14, -1e-15, 0.0, 1e-15, 1e-14)])
    slope, value, _ = terms(np.concatenate([theta, np.maximum(nearby, 0.0)]))
    return float(np.max(value, where=slope >= 0.0, initial=1.0))


def least_epsilon_hamming(sources: Sources, budget: float) -> HammingResponse:
    """ε* and a mechanism, for any set of sources: the linear program above, with sources added as they are violated."""
    m = sources.size
    if budget <= 0.0:
        return HammingResponse(float("inf"), float("inf"), np.eye(m), np.zeros(m))
    free = least_hamming(sources, 0.0)  # constant laws: those that give one letter always are at the programme's edge
    if free.value <= budget + DUST:
        return HammingResponse(0.0, 0.0, free.q, free.levels)
    decided = free.bound > budget + DUST  # else nothing above 0 is proved
    lp = LinearProgramme(np.append(-np.ones(m), m - 1.0), np.ones(m + 1), np.full(m + 1, INFINITY))
    lp.at_most(sparse.hstack([sparse.eye(m), -np.ones((m, 1))]))
    lp.at_most(np.append(np.ones(m), -(m - 1.0))[None, :])
    members, fresh = np.zeros((0, m)), sources.members
    for _ in range(CUTTING_ROUNDS):
        members = np.vstack([members, fresh])
        lp.at_most(np.hstack([fresh, np.full((len(fresh), 1), -budget)]))
        solution = lp.solve()
        tau = float(solution.x[m])
        levels = np.clip(solution.x[:m] / tau, 0.0, 1.0)
        spent, p = sources.worst(levels)
        if spent <= budget * (1.0 + CLOSE) + 1e-15:
            break
        fresh = p[None, :]
    levels = levels * min(1.0, budget / spent) if spent > 0.0 else levels
    e = 1.0 + max(0.0, m - 1.0 - levels.sum()) / levels.min()
    prices = np.maximum(-solution.row_dual[m + 1 :], 0.0)
    proved = max(1.0, _bound_at(members, prices, budget)) if decided else 1.0
    if decided and proved < e * (1.0 - 1e-10):
        proved = max(proved, _bound(members, prices, budget))
    epsilon = float(np.log(e))
    return HammingResponse(epsilon, float(min(np.log(proved), epsilon)), attaining(levels, epsilon), levels)


def least_hamming(sources: Sources, epsilon: float) -> HammingResponse:
    """The same program read the other way: min max_P P·D with (e^ε − 1)·min D + ΣD ≥ M − 1, D ∈ [0, 1]^M."""
    m, rise = sources.size, float(np.expm1(epsilon))
    lp = LinearProgramme(np.eye(m + 2)[-1], np.zeros(m + 2), np.append(np.ones(m + 1), INFINITY))  # D, min D, loss
    lp.at_most(sparse.hstack([-sparse.eye(m), np.ones((m, 1)), np.zeros((m, 1))]))
    lp.at_least(np.array([[*np.ones(m), rise, 0.0]]), m - 1.0)
    members, fresh, low = np.zeros((0, m)), sources.members, 0.0
    for _ in range(CUTTING_ROUNDS):
        members = np.vstack([members, fresh])
        lp.at_most(np.hstack([fresh, np.zeros((len(fresh), 1)), -np.ones((len(fresh), 1))]))
        solution = lp.solve()
        levels = np.clip(solution.x[:m], 0.0, 1.0)
        spent, p = sources.worst(levels)
        price = np.maximum(-solution.row_dual[m + 1 :], 0.0)
        if price.sum() > 0.0:
            low = max(low, _loss_bound(price / price.sum() @ members, rise))
        if spent - low <= CLOSE:
            break
        fresh = p[None, :]
    q = attaining(levels, epsilon)
    return HammingResponse(float(sources.worst(1.0 - np.diag(q))[0]), low, q, levels)


def _loss_bound(p: Floats, rise: float) -> float:
    """min P·D at one source from below: for a price θ of the sum rule, D_i = 1 where p_i < θ and D_i = min D elsewhere.

    θ(M−1) + Σ_{p<θ}(p − θ) + min(0, Σ_{p≥θ}(p − θ) − θ·rise), concave in θ: the best breakpoint, or the crossing.
    """
    p, m = np.sort(p), len(p)
    head = np.concatenate([[0.0], np.cumsum(p)])

    def at(theta: Floats) -> Floats:
        below = np.searchsorted(p, theta, side="left")
        above = head[-1] - head[below] - (m - below) * theta - theta * rise
        return np.asarray(theta * (m - 1.0) + head[below] - below * theta + np.minimum(0.0, above))

    below = np.arange(m + 1)
    crossing = (head[-1] - head[below]) / (m - below + rise) if rise > 0 else p
    return float(max(0.0, at(np.concatenate([p, crossing])).max()))


def class_of(sources: Sources) -> str:
    """'I' if the uniform law is in the hull, 'II' if one order of letters fits every member, else 'III' [003, Def. 1].

    I: no direction separates the uniform law. II: P_i ≥ P_j for all members, for every consecutive pair of some order.
    """
    m = sources.size
    if _holds_uniform(sources):
        return "I"
    mean = sources.members.mean(axis=0)
    order = np.argsort(-mean, kind="stable")
    for i, j in itertools.pairwise(order):
        c = np.zeros(m)
        c[j], c[i] = 1.0, -1.0
        if sources.worst(c)[0] > DUST:
            return "III"
    return "II"


def _holds_uniform(sources: Sources) -> bool:
    """Is 1/M in the convex hull? max over directions c in [−1,1]^M of c·u − max_P c·P > 0 means no."""
    m = sources.size
    uniform, members = np.full(m, 1.0 / m), sources.members
    lp = LinearProgramme(np.append(np.zeros(m), -1.0), np.append(-np.ones(m), 0.0), np.ones(m + 1))
    lp.at_most(np.hstack([members - uniform, np.ones((len(members), 1))]))
    for _ in range(CUTTING_ROUNDS):  # min_w ‖w·members − uniform‖₁ through its dual: the separating direction
        found = lp.solve()
        c, gap = found.x[:m], found.x[m]
        if gap <= SOLVED:
            return True
        value, p = sources.worst(c)
        apart = value - float(c @ uniform)
        if apart < -SOLVED or apart <= -gap + 0.1 * SOLVED:
            return False
        lp.at_most(np.append(p - uniform, 1.0)[None, :])
    return False
