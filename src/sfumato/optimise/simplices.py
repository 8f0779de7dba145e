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

    def means(self, values: Floats, s: Any, spent: Floats, close: float = 0.0) -> Floats:
        """The greatest R·v given s; there is no budget to spend."""
        L = self.least[s]
        return np.asarray((L * values).sum(-1) + (1 - L.sum(-1)) * values.max(-1) + 0.0 * spent)

    def measure(self, s: int) -> Floats:
        """L as a law: the heights of a two-level block depend on the L-mass of its set."""
        total = float(self.least[s].sum())
        return self.least[s] / total if total > 0 else np.full(self.least.shape[1], 1 / self.least.shape[1])

    def masses_of(self, s: int, w: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of measure w; the empty and the full set are certain."""
        total = float(self.least[s].sum())
        low, high = total * w, np.minimum(total * w + 1 - total, 1.0)
        return np.where(w >= 1, 1.0, low), np.where(w <= 0, 0.0, high)

    def inequalities(self, E: float) -> Floats:
        """A with A·v ≤ 0 for the private rows: one for each pair of secrets and of corners [000, (43)]."""
        S, U = self.least.shape
        corners = self.least[:, None] + (1 - self.least.sum(1))[:, None, None] * np.eye(U)  # [s, corner, u]
        out = []
        for s1, s2 in np.ndindex(S, S):
            if s1 != s2 or self.same_secret:
                rows = np.zeros((U, U, S, U))
                rows[:, :, s1] += corners[s1][:, None]
                rows[:, :, s2] -= E * corners[s2][None]
                out.append(rows.reshape(U * U, S * U))
        return np.concatenate(out)

    def extreme(self, s: int, E: float) -> Floats:
        """The extreme points of {v ≥ 0 : L·v + ρ·min v ≥ 1, L·v + ρ·max v ≤ E}, few values (docs/robust.md, section 2).

        Constants, two levels, or zeros, tops and one value between; points that are not extreme do no harm.
        """
        L, k = self.least[s], self.least.shape[1]
        rest, sets = max(1.0 - float(L.sum()), 0.0), ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(float)
        ends = np.array([[1.0], [E]]) * np.ones(k)
        if rest < 1e-12:
            on = np.flatnonzero(L > 0)
            return np.concatenate([ends, *(h * np.eye(k)[on] / L[on, None] for h in (1.0, E))])
        w, top = sets @ L, (E - 1.0) / rest
        lo = np.maximum(1.0 - w * top, 0.0)
        hi = np.where(lo > 0, lo + top, E / (rest + w))
        two = lo[:, None] + (hi - lo)[:, None] * sets
        between = []
        for f in np.flatnonzero(L > 1e-13):
            height = (1.0 - w * top) / L[f]
            ok = (sets[:, f] == 0) & (height > 1e-12) & (height < top)
            block = top * sets[ok]
            block[:, f] = height[ok]
            between.append(block)
        return np.concatenate([ends, two, *between])
