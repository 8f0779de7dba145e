"""The most informative channel under a limit, and the least worst-case information under a distortion budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, SOLVED, Floats
from sfumato.optimise.conic import ConicProgramme, exponential
from sfumato.optimise.funnel.posteriors import as_matrix, conditional_gain, information
from sfumato.optimise.linear import INFINITY, best_cover
from sfumato.optimise.loss.sources import CUTTING_ROUNDS, Sources
from sfumato.optimise.repair import blended

# --- the most informative channel under a limit on maximal leakage, and under local differential privacy --------------
# I(X;Y) is convex in Q and a sum over outputs of a function homogeneous in the row, so an optimum mixes extreme rows:
#
#     maximal leakage   rows with max_x v_x = 1: subsets H, v = 1_H, worth P(H) log 1/P(H), total weight Σθ ≤ e^ℓ
#     ε-LDP             rows in {1, e^ε}^X: subsets again, worth Σ p_x v_x log(v_x / p·v)
#
# Either is a linear programme over subsets; both limits together are not of this form.


MOST_INPUTS = 16  # 2^16 columns: beyond it a pricing step would be needed


@dataclass(frozen=True, slots=True, eq=False)
class MostInformation:
    """A channel within the level, I(X;Y) there, and a proved upper bound for every channel within the level."""

    channel: Floats
    value: float
    bound: float
    level: float


Level = Callable[[Floats], float]  # of a channel


def under_maximal_leakage(p: Floats, limit: float, level: Level) -> MostInformation:
    """max I(X;Y) subject to log Σ_y max_x Q(y|x) ≤ limit.

    Rows are θ·v with max v = 1, so v ∈ [0, 1]^X, a cube whose vertices are the indicators of subsets.
    """
    rows = _subsets(p.size)
    return _mixture(p, rows, limit, level, np.ones(len(rows)), float(np.exp(limit)))


def under_ldp(p: Floats, epsilon: float, level: Level) -> MostInformation:
    """max I(X;Y) over ε-LDP channels: a mixture of two-level rows."""
    return _mixture(p, 1 + _subsets(p.size) * np.expm1(epsilon), epsilon, level)


def _subsets(size: int) -> Floats:
    """Indicators of all nonempty subsets, a row each; the last is the whole set, a constant row."""
    if size > MOST_INPUTS:
        raise InputError(f"subsets are listed up to {MOST_INPUTS} inputs, got {size}.")
    numbers = np.arange(1, 2**size)
    return ((numbers[:, None] >> np.arange(size)) & 1).astype(np.float64)


def _mixture(
    p: Floats, rows: Floats, limit: float, level: Level, weight: Floats | None = None, most: float = INFINITY
) -> MostInformation:
    """The best mixture of rows that sums to 1 with Σ θ·weight ≤ most; rounding is paid by a touch of the law of Y."""
    size = rows.sum(axis=1)
    points = rows / size[:, None]
    spends = None if weight is None else weight / size
    cover = best_cover(np.ones(p.size), points, conditional_gain(p[None, :])(points), spends, most)
    channel = as_matrix(cover)
    channel = blended(channel, channel @ p, lambda q: level(q) <= limit)
    return MostInformation(channel, information(channel, p), cover.bound, level(channel))


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
