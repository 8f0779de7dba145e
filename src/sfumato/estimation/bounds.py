"""Bounds for what cannot be identified: everything that agrees with the released rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.dense import DenseInversion
from sfumato.estimation.intervals import simultaneous

LISTED = 40_000  # the largest |Y| × |X| for which the linear programmes are solved
FUNCTIONALS = 300


@dataclass(frozen=True, eq=False)
class Bounds:
    """The distributions p with Qp inside the simultaneous intervals of the output frequencies.

    The truth is among them with the stated probability, so the least and the greatest c·p over them bound any
    number of functionals c at once, whether or not they are identified.
    """

    q: Floats  # [y, x]
    f: Floats  # [y]
    n: int

    def interval(self, sums: Floats, level: float) -> tuple[Floats, Floats]:
        """(low, high) of each row of `sums`[i, x]; [0, 1] when there are too many or no p agrees."""
        low, high = np.zeros(len(sums)), np.ones(len(sums))
        if self.q.size > LISTED or len(sums) > FUNCTIONALS:
            return low, high
        from scipy.optimize import linprog

        eye = np.eye(len(self.f))
        outputs = DenseInversion(eye, self.f, self.n, self.f.shape, eye, eye, len(self.f))
        least, most = simultaneous(outputs, level, self.f)
        above, limits = np.vstack([self.q, -self.q]), np.concatenate([most, -least])
        total = np.ones((1, self.q.shape[1]))
        for i, c in enumerate(sums):
            found = [linprog(sign * c, above, limits, total, [1.0], (0, None)) for sign in (1, -1)]
            if all(x.status == 0 for x in found):
                low[i], high[i] = found[0].fun, -found[1].fun
        return np.clip(low, 0, 1), np.clip(high, 0, 1)
