"""A-optimal mixtures of given rows: min tr(C J⁻¹), J = Σ θ v vᵀ, Σ θ v = 1, θ ≥ 0, by a primal-dual interior method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats

STEPS = 80
SETTLED = 1e-9  # relative residual and complementarity at which the mixture counts as optimal
ALIGNED = 1e-4  # of the value: how far slopes may be from their dual
SHRINK = 0.2  # of the barrier, each step
RIDGE = 1e-12  # of the trace: keeps J and the Hessian invertible while rows are few or alike


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
    N, d = V.shape
    theta = np.full(N, 1.0 / N) if start is None else np.maximum(start, 0.01 / N)
    inverse, M, value = _state(V, theta, cost)
    scale, cost = value, cost / value
    lam, z = np.zeros(d), np.full(N, max(float(((V @ M) * V).sum(1).max()) / scale, 1.0))
    for _ in range(STEPS):
        inverse, M, value = _state(V, theta, cost)
        pulled = V @ M
        dual_gap = V @ lam - (pulled * V).sum(1) - z
        primal_gap = V.T @ theta - 1.0
        mu = float(theta @ z) / N
        if max(np.abs(primal_gap).max(), N * mu / value) < settled and np.abs(dual_gap).max() < ALIGNED * value:
            break
        hessian = 2 * (V @ inverse @ V.T) * (pulled @ V.T)
        theta, lam, z = _moved(V, hessian, theta, lam, z, dual_gap, primal_gap, max(SHRINK * mu, 1e-16))
    inverse, M, value = _state(V, theta, cost)
    return Mixed(theta, value * scale, lam * scale, M * scale)


def _moved(
    V: Floats, hessian: Floats, theta: Floats, lam: Floats, z: Floats, dual_gap: Floats, primal_gap: Floats, mu: float
) -> tuple[Floats, Floats, Floats]:
    """One Newton step towards the barrier μ, as far as θ and z stay positive: dz is eliminated, then dθ."""
    from scipy.linalg import cho_factor, cho_solve

    at = np.diag_indices(len(V))
    hessian[at] += z / theta + RIDGE * float(np.trace(hessian)) / len(V)
    factor = cho_factor(hessian, overwrite_a=True, check_finite=False)
    solved = cho_solve(factor, np.column_stack([mu / theta - z - dual_gap, V]))
    schur = V.T @ solved[:, 1:]
    schur[np.diag_indices_from(schur)] += 1e-14 * float(np.trace(schur))
    dl = np.linalg.solve(schur, V.T @ solved[:, 0] + primal_gap)
    dt = solved[:, 0] - solved[:, 1:] @ dl
    dz = mu / theta - z - z / theta * dt
    step = min(_room(theta, dt), _room(z, dz))
    return theta + step * dt, lam + step * dl, z + step * dz


def _room(x: Floats, dx: Floats) -> float:
    """How far x may move and stay positive."""
    falling = dx < 0
    return min(1.0, 0.99 * float((x[falling] / -dx[falling]).min())) if falling.any() else 1.0
