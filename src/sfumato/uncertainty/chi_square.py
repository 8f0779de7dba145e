"""ChiSquareBall: every distribution a χ² test would not reject."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.uncertainty.base import Extreme, Worst
from sfumato.uncertainty.tilting import Pairs, greatest_mean, mass_range, spread_of, worst_pairs


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

    def spread(self) -> Floats:
        """C_s = e^{B_s} = (1 + b/P̂_s)²: given s, R lies in {R : Σ q²/R ≤ C_s} [000, Thm 1]; ∞ where P̂_s = 0."""
        return spread_of(self.slack, self.joint.p_secret)

    def spikes(self) -> tuple[Floats, Floats]:
        return mass_range(self.joint.useful_given_secret, self.spread()[:, None])

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        q, spread = self.joint.useful_given_secret, self.spread()
        shape = np.broadcast_shapes(rows.shape, q.shape)
        v, q, c = np.broadcast_to(rows, shape), np.broadcast_to(q, shape), np.broadcast_to(spread, shape[:-1])
        return -greatest_mean(-v, q, c).value, greatest_mean(v, q, c).value

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        q, c = self.joint.useful_given_secret[s], self.spread()[s]
        return -greatest_mean(-values, q, c).value, greatest_mean(values, q, c).value

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        pair = self._pairs(row[None, s1], row[None, s2], np.array([s1]), np.array([s2]))
        return Worst(float(pair.ratio[0]), pair.first[0], pair.second[0])

    def ratios(self, first: Floats, second: Floats, s1: Any, s2: Any) -> Floats:
        return self._pairs(first, second, s1, s2).ratio

    def _pairs(self, first: Floats, second: Floats, s1: Any, s2: Any) -> Pairs:
        q, ps = self.joint.useful_given_secret, self.joint.p_secret
        return worst_pairs(first, q[s1], ps[s1], second, q[s2], ps[s2], self.slack)

    def support(self, c: Floats) -> Extreme:
        best = greatest_mean(c.reshape(1, -1), self.joint.p.reshape(1, -1), np.array([1 + self.radius]))
        return Extreme(float(best.value[0]), best.r[0].reshape(c.shape))
