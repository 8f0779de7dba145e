"""Array aliases and the two scalar functions every designer shares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def xlogx(x: Floats) -> Floats:
    """φ(x) = x log x with φ(0) = 0, elementwise; negative rounding dust counts as 0."""
    safe = np.where(x > 0.0, x, 1.0)
    return np.where(x > 0.0, x, 0.0) * np.log(safe)


def entropy(p: Floats) -> float:
    """H(p) = −Σ p log p in nats."""
    return -float(xlogx(p).sum())
