"""Bounded ratios as a linear programme: a floor under the means of every output, and the loss that is minimised."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats
from sfumato.optimise.linear import INFINITY, LinearProgramme, Solution


class FloorProgramme:
    """The LP over Q[y, x], floors m_y and the loss D, with m_y ≤ mean_k·Q(y|·) ≤ e m_y for the rows of mean[k, x].

    A floor for every output turns k² ratios into 2k rows. Whatever else is asked for is appended after them.
    """

    def __init__(
        self, outputs: int, mean: Floats, e: float, cost: Floats | None = None,
        ends: tuple[float, float] = (-INFINITY, INFINITY),
    ) -> None:
        """With cost[y, x] the loss is Σ cost·Q; without, it is D, which lies between `ends`."""
        (k, xs), size = mean.shape, outputs * mean.shape[1]
        self.shape, self.mean, self.e = (outputs, xs), mean, e
        first = np.zeros(size) if cost is None else cost.ravel()
        objective = np.concatenate([first, np.zeros(outputs), [float(cost is None)]])
        lower, upper = np.append(np.zeros(size + outputs), ends[0]), np.append(np.ones(size + outputs), ends[1])
        self.lp = LinearProgramme(objective, lower, upper)
        each, blank = sparse.eye(outputs), sparse.csr_matrix((outputs * k, 1))
        means, floor = sparse.kron(each, sparse.csr_matrix(mean)), sparse.kron(each, np.ones((k, 1)))
        sums = [sparse.kron(np.ones((1, outputs)), sparse.eye(xs)), sparse.csr_matrix((xs, outputs + 1))]
        self.lp.equal(sparse.hstack(sums), 1.0)
        self.lp.at_most(sparse.hstack([means, -e * floor, blank]))
        self.lp.at_most(sparse.hstack([-means, floor, blank]))
        self.base = self.lp.rows

    def lose(self, cost: Floats) -> None:
        """Append D ≥ Σ cost·Q for the costs [y, x] of one source."""
        self.lp.at_most(np.concatenate([cost.ravel(), np.zeros(self.shape[0]), [-1.0]])[None, :])

    def proved(self, solution: Solution, cost: Floats) -> float:
        """The loss from below by weak duality, whatever HiGHS says: prices of the floors, clipped to be valid.

        cost[y, x] is that of the priced source, with the priced rows that were appended; columns of Q lie in the
        simplex and floors in [0, 1].
        """
        price = np.maximum(-solution.row_dual[self.shape[1] : self.base], 0.0)
        up, down = price.reshape(2, self.shape[0], -1)
        floors = np.minimum(down.sum(axis=1) - self.e * up.sum(axis=1), 0.0).sum()
        return float((cost + (up - down) @ self.mean).min(axis=0).sum() + floors)
