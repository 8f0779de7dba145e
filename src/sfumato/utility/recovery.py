"""Recovery: whether, and how well, the distribution of the input can be estimated from what is released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism

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
