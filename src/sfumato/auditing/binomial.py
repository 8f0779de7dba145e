"""Exact binomial confidence bounds (Clopper–Pearson)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from sfumato.alphabet import Floats


def at_least(successes: npt.ArrayLike, trials: npt.ArrayLike, risk: float) -> Floats:
    """A lower bound on the success probability that fails with probability at most `risk`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    bound = betaincinv(np.maximum(k, 1e-300), n - k + 1, risk)
    return np.where(k > 0, bound, 0.0)


def at_most(successes: npt.ArrayLike, trials: npt.ArrayLike, risk: float) -> Floats:
    """An upper bound on the success probability that fails with probability at most `risk`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    bound = betaincinv(k + 1, np.maximum(n - k, 1e-300), 1 - risk)
    return np.where(k < n, bound, 1.0)
