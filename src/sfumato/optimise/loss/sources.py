"""The least of the worst: answers that hold against all sources, the least ε for a Hamming budget [003; errata], and
the least worst-case information for a budget of any distance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.special import rel_entr

from sfumato.optimise.arrays import DUST, SOLVED, TIDY, Floats, blended
from sfumato.optimise.conic import LawProgramme, exponential
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.optimise.loss.problem import LeastLoss, Sources
from sfumato.tolerances import UNIT

# --- the least of the worst: relax to some members, answer them, ask who is worst off, and let that member in ---------


CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule
UNKNOWN = LeastLoss(np.zeros(0), math.inf, -math.inf, "cuts")
Answer = tuple[LeastLoss, Sequence[Floats], bool]
"""The best one to some members, the sources that are worst off, and whether anything but members is new to the next."""


def against(
    members: Floats, respond: Callable[[Floats, Floats, LeastLoss], Answer], enough: Callable[[LeastLoss], bool],
    best: LeastLoss = UNKNOWN,
) -> LeastLoss:
    """The best answer to every source: respond(all members met, the new ones among them, the best answer so far).

    Members are all that enters, so every answer is one to a relaxation, and its bound holds for the whole set. It ends
    when value and bound are near enough, or when those who are worst off have been met before.
    """
    met = fresh = members
    for _ in range(CUTTING_ROUNDS):
        found, worst, more = respond(met, fresh, best)
        best = best.or_else(found)
        fresh = np.array([p for p in worst if np.abs(met - p).max(axis=1).min() > DUST]).reshape(-1, met.shape[1])
        if enough(best) or not (len(fresh) or more):
            break
        met = np.vstack([met, fresh])
    return replace(best, members=met)


def priced_by(prices: Floats, members: Floats) -> Floats:
    """The mixture of members that prices name, or the first of them."""
    return np.asarray(prices @ members / prices.sum() if prices.sum() > 0.0 else members[0])


def lost(q: Floats, distance: Floats) -> Floats:
    """E d of every letter."""
    return np.asarray(np.einsum("yx,xy->x", q, distance))


# --- the Hamming distance, exactly [003; errata], with D_i = 1 − Q(i|i): docs/distortion.md, the other way round ------


def attaining(levels: Floats, epsilon: float) -> Floats:
    """A mechanism with Q(i|i) = 1 − D_i and level ε: Q(j|i) = (1 − D_j)e^{−ε}, the rest D_i − … shared out.

    Column j may hold anything between (1 − D_j)e^{−ε} and (1 − D_j) off the diagonal. Row i needs
    D_i = Σ_{j≠i} Q(j|i) ≥ e^{−ε}Σ_{j≠i}(1 − D_j), which is what e^ε ≥ 1 + (M−1−ΣD)/min D says; the surplus fits because
    Σ_{j≠i}(1 − D_j) ≥ D_i is ΣD ≤ M − 1.
    """
    keep, floor = 1.0 - levels, float(np.exp(-epsilon))
    total = keep.sum() - keep  # Σ_{j≠i} (1 − D_j)
    share = np.divide(levels, total, out=np.full(len(levels), floor), where=total > 0.0)
    q = keep[:, None] * np.clip(share, floor, 1.0)  # [y, x]: off the diagonal input x has the same share of every cap
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


def least_epsilon_hamming(sources: Sources, budget: float) -> tuple[Floats, float]:
    """A mechanism of level ε*, for any set of sources, and a proved bound: from below, as Newton would, each time to
    the level that the mixture which proves the least loss at the last one needs: nothing below it meets the budget."""
    e, found = 1.0, least_losses(sources, 0.0)
    while found.value > budget + DUST:
        needed = level_at(found.source, budget)
        if not needed > e:
            break
        e, found = needed, least_losses(replace(sources, members=found.members), float(np.log(needed)))
    if e == 1.0:
        return attaining(found.q, 0.0), 0.0
    levels = found.q * min(1.0, budget / found.value)
    reached = 1.0 + max(0.0, len(levels) - 1.0 - levels.sum()) / levels.min()
    return attaining(levels, np.log(reached)), float(np.log(min(e, reached)))


def least_losses(sources: Sources, epsilon: float) -> LeastLoss:
    """min max_P P·D with (e^ε − 1)·min D + ΣD ≥ M − 1, D ∈ [0, 1]^M."""
    m = sources.members.shape[1]
    lp = LinearProgramme(np.eye(m + 2)[-1], np.zeros(m + 2), np.append(np.ones(m + 1), INFINITY))  # D, min D, loss
    lp.at_most(sparse.hstack([-sparse.eye(m), np.ones((m, 1)), np.zeros((m, 1))]))
    lp.at_most(np.array([[*-np.ones(m), -np.expm1(epsilon), 0.0]]), 1.0 - m)

    def respond(met: Floats, fresh: Floats, best: LeastLoss) -> Answer:
        lp.at_most(np.hstack([fresh, np.zeros((len(fresh), 1)), -np.ones((len(fresh), 1))]))
        solution = lp.solve()
        levels, p = np.clip(solution.x[:m], 0.0, 1.0), priced_by(np.maximum(-solution.row_dual[m + 1 :], 0.0), met)
        value, worst = sources.worst(levels)
        return LeastLoss(levels, value, loss_at(p, float(np.exp(epsilon))), "cuts", p), [worst], False

    return against(sources.members, respond, lambda best: best.value - best.bound <= TIDY)


def class_of(sources: Sources) -> str:
    """'I' if the uniform law is in the hull, 'II' if one order of letters fits every member, else 'III' [003, Def. 1].

    I: every constant loses 1 − 1/M at the uniform law, and by minimax one loses less unless a mixture is uniform.
    II: P_i ≥ P_j for all members, for every consecutive pair of some order.
    """
    order, unit = np.argsort(-sources.members.mean(axis=0), kind="stable"), np.eye(sources.members.shape[1])
    if least_losses(sources, 0.0).bound >= 1.0 - 1.0 / len(unit) - SOLVED:
        return "I"
    fits = all(sources.worst(unit[j] - unit[i])[0] <= DUST for i, j in itertools.pairwise(order))
    return "II" if fits else "III"


# --- least worst-case mutual information under a distortion budget, with a certified duality gap [003, §III-A] --------
# min_Q max_{P ∈ conv 𝒫} I(P; Q) subject to E_P d ≤ budget for all P. As I(P; Q) = min_r Σ_x P_x D(Q_x‖r), it is
# min_{Q, r} max_P Σ_x P_x D(Q_x‖r), jointly convex in Q and r and linear in P.


TOLERANCE = 1e-8  # of the least information
POLISH = 500  # of Blahut's steps, which only raise the bound: 1 ms altogether


def _programme(distance: Floats, members: Floats, budget: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Exponential cones for the listed members: Q, r, prices of the information rows and of the distortion rows."""
    (xs, ys), k, laws = distance.shape, len(members), LawProgramme()
    q, r = laws.laws(np.zeros((ys, xs))), laws.laws(np.zeros((ys, 1)))
    laws.limit(np.tile(q.ravel(), (k, 1)), (members[:, None, :] * distance.T).reshape(k, -1), budget)
    conic, lost = laws.conic()
    entropies, worst, one = conic.fresh(q.size), conic.fresh(1), np.ones(q.size)
    rows = [(np.full(k, name), -members[:, x]) for x, names in enumerate(entropies.reshape(ys, xs).T) for name in names]
    told = conic.hold([(np.repeat(worst, k), np.ones(k)), *rows])
    conic.each(exponential, [(entropies, -one)], [(q.ravel(), one)], [(np.repeat(r, xs), one)])
    answer = conic.solve(np.eye(conic.variables)[worst[0]], tolerance=SOLVED, refine=True)
    z = np.maximum(answer.z, 0.0)
    return answer.x[q], answer.x[r[:, 0]], z[told], z[lost]


def _within(q: Floats, distance: Floats, sources: Sources, budget: float) -> Floats:
    """Q clipped, normalised, and moved towards the nearest outputs until the budget holds for every source."""
    q = np.maximum(q, 0.0)
    nearest = np.eye(len(q))[:, np.argmin(distance, axis=1)]
    return blended(q / q.sum(axis=0), nearest, lambda q: sources.worst(lost(q, distance))[0] <= budget)


def rate_bound(p: Floats, r: Floats, weights: Floats, members: Floats, distance: Floats, budget: float) -> float:
    """min_Q I(p; Q) + Σ_k λ_k (E_k d − budget) from below, for any p in conv 𝒫, r > 0, λ ≥ 0 (Berger's dual).

    Σ p_x log α_x − log max_y Σ_x p_x α_x e^{−β_x(y)} − budget Σλ, with β_x(y) = Σ_k λ_k P^k_x d(x,y)/p_x and
    α_x = 1/Σ_y r_y e^{−β_x(y)}. Letters with p_x = 0 carry no information and pay their least distortion.
    """
    loss = (weights @ members)[:, None] * distance  # [x, y]
    live = p > 0.0
    idle = float(loss[~live].min(axis=1).sum())
    beta = loss[live] / p[live][:, None]
    shift = beta.min(axis=1, keepdims=True)
    tilted = np.exp(-(beta - shift))
    for _ in range(POLISH):  # Blahut's step: r moves to where the peak is flat, and the bound only rises
        r = r * ((p[live] / (tilted @ r)) @ tilted)
    alpha = 1.0 / (tilted @ r)
    peak = (p[live] * alpha) @ tilted
    inform = float(p[live] @ np.log(alpha)) - float(np.log(peak.max())) + float(p[live] @ shift[:, 0])
    return inform + idle - budget * float(weights.sum())


def mutual_leakage(sources: Sources, distance: Floats, budget: float) -> LeastLoss:
    """The saddle point: a mechanism within the budget, max_P I(P; Q) in nats, and the mixture that proves the bound."""

    def respond(met: Floats, fresh: Floats, best: LeastLoss) -> Answer:
        q, r, inform, lose = _programme(distance, met, budget)
        q, r = _within(q, distance, sources, budget), np.maximum(r, 1e-14)
        r, p = r / r.sum(), priced_by(inform, met)
        low = max(0.0, rate_bound(p, r, lose, met, distance, budget))
        (value, worst), (_, far) = (sources.worst(x) for x in (rel_entr(q, r[:, None]).sum(axis=0), lost(q, distance)))
        return LeastLoss(q, value, low, "cones", p), [worst, far], False

    return against(sources.members, respond, lambda best: best.value - best.bound <= TOLERANCE * max(1.0, best.value))
