"""LIP: local information privacy, how far the posterior of the secret can move from its prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.exactly import quotient


@dataclass(frozen=True, slots=True, eq=False)
class LIP:
    """max |log P(y|s) / P(y)| over y and s [001, Def. 2], and over P when a set is given instead of a joint.

    ε-LDP ⇒ ε-LIP ⇒ 2ε-LDP about the secret.
    """

    joint: Joint | UncertaintySet

    def level(self, mechanism: Mechanism) -> float:
        if isinstance(self.joint, ChiSquareBall) and self.joint.radius > 0:
            return _over_ball(mechanism, self.joint)
        if not isinstance(self.joint, Joint | ChiSquareBall | Exactly):
            raise InputError(f"LIP over a set of kind {self.joint.kind!r} is not known; give a joint or a ball.")
        joint = self.joint if isinstance(self.joint, Joint) else self.joint.joint
        top, bottom, mean, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
        worst = float(np.maximum(quotient(top, mean), quotient(mean, bottom)).max())
        return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf


def _over_ball(mechanism: Mechanism, ball: ChiSquareBall) -> float:
    """The worst shift found in the ball, for mechanisms that read X alone and can be listed."""
    from sfumato.privacy.robust_lip import worst_shifts

    q = mechanism.matrix
    if q is None or mechanism.law.rows != 1:
        raise InputError("LIP over a ball is for mechanisms that read the useful variable alone and can be listed.")
    live = q[q.max(1) > 0]
    c = ball.joint.secret.size
    if c < 2:
        return 0.0
    y, s, above = (x.ravel() for x in np.meshgrid(range(len(live)), range(c), [True, False], indexing="ij"))
    rows = live / live.max(1, keepdims=True)
    worst = float(worst_shifts(ball, rows[y], s, above).ratio.max())
    return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf
