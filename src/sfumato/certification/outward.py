"""Outward rounding: floats that are provably below or above the true value.

IEEE 754 makes +, −, ×, ÷ and √ exact to half a unit in the last place, so for numbers that are not negative one
step up or down after each operation encloses the result. Nothing else (no exp, no cube root) is trusted here.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.alphabet import Floats

_STEP = 2.0**-52
_TINY = 1e-300


def up(x: Any) -> Floats:
    """At least one float above x, for x ≥ 0."""
    return np.asarray(x) * (1 + _STEP) + _TINY


def down(x: Any) -> Floats:
    """At least one float below x (but not below 0), for x ≥ 0."""
    return np.maximum(np.asarray(x) * (1 - _STEP) - _TINY, 0.0)


def up_any(x: Any) -> Floats:
    """One float above x, whatever its sign."""
    return np.asarray(np.nextafter(x, np.inf))


def down_any(x: Any) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf))


def float_range(x: Any) -> tuple[Floats, Floats]:
    """Floats below and above integers of any size."""
    near = np.asarray(np.asarray(x, object), float)
    return down(near), up(near)


def dot_down(weights: Floats, values: Floats) -> Floats:
    """A lower bound of Σ weights·values over the last axis, for factors ≥ 0."""
    total = np.zeros(np.broadcast_shapes(weights.shape, values.shape)[:-1])
    for k in range(values.shape[-1]):
        total = down(total + down(weights[..., k] * values[..., k]))
    return total


def log_up(ratio: Fraction | float) -> float:
    """A float at or above log(ratio), and 0 exactly for ratio ≤ 1."""
    if ratio <= 1:
        return 0.0
    if isinstance(ratio, float) and math.isinf(ratio):
        return math.inf
    exact = Fraction(ratio)
    with localcontext() as context:
        context.prec = 60
        log = (Decimal(exact.numerator) / Decimal(exact.denominator)).ln()
    return float(np.nextafter(float(log), np.inf))
