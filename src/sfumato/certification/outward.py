"""Outward rounding: floats that are provably below or above the true value, exp and log included."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.decimals import BIT
from sfumato.mechanism.law import excess_bits
from sfumato.tolerances import LEAST, UNIT

if TYPE_CHECKING:
    import numpy.typing as npt

    from sfumato.alphabet import Bools, Real
    from sfumato.mechanism.law import Weights

# --- floats that are provably below or above the true value -----------------------------------------------------------
# IEEE 754 makes +, −, ×, ÷ and √ exact to half a unit in the last place, so for numbers that are not negative one step
# up or down after each operation encloses the result. Nothing else (no exp, no cube root) is trusted here.


def up(x: Real) -> Floats:
    """At least one float above x, for x ≥ 0."""
    return np.asarray(x) * (1 + UNIT) + LEAST


def down(x: Real) -> Floats:
    """At least one float below x (but not below 0), for x ≥ 0."""
    return np.maximum(np.asarray(x) * (1 - UNIT) - LEAST, 0.0)


def up_any(x: Real) -> Floats:
    """One float above x, whatever its sign."""
    return np.asarray(np.nextafter(x, np.inf))


def down_any(x: Real) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf))


def float_range(x: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Floats below and above integers of any size; zero stays zero: an output that never occurs tells nothing."""
    near = np.asarray(x if isinstance(x, np.ndarray) else np.asarray(x, object), float)
    return down(near), np.where(near == 0, 0.0, up(near))


def rows_range(values: Weights) -> tuple[Floats, Floats]:
    """float_range of rows [y, …]; very large integers lose their last bits first, downwards and upwards, each row by
    one power of two of its own: the ratios within a row are enclosed all the same."""
    if np.asarray(values).dtype != object:
        return float_range(values)
    flat = np.asarray(values).reshape(len(values), -1)
    cut = [excess_bits(row) for row in flat]
    low = np.array([[w >> k for w in row] for row, k in zip(flat, cut, strict=True)], object)
    high = np.array([[-(-w >> k) for w in row] for row, k in zip(flat, cut, strict=True)], object)
    return float_range(low)[0].reshape(values.shape), float_range(high)[1].reshape(values.shape)


# Products of k pairs and their sum lose at most k/2 units of it, in any order, and LEAST for each; two units are for
# what comes after.


def dot_down(weights: Floats, values: Floats) -> Floats:
    """A lower bound of Σ weights·values over the last axis, for factors ≥ 0."""
    k = values.shape[-1]
    near = np.einsum("...k,...k->...", weights, values)
    return np.asarray(np.maximum(near * (1 - (k / 2 + 2) * UNIT) - k * LEAST, 0.0))


def dot_up(weights: Floats, values: Floats) -> Floats:
    """An upper bound of the same; where a weight is 0 its value counts nothing, whatever it is."""
    k = values.shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        values = values if np.isfinite(values).all() else np.where(weights > 0, values, 0.0)
        near = np.einsum("...k,...k->...", weights, values)
        return np.asarray(np.where(near > 0, near * (1 + (k / 2 + 2) * UNIT) + k * LEAST, near))


EXACT_DIGITS = 60  # of decimals that stand for exact numbers until they are rounded outward
RAISES = (4e-15, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6, 1e-4)  # by which a number is raised for a proof


def raised(near: Floats, holds: Callable[[Floats], tuple[Bools, Floats]]) -> Floats:
    """What is proved from numbers a little above `near`, by the first steps at which it `holds`; ∞ where none does."""
    proved = np.full(near.shape, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in RAISES:
            here, found = holds(near * (1 + step))
            proved = np.where(here & np.isfinite(found) & np.isinf(proved), found, proved)
            if not np.isinf(proved).any():
                break
    return proved


def log_up(ratio: Fraction | float) -> float:
    """The float next above log(ratio), or the one after it, and 0 exactly for ratio ≤ 1.

    A ratio next to 1 is all in what it exceeds 1 by: so many more digits are taken.
    """
    if ratio <= 1:
        return 0.0
    if isinstance(ratio, float) and math.isinf(ratio):
        return math.inf
    exact = Fraction(ratio)
    with localcontext() as context:
        small = exact.denominator.bit_length() - (exact.numerator - exact.denominator).bit_length()
        context.prec = EXACT_DIGITS + max(0, small) // 3
        log = (Decimal(exact.numerator) / Decimal(exact.denominator)).ln()
    return float(np.nextafter(float(log), np.inf))


# --- log, exp and powers, made of the trusted operations, so that their errors can be stated --------------------------
# _log: x = m·2^e, √½ ≤ m ≤ √2, log m = 2(z + z³/3 + …) with z = (m−1)/(m+1), |z| < 0.172; 13 terms leave 1e-20, and
# rounding costs at most 2^-49(1 + |log x|). _exp: y = k·log 2 + r, |r| < 0.35; 17 terms leave 1e-22, and the error in
# r and of the sum is at most 2^-49(1 + |y|), relative. Twice that is allowed for. A power x^r with r known to 2^-50 is
# then right to 2^-45(1 + |r|)(1 + |log x|), relative.


_SLIP = 16 * UNIT
_FAR = 690.0  # e to minus it is above LEAST


def _log(x: Floats) -> Floats:
    m, e = np.frexp(x)
    small = m < 0.7071
    m, e = np.where(small, 2 * m, m), np.where(small, e - 1, e)
    z = (m - 1) / (m + 1)
    square, total = z * z, np.zeros(z.shape)
    for k in range(12, -1, -1):
        total = total * square + 1 / (2 * k + 1)
    return np.asarray(e * BIT + 2 * z * total)


def _exp(y: Floats) -> Floats:
    k = np.rint(y / BIT)
    r, total = y - k * BIT, np.ones(y.shape)
    for j in range(17, 0, -1):
        total = 1 + total * r / j
    return np.asarray(np.ldexp(total, k.astype(int)))


def exp_range(y: Real, error: Real = 0.0) -> tuple[Floats, Floats]:
    """Bounds of e^{y'} for every y' within `error` of y."""
    y, error = np.broadcast_arrays(np.asarray(y, float), np.asarray(error, float))
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.clip(np.nan_to_num(y, nan=0.0), -_FAR, _FAR)
        near = _exp(middle)
        slip = _SLIP * (1 + np.abs(middle)) + 2 * error  # e^x ≤ 1 + 2x for x ≤ 1
        wild = ~(slip < 0.5)
        low = np.where((y < -_FAR) | wild | np.isnan(y), 0.0, near * (1 - slip))
        high = np.where((y > _FAR) | wild | np.isnan(y), np.inf, near * (1 + slip))
    return down(low), up(high)


def log_near(x: Real) -> tuple[Floats, Floats]:
    """log x and a bound of its error, for x > 0; −∞ at 0."""
    x = np.asarray(x, float)
    positive = (x > LEAST) & np.isfinite(x)
    near = np.where(positive, _log(np.where(positive, x, 1.0)), np.where(x > 1, np.inf, -np.inf))
    return near, np.where(positive, _SLIP * (1 + np.abs(near)), 0.0)


def power(x: Real, r: Real) -> tuple[Floats, Floats]:
    """Bounds of x^r for x ≥ 0 and every exponent within 2^-50 (relative) of r; 0^r is 0 for r > 0 and ∞ for r < 0."""
    x, r = np.broadcast_arrays(np.asarray(x, float), np.asarray(r, float))
    log, _ = log_near(x)
    finite = np.isfinite(log)
    safe = np.where(finite, log, 0.0)
    low, high = exp_range(r * safe, 2 * _SLIP * np.abs(r) * (1 + np.abs(safe)))
    end = np.where(r == 0, 1.0, np.where((log > 0) == (r > 0), np.inf, 0.0))  # for the infinite logs
    # 0 < x ≤ LEAST lies between 0 and e^-690.
    tiny = ~finite & (x > 0) & (x < 1)
    if not tiny.any():
        return np.where(finite, low, end), np.where(finite, high, end)
    least, most = exp_range(-_FAR * r)
    low = np.where(finite, low, np.where(tiny & (r < 0), least, end))
    return low, np.where(finite, high, np.where(tiny & (r > 0), most, end))


def log_above(x: Real) -> Floats:
    """At or above log x, for floats x ≥ 0; −∞ for 0, and ∞ for what is no number."""
    x, (near, error) = np.asarray(x), log_near(x)
    small = np.where(x > 0, -_FAR, np.where(np.isnan(x), np.inf, -np.inf))
    return np.where(x > LEAST, up_any(near + error), small)


def log_below(x: Real) -> Floats:
    """At or below log x, for floats x ≥ 0; −∞ for 0."""
    near, error = log_near(x)
    return np.where(np.asarray(x) > LEAST, down_any(near - error), -np.inf)


def log_sum_above(t: Floats) -> Floats:
    """At or above log Σ e^t over the first axis, for t with a finite entry in each column."""
    shift = t.max(axis=0)
    terms = exp_range(up_any(t - shift))[1]
    total = terms.sum(axis=0) * (1 + (len(t) + 4) * UNIT)  # summing n floats ≥ 0 loses at most n half-units
    return up_any(shift + log_above(total))
