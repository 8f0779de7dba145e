"""A-optimal mixtures of given rows: min tr(C J⁻¹), J = Σ θ v vᵀ, Σ θ v = 1, θ ≥ 0, by a primal-dual interior method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.optimise.arrays import Bools, Floats

STEPS = 80
SETTLED = 1e-9  # relative residual and complementarity at which the mixture counts as optimal
ALIGNED = 1e-4  # of the value: how far slopes may be from their dual
SHRINK = 0.15  # of the barrier, each step
RIDGE = 1e-12  # of the trace: keeps J and the Hessian invertible while rows are few or alike
FIRM = (1.0, 1e3, 1e6)  # times that ridge, until the Hessian can be factored


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Weights with their trace; the dual λ of Σ θ v = 1 and M = J⁻¹CJ⁻¹, so that vᵀMv − λ·v > 0 promises progress."""

    weight: Floats
    value: float
    dual: Floats
    slope: Floats  # M[i, i] over the coordinates that are estimated


def inverse(V: Floats, theta: Floats) -> Floats:
    """J⁻¹ of rows over the coordinates that are estimated."""
    J = (V.T * theta) @ V
    J[np.diag_indices_from(J)] += RIDGE * np.trace(J)
    return np.asarray(np.linalg.inv(J), np.float64)


def best_mixture(
    V: Floats, cost: Floats, start: Floats | None = None, settled: float = SETTLED, seen: Bools | None = None
) -> Mixed:
    """The optimal weights of unit rows V[y, i]; Σ θ v = 1 holds to `settled` at the end.

    Newton on the perturbed optimality conditions −vᵀMv + λ·v = z, Σ θ v = 1 and θ∘z = μ; the Hessian of tr(C J⁻¹) is
    2 (V J⁻¹ Vᵀ) ∘ (V M Vᵀ), a product of two positive matrices, so the problem is convex. Coordinates that are not
    `seen` have no mass: they are part of Σ θ v = 1, but nothing is estimated there.
    """
    N, W = len(V), V if seen is None else np.ascontiguousarray(V[:, seen])
    theta = np.full(N, 1.0 / N) if start is None else np.maximum(start, 0.01 / N)
    J = inverse(W, theta)
    scale = float((cost * J).sum())
    cost = cost / scale
    lam, z = np.zeros(V.shape[1]), np.full(N, max(float(((W @ J @ cost @ J) * W).sum(1).max()), 1.0))
    for _ in range(STEPS):
        J = inverse(W, theta)
        value, pulled = float((cost * J).sum()), W @ (J @ cost @ J)
        dual_gap = V @ lam - (pulled * W).sum(1) - z
        primal_gap = V.T @ theta - 1.0
        mu = float(theta @ z) / N
        if max(np.abs(primal_gap).max(), N * mu / value) < settled and np.abs(dual_gap).max() < ALIGNED * value:
            break
        hessian = 2 * (W @ J @ W.T) * (pulled @ W.T)
        moved = _moved(V, hessian, theta, lam, z, dual_gap, primal_gap, max(SHRINK * mu, 1e-16))
        if moved is None:
            break
        theta, lam, z = moved
    J = inverse(W, theta)
    return Mixed(theta, float((cost * J).sum()) * scale, lam * scale, J @ cost @ J * scale)


def _moved(
    V: Floats, hessian: Floats, theta: Floats, lam: Floats, z: Floats, dual_gap: Floats, primal_gap: Floats, mu: float
) -> tuple[Floats, Floats, Floats] | None:
    """One Newton step towards the barrier μ, as far as θ and z stay positive: dz is eliminated, then dθ."""
    at, trace = np.diag_indices(len(V)), float(np.trace(hessian)) / len(V)
    hessian[at] += z / theta
    for firm in FIRM:
        hessian[at] += firm * RIDGE * trace
        try:
            factor = cho_factor(hessian, check_finite=False)
            break
        except LinAlgError:
            continue
    else:
        return None
    solved = cho_solve(factor, np.column_stack([mu / theta - z - dual_gap, V]), check_finite=False)
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
