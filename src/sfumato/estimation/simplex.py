"""Projection onto the probability simplex."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats


def on_simplex(raw: Floats) -> Floats:
    """The distribution nearest to `raw` in Euclidean distance: max(raw − τ, 0) with τ such that it sums to 1.

    When every raw value is within h of the truth, τ ≤ h: were τ > h, every kept value would fall below the
    truth and the sum below 1. So projecting moves no cell by more than the largest error there was.

    >>> on_simplex(np.array([0.7, 0.5, -0.2])).round(6).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = np.asarray(raw, float).ravel()
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, flat.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    kept = np.maximum(flat - excess[last], 0.0)
    return np.asarray((kept / kept.sum()).reshape(np.shape(raw)))
