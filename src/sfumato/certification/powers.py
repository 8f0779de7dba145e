"""exp and log with proved error: only +, −, ×, ÷ and comparisons of floats are trusted, each rounded outward.

exp is reduced by multiples of log 2 and summed as a Taylor series of terms that are not negative. A logarithm is a
guess that exp then confirms: g ≥ log x as soon as a lower bound of e^g is at least x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.outward import down, down_any, up, up_any

LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 33 bits: a multiple by up to 2^20 is exact
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # log 2 − LN2_HIGH to half a unit
TERMS = 18
TAIL = 1e-19  # above 2·0.75^19 / 19!, what the series leaves out
LARGEST = 700.0  # exponents beyond it leave the range of floats
SLACKS = (2e-15, 1e-13, 1e-11)  # of a guessed logarithm, relative to 1 + |log|


def _reduced(t: Floats) -> tuple[Floats, Floats, Floats]:
    """k and floats below and above t − k·log 2, near [0, log 2)."""
    k = np.floor(t / math.log(2))
    part, rest = t - k * LN2_HIGH, k * LN2_LOW
    low = down_any(down_any(part) - up_any(up_any(rest)))
    high = up_any(up_any(part) - down_any(down_any(rest)))
    return k, low, high


def exp_up(t: Any) -> Floats:
    """At or above e^t; 0 exactly for t = −∞, ∞ beyond the range of floats."""
    t = np.asarray(t, float)
    k, _, r = _reduced(np.clip(t, -LARGEST, LARGEST))
    r = np.maximum(r, 0.0)
    total = np.full(r.shape, float(up(1 / math.factorial(TERMS))))
    for i in range(TERMS - 1, -1, -1):
        total = up(up(total * r) + up(1 / math.factorial(i)))
    value = np.ldexp(up(total + TAIL), k.astype(int))
    return np.where(np.isneginf(t), 0.0, np.where(t > LARGEST, np.inf, value))


def exp_down(t: Any) -> Floats:
    """At or below e^t, for |t| ≤ 700."""
    k, low, _ = _reduced(np.asarray(t, float))
    r = np.maximum(low, 0.0)
    total = np.full(r.shape, float(down(1 / math.factorial(TERMS))))
    for i in range(TERMS - 1, -1, -1):
        total = down(down(total * r) + down(1 / math.factorial(i)))
    total = np.where(low < 0, down_any(1 + np.minimum(low, 0.0)), total)  # e^r ≥ 1 + r
    return np.asarray(np.ldexp(total, k.astype(int)))


def log_above(x: Any) -> Floats:
    """At or above log x, for floats x > 0; −∞ for 0."""
    x = np.asarray(x, float)
    safe = np.where(x > 0, x, 1.0)
    guess = np.log(safe)
    for slack in SLACKS:
        tried = guess + slack * (1 + np.abs(guess))
        if np.all(exp_down(tried) >= safe):
            return np.where(x > 0, tried, -np.inf)
    raise ArithmeticError("a logarithm could not be bounded from above")


def log_below(x: Any) -> Floats:
    """At or below log x, for floats x > 0; −∞ for 0."""
    x = np.asarray(x, float)
    safe = np.where(x > 0, x, 1.0)
    guess = np.log(safe)
    for slack in SLACKS:
        tried = guess - slack * (1 + np.abs(guess))
        if np.all(exp_up(tried) <= safe):
            return np.where(x > 0, tried, -np.inf)
    raise ArithmeticError("a logarithm could not be bounded from below")


def log_sum_above(t: Floats) -> Floats:
    """At or above log Σ e^t over the first axis, for t with a finite entry in each column."""
    shift = t.max(axis=0)
    terms = exp_up(up_any(t - shift))
    total = terms.sum(axis=0) * (1 + (len(t) + 4) * 2.0**-52)  # summing n floats ≥ 0 loses at most n half-units
    return up_any(shift + log_above(total))
