"""I(X;Y) of unary encodings (OUE, SUE) without listing their 2^a outputs.

Output bits are independent given x: bit x is 1 with probability `on`, the others with probability `off`. With
g = on/off and h = (1−on)/(1−off), P(y|x) = P₀(y)·(g if y_x else h), P₀ the law of all bits at `off`. So
I(X;Y) = on·log g + (1−on)·log h − E φ(T), φ(t) = (h + (g−h)t) log(h + (g−h)t), where T = Σ_x p_x y_x under P₀, whose
bits are independent: only the law of T is needed [ours].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats

if TYPE_CHECKING:
    from sfumato.alphabet import Ints, Real

LISTED = 2.0**20  # values of T up to which its law is listed exactly; equal masses count together
CELLS = 1 << 16  # of the grid beyond that


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A number in [low, high]; the two are equal up to rounding when outputs were counted exactly."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def unary_information(p: Floats, on: float, off: float, *, cells: int = CELLS) -> Enclosure:
    """I(X;Y) for the law p of x: by counting while T has few values, enclosed beyond.

    >>> found = unary_information(np.full(40, 1 / 40), 0.5, 0.25)
    >>> found.high - found.low < 1e-9
    True
    """
    p = p[p > 0.0]
    if len(p) < 2 or on == off:
        return Enclosure(0.0, 0.0)
    if off == 0.0:
        exact = on * float(-(p * np.log(p)).sum())  # the bit tells x, or nothing does
        return Enclosure(exact, exact)
    masses, times = np.unique(p, return_counts=True)
    g, h = on / off, (1 - on) / (1 - off)
    first = on * math.log(g) + ((1 - on) * math.log(h) if h > 0 else 0.0)
    if float(np.prod(times + 1.0)) <= LISTED:
        mean = _counted(masses, times, off, g, h)
        return Enclosure(first - mean, first - mean)
    low, high = binned(p, off, g, h, cells)
    most = float(-(p * np.log(p)).sum())  # I(X;Y) ≤ H(X): sharper than the grid where a bit tells nearly all
    return Enclosure(min(max(0.0, first - high), most), min(first - low, most))


def _phi(t: Real, g: float, h: float) -> Floats:
    level = h + (g - h) * t
    return np.asarray(np.where(level > 0, level * np.log(np.where(level > 0, level, 1.0)), 0.0))


def _counted(masses: Floats, times: Ints, off: float, g: float, h: float) -> float:
    """E φ(T) with T a sum of independent binomials: one outer sum per distinct mass."""
    values, weights = np.zeros(1), np.ones(1)
    for mass, n in zip(masses, times.tolist(), strict=True):
        k = np.arange(n + 1)
        chance = np.array([math.comb(n, i) for i in range(n + 1)], float) * off**k * (1 - off) ** (n - k)
        values = np.add.outer(values, mass * k).ravel()
        weights = np.multiply.outer(weights, chance).ravel()
    return float(weights @ _phi(values, g, h))


def binned(p: Floats, off: float, g: float, h: float, cells: int) -> tuple[float, float]:
    """Bounds on E φ(T), φ convex, from the law of T on a grid.

    Moving each mass p_x·bit to the two nearest grid points with the right mean spreads T, so E φ does not fall.
    From below: the same less half the largest φ'' on [0, 1] times the variance that the spreading added.
    """
    step = 1.0 / cells
    law = np.zeros(cells + len(p) + 2)
    law[0] = 1.0
    added = 0.0
    for mass in p:
        base = int(mass / step)
        part = mass / step - base
        moved = (1.0 - part) * np.roll(law, base) + part * np.roll(law, base + 1)
        law = (1.0 - off) * law + off * moved
        added += float(off * part * (1.0 - part) * step * step)
    high = float(law @ _phi(np.arange(len(law), dtype=float) * step, g, h))
    steepest = (g - h) ** 2 / min(g, h) if min(g, h) > 0.0 else math.inf
    return high - 0.5 * steepest * added, high
