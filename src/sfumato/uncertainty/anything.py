"""Anything: nothing is assumed about the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.joint import Joint
from sfumato.uncertainty.base import Extreme, Pairs, Worst
from sfumato.uncertainty.exactly import quotient


@dataclass(frozen=True, slots=True, eq=False)
class Anything:
    """F is the whole simplex: P(U|s1) and P(U|s2) may each sit on any one value [000, Prop. 3]."""

    joint: Joint
    kind: ClassVar[str] = "anything"

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        one = np.eye(row.shape[1])
        u1, u2 = int(np.argmax(row[s1])), int(np.argmin(row[s2]))
        return Worst(float(quotient(row[s1, u1], row[s2, u2])), one[u1], one[u2])

    def ratios(self, first: Floats, second: Floats, s1: Floats, s2: Floats) -> Floats:
        return quotient(first.max(-1), second.min(-1))

    def pairs(self, first: Floats, second: Floats, s1: Any, s2: Any, close: float = 0.0) -> Pairs:
        one = np.eye(first.shape[-1])
        return Pairs(self.ratios(first, second, s1, s2), one[first.argmax(-1)], one[second.argmin(-1)])

    def spikes(self) -> tuple[Floats, Floats]:
        many = float(self.joint.useful.size > 1)
        return np.full(self.joint.shape, 1.0 - many), np.ones(self.joint.shape)

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        return rows.min(-1), rows.max(-1)

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        return values.min(-1), values.max(-1)

    def support(self, c: Floats) -> Extreme:
        p = np.zeros(c.shape)
        p[np.unravel_index(int(np.argmax(c)), c.shape)] = 1
        return Extreme(float(c.max()), p)
