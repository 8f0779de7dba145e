"""Logarithms that know −∞."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats


def log_or_minus_infinity(values: Floats) -> Floats:
    """log v, with log 0 = −∞ and no warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def log_sum_exp(values: Floats, axis: int = -1) -> Floats:
    """log Σ exp(v) along an axis; −∞ for empty mass, +∞ if any entry is."""
    top = values.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.exp(values - safe).sum(axis=axis))
    return np.asarray(total + np.squeeze(safe, axis=axis), dtype=np.float64)
