"""ChiSquareBall: every distribution a χ² test would not reject."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.uncertainty.base import Extreme, Worst
from sfumato.uncertainty.exactly import quotient

HALVINGS = 90  # of the bracket of the multiplier, in its logarithm: down to the last float
SPLITS = 33  # places where the split of the slack between two secrets is first tried
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class ChiSquareBall:
    """F = {P : Σ (P̂ − P)² / P ≤ B}, the confidence set of the χ² test [000, (9), corrected; 002, (2)].

    B = F⁻¹_{|X|−1}(confidence) / n. The coverage is asymptotic: at small n it falls short of the confidence.

    >>> joint = Joint.from_counts([[7, 10], [26, 57]])
    >>> round(math.log1p(ChiSquareBall(joint, confidence=0.95).radius), 6)
    0.075244
    """

    joint: Joint
    radius: float  # B; Σ P̂²/P ≤ 1 + B
    confidence: float | None
    kind: ClassVar[str] = "chi-square-ball"

    def __init__(self, joint: Joint, *, confidence: float | None = None, radius: float | None = None) -> None:
        if radius is None:
            level = 0.95 if confidence is None else confidence
            if not 0 < level < 1:
                raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence!r}.")
            if joint.n is None:
                raise InputError("a confidence ball needs to know how many rows the table was counted from (joint.n).")
            from scipy.special import chdtri

            radius = float(chdtri(joint.p.size - 1, 1 - level)) / joint.n if joint.p.size > 1 else 0.0
            confidence = level
        if not (math.isfinite(radius) and radius >= 0):
            raise InputError(f"radius must be finite and not negative, got {radius!r}.")
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "confidence", confidence)

    @property
    def slack(self) -> float:
        """b = √(1+B) − 1, which all conditionals share: Σ_s P̂_s (√(Σ_u q_u²/R_u) − 1) ≤ b [002, Thm 3]."""
        return self.radius / (math.sqrt(1 + self.radius) + 1)

    def spread(self, slack: Any = None) -> Floats:
        """C_s = e^{B_s} = (1 + b/P̂_s)²: given s, R lies in {R : Σ q²/R ≤ C_s} [000, Thm 1]; ∞ where P̂_s = 0."""
        b = self.slack if slack is None else slack
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(b > 0, (1 + b / self.joint.p_secret) ** 2, 1.0))

    def spikes(self) -> tuple[Floats, Floats]:
        return mass_range(self.joint.useful_given_secret, self.spread()[:, None])

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        q, spread = self.joint.useful_given_secret, self.spread()
        shape = np.broadcast_shapes(rows.shape, q.shape)
        v, q, c = np.broadcast_to(rows, shape), np.broadcast_to(q, shape), np.broadcast_to(spread, shape[:-1])
        return -greatest_mean(-v, q, c)[0], greatest_mean(v, q, c)[0]

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        ratio, split = self._best_split(row[None, s1], row[None, s2], np.array([s1]), np.array([s2]))
        q, b, ps = self.joint.useful_given_secret, self.slack, self.joint.p_secret
        c1, c2 = (_spread(b * t, ps[s]) for t, s in ((split[0], s1), (1 - split[0], s2)))
        r1 = greatest_mean(row[None, s1], q[None, s1], np.array([c1]))[1][0]
        r2 = greatest_mean(-row[None, s2], q[None, s2], np.array([c2]))[1][0]
        return Worst(float(ratio[0]), r1, r2)

    def ratios(self, first: Floats, second: Floats, s1: Any, s2: Any) -> Floats:
        return self._best_split(first, second, s1, s2)[0]

    def _best_split(self, first: Floats, second: Floats, s1: Any, s2: Any) -> tuple[Floats, Floats]:
        """Greatest ratio over how the slack is split; the ratio is quasi-concave in the split, so a grid and a
        golden section find it."""
        q, ps, b = self.joint.useful_given_secret, self.joint.p_secret, self.slack

        def ratio(t: Floats) -> Floats:
            top = greatest_mean(first, q[s1], _spread(b * t, ps[s1]))[0]
            return quotient(top, -greatest_mean(-second, q[s2], _spread(b * (1 - t), ps[s2]))[0])

        grid = np.sin(np.linspace(0, np.pi / 2, SPLITS)) ** 2
        values = np.stack([ratio(np.full(len(first), t)) for t in grid])
        best = values.argmax(0)
        low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, SPLITS - 1)]
        top, at = values.max(0), grid[best]
        for _ in range(40):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            a, c = ratio(left), ratio(right)
            for value, t in ((a, left), (c, right)):
                better = value > top
                top, at = np.where(better, value, top), np.where(better, t, at)
            low, high = np.where(a < c, left, low), np.where(a < c, high, right)
        return top, at

    def support(self, c: Floats) -> Extreme:
        value, r = greatest_mean(c.reshape(1, -1), self.joint.p.reshape(1, -1), np.array([1 + self.radius]))
        return Extreme(float(value[0]), r[0].reshape(c.shape))


def _spread(slack: Any, mass: Any) -> Floats:
    """C for a share of the slack; ∞ for an empty secret as soon as there is any slack."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(slack > 0, (1 + slack / mass) ** 2, 1.0))


def mass_range(q: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Least and greatest R(H) over {R : Σ q²/R ≤ C} for a set H with q(H) = q [000, Lemma 1, corrected].

    L = 2q²/(X + √·), X = C + 2q − 1, √· = √((C − 1)(C − (2q − 1)²)): no cancellation, and right for q = 0.
    """
    q, spread = np.broadcast_arrays(np.asarray(q, float), np.asarray(spread, float))
    wide = ~np.isfinite(spread)
    c = np.where(wide, 2.0, spread)

    def least(mass: Floats) -> Floats:
        x = c + 2 * mass - 1
        return np.asarray(2 * mass**2 / np.maximum(x + np.sqrt((c - 1) * (c - (2 * mass - 1) ** 2)), 1e-300))

    low, high = least(q), 1 - least(1 - q)
    exact = c == 1
    return np.where(wide, 0.0, np.where(exact, q, low)), np.where(wide, 1.0, np.where(exact, q, high))


def greatest_mean(v: Floats, q: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """max R·v over {R in the simplex : Σ q²/R ≤ C}, with a maximiser, for many at once; the last axis is the alphabet.

    The dual is min_{τ ≥ max v} τ − (Σ q√(τ−v))²/C; at its minimum R ∝ q/√(τ−v), and if that still leaves
    slack at τ = max v the rest of the mass goes to a cell with q = 0 where v is greatest.
    """
    top = v.max(-1, keepdims=True)
    depth = top - v
    width = depth.max(-1)
    c = np.where(np.isfinite(spread), spread, 1e30)
    safe = np.where(width > 0, width, 1.0)
    gap = np.maximum(c**2 - 1, 1e-300)
    low, high = np.full(width.shape, -75.0), np.log1p(2 / gap) + 1e-9
    for _ in range(HALVINGS):
        mid = (low + high) / 2
        root = np.sqrt(depth / safe[..., None] + np.exp(mid)[..., None])
        steep = (q * root).sum(-1) * (q / root).sum(-1) > c
        low, high = np.where(steep, mid, low), np.where(steep, high, mid)
    root = np.sqrt(depth / safe[..., None] + np.exp(high)[..., None])
    r = q / root * ((q * root).sum(-1) / c)[..., None]
    rest = np.maximum(1 - r.sum(-1), 0.0)  # zero up to rounding unless τ stopped at max v
    r = r + rest[..., None] * np.eye(v.shape[-1])[np.argmax(v, -1)]
    r = r / r.sum(-1, keepdims=True)
    known = (spread <= 1)[..., None]
    r = np.where(known, q, r)
    everything = (~np.isfinite(spread))[..., None]
    r = np.where(everything, np.eye(v.shape[-1])[np.argmax(v, -1)], r)
    r = np.where((width == 0)[..., None], q, r)
    return np.asarray((r * v).sum(-1)), r
