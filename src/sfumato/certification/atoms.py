"""Proved levels over the χ² ball for layouts with too many rows to compare one by one.

Any dual point of an atom bounds its mean for *every* share b' of the slack at once: m + (Σ P̂√(v − m))² / (P̂_s + b')²
from below and μ − (Σ P̂√(μ − v))² / (P̂_s + b')² from above. Floats suggest one for every b' of a grid. Values of an atom
that are nearly the same count as the outermost of them, so that an atom of few levels costs little. With the greatest
upper and the least lower curve of every secret, M_s(b') and m_s(b'), the level is at most the maximum over s₁ ≠ s₂ and
k of M_{s₁}(b_{k+1}) / m_{s₂}(b − b_k) for any grid 0 = b_0 < … < b_K = b, because both are monotone.
"""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.ball import Ball, Side
from sfumato.certification.outward import down, down_any, float_range, up, up_any
from sfumato.certification.witness import Found
from sfumato.mechanism import Atoms
from sfumato.uncertainty.pairs import best_pairs
from sfumato.uncertainty.tilting import greatest_mean, spread_of

NODES = 33  # shares of the slack at which floats look for a dual point; those between are interpolated
GRID = 512  # shares of the slack at which the curves are compared
COARSE = 64  # shares for levels that nothing depends on
CHUNK = 512  # atoms at a time
ALIKE = 1e-7  # values closer than this, relative to the greatest, are taken as one


def over_atoms(c: Atoms, ball: Ball, grid_size: int = GRID) -> Found:
    """A proved bound of the worst ratio between any two atoms of different secrets."""
    b = ball.slack[1]
    grid = b * np.sin(np.linspace(0, np.pi / 2, grid_size + 1)) ** 2
    grid[-1] = b
    spent, left = grid[1:], np.minimum(up(np.maximum(b - grid[:-1], 0)), up(b))
    secrets = len(ball.ps[0])
    top, low = np.zeros((secrets, grid_size)), np.full((secrets, grid_size), np.inf)
    for start in range(0, len(c.secret), CHUNK):
        part = slice(start, start + CHUNK)
        s = c.secret[part]
        side = Side((ball.p[0][s], ball.p[1][s]), (ball.ps[0][s], ball.ps[1][s]), float_range(c.heights[part]))
        side = levels(side)
        np.maximum.at(top, s, curves(side, spent, b, greatest=True))
        np.minimum.at(low, s, curves(side, left, b, greatest=False))
    ratios = up(best_pairs(top, low))
    k = int(np.argmax(ratios))
    first, second = int(np.argmax(top[:, k])), int(np.argmin(low[:, k]))
    return Found(max(1.0, float(ratios[k])), {"first": first, "second": second})


def levels(side: Side) -> Side:
    """The same atoms with values that are nearly alike as one cell: their masses together, their outermost values."""
    order = np.argsort(side.v[0], axis=1)
    low, high = (np.take_along_axis(x, order, 1) for x in side.v)
    p = [np.take_along_axis(x, order, 1) for x in side.p]
    jump = np.diff(low, axis=1) > ALIKE * high.max(1, keepdims=True)
    group = np.concatenate([np.zeros((len(low), 1), np.int64), np.cumsum(jump, 1)], 1)
    count = int(group.max()) + 1
    if count > low.shape[1] // 2:
        return side
    rows = np.arange(len(low))
    # A level that an atom does not have repeats its greatest value and has no mass.
    v_low = np.repeat(low[:, -1:], count, 1)
    v_high = np.repeat(high[:, :1], count, 1)
    mass = np.zeros((2, len(low), count))
    for k in range(low.shape[1]):
        g = group[:, k]
        v_low[rows, g] = np.minimum(v_low[rows, g], low[:, k])
        v_high[rows, g] = np.maximum(v_high[rows, g], high[:, k])
        mass[0][rows, g] = down(mass[0][rows, g] + p[0][:, k])
        mass[1][rows, g] = up(mass[1][rows, g] + p[1][:, k])
    return Side((mass[0], mass[1]), side.ps, (v_low, v_high))


def curves(side: Side, budgets: Floats, slack: float, *, greatest: bool) -> Floats:
    """Proved bounds [atom, budget] of the greatest (or least) mean of each atom at each share of the slack."""
    sign, edge = (1.0, side.v[1].max(-1)) if greatest else (-1.0, side.v[0].min(-1))
    values = side.v[1] if greatest else side.v[0]
    tau = edge[:, None] + sign * suggested(sign * values, side, budgets, slack)
    room = up(side.ps[1][:, None] + budgets)
    length = np.zeros(tau.shape)
    for k in range(values.shape[1]):
        gaps = np.maximum(sign * (tau - values[:, k, None]), 0)
        length = down(length + down(side.p[0][:, k, None] * down(np.sqrt(down(gaps)))))
    gain = down(down(length * length) / up(room * room))
    if greatest:
        return np.asarray(np.minimum(edge[:, None], up_any(tau - gain)))
    return np.asarray(np.maximum(edge[:, None], down_any(tau + gain)))


def suggested(v: Floats, side: Side, budgets: Floats, slack: float) -> Floats:
    """How far beyond the greatest v a good dual point lies, for every budget, in floats (whatever it is, it is valid).

    Its logarithm is nearly linear in that of the budget, so a few budgets are enough to interpolate from.
    """
    q, mass = side.q, side.ps[1]
    nodes = np.geomspace(1e-6, 1.0, NODES)
    width = v.max(-1) - v.min(-1)
    logs = np.empty((len(v), NODES))
    near: Floats | None = None
    for i, share in enumerate(nodes[::-1]):
        near = greatest_mean(v, q, spread_of(share * slack, mass), near, 1e-6).gap
        logs[:, NODES - 1 - i] = near
        near = near + 0.5 * np.log(nodes[1] / nodes[0])
    at = np.clip(np.log(np.maximum(budgets / slack, 1e-300)), np.log(nodes[0]), 0.0)
    weight = np.stack([np.interp(at, np.log(nodes), row) for row in np.eye(NODES)])
    return np.asarray(np.where(width > 0, width, 0.0)[:, None] * np.exp(logs @ weight))
