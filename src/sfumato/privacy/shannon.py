"""Shannon's mutual information, and the capacity as its worst case."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.channel import live
from sfumato.privacy.reading import GAP, Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class Shannon(Measure):
    """I(X;Y) = Σ p_x D(Q_x ‖ Qp); the worst prior gives the capacity, certified by max_x D(Q_x ‖ q) for a law q."""

    gap: float = GAP
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "mutual information"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return Leakage(1, 1, self.gap).of(channel)
        seen = live(channel, prior)
        out = seen.q @ seen.p
        ratio = np.where(seen.q > 0, seen.q / out[:, None], 1.0)
        value = max(0.0, float((seen.q * np.log(ratio)).sum(axis=0) @ seen.p))
        return Reading(value, value, seen.on_inputs(seen.p), output_law=seen.on_outputs(out))
