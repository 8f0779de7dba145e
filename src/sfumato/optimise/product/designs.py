"""Whole designs of two-level blocks under one profile, for tables of any size."""

from __future__ import annotations

import math

import numpy as np

from sfumato.optimise.arrays import Floats, greatest_gap
from sfumato.optimise.budget import Budget
from sfumato.optimise.product.layout import Layout
from sfumato.optimise.product.levelling import level
from sfumato.optimise.product.profiles import relaxed, windows
from sfumato.optimise.product.strands import decoupled
from sfumato.optimise.product.two_level import MASSES, NODES, Ball, Heights, Profile, TwoLevel, bend

STEPS = 512  # of the budget at which a finished layout is compared
PROOF = 3e-6  # nats left for the proof on a grid and the rounding
WIDE = 2_000  # cells beyond which heights are tabled more coarsely and T stays what the relaxation says


def two_level(ball: Ball, p: Floats, epsilon: float, profile: Profile, budget: Budget) -> Layout:
    """The best two-level blocks found under a profile, their atoms ordered so that the total is level."""
    E, shares = math.exp(epsilon), p.sum(1)
    wide = p.size > WIDE
    nodes, grid = (17, bend(129)) if wide else (NODES, bend(MASSES))
    heights = [Heights(ball, s, float(share), E, profile, nodes, grid) for s, share in enumerate(shares)]
    low, high = 1 / E, 1 / (1 + profile.drop)
    envelopes, total, _ = relaxed(heights, shares, low, high)
    rng = np.random.default_rng(0)
    families = [
        TwoLevel.of(ball, p, s, h, windows(p[s] / shares[s], env.support(total), rng))
        for s, (h, env) in enumerate(zip(heights, envelopes, strict=True))
    ]
    more = {"tolerance": 1e-3, "rounds": 8, "steps": 1} if wide else {}
    layout = decoupled(families, shares, total, low, high, budget, **more)  # type: ignore[arg-type]
    return level(layout, p, passes=2, trials=60) if wide else level(layout, p)


def safe(layout: Layout, ball: Ball, p: Floats, epsilon: float) -> Layout:
    """The layout, mixed with the constant law so that any two of its atoms are ε-private at every step of the budget.

    Two-level atoms have their extreme means in closed form; comparing the greatest at the right end of a step with the
    least at its left end is what a proof on a grid will do.
    """
    E, grid = math.exp(epsilon - PROOF), ball.budget * bend(STEPS + 1)
    top, low = np.zeros((len(p), STEPS)), np.zeros((len(p), STEPS))
    for s, h in enumerate(layout.heights):
        share, lo = float(p[s].sum()), h.min(axis=1)
        d = h.max(axis=1) - lo
        w = np.clip((h > (lo + d / 2)[:, None]) @ (p[s] / share), 0.0, 1.0)[:, None]
        top[s] = (lo[:, None] + d[:, None] * ball.masses(w, share, grid[None, 1:])[1]).max(axis=0)
        low[s] = (lo[:, None] + d[:, None] * ball.masses(w, share, ball.budget - grid[None, :-1])[0]).min(axis=0)
    excess = greatest_gap(top, low, E).max() if len(p) > 1 else -1.0
    if excess <= 0:
        return layout
    odds = 1.001 * float(excess) * layout.total / (E - 1.0)
    share = odds / (1.0 + odds)
    heights = tuple((1.0 - share) * h + share / layout.total for h in layout.heights)
    return Layout(layout.total, layout.lengths, heights)
