"""Proved levels over the χ² ball for layouts with too many rows to compare one by one.

Any dual point of an atom bounds its mean for *every* share b' of the slack at once: m + (Σ P̂√(v − m))² / (P̂_s + b')²
from below and μ − (Σ P̂√(μ − v))² / (P̂_s + b')² from above. A few dual points per atom therefore give curves in b'. With
the greatest upper and the least lower curve of every secret, M_s(b') and m_s(b'), the level is at most the maximum over
s₁ ≠ s₂ and k of M_{s₁}(b_{k+1}) / m_{s₂}(b − b_k) for any grid 0 = b_0 < … < b_K = b, because both are monotone.
"""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.ball import Ball, Side
from sfumato.certification.outward import dot_down, down, down_any, float_range, up, up_any
from sfumato.certification.witness import Found
from sfumato.mechanism import Atoms
from sfumato.privacy.pairs import best_pairs
from sfumato.uncertainty.tilting import greatest_mean, spread_of

DUALS = 9  # dual points per atom
GRID = 1024  # shares of the slack at which the curves are compared
CHUNK = 512  # atoms at a time


def over_atoms(c: Atoms, ball: Ball) -> Found:
    """A proved bound of the worst ratio between any two atoms of different secrets."""
    b = ball.slack[1]
    grid = b * np.sin(np.linspace(0, np.pi / 2, GRID + 1)) ** 2
    grid[-1] = b
    spent, left = grid[1:], np.minimum(up(np.maximum(b - grid[:-1], 0)), up(b))
    secrets = len(ball.ps[0])
    top, low = np.zeros((secrets, GRID)), np.full((secrets, GRID), np.inf)
    for start in range(0, len(c.secret), CHUNK):
        part = slice(start, start + CHUNK)
        s = c.secret[part]
        side = Side((ball.p[0][s], ball.p[1][s]), (ball.ps[0][s], ball.ps[1][s]), float_range(c.heights[part]))
        np.maximum.at(top, s, curves(side, spent, b, greatest=True))
        np.minimum.at(low, s, curves(side, left, b, greatest=False))
    ratios = up(best_pairs(top, low))
    k = int(np.argmax(ratios))
    first, second = int(np.argmax(top[:, k])), int(np.argmin(low[:, k]))
    return Found(max(1.0, float(ratios[k])), {"first": first, "second": second})


def curves(side: Side, budgets: Floats, slack: float, *, greatest: bool) -> Floats:
    """Proved bounds [atom, budget] of the greatest (or least) mean of each atom at each share of the slack."""
    sign, edge = (1.0, side.v[1].max(-1)) if greatest else (-1.0, side.v[0].min(-1))
    values = side.v[1] if greatest else side.v[0]
    best = np.repeat(edge[:, None], len(budgets), 1)
    room = up(side.ps[1][:, None] + budgets)
    square = up(room * room)
    for share in np.linspace(0, 1, DUALS) ** 2:
        tau = sign * greatest_mean(sign * values, side.q, spread_of(max(share, 1e-6) * slack, side.ps[1])).tau
        tau = np.maximum(tau, edge) if greatest else np.minimum(tau, edge)
        gaps = np.maximum(sign * (tau[:, None] - values), 0)
        length = dot_down(side.p[0], down(np.sqrt(down(gaps))))
        gain = down(down(length * length)[:, None] / square)
        if greatest:
            best = np.minimum(best, up_any(tau[:, None] - gain))
        else:
            best = np.maximum(best, down_any(tau[:, None] + gain))
    return best
