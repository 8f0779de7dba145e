"""Beliefs in the secret: LIP, and SRLIP beside what else is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.ldp import LDP
from sfumato.privacy.measures import Measure, Reading, live
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.sets import quotient
from sfumato.uncertainty.shifts import worst_shifts

# --- local information privacy, how far the posterior of the secret can move from its prior ---------------------------


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


# --- side-channel resistant LIP, for an attacker who knows any of the attributes --------------------------------------


def side_channels(attributes: int) -> list[tuple[int, ...]]:
    """Every subset J of the attributes but the full one, where Y says nothing more about S."""
    return [known for size in range(attributes) for known in combinations(range(attributes), size)]


def attributes(joint: Joint) -> tuple[int, ...]:
    """The sizes of x¹, …, x^m: the columns of the useful variable."""
    return tuple(column.size for column in joint.useful.columns)


@dataclass(frozen=True, slots=True, eq=False)
class SRLIP:
    """max |log P(y|s,x^J) / P(y|x^J)| over y, s, J and x^J [001, Def. 3]; x^j are the columns of the useful variable.

    With one column it is LIP. J = all attributes is left out: a mechanism on X says nothing more about S then.

    >>> from sfumato.mechanism import Tabular
    >>> joint = Joint.from_counts([[3, 1], [1, 3]])
    >>> round(SRLIP(joint).level(Tabular([[0.75, 0.25], [0.25, 0.75]], joint=joint, reads="useful")), 6)
    0.287682
    """
    joint: Joint

    def level(self, mechanism: Mechanism) -> float:
        q = mechanism.matrix
        if q is None:
            raise InputError("the SRLIP level needs the matrix of the mechanism, which is too large to list.")
        sizes = attributes(self.joint)
        rows = q.reshape(len(q), mechanism.law.rows, -1)
        worst = 0.0
        for each in rows:
            row = np.broadcast_to(each, self.joint.shape)
            worst = max(worst, output_level(self.joint.p.reshape(-1, *sizes), row.reshape(-1, *sizes)))
        return worst


def output_level(p: Floats, row: Floats) -> float:
    """The SRLIP level of one output: p[s, x¹…x^m] and Q(y|·) of the same shape."""
    worst = 0.0
    for known in side_channels(p.ndim - 1):
        hidden = tuple(j + 1 for j in range(p.ndim - 1) if j not in known)
        worst = max(worst, largest_shift(p.sum(axis=hidden), (p * row).sum(axis=hidden)))
    return worst


def product_level(p: Floats, mechanisms: Sequence[Floats]) -> float:
    """The SRLIP level of Q¹ ⊗ … ⊗ Q^m (each [y^j, x^j]) for the table p[s, x¹, …, x^m].

    Given x^J the outputs y^J are independent of everything else, so they cancel: it is enough to send the attributes
    outside J through their mechanisms and to compare P(s | x^J, y^∖J) with P(s | x^J) [ours].
    """
    worst = 0.0
    for known in side_channels(p.ndim - 1):
        seen = p
        for j, matrix in enumerate(mechanisms):
            if j not in known:
                seen = np.moveaxis(np.tensordot(seen, matrix, axes=(j + 1, 1)), -1, j + 1)
        hidden = tuple(j + 1 for j in range(p.ndim - 1) if j not in known)
        worst = max(worst, largest_shift(np.broadcast_to(p.sum(axis=hidden, keepdims=True), seen.shape), seen))
    return worst


def largest_shift(prior: Floats, posterior: Floats) -> float:
    """max |log (posterior_s/Σ posterior) / (prior_s/Σ prior)| where the prior is positive and the output occurs."""
    total, mass = posterior.sum(axis=0, keepdims=True), prior.sum(axis=0, keepdims=True)
    counts = (prior > 0.0) & (total > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(np.log((posterior * mass) / (prior * total)))
    worst = float(np.where(counts, shift, 0.0).max(initial=0.0))
    return worst if math.isfinite(worst) else math.inf
