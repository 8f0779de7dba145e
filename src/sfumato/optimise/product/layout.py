"""Layout: one list of atoms per secret, laid in order on a common interval [0, T]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import Floats, Ints, xlogx

# Cuts closer than this share of T are one cut: LP lengths carry about 1e-12 of noise.
SNAP = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """A mechanism as intervals: output y is a cell of the common refinement of |S| partitions of [0, T].

    Q(dt | s, u) = heights[s][i, u] dt for t in the i-th interval of secret s, so Σ_i lengths[s][i]·heights[s][i, u]
    = 1.
    Numbers kept: about |S||U|² instead of |Y||S||U| (ours).
    """

    total: float
    lengths: tuple[Floats, ...]  # per secret [i]
    heights: tuple[Floats, ...]  # per secret [i, u]

    def reordered(self, orders: list[Ints]) -> Arrangement:
        """The same atoms in another order: same column sums, other rows."""
        return Arrangement(
            self.total,
            tuple(w[o] for w, o in zip(self.lengths, orders, strict=True)),
            tuple(h[o] for h, o in zip(self.heights, orders, strict=True)),
        )

    def cells(self) -> tuple[Floats, Ints]:
        """Lengths of the common refinement and, per cell and secret, the index of the atom there."""
        ends = [np.cumsum(w) for w in self.lengths]
        ends = [e * (self.total / e[-1]) for e in ends]
        cuts = np.unique(np.concatenate([[0.0, self.total], *ends]))
        # One cut per cluster of (numerically) equal cuts.
        apart = np.concatenate([[True], np.diff(cuts) > SNAP * self.total])
        cuts = cuts[apart]
        cuts[-1] = self.total
        middle = (cuts[1:] + cuts[:-1]) / 2
        index = np.stack([np.minimum(np.searchsorted(e, middle), len(e) - 1) for e in ends], axis=1)
        return np.diff(cuts), index

    def rows(self) -> Floats:
        """Q[y, s·|U| + u]; at most Σ_s (atoms of s − 1) + 1 rows."""
        length, index = self.cells()
        blocks = [h[index[:, s]] for s, h in enumerate(self.heights)]
        rows = length[:, None] * np.concatenate(blocks, axis=1)
        lost = rows.sum(axis=0) <= 0  # atoms too short to be told apart carried all of a column
        rows[:, lost] = length[:, None]
        return np.asarray(rows / rows.sum(axis=0))

    def _gain(self, p: Floats) -> float:
        atoms = zip(self.lengths, self.heights, p, strict=True)
        return sum(float(w @ (xlogx(h) @ row)) for w, h, row in atoms)

    def if_level(self, p: Floats) -> float:
        """What I(X;Y) would be if the atoms could be ordered so that the total height is level."""
        return self._gain(p) + float(np.log(self.total))

    def value(self, p: Floats) -> float:
        """I(X;Y) in nats without building the rows."""
        length, index = self.cells()
        z = np.zeros(len(length))
        for s, h in enumerate(self.heights):
            z += (h @ p[s])[index[:, s]]
        return self._gain(p) - float(length @ xlogx(z))
