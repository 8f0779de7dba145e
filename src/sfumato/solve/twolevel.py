"""Two-level rows over the exact ball: which heights a subset of U may carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.uncertainty.tilting import mass_range


def split_grid(b: float, nodes: int) -> Floats:
    """Splits of the slack, dense at both ends where the extremes move like √b'."""
    return np.asarray(b * np.sin(np.linspace(0.0, np.pi / 2, nodes)) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class Corridor:
    """What one secret's row must satisfy: R·v ≥ floor_j and R·v ≤ roof_j for all R in the ball of size C_j.

    One node with floor 1 and roof E is the product set of section 5; many nodes sample a profile over the shared
    slack (ours).
    """

    C: Floats
    floor: Floats
    roof: Floats

    def constants(self) -> tuple[float, float]:
        """The least and greatest constant rows."""
        return float(self.floor.max()), float(self.roof.min())

    def steepest(self, w: Floats) -> tuple[Floats, Floats]:
        """Per mass w: (lo, d) with the greatest step d such that lo + d·1_H is inside.

        need(d) = max(0, floor − d·r₋) is convex and room(d) = min(roof − d·r₊) concave, so Newton from the right on
        need − room stops at its root after finitely many pieces.
        """
        low, high = mass_range(w[:, None], self.C[None, :])
        d = (self.roof / np.maximum(high, 1e-12)).min(axis=1)
        at = np.arange(len(w))
        for _ in range(60):
            need = self.floor - d[:, None] * low
            room = self.roof - d[:, None] * high
            i, j = need.argmax(axis=1), room.argmin(axis=1)
            positive = need[at, i] > 0.0
            excess = np.where(positive, need[at, i], 0.0) - room[at, j]
            slope = high[at, j] - np.where(positive, low[at, i], 0.0)
            move = np.where((excess > 1e-14) & (slope > 0.0), excess / np.maximum(slope, 1e-300), 0.0)
            if not np.any(move > 1e-14 * d):
                break
            d = d - move
        lo = np.maximum((self.floor - d[:, None] * low).max(axis=1), 0.0)
        return lo, np.maximum(d, 0.0)

    def lowest(self, w: Floats) -> Floats:
        """Per mass w: the least d for which 0 + d·1_H is above the floor (∞ when w cannot carry it)."""
        low = mass_range(w[:, None], self.C[None, :])[0]
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(low > 0.0, self.floor / np.where(low > 0, low, 1.0), np.inf).max(axis=1))

    def heights(self, w: Floats) -> tuple[Floats, Floats]:
        """Candidate (lo, hi) per kind and mass [kind, i]; a candidate that does not exist repeats the steepest.

        Kinds: the steepest; zero off H with the least height on H.
        """
        lo, d = self.steepest(w)
        least = self.lowest(w)
        exists = least < d * (1.0 - 1e-12)
        hi0 = np.where(exists & (lo <= 0.0), least, lo + d)
        return np.stack([lo, lo]), np.stack([lo + d, hi0])
