"""The worst pair of different secrets, column by column."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.uncertainty.stated import quotient


def best_pairs(top: Floats, bottom: Floats) -> Floats:
    """For each column the greatest top[i] / bottom[j] over i ≠ j."""
    i, j = np.argmax(top, 0), np.argmin(bottom, 0)
    columns = np.arange(top.shape[1])
    direct = quotient(top[i, columns], bottom[j, columns])
    other_top, other_bottom = top.copy(), bottom.copy()
    other_top[i, columns], other_bottom[j, columns] = -np.inf, np.inf
    i2, j2 = other_top.max(0), other_bottom.min(0)
    crossed = np.maximum(quotient(i2, bottom[j, columns]), quotient(top[i, columns], j2))
    return np.where(i == j, crossed, direct)
