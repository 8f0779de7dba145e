"""What one output is worth: expected loss, and how often the input is recovered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.uncertainty import ChiSquareBall, UncertaintySet
from sfumato.uncertainty.tilting import greatest_mean

# --- at one distribution, or at the worst of a set --------------------------------------------------------------------


ROUNDING = 2.0**-46  # relative room for the rounding of sums of a few thousand products


def loss_of(mechanism: Mechanism, distance: Floats) -> Floats:
    """E[d(u, Y) | s, u] as [s, u] (one row for a mechanism that reads U alone); distance[u, y]."""
    q = mechanism.matrix
    if q is None:
        raise InputError(f"{mechanism.outputs} outputs of {mechanism.inputs} inputs are too many to list.")
    if distance.shape != (mechanism.useful.size, mechanism.outputs):
        raise InputError(
            f"distance must be a matrix of {mechanism.useful.size} useful values by {mechanism.outputs} outputs, got "
            f"shape {distance.shape}."
        )
    rows = q.reshape(len(q), mechanism.law.rows, mechanism.law.useful)
    return np.asarray(np.einsum("ysu,uy->su", rows, distance))


def expected_distortion(mechanism: Mechanism, source: Joint | UncertaintySet, distance: Floats) -> float:
    """E d(U, Y) under a joint, or the greatest over a set of them (never too small: a dual point bounds it).

    Over a χ² ball the greatest ⟨c, P⟩ is min_{μ ≥ max c} μ − (Σ P̂√(μ − c))²/(B + 1) [002, Thm 2, simplified].
    """
    joint = source if isinstance(source, Joint) else source.joint
    c = np.broadcast_to(loss_of(mechanism, np.asarray(distance, float)), joint.shape)
    if isinstance(source, Joint):
        return float((c * joint.p).sum())
    if not isinstance(source, ChiSquareBall) or source.radius == 0:
        return source.support(c).value
    flat, p = c.reshape(1, -1), joint.p.reshape(1, -1)
    mu = max(float(greatest_mean(flat, p, np.array([1 + source.radius])).tau[0]), float(c.max()))
    dual = mu - float((p * np.sqrt(mu - flat)).sum()) ** 2 / (1 + source.radius)
    return min(float(c.max()), dual + ROUNDING * max(abs(mu), float(np.abs(c).max())))


# --- whether, and how well, the distribution of the input can be estimated from what is released ----------------------


LISTED = 3000  # inputs up to which the information matrix is inverted
RANK = 1e-9  # singular values below this share of the largest count as zero


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """The rank of Q against the number of inputs, its condition, and standard errors of cells from n released rows."""

    rank: int
    inputs: int
    condition: float
    n: int
    standard_errors: Floats | None  # in the shape of the input's distribution; None when some cell is not identified

    @property
    def complete(self) -> bool:
        """Whether every cell of the input's distribution can be estimated."""
        return self.rank == self.inputs


def recovery(mechanism: Mechanism, joint: Joint, n: int | None = None) -> Recovery | None:
    """How well p can be recovered at this joint; None for mechanisms too large to list.

    The best unbiased linear estimate has covariance ((Qᵀ diag(1/P(y)) Q)⁻¹ − p pᵀ) / n.
    """
    q = mechanism.matrix
    if q is None or q.shape[1] > LISTED:
        return None
    rows = n if n is not None else joint.n if joint.n is not None else 1
    p = mechanism.input_law(joint)
    law = q @ p
    seen = law > 0
    weighted = q[seen] / np.sqrt(law[seen])[:, None]
    values = np.linalg.svd(weighted, compute_uv=False)
    rank = int((values > RANK * values[0]).sum())
    if rank < q.shape[1]:
        return Recovery(rank, q.shape[1], np.inf, rows, None)
    variance = np.diag(np.linalg.inv(weighted.T @ weighted)) - p**2
    errors = np.sqrt(np.maximum(variance, 0) / rows)
    shape = joint.shape if mechanism.reads == "both" else (joint.shape[1],)
    return Recovery(rank, q.shape[1], float(values[0] / values[-1]), rows, errors.reshape(shape))
