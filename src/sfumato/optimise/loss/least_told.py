"""The least that must be told for a budget of distortion: the least ε, and the least worst-case information.

ε*(D) is the least ε at which min_Q max_P E d ≤ D with Q(y|x) ≤ e^ε Q(y|x') for all x, x' [003, (4)], for any distance
d[x, y] and any set of sources. Its value falls in ε, and prices of the rows prove bounds: bisection. The information is
a saddle point with a certified gap [003, §III-A].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, SOLVED, Floats
from sfumato.optimise.conic import ConicProgramme, exponential
from sfumato.optimise.loss.cutting import FloorProgramme
from sfumato.optimise.loss.hamming import CUTTING_ROUNDS, Sources
from sfumato.optimise.repair import lifted

SMALLEST = 1e-3  # nats: the tolerance is relative to ε, and to this where ε is smaller
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class LeastLevel:
    """Least ε found, the ε below which nothing can meet the budget, and the mechanism Q[y, x]."""

    epsilon: float
    bound: float
    q: Floats
    distortion: float


def least_distortion(
    sources: Sources, distance: Floats, epsilon: float, members: Floats, budget: float | None = None
) -> tuple[float, float, Floats, Floats]:
    """min_Q max_P E d at this ε: value, proved bound, Q, and all members used; stops early once `budget` is decided."""
    xs, ys = distance.shape
    e = float(np.exp(epsilon))
    wide = xs if e > 1.0 else 1  # at ε = 0 all inputs are answered alike
    programme = FloorProgramme(ys, np.eye(wide), e)
    used, fresh = np.zeros((0, xs)), members
    best, value, low = np.zeros((ys, xs)), np.inf, -np.inf
    for _ in range(CUTTING_ROUNDS):
        for p in fresh:
            programme.lose(_costs(p, distance, wide))
        used = np.vstack([used, fresh])
        solution = programme.lp.solve()
        shares = np.maximum(-solution.row_dual[programme.base :], 0.0)
        p = shares @ used / shares.sum() if shares.sum() > 0.0 else used[0]
        low = max(low, programme.proved(solution, _costs(p, distance, wide)))
        q = np.repeat(private(solution.x[: ys * wide].reshape(ys, wide), e), xs // wide, axis=1)
        reached, p = sources.worst(np.einsum("yx,xy->x", q, distance))
        if reached < value:
            best, value = q, reached
        decided = budget is not None and (value <= budget or low > budget)
        if decided or value - low <= SOLVED * max(1.0, abs(value)):
            break
        fresh = p[None, :]
    return value, low, best, used


def _costs(p: Floats, distance: Floats, wide: int) -> Floats:
    """c[y, x] at the source p, or of all x together."""
    cost = p * distance.T
    return cost if wide > 1 else cost.sum(axis=1, keepdims=True)


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
    sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8, ceiling: float = 40.0
) -> LeastLevel:
    """Bisection on certified answers; stops where the certified gap of the LP meets the budget."""
    members = sources.members
    if distance.ndim != 2 or distance.shape[0] != sources.size or not np.all(np.isfinite(distance)):
        raise InputError(f"distance must be a finite matrix with {sources.size} rows, got {distance.shape}.")

    def tried(epsilon: float) -> tuple[float, float, LeastLevel]:
        nonlocal members
        value, low, q, members = least_distortion(sources, distance, epsilon, members, budget)
        return value, low, LeastLevel(epsilon, 0.0, q, value)

    low, best = bisected(tried, budget, tolerance, ceiling)
    if best is None:
        raise InputError(f"no mechanism below ε = {ceiling} meets the budget {budget}.")
    return replace(best, bound=low)


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
    while made is None or high - low > tolerance * max(high, SMALLEST):
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
CORRECTIONS = 60  # of a budget that is exceeded, each exact up to rounding


@dataclass(frozen=True, slots=True)
class MutualLeakage:
    """value ≥ max_P I(P; Q) for the mechanism q; no mechanism within the budget is below `bound`. Nats."""

    value: float
    bound: float
    q: Floats
    source: Floats  # the mixture of sources that proves the bound


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
    least = sources.worst(distance.min(axis=1))[0]
    for _ in range(CORRECTIONS):
        spent = sources.worst(np.einsum("yx,xy->x", q, distance))[0]
        if spent <= budget:
            return np.asarray(q)
        share = min(1.0, (spent - budget) / max(spent - least, 1e-300) * (1.0 + 1e-9) + 1e-16)
        q = (1.0 - share) * q + share * nearest
    return nearest


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


def mutual_leakage(sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8) -> MutualLeakage:
    """The saddle point; sources beyond the first members enter as they are violated."""
    members = sources.members
    best = MutualLeakage(np.inf, 0.0, np.zeros((0, 0)), members[0])
    for _ in range(CUTTING_ROUNDS):
        q, r, inform, lose = _programme(distance, members, budget)
        q = _within(q, distance, sources, budget)
        r = np.maximum(r, 1e-14)
        r = r / r.sum()
        value, p_value = sources.worst(_divergences(q, r))
        _, p_loss = sources.worst(np.einsum("yx,xy->x", q, distance))
        p = inform @ members / inform.sum() if inform.sum() > 0.0 else members[0]
        low = max(best.bound, rate_bound(p, r, lose, members, distance, budget))
        if value < best.value:
            best = MutualLeakage(value, low, q, p)
        best = MutualLeakage(best.value, low, best.q, p if low > best.bound else best.source)
        if best.value - best.bound <= tolerance * max(1.0, best.value):
            break
        fresh = np.array([c for c in (p_value, p_loss) if np.abs(members - c).max(axis=1).min() > DUST])
        if fresh.size == 0:
            break
        members = np.vstack([members, fresh])
    return best
