"""PML: pointwise maximal leakage about the secret, how much an output can raise the belief in any value of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.gain import PointwiseLeakage
from sfumato.privacy.ldp import LDP
from sfumato.privacy.lip import shift_level
from sfumato.privacy.measures import Measure, Reading
from sfumato.uncertainty import UncertaintySet


@dataclass(frozen=True, slots=True, eq=False)
class PML(Measure):
    """max log P(y|s) / P(y) over y and s at a joint, and over P when a χ² ball is given instead: the upper half of LIP.

    ε-RLDP ⇒ ε-LIP ⇒ ε-PML, and the maximal leakage about S is at most ε. Beliefs may fall without a limit: an output
    may rule a value out. Without a joint it is about the input, at the worst prior, where it is LDP.
    """

    over: Joint | UncertaintySet | None = None

    @property
    def name(self) -> str:
        return "pointwise maximal leakage about the secret"

    @property
    def about(self) -> Joint | None:
        return self.over if isinstance(self.over, Joint) or self.over is None else self.over.joint

    def level(self, mechanism: Mechanism) -> float:
        """At the prior of the joint, for laws of any size; over a ball, for those that can be listed."""
        return LDP().level(mechanism) if self.over is None else shift_level(mechanism, self.over, below=False)

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return PointwiseLeakage().of(channel, prior)

    def reading(self, mechanism: Mechanism, prior: Joint | npt.ArrayLike | None = None) -> Reading:
        """At the prior of the joint unless another is given: PML is a promise at one distribution."""
        return Measure.reading(self, mechanism, self.about if prior is None else prior)
