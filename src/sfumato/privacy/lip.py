"""LIP: local information privacy, how far the posterior of the secret can move from its prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.channel import live
from sfumato.privacy.ldp import LDP
from sfumato.privacy.reading import Measure, Reading
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.exactly import quotient


@dataclass(frozen=True, slots=True, eq=False)
class LIP(Measure):
    """max |log P(y|s) / P(y)| over y and s [001, Def. 2], and over P when a ball is given instead of a joint.

    ε-LDP ⇒ ε-LIP ⇒ 2ε-LDP about the secret. Without a joint it is about the input, at the worst prior: one that
    concentrates on the least likely input, where
    it is LDP.
    """

    joint: Joint | UncertaintySet | None = None

    @property
    def name(self) -> str:
        return "local information privacy"

    @property
    def about(self) -> Joint | None:
        return self.joint if isinstance(self.joint, Joint) or self.joint is None else self.joint.joint

    def level(self, mechanism: Mechanism) -> float:
        """At the prior of the joint, for laws of any size; over a ball, for those that read X alone."""
        if isinstance(self.joint, ChiSquareBall) and self.joint.radius > 0:
            return _over_ball(mechanism, self.joint)
        if not (self.joint is None or isinstance(self.joint, Joint | ChiSquareBall | Exactly)):
            raise InputError(f"LIP over a set of kind {self.joint.kind!r} is not known; give a joint or a ball.")
        joint = self.about
        if joint is None:
            return LDP().level(mechanism)
        top, bottom, mean, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
        worst = float(np.maximum(quotient(top, mean), quotient(mean, bottom)).max())
        return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return concentrated(channel)
        seen = live(channel, prior)
        out = seen.q @ seen.p
        with np.errstate(divide="ignore"):
            moves = np.abs(np.log(seen.q) - np.log(out)[:, None])
        y, x = np.unravel_index(int(np.argmax(moves)), moves.shape)
        value = float(moves[y, x])
        return Reading(value, value, seen.on_inputs(seen.p), seen.witness(int(x), None, int(y)))

    def reading(self, mechanism: Mechanism, prior: Joint | npt.ArrayLike | None = None) -> Reading:
        """At the prior of the joint unless another is given: LIP is a promise at one distribution."""
        return Measure.reading(self, mechanism, self.about if prior is None else prior)


def concentrated(channel: npt.ArrayLike) -> Reading:
    """LDP, with the limit prior at the input that makes the telling output rarest."""
    worst = LDP().of(channel)
    prior = np.zeros(np.asarray(channel).shape[1])
    prior[worst.witness.other] = 1
    return Reading(worst.value, worst.bound, prior, worst.witness)


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
