"""PolyOpt's set: the product of the simplices {R ≥ L} that enclose the conditional balls [000, Thm 3]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.arrays import Floats
from sfumato.uncertainty.base import Pairs, UncertaintySet
from sfumato.uncertainty.exactly import quotient


@dataclass(frozen=True, eq=False)
class Simplices:
    """For each secret the laws R ≥ L, L the least P(u|s) over a set; secrets do not share anything.

    The corners are L + ρe_u, ρ = 1 − ΣL, so the least and greatest means are L·v + ρ·min v and L·v + ρ·max v.
    """

    around_set: Any  # the ball that is enclosed
    same_secret: bool = True  # Definition 3 of 000 also compares a secret with itself, which privacy does not need
    budget: float = 0.0

    @property
    def joint(self) -> Joint:
        inner: UncertaintySet = self.around_set
        return inner.joint

    @cached_property
    def least(self) -> Floats:
        """L [s, u]."""
        return np.asarray(self.around_set.spikes()[0])

    def around(self, joint: Joint) -> Simplices:
        return Simplices(self.around_set.around(joint), self.same_secret)

    def pairs(self, first: Floats, second: Floats, s1: Any, s2: Any, close: float = 0.0) -> Pairs:
        one, L = np.eye(first.shape[-1]), self.least
        rest = 1 - L.sum(1)
        r1 = L[s1] + rest[s1][:, None] * one[first.argmax(-1)]
        r2 = L[s2] + rest[s2][:, None] * one[second.argmin(-1)]
        return Pairs(quotient((r1 * first).sum(-1), (r2 * second).sum(-1)), r1, r2)

    def measure(self, s: int) -> Floats:
        """L as a law: the heights of a two-level block depend on the L-mass of its set."""
        total = float(self.least[s].sum())
        return self.least[s] / total if total > 0 else np.full(self.least.shape[1], 1 / self.least.shape[1])

    def masses_of(self, s: int, w: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of measure w; the empty and the full set are certain."""
        total = float(self.least[s].sum())
        low, high = total * w, np.minimum(total * w + 1 - total, 1.0)
        return np.where(w >= 1, 1.0, low), np.where(w <= 0, 0.0, high)
