"""The least that must be told for a budget of distortion: the least ε, and the least worst-case information.

ε*(D) is the least ε at which min_Q max_P E d ≤ D with Q(y|x) ≤ e^ε Q(y|x') for all x, x' [003, (4)], for any distance
d[x, y] and any set of sources. Its value falls in ε, and prices of the rows prove bounds: bisection. The information is
a saddle point with a certified gap [003, §III-A].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import SOLVED, Floats
from sfumato.optimise.conic import ConicProgramme, exponential
from sfumato.optimise.loss.cutting import FloorProgramme
from sfumato.optimise.loss.hamming import MemberRows, Response, Settled, Sources, against
from sfumato.optimise.repair import least_share, lifted

LEAST_EPSILON = 1e-3  # nats: the tolerance is relative to ε, and to this where ε is smaller
Found = TypeVar("Found")


def least_distortion(
    sources: Sources, distance: Floats, epsilon: float, members: Floats | None = None, budget: float = -np.inf
) -> Settled[Floats]:
    """min_Q max_P E d at this ε, from members known before; stops early once it is decided if a budget is met."""
    (xs, ys), e = distance.shape, float(np.exp(epsilon))
    wide = xs if e > 1.0 else 1  # at ε = 0 all inputs are answered alike

    def costs(p: Floats) -> Floats:
        cost = p * distance.T
        return cost if wide > 1 else cost.sum(axis=1, keepdims=True)

    ends = float(distance.min()), float(distance.max())
    programme = FloorProgramme(np.eye(wide), e, np.zeros((ys, wide)), ends)
    rows = MemberRows(programme, lambda p: programme.loss(costs(p)))

    def respond(fresh: Floats) -> Response[Floats]:
        solution, p = rows.solve(fresh)
        q = np.repeat(private(solution.x[: ys * wide].reshape(ys, wide), e), xs // wide, axis=1)
        return Response(q, (lost(q, distance),), programme.proved(solution), p)

    def enough(value: float, low: float) -> bool:
        return value <= budget or low > budget > -np.inf or value - low <= SOLVED * max(1.0, abs(value))

    return against(sources, respond, enough, members)


def lost(q: Floats, distance: Floats) -> Floats:
    """E d of every letter."""
    return np.asarray(np.einsum("yx,xy->x", q, distance))


def private(q: Floats, e: float) -> Floats:
    """Q with entries lifted to max/e, and a constant mixed in where rounding left a ratio above e."""
    q = np.maximum(q, 0.0)
    q = np.maximum(q, q.max(axis=1, keepdims=True) / e)
    q = q / q.sum(axis=0)
    if e <= 1.0:
        return np.asarray(q)
    found = lifted(q, lambda q: np.asarray(q.max(axis=1) - e * q.min(axis=1)), e - 1.0)
    return np.repeat(q.mean(axis=1)[:, None], q.shape[1], axis=1) if found is None else found


def least_epsilon_for(
    sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8, highest: float
) -> tuple[float, Floats]:
    """The ε below which nothing meets the budget, and a Q that does; by certified answers, as close as these get."""
    members: Floats | None = None
    if distance.ndim != 2 or distance.shape[0] != sources.size or not np.all(np.isfinite(distance)):
        raise InputError(f"distance must be a finite matrix with {sources.size} rows, got {distance.shape}.")

    def tried(epsilon: float) -> tuple[float, float, Floats]:
        nonlocal members
        found = least_distortion(sources, distance, epsilon, members, budget)
        members = found.members
        return found.value, found.bound, found.made

    low, q = bisected(tried, budget, tolerance, highest)
    if q is None:
        raise InputError(f"no mechanism below ε = {highest} meets the budget {budget}.")
    return low, q


def bisected(
    tried: Callable[[float], tuple[float, float, Found]], budget: float, tolerance: float, highest: float
) -> tuple[float, Found | None]:
    """The greatest ε found that is proved to be too small for a budget, and what meets it at the least ε found.

    tried(ε) is a loss that is reached, one that is proved to be out of reach, and what reaches it; the budget may lie
    between the two, which is as close as a solver gets.
    """
    value, _, found = tried(0.0)
    if value <= budget:
        return 0.0, found
    low, high, made = 0.0, 1.0, None
    while made is None or high - low > tolerance * max(high, LEAST_EPSILON):
        middle = high if made is None else 0.5 * (low + high)
        value, bound, found = tried(middle)
        if value <= budget:
            made, high = found, middle
        elif bound > budget:
            low = middle
        elif made is not None:
            break
        if made is None:
            if high >= highest:
                break
            high = min(2.0 * high, highest)
    return low, made


# ----------------------------------------------------------------------------------------------------------------------
# Least worst-case mutual information under a distortion budget, with a certified duality gap [003, §III-A]
# min_Q max_{P ∈ conv 𝒫} I(P; Q) subject to E_P d ≤ budget for all P. As I(P; Q) = min_r Σ_x P_x D(Q_x‖r), it is the
# convex program min_{Q, r} max_P Σ_x P_x D(Q_x‖r): relative entropy is jointly convex and the maximum over P linear in
# P (concave in the source, not convex [003, (22), corrected]).


POLISH = 500  # of Blahut's steps, which only raise the bound: 1 ms altogether


def _divergences(q: Floats, r: Floats) -> Floats:
    """D(Q_x‖r) for every x; q[y, x]."""
    ratio = np.divide(q, r[:, None], out=np.ones_like(q), where=q > 0.0)
    return np.asarray((q * np.log(ratio)).sum(axis=0))


def _programme(distance: Floats, members: Floats, budget: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Exponential cones for the listed members: Q, r, prices of the information rows and of the distortion rows."""
    xs, ys = distance.shape
    n, k = xs * ys, len(members)
    conic = ConicProgramme()
    q, entropies, r, worst = (conic.fresh(count) for count in (n, n, ys, 1))
    x, y = q % xs, q // xs  # Q[y, x] is listed row by row
    conic.equal(x, q, np.ones(n), -np.ones(xs))
    conic.equal(np.zeros(ys, dtype=np.int64), r, np.ones(ys), -np.ones(1))
    each, spread = np.repeat(np.arange(k), n), members[:, x].ravel()
    told = conic.nonnegative(
        np.append(each, np.arange(k)), np.append(np.tile(entropies, k), np.repeat(worst, k)),
        np.append(-spread, np.ones(k)), np.zeros(k),
    )
    lost = conic.nonnegative(each, np.tile(q, k), -spread * np.tile(distance[x, y], k), np.full(k, budget))
    one = np.ones(n)
    conic.each(exponential, [(entropies, -one)], [(q, one)], [(r[y], one)])
    answer = conic.solve(np.eye(conic.variables)[worst[0]], tolerance=SOLVED, refine=True)
    z = np.maximum(answer.z, 0.0)
    return answer.x[q].reshape(ys, xs), answer.x[r], z[told], z[lost]


def _within(q: Floats, distance: Floats, sources: Sources, budget: float) -> Floats:
    """Q clipped, normalised, and moved towards the nearest outputs until the budget holds for every source."""
    q = np.maximum(q, 0.0)
    q = q / q.sum(axis=0)
    nearest = np.zeros_like(q)
    nearest[np.argmin(distance, axis=1), np.arange(q.shape[1])] = 1.0

    def moved(share: float) -> Floats:
        return np.asarray((1.0 - share) * q + share * nearest)

    return moved(least_share(lambda share: sources.worst(lost(moved(share), distance))[0] <= budget))


def rate_bound(p: Floats, r: Floats, weights: Floats, members: Floats, distance: Floats, budget: float) -> float:
    """min_Q I(p; Q) + Σ_k λ_k (E_k d − budget) from below, for any p in conv 𝒫, r > 0, λ ≥ 0 (Berger's dual).

    Σ p_x log α_x − log max_y Σ_x p_x α_x e^{−β_x(y)} − budget Σλ, with β_x(y) = Σ_k λ_k P^k_x d(x,y)/p_x and
    α_x = 1/Σ_y r_y e^{−β_x(y)}.
    Letters with p_x = 0 carry no information and pay their least distortion.
    """
    loss = (weights @ members)[:, None] * distance  # [x, y]
    live = p > 0.0
    idle = float(loss[~live].min(axis=1).sum()) if (~live).any() else 0.0
    beta = loss[live] / p[live][:, None]
    shift = beta.min(axis=1, keepdims=True)
    tilted = np.exp(-(beta - shift))
    for _ in range(POLISH):  # Blahut's step: r moves to where the peak is flat, and the bound only rises
        r = r * ((p[live] / (tilted @ r)) @ tilted)
    alpha = 1.0 / (tilted @ r)
    peak = (p[live] * alpha) @ tilted
    inform = float(p[live] @ np.log(alpha)) - float(np.log(peak.max())) + float(p[live] @ shift[:, 0])
    return inform + idle - budget * float(weights.sum())


def mutual_leakage(sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8) -> Settled[Floats]:
    """The saddle point: a mechanism within the budget, max_P I(P; Q) in nats, and the mixture that proves the bound."""
    members = np.zeros((0, sources.size))

    def respond(fresh: Floats) -> Response[Floats]:
        nonlocal members
        members = np.vstack([members, fresh])
        q, r, inform, lose = _programme(distance, members, budget)
        q, r = _within(q, distance, sources, budget), np.maximum(r, 1e-14)
        r = r / r.sum()
        p = inform @ members / inform.sum() if inform.sum() > 0.0 else members[0]
        low = max(0.0, rate_bound(p, r, lose, members, distance, budget))
        return Response(q, (_divergences(q, r), lost(q, distance)), low, p)

    return against(sources, respond, lambda value, low: value - low <= tolerance * max(1.0, value))
