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

NEWTON = 40  # steps for a multiplier; far more than Newton needs, enough for the bisection behind it
SPLIT_HALVINGS = 30  # of the split of the slack between two secrets
LEAST_GAP = -75.0  # log of the least τ − max v looked at, in units of the width


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
        return -greatest_mean(-v, q, c).value, greatest_mean(v, q, c).value

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        ratio, r1, r2 = self.worst_pairs(row[None, s1], row[None, s2], np.array([s1]), np.array([s2]))
        return Worst(float(ratio[0]), r1[0], r2[0])

    def worst_pairs(self, first: Floats, second: Floats, s1: Any, s2: Any) -> tuple[Floats, Floats, Floats]:
        """`worst` for many pairs at once: ratios, and the conditional laws of both secrets that reach them."""
        ratio, split = self._best_split(first, second, s1, s2)
        q, b, ps = self.joint.useful_given_secret, self.slack, self.joint.p_secret
        r1 = greatest_mean(first, q[s1], _spread(b * split, ps[s1])).r
        r2 = greatest_mean(-second, q[s2], _spread(b * (1 - split), ps[s2])).r
        return ratio, r1, r2

    def ratios(self, first: Floats, second: Floats, s1: Any, s2: Any) -> Floats:
        return self._best_split(first, second, s1, s2)[0]

    def _best_split(self, first: Floats, second: Floats, s1: Any, s2: Any) -> tuple[Floats, Floats]:
        """Greatest ratio over how the slack is split, and the share of the first secret.

        log max − log min is quasi-concave in the split; the envelope theorem gives its slope, so bisection finds it.
        """
        q, ps, b = self.joint.useful_given_secret, self.joint.p_secret, self.slack

        def sides(t: Floats) -> tuple[Mean, Mean]:
            top = greatest_mean(first, q[s1], _spread(b * t, ps[s1]))
            return top, greatest_mean(-second, q[s2], _spread(b * (1 - t), ps[s2]))

        low, high = np.zeros(len(first)), np.ones(len(first))
        best, at = np.full(len(first), -np.inf), np.full(len(first), 0.5)
        for step in range(SPLIT_HALVINGS):
            for t in (low, high) if step == 0 else ((low + high) / 2,):
                top, bottom = sides(t)
                ratio = quotient(top.value, -bottom.value)
                at, best = np.where(ratio > best, t, at), np.maximum(ratio, best)
            if step:
                with np.errstate(divide="ignore", invalid="ignore"):
                    slopes = [
                        side.slope * 2 * (1 + b * share / mass) / mass / np.abs(side.value)
                        for side, share, mass in ((top, t, ps[s1]), (bottom, 1 - t, ps[s2]))
                    ]
                rising = np.nan_to_num(slopes[0], nan=0.0) > np.nan_to_num(slopes[1], nan=0.0)
                low, high = np.where(rising, t, low), np.where(rising, high, t)
        return best, at

    def support(self, c: Floats) -> Extreme:
        best = greatest_mean(c.reshape(1, -1), self.joint.p.reshape(1, -1), np.array([1 + self.radius]))
        return Extreme(float(best.value[0]), best.r[0].reshape(c.shape))


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


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """max R·v with a maximiser R, and how fast the maximum grows with C."""

    value: Floats
    r: Floats
    slope: Floats


def greatest_mean(v: Floats, q: Floats, spread: Floats) -> Mean:
    """max R·v over {R in the simplex : Σ q²/R ≤ C}, for many at once; the last axis is the alphabet.

    The dual is min_{τ ≥ max v} τ − (Σ q√(τ−v))²/C; at its minimum R ∝ q/√(τ−v), and if that still leaves
    mass at τ = max v it goes to a cell with q = 0 where v is greatest. The slope in C is (Σ q√(τ−v))²/C².
    """
    top = v.max(-1)
    depth = top[..., None] - v
    width = np.where(depth.max(-1) > 0, depth.max(-1), 1.0)
    depth = depth / width[..., None]
    c = np.where(np.isfinite(spread), np.where(spread > 1, spread, 2.0), 1e30)
    root = np.sqrt(depth + gap_for(depth, q, c)[..., None])
    length = (q * root).sum(-1)
    r = q / root * (length / c)[..., None]
    rest = np.maximum(1 - r.sum(-1), 0.0)  # zero up to rounding unless τ stopped at max v
    corner = np.eye(v.shape[-1])[np.argmax(v, -1)]
    r = r + rest[..., None] * corner
    r = r / r.sum(-1, keepdims=True)
    r = np.where(np.isfinite(spread)[..., None], r, corner)
    r = np.where(((spread <= 1) | (depth.max(-1) == 0))[..., None], q, r)
    return Mean(np.asarray((r * v).sum(-1)), r, np.asarray(width * (length / c) ** 2))


def gap_for(depth: Floats, q: Floats, c: Floats) -> Floats:
    """x = τ − max v, in units of the width, with (Σ q√(d+x))·(Σ q/√(d+x)) = C, or the least x if that is below C.

    log log of the left side is nearly linear in log x, so Newton's method on it, kept inside a bracket, settles fast.
    """
    target = np.log(np.maximum(np.log(c), 1e-300))
    low, high = np.full(c.shape, LEAST_GAP), np.log1p(2 / np.maximum(c**2 - 1, 1e-25)) + 1e-9
    y = np.minimum(high - 0.5, 0.0)
    least = np.sqrt(depth + np.exp(LEAST_GAP))
    stuck = (q * least).sum(-1) * (q / least).sum(-1) <= c  # even τ = max v leaves slack
    for _ in range(NEWTON):
        x = np.exp(y)
        square = depth + x[..., None]
        root = np.sqrt(square)
        inverse = q / root
        a, b, d = (q * root).sum(-1), inverse.sum(-1), (inverse / square).sum(-1)
        product = a * b
        log = np.log1p(np.maximum(product - 1, 1e-17))
        off = np.log(log) - target
        low, high = np.where(off > 0, y, low), np.where(off > 0, high, y)
        slope = x * (b * b - a * d) / (2 * product * log)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = y - off / slope
        before, y = y, np.where((step >= low) & (step <= high), step, (low + high) / 2)
        if np.all(stuck | (np.abs(y - before) <= 4e-15 * np.maximum(np.abs(y), 1.0)) | (high - low <= 1e-14)):
            break
    return np.where(stuck, np.exp(LEAST_GAP), np.exp(y))
