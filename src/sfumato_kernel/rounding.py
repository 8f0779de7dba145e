"""Outward rounding: decimals that are at or below, or at or above, the true value. The only inexact arithmetic here.

+, −, × and ÷ are rounded down or up as asked (the decimal module does so exactly); √, ln and exp are correctly
rounded to the nearest, so that the next decimal below or above is on the right side.
"""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 30
DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
UP = Context(prec=DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
ZERO, ONE, INFINITE = Decimal(0), Decimal(1), Decimal("Infinity")
ROOT_OF_PI = Decimal("1.7724538509055161")  # or a little less
CLOSE = 1e-10  # of a suggestion, whose error counts only squared
Number = int | float | Fraction | Decimal


def near(x: Number, way: Context) -> Decimal:
    """A decimal at or beyond x."""
    if isinstance(x, Fraction):
        return way.divide(Decimal(x.numerator), Decimal(x.denominator))
    return way.plus(Decimal(x))


def beyond(x: Decimal, way: Context) -> Decimal:
    """One decimal further, for a result that was rounded to the nearest."""
    return way.next_minus(x) if way is DOWN else way.next_plus(x)


def minus(x: Decimal) -> Decimal:
    """−x with every digit; the operator would round to the digits of a context that is not ours."""
    return x.copy_negate()


def other(way: Context) -> Context:
    return UP if way is DOWN else DOWN


def root(x: Number, way: Context) -> Decimal:
    end = near(x, way)
    return max(ZERO, beyond(way.sqrt(end), way)) if end else ZERO


def log(x: Number, way: Context) -> Decimal:
    """ln x, for x ≥ 0; −∞ at 0."""
    end = near(x, way)
    return beyond(way.ln(end), way) if end > 0 else minus(INFINITE)


def exp(x: Decimal, way: Context) -> Decimal:
    return max(ZERO, beyond(way.exp(x), way))


def scaled(x: Decimal, r: Fraction, way: Context) -> Decimal:
    """r·x, beyond it on the side asked for; x is already on the side that matters."""
    if x.is_infinite():
        return x if r > 0 else minus(x)
    return way.divide(way.multiply(x, Decimal(r.numerator)), Decimal(r.denominator))


def power(x: Decimal, r: Fraction, way: Context) -> Decimal:
    """x^r for x ≥ 0: e^{r·ln x}, a root where r = ½; 0^r is 0 for r > 0 and ∞ for r < 0."""
    if r == Fraction(1, 2):
        return root(x, way)
    if not x or x == INFINITE:
        return ZERO if bool(x) == (r < 0) else INFINITE
    return exp(scaled(log(x, way if r > 0 else other(way)), r, way), way)


def exp_below(epsilon: float) -> Fraction:
    """A rational at or below e^ε, and at most 2^1001: no ratio beyond 2^1000 is proved."""
    return Fraction(max(ONE, exp(Decimal(min(epsilon, 693.8)), DOWN)))


def level(ratio: Fraction | None) -> float:
    """ln of a ratio for people, rounded up; ∞ for None."""
    return float("inf") if ratio is None else 0.0 if ratio <= 1 else float(log(ratio, UP)) * (1 + 1e-15)


def chi_square_below(free: int, x: Decimal) -> Decimal:
    """At or below P(χ² of `free` degrees ≤ 2x) = x^a e^{−x}/Γ(a+1) · (1 + x/(a+1)·(1 + x/(a+2)·(…))), a = free/2."""
    a = at = Fraction(free, 2)
    below = ROOT_OF_PI if free % 2 else ONE
    while at > 0:  # Γ(a+1) = a(a−1)… · (1 or Γ(½) = √π)
        below, at = UP.multiply(below, near(at, UP)), at - 1
    total, term, k = ONE, ONE, 0
    while k < x or term > DOWN.multiply(total, Decimal("1e-30")):
        k += 1
        term = DOWN.divide(DOWN.multiply(term, x), near(a + k, UP))
        total = DOWN.add(total, term)
    front = DOWN.multiply(power(x, a, DOWN), exp(minus(x), DOWN))
    return DOWN.divide(DOWN.multiply(front, total), below)


def solved(f: Callable[[float], float], low: float, high: float, start: float = 0.0) -> float:
    """Where a decreasing f crosses zero, or the nearer end, by secants inside an interval. Floats only suggest."""
    before, at = start, min(start + 0.5, high)
    kept, value = f(before), f(at)
    for turn in range(100):
        low, high = (max(low, at), high) if value > 0 else (low, min(high, at))
        if not value or abs(at - before) < CLOSE or high - low < CLOSE:
            break
        step = at - value * (at - before) / (value - kept) if value != kept and turn % 7 < 6 else low
        before, at = at, step if low < step < high else (low + high) / 2
        kept, value = value, f(at)
    return at
