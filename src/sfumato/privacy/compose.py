"""Several releases as one channel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.privacy.channel import as_channel


def together(*channels: npt.ArrayLike) -> Floats:
    """Releases of the same X, drawn independently given X: Q[(y₁, y₂, …), x] = Π_j Q_j[y_j, x], last index fastest."""
    joined = as_channel(channels[0])
    for channel in channels[1:]:
        q = as_channel(channel)
        joined = (joined[:, None, :] * q[None, :, :]).reshape(-1, q.shape[1])
    return joined


def apart(*channels: npt.ArrayLike) -> Floats:
    """Releases of independent inputs: the Kronecker product, inputs (x₁, x₂, …), outputs (y₁, y₂, …)."""
    joined = as_channel(channels[0])
    for channel in channels[1:]:
        joined = np.asarray(np.kron(joined, as_channel(channel)), dtype=np.float64)
    return joined
