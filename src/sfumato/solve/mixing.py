"""A-optimal mixtures of given rows: min tr(C J⁻¹), J = Σ θ v vᵀ, Σ θ v = 1, θ ≥ 0, by a primal-dual interior method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats

STEPS = 80
SETTLED = 1e-9  # relative residual and complementarity at which the mixture counts as optimal
SHRINK = 0.2  # of the barrier, each step
RIDGE = 1e-12  # of the trace of J: keeps it invertible while rows are few


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Weights with their trace; the dual λ of Σ θ v = 1 and M = J⁻¹CJ⁻¹, so that vᵀMv − λ·v > 0 promises progress."""

    weight: Floats
    value: float
    dual: Floats
    slope: Floats  # M[x, x]


def _state(V: Floats, theta: Floats, cost: Floats) -> tuple[Floats, Floats, float]:
    J = (V.T * theta) @ V
    J[np.diag_indices_from(J)] += RIDGE * np.trace(J)
    inverse: Floats = np.asarray(np.linalg.inv(J), np.float64)
    M = np.asarray(inverse @ cost @ inverse)
    return inverse, M, float((cost * inverse).sum())


def best_mixture(V: Floats, cost: Floats, start: Floats | None = None, settled: float = SETTLED) -> Mixed:
    """The optimal weights of unit rows V[y, x]; Σ θ v = 1 holds to `settled` at the end.

    Newton on the perturbed optimality conditions −vᵀMv + λ·v = z, Σ θ v = 1 and θ∘z = μ; the Hessian of tr(C J⁻¹) is
    2 (V J⁻¹ Vᵀ) ∘ (V M Vᵀ), a product of two positive matrices, so the problem is convex.
    """
    from scipy.linalg import cho_factor, cho_solve

    N, d = V.shape
    theta = np.full(N, 1.0 / N) if start is None else np.maximum(start, 0.01 / N)
    inverse, M, value = _state(V, theta, cost)
    scale = value
    cost = cost / scale
    slope = ((V @ M) * V).sum(1) / scale
    lam = np.zeros(d)
    z = np.full(N, max(float(slope.max()), 1.0))
    mu = float(theta @ z) / N
    one = np.ones(d)
    for _ in range(STEPS):
        inverse, M, value = _state(V, theta, cost)
        pulled = V @ M
        grad = -(pulled * V).sum(1)
        dual_gap = grad + V @ lam - z
        primal_gap = V.T @ theta - one
        mu_now = float(theta @ z) / N
        if max(np.abs(primal_gap).max(), N * mu_now / value) < settled and np.abs(dual_gap).max() < 1e-4 * value:
            break
        mu = max(SHRINK * mu_now, 1e-16)
        H = 2 * (V @ inverse @ V.T) * (pulled @ V.T)
        H[np.diag_indices(N)] += z / theta
        right = -(dual_gap + z - mu / theta)
        solved = cho_solve(cho_factor(H, overwrite_a=True, check_finite=False), np.column_stack([right, V]))
        A = V.T @ solved[:, 1:]
        A[np.diag_indices(d)] += 1e-14 * np.trace(A)
        dl = np.linalg.solve(A, V.T @ solved[:, 0] + primal_gap)
        dt = solved[:, 0] - solved[:, 1:] @ dl
        dz = mu / theta - z - z / theta * dt
        a = _room(theta, dt)
        c = _room(z, dz)
        step = min(a, c)
        theta, lam, z = theta + step * dt, lam + step * dl, z + step * dz
    inverse, M, value = _state(V, theta, cost)
    return Mixed(theta, value * scale, lam * scale, M * scale)


def _room(x: Floats, dx: Floats) -> float:
    """How far x may move and stay positive."""
    falling = dx < 0
    return min(1.0, 0.99 * float((x[falling] / -dx[falling]).min())) if falling.any() else 1.0
