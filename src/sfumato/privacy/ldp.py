"""Odds: local differential privacy about the input, its means by Rényi, and RLDP about the secret, over a set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.mechanism.subset_laws import subset_ratio, subset_rows
from sfumato.optimise.arrays import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.measures import AnyMeasure, Measure, Reading, Witness, live
from sfumato.tolerances import ALIKE, EXPONENT, NEAR_ONE, SLIP, SUBSETS
from sfumato.uncertainty import Anything, Exactly, UncertaintySet
from sfumato.uncertainty.sets import best_pairs, quotient, worst_first

if TYPE_CHECKING:
    from sfumato.alphabet import Ints
    from sfumato.mechanism.law import Weight, Weights


@dataclass(frozen=True, slots=True, eq=False)
class LDP(Measure):
    """max log Q(y|x) / Q(y|x') over all y, x, x' [000, Def. 2]; with a joint, the same of P(y|s) [001, Def. 1].

    The corner (∞, ∞) of maximal (α, β)-leakage. A prior matters only through its support.

    >>> from sfumato.mechanism import Tabular
    >>> round(LDP().level(Tabular([[0.75, 0.25], [0.25, 0.75]])), 6)
    1.098612
    """

    joint: Joint | None = None
    title: ClassVar[str] = "local differential privacy"

    @property
    def about(self) -> Joint | None:
        return self.joint

    def level(self, mechanism: Mechanism) -> float:
        """From the law's contrasts, for laws of any size."""
        if self.joint is not None:
            return RLDP(Exactly(self.joint)).level(mechanism)
        top, bottom, _ = mechanism.law.input_extremes()
        return math.log(top / bottom) if bottom > 0 else math.inf

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        top, low = seen.q.max(axis=1), seen.q.min(axis=1)
        with np.errstate(divide="ignore"):
            ratios = np.log(top) - np.log(low)
        y = int(np.argmax(ratios))
        witness = seen.witness(int(np.argmax(seen.q[y])), int(np.argmin(seen.q[y])), y)
        return Reading(float(ratios[y]), float(ratios[y]), None, witness)


# --- Rényi divergences between all pairs of columns of a channel ------------------------------------------------------


def pairwise(channel: Floats, order: float) -> Floats:
    """D_order(Q_x ‖ Q_x') as a matrix [x, x'], orders 1 ≤ order ≤ ∞; +∞ where the second column misses an output.

    D_a(P‖R) = 1/(a−1) log Σ_y P^a R^{1−a}; Kullback–Leibler at 1, log max P/R at ∞. Zero columns of the sum (P = 0)
    count nothing whatever R is.
    """
    logs = log_or_minus_infinity(channel)
    missing = ((channel > 0).astype(float).T @ (channel == 0).astype(float)) > 0
    floor = np.where(channel > 0, logs, 0.0)
    if order == 1:
        d = (channel * floor).sum(axis=0)[:, None] - channel.T @ floor
    elif np.isinf(order):
        d = np.array([(logs - column[:, None]).max(axis=0) for column in floor.T]).T
    elif order < 1 + NEAR_ONE:
        d = np.array([_careful(channel, floor, column, order) for column in floor.T]).T
    else:
        d = _power(logs, floor, order)
    return np.where(missing, np.inf, np.maximum(d, 0.0))


def _careful(channel: Floats, floor: Floats, column: Floats, order: float) -> Floats:
    ratio = (order - 1) * (floor - column[:, None])
    with np.errstate(over="ignore"):
        return np.asarray(np.log1p((channel * np.expm1(ratio)).sum(axis=0)) / (order - 1))


def _power(logs: Floats, floor: Floats, order: float) -> Floats:
    """By one matrix product when the powers fit, by log-sum-exp when they do not."""
    centre = floor.max(axis=1, keepdims=True)
    spread = float(np.max(centre - floor)) if floor.size else 0.0
    if order * spread < EXPONENT:
        top = np.exp(order * (logs - centre))
        bottom = np.exp((1 - order) * (floor - centre) + centre)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(top.T @ bottom) / (order - 1))
    columns = [log_sum_exp(order * logs + (1 - order) * column[:, None], axis=0) for column in floor.T]
    return np.array(columns).T / (order - 1)


def widest(divergences: Floats) -> tuple[float, int, int]:
    """The largest entry and its pair (x, x')."""
    x, other = np.unravel_index(int(np.argmax(divergences)), divergences.shape)
    return float(divergences[x, other]), int(x), int(other)


@dataclass(frozen=True, slots=True, eq=False)
class RenyiLDP(AnyMeasure):
    """max_{x, x'} D_a(Q_x ‖ Q_x') for an order a ∈ [1, ∞]  [004, (4) corrected: the sum is over y].

    a = 1 is the largest Kullback–Leibler divergence, a = ∞ local differential privacy.
    """

    order: float
    title: ClassVar[str] = "local Rényi differential privacy of order {0.order:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if not self.order >= 1:
            raise InputError("order must be 1 or more", value=self.order)
        seen = live(channel, prior)
        value, x, other = widest(pairwise(seen.q, self.order))
        return Reading(value, value, None, seen.witness(x, other))


# --- robust local differential privacy, about the secret and for every distribution in a set --------------------------


OUTSTANDING = 64  # atoms of a large layout compared on each side


@dataclass(frozen=True, slots=True, eq=False)
class RLDP:
    """max log P(y|s₁) / P(y|s₂) over y, s₁ ≠ s₂ and P in F [000, Def. 1].

    What one secret alone allows bounds every pair; only pairs whose bound exceeds the best ratio found so far are
    given their exact worst case over F. Secrets that F says cannot occur are not compared.
    """

    within: UncertaintySet

    def level(self, mechanism: Mechanism) -> float:
        worst = self.worst(mechanism)
        return math.log(worst) if math.isfinite(worst) else math.inf

    def worst(self, mechanism: Mechanism) -> float:
        """e^level."""
        secrets = self.within.possible
        if len(secrets) < 2:
            return 1.0
        found = 1.0
        for contrast in mechanism.law.contrasts():
            match contrast:
                case Rows():
                    found = max(found, self._rows(contrast.floats, secrets, found))
                case Spikes():
                    found = max(found, self._spikes(contrast, secrets, found))
                case Subsets():
                    found = max(found, self._subsets(contrast, secrets, found))
                case Atoms() if isinstance(self.within, Exactly):
                    joint = self.within.joint
                    top, bottom, _, _ = mechanism.law.secret_laws(joint.useful_given_secret, joint.p_secret)
                    found = max(found, float(quotient(top, bottom).max()))
                case Atoms():
                    found = max(found, self._atoms(contrast, secrets, found))
        return found

    def reading(self, mechanism: Mechanism, prior: object = None) -> Reading:
        """The level with an output and two secrets that attain it, found among listed outputs.

        The bound is what each secret alone allows over F; `certify` proves a tighter one from the integers.
        """
        if prior is not None:
            raise InputError("RLDP holds for every distribution in its set; it takes no prior.")
        value, secrets = self.level(mechanism), self.within.possible
        if len(secrets) < 2 or math.isinf(value) or mechanism.matrix is None:
            return Reading(value, math.inf if mechanism.matrix is None else value)
        v = mechanism.matrix.reshape(-1, mechanism.law.rows, mechanism.law.useful)
        v = np.broadcast_to(v, (len(v), *self.within.joint.shape))
        bounds = self._alone(v, secrets)
        order = np.argsort(-bounds.ravel(), kind="stable")
        best = (0.0, Witness())
        for k in order:
            if bounds.ravel()[k] <= best[0] or best[0] >= math.exp(value) * (1 - ALIKE):
                break
            y, i, j = (int(x) for x in np.unravel_index(k, bounds.shape))
            s1, s2 = int(secrets[i]), int(secrets[j])
            best = max(best, (self.within.worst(v[y], s1, s2).ratio, Witness(s1, s2, y)), key=lambda b: b[0])
        return Reading(value, max(value, math.log(float(bounds.max()))), None, best[1])

    def _alone(self, v: Floats, secrets: Ints) -> Floats:
        """[y, i, j]: what the ranges of two secrets allow of their ratio for rows v[y, s, u]; 0 of one with itself."""
        low, high = self.within.ranges(v)
        bounds = quotient(high[:, secrets, None], low[:, None, secrets])
        bounds[:, np.arange(len(secrets)), np.arange(len(secrets))] = 0
        return bounds

    def _rows(self, values: Weights, secrets: Ints, found: float) -> float:
        shape = (len(values), *self.within.joint.shape)
        v = np.broadcast_to(np.asarray(values, float), shape)
        bounds = self._alone(v, secrets)
        if isinstance(self.within, Exactly | Anything):
            return float(bounds.max())

        def exact(y: Ints, i: Ints, j: Ints) -> Floats:
            s1, s2 = secrets[i], secrets[j]
            return self.within.ratios(v[y, s1], v[y, s2], s1, s2)

        return _greatest(bounds, exact, found)

    def _spikes(self, c: Spikes, secrets: Ints, found: float) -> float:
        low, high = self.within.spikes()
        shape = low.shape
        first = _spread(c.base_first, c.peak_first, shape)
        second = _spread(c.base_second, c.peak_second, shape)
        top = np.maximum(*(first[0] + (first[1] - first[0]) * r for r in (low, high)))[secrets]
        bottom = np.minimum(*(second[0] + (second[1] - second[0]) * r for r in (low, high)))[secrets]
        bounds = best_pairs(top, bottom)
        if isinstance(self.within, Exactly | Anything):
            return float(bounds.max())
        for u in np.argsort(-bounds, kind="stable"):
            if bounds[u] <= found * (1 + SLIP):
                break
            found = max(found, self._spike_pairs(int(u), first, second, top[:, u], bottom[:, u], secrets, found))
        return found

    def _spike_pairs(
        self, u: int, first: Weight, second: Weight, top: Floats, bottom: Floats, secrets: Ints, found: float
    ) -> float:
        """The exact worst case of the output that peaks at u over pairs of secrets whose bound exceeds `found`."""
        bounds = quotient(top[:, None], bottom[None, :])
        np.fill_diagonal(bounds, 0)
        at = np.arange(self.within.joint.useful.size) == u

        def exact(i: Ints, j: Ints) -> Floats:
            s1, s2 = secrets[i], secrets[j]
            v1 = np.where(at, first[1][s1, u, None], first[0][s1, u, None])
            v2 = np.where(at, second[1][s2, u, None], second[0][s2, u, None])
            return self.within.ratios(v1, v2, s1, s2)

        return _greatest(bounds, exact, found)

    def _atoms(self, c: Atoms, secrets: Ints, found: float) -> float:
        """Any two atoms of different secrets, as if some row held both; over a ball, those that stand out most."""
        listed = np.isin(c.secret, secrets)
        v, s = np.asarray(c.heights[listed], float), c.secret[listed]
        low, high = self.within.ranges_of(v, s)
        if not isinstance(self.within, Anything):
            i, j = np.argsort(-high)[:OUTSTANDING], np.argsort(low)[:OUTSTANDING]
            i, j = (x.ravel() for x in np.meshgrid(i, j, indexing="ij"))
            i, j = i[s[i] != s[j]], j[s[i] != s[j]]
            return max([found, *self.within.ratios(v[i], v[j], s[i], s[j])]) if len(i) else found
        size = self.within.joint.secret.size
        top, bottom = np.zeros((size, 1)), np.full((size, 1), np.inf)
        np.maximum.at(top[:, 0], s, high)
        np.minimum.at(bottom[:, 0], s, low)
        return max(found, float(best_pairs(top[secrets], bottom[secrets])[0]))

    def _subsets(self, c: Subsets, secrets: Ints, found: float) -> float:
        low, high = float(c.low), float(c.high)
        if isinstance(self.within, Anything):
            return high / low if low > 0 else math.inf
        k = self.within.joint.useful.size
        if k <= SUBSETS:
            return max(found, self._rows(subset_rows(c, k), secrets, found))
        return max(found, subset_bound(self.within, low, high))


def _greatest(bounds: Floats, exact: Callable[..., Floats], found: float) -> float:
    """The greatest exact value, or `found`: asked for where bounds are greatest, while these exceed what is known."""

    def enough() -> float:
        return found * (1 + SLIP)

    for part in worst_first(bounds.ravel(), enough):
        found = max(found, float(exact(*np.unravel_index(part, bounds.shape)).max()))
    return found


def _spread(base: Weight, peak: Weight, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    return np.broadcast_to(np.asarray(base, float), shape), np.broadcast_to(np.asarray(peak, float), shape)


def subset_bound(within: UncertaintySet, low: float, high: float) -> float:
    """An upper bound of the worst ratio over all subsets of many useful values, each pair of secrets taken apart."""
    least, most = within.spikes()
    if low <= 0:
        return math.inf
    pairs = itertools.permutations(within.possible, 2)
    return max([1.0, *(subset_ratio(most[s1], least[s2], low, high, high / low) for s1, s2 in pairs)])
