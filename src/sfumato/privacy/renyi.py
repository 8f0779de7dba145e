"""Rényi divergences between all pairs of columns of a channel."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.logs import log_or_minus_infinity, log_sum_exp

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
