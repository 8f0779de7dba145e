"""Odds of the input: local differential privacy, and its means by Rényi."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.optimise.arrays import log_or_minus_infinity, log_sum_exp
from sfumato.privacy.measures import Measure, Reading, live
from sfumato.privacy.rldp import RLDP
from sfumato.uncertainty import Exactly

# --- local differential privacy, about the input or about the secret under a known joint ------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LDP(Measure):
    """max log Q(y|x) / Q(y|x') over all y, x, x' [000, Def. 2]; with a joint, the same of P(y|s) [001, Def. 1].

    The corner (∞, ∞) of maximal (α, β)-leakage. A prior matters only through its support.

    >>> from sfumato.mechanism import Tabular
    >>> round(LDP().level(Tabular([[0.75, 0.25], [0.25, 0.75]])), 6)
    1.098612
    """

    joint: Joint | None = None

    @property
    def name(self) -> str:
        return "local differential privacy"

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


# --- rényi divergences between all pairs of columns of a channel ------------------------------------------------------


CAREFUL_BELOW = 1.01  # orders where Σ − 1 is formed by expm1 so that dividing by order − 1 keeps its digits
SAFE_EXPONENT = 600.0  # powers stay inside double range below this


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
    elif order < CAREFUL_BELOW:
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
    if order * spread < SAFE_EXPONENT:
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


# --- local Rényi differential privacy ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RenyiLDP(Measure):
    """max_{x, x'} D_a(Q_x ‖ Q_x') for an order a ∈ [1, ∞]  [004, (4) corrected: the sum is over y].

    a = 1 is the largest Kullback–Leibler divergence, a = ∞ local differential privacy.
    """

    order: float
    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return f"local Rényi differential privacy of order {self.order:g}"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        if not self.order >= 1:
            raise InputError("order must be 1 or more", value=self.order)
        seen = live(channel, prior)
        value, x, other = widest(pairwise(seen.q, self.order))
        return Reading(value, value, None, seen.witness(x, other))
