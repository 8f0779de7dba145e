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
from sfumato.privacy.measures import Measure, Reading
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.shifts import worst_shifts
from sfumato.uncertainty.stated import quotient


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
        """At the prior of the joint, for laws of any size; over a ball, for those that can be listed."""
        return LDP().level(mechanism) if self.joint is None else shift_level(mechanism, self.joint)

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


def shift_level(mechanism: Mechanism, over: Joint | UncertaintySet, *, below: bool = True) -> float:
    """The greatest log P(y|s)/P(y), and with `below` log P(y)/P(y|s), at a joint or over a ball."""
    if isinstance(over, ChiSquareBall) and over.radius > 0:
        return _over_ball(mechanism, over, below)
    if not isinstance(over, Joint | ChiSquareBall | Exactly):
        raise InputError(f"beliefs over a set of kind {over.kind!r} are not known", next="Give a joint or a χ² ball.")
    joint = over if isinstance(over, Joint) else over.joint
    top, bottom, mean, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
    ratio = quotient(top, mean)
    worst = float((np.maximum(ratio, quotient(mean, bottom)) if below else ratio).max())
    return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf


def _over_ball(mechanism: Mechanism, ball: ChiSquareBall, below: bool) -> float:
    """The worst shift found in the ball, for mechanisms that can be listed."""
    q = mechanism.matrix
    if q is None:
        raise InputError("a level over a ball about beliefs needs a mechanism that can be listed.")
    seen, c = q[q.max(1) > 0], ball.joint.secret.size
    if c < 2:
        return 0.0
    halves = [True, False] if below else [True]
    y, s, above = (x.ravel() for x in np.meshgrid(range(len(seen)), range(c), halves, indexing="ij"))
    rows = seen / seen.max(1, keepdims=True)
    rows = rows if mechanism.law.rows == 1 else rows.reshape(-1, *ball.joint.shape)
    worst = float(worst_shifts(ball, rows[y], s, above).ratio.max())
    return math.log(max(worst, 1.0)) if math.isfinite(worst) else math.inf
