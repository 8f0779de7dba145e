"""A conditional tilted by its multiplier, with everything that Newton's method asks of it.

The law of greatest mean in {R : Σ q²/R ≤ C} is R ∝ q/√(τ − v) (`tilting.greatest_mean`). Here it is a function of y =
log x, x = (τ − max v)/width: with d = (max v − v)/width, r = √(d + x), A = Σ q r, B = Σ q/r and D = Σ q/r³ it spends
C = AB, its law is q/(rB), and as A' = B/2, B' = −D/2 in x both C and the mean have slopes in closed form: C' = (B² −
AD)/2 and mean' = width·C'/B². So where several conditionals share a budget, all multipliers are found at once, in a
handful of steps, instead of a search within a search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Bools, Floats, Ints

STEPS = 25  # of Newton's method; about six are needed, and what has not settled is left to a slower search
CLOSE = 1e-7  # of a step, at least: the method is quadratic, so what is left is lost in rounding
FURTHEST = 2.0  # in y, of one step
STEEPEST, FLATTEST = -2.2, -1e-3  # of log(C − 1) in y: it lies between −2 and 0, rounding aside
LEAST = -60.0  # of y: beyond, the greatest value itself takes mass, which no multiplier says


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """A law at its multiplier; all but `law` have one number for each conditional."""

    law: Floats  # q/(rB)
    x: Floats
    A: Floats
    B: Floats
    D: Floats
    excess: Floats  # C − 1, without cancellation
    drop: Floats  # max v − mean, in units of the width
    steep: Floats  # slope of log(C − 1) in y

    @classmethod
    def at(cls, depth: Floats, q: Floats, y: Floats) -> Tilt:
        x, root_x = np.exp(y), np.exp(y / 2)
        square = depth + x[:, None]
        root = np.sqrt(square)
        rise, part = depth / (root + root_x[:, None]), q / root  # r − √x
        mean = np.einsum("iu,iu->i", q, rise)
        A, B, D = root_x + mean, part.sum(1), (part / square).sum(1)
        excess = np.maximum(np.einsum("iu,iu->i", part, (rise - mean[:, None]) ** 2) / A, 1e-300)
        steep = np.clip(x * (B * B - A * D) / (2 * excess), STEEPEST, FLATTEST)
        return cls(part / B[:, None], x, A, B, D, excess, np.einsum("iu,iu->i", part, depth) / B, steep)

    @property
    def grown(self) -> Floats:
        """Slope of C in y."""
        return self.excess * self.steep


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Values of many conditionals below their greatest, in units of their width; and a first multiplier for a C − 1."""

    top: Floats
    width: Floats
    depth: Floats
    q: Floats
    mean: Floats  # of the depth under q, and its variance
    variance: Floats
    flat: Bools  # whether all values are the same: it spends nothing, whatever its multiplier is

    @classmethod
    def of(cls, v: Floats, q: Floats) -> Side:
        top = v.max(1)
        depth = top[:, None] - v
        width = depth.max(1)
        flat = width <= 0
        width = np.where(flat, 1.0, width)
        depth = depth / width[:, None]
        mean = np.einsum("iu,iu->i", q, depth)
        return cls(top, width, depth, q, mean, np.einsum("iu,iu->i", q, (depth - mean[:, None]) ** 2), flat)

    @property
    def tilts(self) -> Bools:
        """Those that Newton's method can tilt: it knows nothing of mass that goes where q has none."""
        return np.asarray(self.flat | (self.variance > 0))

    def first(self, excess: Floats) -> Floats:
        """log x from C − 1 ≈ variance/4(x + mean)², which is exact for little slack."""
        far = np.sqrt(self.variance / (4 * np.maximum(excess, 1e-300)))
        return np.asarray(np.log(np.maximum(np.maximum(far - self.mean, 0.1 * far), 1e-20)))

    def tilt(self, y: Floats, at: Ints | Bools | slice) -> Tilt:
        return Tilt.at(self.depth[at], self.q[at], y)
