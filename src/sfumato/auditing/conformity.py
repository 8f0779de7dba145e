"""Does a black box answer as its mechanism file says? Exact tests of every cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from sfumato.alphabet import Ints
from sfumato.privacy.channel import as_channel


@dataclass(frozen=True, slots=True)
class Conformity:
    """The smallest p-value over cells, corrected for their number, and the cell."""

    p_value: float
    output: int
    input: int
    seen: int
    expected: float

    def refuted(self, risk: float = 1e-3) -> bool:
        return self.p_value < risk


def conformity(counts: Ints, channel: npt.ArrayLike) -> Conformity:
    """min over cells of the two-sided exact binomial p-value of counts[y, x] under Q[y, x], times the number of cells.

    A sampler off by a label moves whole cells, which this sees at once; a deviation far below 1/√n stays unseen, and
    one random word in 2^64 needs the exhaustive tests of the sampler instead.
    """
    q = as_channel(channel)
    trials = np.broadcast_to(counts.sum(axis=0), q.shape)
    below = np.asarray(bdtr(counts, trials, q))
    above = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), trials, q), 1.0)
    cells = np.where(trials > 0, np.minimum(1.0, 2 * np.minimum(below, above)), 1.0)
    cells = np.where((q == 0) & (counts > 0), 0.0, cells)
    y, x = np.unravel_index(int(np.argmin(cells)), cells.shape)
    p_value = min(1.0, float(cells[y, x]) * cells.size)
    return Conformity(p_value, int(y), int(x), int(counts[y, x]), float(trials[y, x] * q[y, x]))
