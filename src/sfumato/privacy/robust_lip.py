"""LIP about S over the χ² ball for a mechanism that reads X: the worst distributions, found from inside the ball.

P(y|s)/P(y) = 1/(π + (1−π) w/u) with π = P(s), u = E[r|s], w = E[r|¬s], r = Q(y|·). The secrets other than s merge: for
given P(x|¬s) the cheapest split among them is proportional to P̂ (Cauchy–Schwarz), so P is in F iff
h₁/π + h₂/(1−π) ≤ 1 + B with h₁ = Σ P̂(s,x)²/P(x|s), h₂ likewise for ¬s. With √h₁ = P̂_s + α and √h₂ = 1 − P̂_s + β that
leaves two numbers α, β ≥ 0 with α + β ≤ √(1+B) − 1; u and w are then extreme means, and π is an end of an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.uncertainty import ChiSquareBall
from sfumato.uncertainty.tilting import greatest_mean

GRID = np.sin(np.linspace(0, np.pi / 2, 17)) ** 2  # shares of the slack tried first, dense at both ends
ZOOMS = 24
FINE = np.linspace(-1.0, 1.0, 3)
CHUNK = 4096  # cases searched at once


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """For each case the greatest P(y|s)/P(y) (above) or P(y)/P(y|s) (below) reached, and the P that reaches it."""

    ratio: Floats
    given: Floats  # P(x|s)
    overall: Floats  # P(x)

    def __getitem__(self, at: Any) -> Shifts:
        return Shifts(self.ratio[at], self.given[at], self.overall[at])


def worst_shifts(ball: ChiSquareBall, rows: Floats, s: Any, above: Any) -> Shifts:
    """The worst distribution in the ball for each case i: row[i], secret s[i], above[i] or below."""
    parts = [
        _searched(ball, rows[i : i + CHUNK], s[i : i + CHUNK], above[i : i + CHUNK]) for i in range(0, len(rows), CHUNK)
    ]
    return Shifts(*(np.concatenate([getattr(x, n) for x in parts]) for n in ("ratio", "given", "overall")))


def _searched(ball: ChiSquareBall, rows: Floats, s: Any, above: Any) -> Shifts:
    p, slack = ball.joint.p, ball.slack
    sides = _Sides(rows, p[s], np.maximum(p.sum(0) - p[s], 0.0), above, 1 + ball.radius)
    a, b = (x.ravel() for x in np.meshgrid(GRID, GRID, indexing="ij"))
    a, b = a[a + b <= 1 + 1e-12], b[a + b <= 1 + 1e-12]
    count = len(rows)
    centre_a, centre_b = np.zeros(count), np.zeros(count)
    reach = np.full(count, 0.1)
    trial_a, trial_b = np.broadcast_to(a, (count, len(a))), np.broadcast_to(b, (count, len(b)))
    best = np.full(count, -np.inf)
    for _ in range(ZOOMS):
        ratio = sides.ratio(slack * trial_a, slack * trial_b)[0]
        at = np.argmax(ratio, axis=1)
        here, lines = ratio[np.arange(count), at], np.arange(count)
        better = here > best
        centre_a = np.where(better, trial_a[lines, at], centre_a)
        centre_b = np.where(better, trial_b[lines, at], centre_b)
        best = np.maximum(best, here)
        reach = np.where(better, reach, reach * 0.45)
        step_a, step_b = (x.ravel() for x in np.meshgrid(FINE, FINE, indexing="ij"))
        trial_a = np.clip(centre_a[:, None] + reach[:, None] * step_a, 0, 1)
        trial_b = np.minimum(np.clip(centre_b[:, None] + reach[:, None] * step_b, 0, 1), 1 - trial_a)
    ratio, given, rest, share = sides.ratio(slack * centre_a[:, None], slack * centre_b[:, None])
    pi = share[:, 0, None]
    return Shifts(ratio[:, 0], given[:, 0], pi * given[:, 0] + (1 - pi) * rest[:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The two conditional laws of each case, and the ratio they make with the best P(s)."""

    rows: Floats
    mine: Floats  # P̂(s, x)
    others: Floats  # P̂(¬s, x)
    above: Any
    b: float

    def ratio(self, alpha: Floats, beta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        sign = np.where(self.above, 1.0, -1.0)[:, None, None]
        v = sign * self.rows[:, None, :]
        own, given = self._extreme(v, self.mine, alpha)
        other, rest = self._extreme(-v, self.others, beta)
        u, w = (given * self.rows[:, None]).sum(-1), (rest * self.rows[:, None]).sum(-1)
        middle = self.b + own - other
        root = np.sqrt(np.maximum(middle**2 - 4 * self.b * own, 0.0))
        towards = (w < u) == self.above[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(towards, 2 * own / (middle + root), (middle + root) / (2 * self.b))
            mixed = share + (1 - share) * (w / u)
            ratio = np.where(self.above[:, None], 1 / mixed, mixed)
        return np.nan_to_num(ratio, nan=1.0, posinf=np.inf), given, rest, share

    def _extreme(self, v: Floats, weights: Floats, spent: Floats) -> tuple[Floats, Floats]:
        """h = (mass + spent)² and the law of greatest mean that it allows; an empty side is free at h = 0."""
        mass = weights.sum(1)[:, None]
        q = np.divide(weights, mass, out=np.full(weights.shape, 1 / weights.shape[1]), where=mass > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.where(mass > 0, (1 + spent / mass) ** 2, np.inf)
        shape = (*spent.shape, v.shape[-1])
        r = greatest_mean(np.broadcast_to(v, shape), np.broadcast_to(q[:, None], shape), spread).r
        return np.where(mass > 0, (mass + spent) ** 2, 0.0), r
