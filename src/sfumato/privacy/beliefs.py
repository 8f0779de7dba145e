"""Beliefs and guesses: how far an output moves beliefs in the secret (LIP, PML), beside what else is known (SRLIP), and
what it gains in guessing: g-leakage, and its cases min-entropy, maximal and pointwise maximal leakage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.ldp import LDP
from sfumato.privacy.measures import STARTS, AnyMeasure, Measure, Reading, live
from sfumato.tolerances import HALVINGS
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.polytope import least_cost
from sfumato.uncertainty.sets import quotient
from sfumato.uncertainty.shifts import worst_shifts


class Beliefs(Measure):
    """How far an output moves beliefs in the secret: a promise at one distribution, or over a χ² ball."""

    __slots__ = ()
    over: Joint | UncertaintySet | None
    below: ClassVar[bool] = True  # whether beliefs that fall count too

    @property
    def about(self) -> Joint | None:
        return self.over if isinstance(self.over, Joint) or self.over is None else self.over.joint

    def level(self, mechanism: Mechanism) -> float:
        """At the prior of the joint, for laws of any size; over a ball, for those that can be listed."""
        return LDP().level(mechanism) if self.over is None else shift_level(mechanism, self.over, below=self.below)

    def reading(self, mechanism: Mechanism, prior: Joint | npt.ArrayLike | None = None) -> Reading:
        """At the prior of the joint unless another is given."""
        return Measure.reading(self, mechanism, self.about if prior is None else prior)


@dataclass(frozen=True, slots=True, eq=False)
class LIP(Beliefs):
    """max |log P(y|s) / P(y)| over y and s [001, Def. 2], and over P when a ball is given instead of a joint.

    ε-LDP ⇒ ε-LIP ⇒ 2ε-LDP about the secret. Without a joint it is about the input, at the worst prior: one that
    concentrates on the least likely input, where it is LDP.
    """

    joint: Joint | UncertaintySet | None = None
    title: ClassVar[str] = "local information privacy"

    @property
    def over(self) -> Joint | UncertaintySet | None:  # type: ignore[override]
        return self.joint

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return moved(channel, prior, below=True)


def moved(channel: npt.ArrayLike, prior: npt.ArrayLike | None, *, below: bool) -> Reading:
    """The greatest log Q(y|x) / P(y), and with `below` of its inverse; without a prior LDP, with the limit prior at the
    input that makes the telling output rarest."""
    if prior is None:
        worst = LDP().of(channel)
        at = np.zeros(np.asarray(channel).shape[1])
        at[worst.witness.other] = 1
        return Reading(worst.value, worst.bound, at, worst.witness)
    seen = live(channel, prior)
    with np.errstate(divide="ignore"):
        moves = np.log(seen.q) - np.log(seen.q @ seen.p)[:, None]
    moves = np.abs(moves) if below else moves
    y, x = np.unravel_index(int(np.argmax(moves)), moves.shape)
    value = max(0.0, float(moves[y, x]))
    return Reading(value, value, seen.on_inputs(seen.p), seen.witness(int(x), None, int(y)))


def shift_level(mechanism: Mechanism, over: Joint | UncertaintySet, *, below: bool = True) -> float:
    """The greatest log P(y|s)/P(y), and with `below` log P(y)/P(y|s), at a joint or over a ball."""
    if isinstance(over, ChiSquareBall) and over.radius > 0:
        return _over_ball(mechanism, over, below)
    if not isinstance(over, Joint | ChiSquareBall | Exactly):
        raise InputError(f"beliefs over a set of kind {over.kind!r} are not known", next="Give a joint or a χ² ball.")
    joint = over if isinstance(over, Joint) else over.joint
    top, bottom, mean, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
    ratio = quotient(top, mean)
    return _logarithm(np.maximum(ratio, quotient(mean, bottom)) if below else ratio)


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
    return _logarithm(worst_shifts(ball, rows[y], s, above).ratio)


def _logarithm(ratios: Floats) -> float:
    worst = max(1.0, float(ratios.max()))
    return math.log(worst) if math.isfinite(worst) else math.inf


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


# --- g-leakage: the gain of an adversary who is paid g[w, x] for the guess w when the input is x ----------------------


@dataclass(frozen=True, slots=True, eq=False)
class GainLeakage(AnyMeasure):
    """log [Σ_y max_w Σ_x p_x Q(y|x) g(w, x) / max_w Σ_x p_x g(w, x)] for gains g ≥ 0.

    The worst prior maximises a convex function over a polytope: the value is a local search's, the bound is maximal
    leakage, which no nonnegative gain exceeds.
    """

    gains: Floats = field(repr=False)  # [w, x]
    title: ClassVar[str] = "g-leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        gains = np.asarray(self.gains, dtype=np.float64)[:, seen.inputs]
        if (gains < 0).any() or not gains.any(axis=0).all():
            raise InputError(
                "gains must be zero or more, and every input must be worth something to some guess."
            )
        if prior is None:
            value, p = _worst(seen.q, gains)
            bound = MaximalLeakage().of(seen.q).value
            return Reading(min(value, bound), bound, seen.on_inputs(p))
        value = _level(seen.q, gains, seen.p)
        return Reading(value, value, seen.on_inputs(seen.p))


def _level(q: Floats, gains: Floats, p: Floats) -> float:
    after = float((gains @ (q * p).T).max(axis=0).sum())
    return max(0.0, float(np.log(after / (gains @ p).max())))


def _worst(q: Floats, gains: Floats) -> tuple[float, Floats]:
    """Alternate: best guesses for a prior, then the best prior for those guesses (a linear programme with G p ≤ 1)."""
    n = q.shape[1]
    rng = np.random.default_rng(0)
    best, best_p = 0.0, np.full(n, 1 / n)
    for start in range(STARTS):
        p = np.full(n, 1 / n) if start == 0 else rng.dirichlet(np.ones(n))
        reached = -1.0
        for _ in range(HALVINGS):
            level = _level(q, gains, p)
            if level <= reached + 1e-13:
                break
            reached = level
            if level > best:
                best, best_p = level, p
            guess = (gains @ (q * p).T).argmax(axis=0)
            worth = (gains[guess] * q).sum(axis=0)
            if (x := least_cost(-worth, gains, np.ones(len(gains))).x) is None:
                break
            p = np.maximum(x, 0) / np.maximum(x, 0).sum()
    return best, best_p


@dataclass(frozen=True, slots=True, eq=False)
class BayesLeakage(AnyMeasure):
    """log [Σ_y max_x p_x Q(y|x) / max_x p_x]. The uniform prior is worst, and gives maximal leakage."""
    title: ClassVar[str] = "min-entropy leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if prior is None:
            return MaximalLeakage().of(channel)
        seen = live(channel, prior)
        after = float((seen.q * seen.p).max(axis=1).sum())
        value = max(0.0, float(np.log(after / seen.p.max())))
        return Reading(value, value, seen.on_inputs(seen.p))


@dataclass(frozen=True, slots=True, eq=False)
class MaximalLeakage(AnyMeasure):
    """log Σ_y max_x Q(y|x): maximal (∞, 1)-leakage. The uniform prior attains it for guessing X itself.

    A prior matters only through its support.
    """

    title: ClassVar[str] = "maximal leakage"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        value = max(0.0, float(np.log(seen.q.max(axis=1).sum())))
        n = seen.inputs.size
        return Reading(value, value, seen.on_inputs(np.full(n, 1 / n)))


@dataclass(frozen=True, slots=True, eq=False)
class PointwiseLeakage(AnyMeasure):
    """max_y ℓ(y), ℓ(y) = log max_x Q(y|x) / P(y), x in the support of the prior. The worst prior makes it LDP.

    The mean of e^{ℓ(Y)} is e to the maximal leakage: `profile` gives ℓ for every output.
    """

    title: ClassVar[str] = "pointwise maximal leakage"

    def profile(self, channel: npt.ArrayLike, prior: npt.ArrayLike) -> Floats:
        """ℓ(y) for every output, −∞ for outputs that never occur."""
        seen = live(channel, prior)
        levels = np.full(seen.shape[0], -np.inf)
        levels[seen.outputs] = np.log(seen.q.max(axis=1)) - np.log(seen.q @ seen.p)
        return levels

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return moved(channel, prior, below=False)


@dataclass(frozen=True, slots=True, eq=False)
class PML(Beliefs):
    """max log P(y|s) / P(y) over y and s at a joint, and over P when a χ² ball is given instead: the upper half of LIP.

    ε-RLDP ⇒ ε-LIP ⇒ ε-PML, and the maximal leakage about S is at most ε. Beliefs may fall without a limit: an output
    may rule a value out. Without a joint it is about the input, at the worst prior, where it is LDP.
    """

    over: Joint | UncertaintySet | None = None
    below: ClassVar[bool] = False
    title: ClassVar[str] = "pointwise maximal leakage about the secret"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        return PointwiseLeakage().of(channel, prior)
