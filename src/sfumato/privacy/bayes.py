"""Min-entropy (Bayes) leakage: the gain in guessing X in one try."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.privacy.channel import live
from sfumato.privacy.maximal import MaximalLeakage
from sfumato.privacy.reading import Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class BayesLeakage(Measure):
    """log [Σ_y max_x p_x Q(y|x) / max_x p_x]. The uniform prior is worst, and gives maximal leakage."""

    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "min-entropy leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return MaximalLeakage().of(channel)
        seen = live(channel, prior)
        after = float((seen.q * seen.p).max(axis=1).sum())
        value = max(0.0, float(np.log(after / seen.p.max())))
        return Reading(value, value, seen.on_inputs(seen.p))
