"""Least worst-case mutual information under a distortion budget, with a certified duality gap [003, §III-A].

min_Q max_{P ∈ conv 𝒫} I(P; Q) subject to E_P d ≤ budget for all P. As I(P; Q) = min_r Σ_x P_x D(Q_x‖r), it is the
convex program min_{Q, r} max_P Σ_x P_x D(Q_x‖r): relative entropy is jointly convex and the maximum over P linear in P
(concave in the source, not convex [003, (22), corrected]).
"""

from __future__ import annotations

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats
from sfumato.solve.sources import Sources, checked

ROUNDS = 60
POLISH = 500


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


def _program(distance: Floats, members: Floats, budget: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Exponential cones for the listed members: Q, r, prices of the information rows and of the distortion rows."""
    xs, ys = distance.shape
    n = xs * ys
    k = len(members)
    variables = 2 * n + ys + 1  # Q, relative entropies, r, T
    eye = sparse.eye(n, format="csr")
    zeros = sparse.csr_matrix
    sums = sparse.hstack([sparse.kron(np.ones((1, ys)), sparse.eye(xs)), zeros((xs, n + ys + 1))])
    law = sparse.hstack([zeros((1, 2 * n)), np.ones((1, ys)), zeros((1, 1))])
    spread = np.tile(members, (1, ys))  # P_x for every (y, x)
    inform = sparse.hstack([zeros((k, n)), spread, zeros((k, ys)), -np.ones((k, 1))])
    lose = sparse.hstack([spread * distance.T.ravel()[None, :], zeros((k, n + ys + 1))])
    order = np.arange(3 * n).reshape(3, n).T.ravel()
    each = sparse.kron(sparse.eye(ys), np.ones((xs, 1)))
    cones = sparse.vstack(
        [
            sparse.hstack([zeros((n, n)), eye, zeros((n, ys + 1))]),  # first entry −k, so A = +k
            sparse.hstack([-eye, zeros((n, n + ys + 1))]),
            sparse.hstack([zeros((n, 2 * n)), -each, zeros((n, 1))]),
        ]
    ).tocsr()[order]
    a = sparse.vstack([sums, law, inform, lose, cones]).tocsc()
    b = np.concatenate([np.ones(xs + 1), np.zeros(k), np.full(k, budget), np.zeros(3 * n)])
    kinds = [
        clarabel.ZeroConeT(xs + 1),
        clarabel.NonnegativeConeT(2 * k),
        *(clarabel.ExponentialConeT() for _ in range(n)),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cost = np.zeros(variables)
    cost[-1] = 1.0
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix((variables, variables)), cost, a, b, kinds, settings
    ).solve()
    x, z = np.array(answer.x), np.maximum(np.array(answer.z), 0.0)
    start = xs + 1
    return x[:n].reshape(ys, xs), x[2 * n : 2 * n + ys], z[start : start + k], z[start + k : start + 2 * k]


def _within(q: Floats, distance: Floats, sources: Sources, budget: float) -> Floats:
    """Q clipped, normalised, and moved towards the nearest outputs until the budget holds for every source."""
    q = np.maximum(q, 0.0)
    q = q / q.sum(axis=0)
    nearest = np.zeros_like(q)
    nearest[np.argmin(distance, axis=1), np.arange(q.shape[1])] = 1.0
    least = sources.worst(distance.min(axis=1))[0]
    for _ in range(60):
        spent = sources.worst(np.einsum("yx,xy->x", q, distance))[0]
        if spent <= budget:
            return np.asarray(q)
        share = min(1.0, (spent - budget) / max(spent - least, 1e-300) * (1.0 + 1e-9) + 1e-16)
        q = (1.0 - share) * q + share * nearest
    return nearest


def rate_bound(
    p: Floats, r: Floats, weights: Floats, members: Floats, distance: Floats, budget: float
) -> float:
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


def mutual_leakage(
    sources: Sources, distance: Floats, budget: float, *, tolerance: float = 1e-8
) -> MutualLeakage:
    """The saddle point; sources beyond the first members enter as they are violated."""
    members = checked(sources, 0.5)
    best = MutualLeakage(np.inf, 0.0, np.zeros((0, 0)), members[0])
    for _ in range(ROUNDS):
        q, r, inform, lose = _program(distance, members, budget)
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
        fresh = np.array([c for c in (p_value, p_loss) if np.abs(members - c).max(axis=1).min() > 1e-12])
        if fresh.size == 0:
            break
        members = np.vstack([members, fresh])
    return best
