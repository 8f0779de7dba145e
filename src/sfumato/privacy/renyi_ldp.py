"""Local Rényi differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.privacy.renyi import pairwise, widest
from sfumato.privacy.channel import live
from sfumato.privacy.measures import Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class RenyiLDP(Measure):
    """max_{x, x'} D_a(Q_x ‖ Q_x') for an order a ∈ [1, ∞]  [004, (4) corrected: the sum is over y].

    a = 1 is the largest Kullback–Leibler divergence, a = ∞ local differential privacy.
    """

    order: float
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"local Rényi differential privacy of order {self.order:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if not self.order >= 1:
            raise InputError("order must be 1 or more", value=self.order)
        seen = live(channel, prior)
        value, x, other = widest(pairwise(seen.q, self.order))
        return Reading(value, value, None, seen.witness(x, other))
