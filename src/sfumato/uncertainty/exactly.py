"""Exactly: the distribution is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.joint import Joint, checked_joint
from sfumato.uncertainty.base import Extreme, Pairs, Worst


def quotient(top: Any, bottom: Any) -> Floats:
    """top / bottom with 0/0 = 1 (an output that never occurs tells nothing) and x/0 = ∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.asarray(top, float) / (np.asarray(bottom, float) + 0.0)  # + 0.0: x / −0.0 would be −∞
    return np.where(np.isnan(out), 1.0, out)


@dataclass(frozen=True, slots=True, eq=False)
class Exactly:
    """F = {P̂}: privacy is promised at the estimate and nowhere else. A secret with P̂_s = 0 is not looked at."""

    joint: Joint
    kind: ClassVar[str] = "exactly"

    def __post_init__(self) -> None:
        checked_joint(self.joint, "a known distribution")

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        q = self.joint.useful_given_secret
        return Worst(float(quotient(row[s1] @ q[s1], row[s2] @ q[s2])), q[s1], q[s2])

    def ratios(self, first: Floats, second: Floats, s1: Floats, s2: Floats) -> Floats:
        q = self.joint.useful_given_secret
        return quotient((first * q[s1]).sum(-1), (second * q[s2]).sum(-1))

    def pairs(self, first: Floats, second: Floats, s1: Any, s2: Any, close: float = 0.0) -> Pairs:
        q = self.joint.useful_given_secret
        return Pairs(self.ratios(first, second, s1, s2), q[s1], q[s2])

    def spikes(self) -> tuple[Floats, Floats]:
        q = self.joint.useful_given_secret
        return q, q

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        means = np.einsum("ysu,su->ys", rows, self.joint.useful_given_secret)
        return means, means

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        means = (values * self.joint.useful_given_secret[s]).sum(-1)
        return means, means

    def support(self, c: Floats) -> Extreme:
        return Extreme(float((c * self.joint.p).sum()), self.joint.p)
