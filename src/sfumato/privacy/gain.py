"""Gains in guessing: g-leakage, and its cases min-entropy, maximal and pointwise maximal leakage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.beliefs import concentrated, shift_level
from sfumato.privacy.ldp import LDP
from sfumato.privacy.measures import Measure, Reading, live
from sfumato.uncertainty import UncertaintySet

# --- g-leakage: the gain of an adversary who is paid g[w, x] for the guess w when the input is x ----------------------


STARTS = 8
ROUNDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class GainLeakage(Measure):
    """log [Σ_y max_w Σ_x p_x Q(y|x) g(w, x) / max_w Σ_x p_x g(w, x)] for gains g ≥ 0.

    The worst prior maximises a convex function over a polytope: the value is a local search's, the bound is maximal
    leakage, which no nonnegative gain exceeds.
    """

    gains: Floats = field(repr=False)  # [w, x]
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "g-leakage"

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
    from scipy.optimize import linprog

    n = q.shape[1]
    rng = np.random.default_rng(0)
    best, best_p = 0.0, np.full(n, 1 / n)
    for start in range(STARTS):
        p = np.full(n, 1 / n) if start == 0 else rng.dirichlet(np.ones(n))
        reached = -1.0
        for _ in range(ROUNDS):
            level = _level(q, gains, p)
            if level <= reached + 1e-13:
                break
            reached = level
            if level > best:
                best, best_p = level, p
            guess = (gains @ (q * p).T).argmax(axis=0)
            worth = (gains[guess] * q).sum(axis=0)
            solved = linprog(-worth, A_ub=gains, b_ub=np.ones(len(gains)), bounds=(0, None), method="highs")
            if solved.status != 0:
                break
            p = np.maximum(solved.x, 0) / np.maximum(solved.x, 0).sum()
    return best, best_p


# --- min-entropy (Bayes) leakage: the gain in guessing X in one try ---------------------------------------------------


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


# --- the gain in guessing any function of X ---------------------------------------------------------------------------


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


# --- the gain in guessing any function of X from the worst output -----------------------------------------------------


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


# ----------------------------------------------------------------------------------------------------------------------
# Pointwise maximal leakage about the secret, how much an output can raise the belief in any value of it.


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
