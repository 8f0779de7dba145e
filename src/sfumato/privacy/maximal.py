"""Maximal leakage: the gain in guessing any function of X."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.privacy.channel import live
from sfumato.privacy.reading import Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class MaximalLeakage(Measure):
    """log Σ_y max_x Q(y|x): maximal (∞, 1)-leakage. The uniform prior attains it for guessing X itself.

    A prior matters only through its support.
    """

    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "maximal leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        value = max(0.0, float(np.log(seen.q.max(axis=1).sum())))
        n = seen.inputs.size
        return Reading(value, value, seen.on_inputs(np.full(n, 1 / n)))
