"""Pointwise maximal leakage: the gain in guessing any function of X from the worst output."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.joint import Joint
from sfumato.privacy.channel import live
from sfumato.privacy.lip import concentrated
from sfumato.privacy.reading import Measure, Reading


@dataclass(frozen=True, slots=True, eq=False)
class PointwiseLeakage(Measure):
    """max_y ℓ(y), ℓ(y) = log max_x Q(y|x) / P(y), x in the support of the prior. The worst prior makes it LDP.

    The mean of e^{ℓ(Y)} is e to the maximal leakage: `profile` gives ℓ for every output.
    """

    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "pointwise maximal leakage"

    def profile(self, channel: npt.ArrayLike, prior: npt.ArrayLike) -> Floats:
        """ℓ(y) for every output, −∞ for outputs that never occur."""
        seen = live(channel, prior)
        levels = np.full(seen.shape[0], -np.inf)
        levels[seen.outputs] = np.log(seen.q.max(axis=1)) - np.log(seen.q @ seen.p)
        return levels

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return concentrated(channel)
        seen = live(channel, prior)
        levels = np.log(seen.q.max(axis=1)) - np.log(seen.q @ seen.p)
        y = int(np.argmax(levels))
        value = max(0.0, float(levels[y]))
        return Reading(value, value, seen.on_inputs(seen.p), seen.witness(int(np.argmax(seen.q[y])), None, y))
