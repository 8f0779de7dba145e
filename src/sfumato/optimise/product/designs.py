"""Whole designs of two-level blocks under one profile, for tables of any size."""

from __future__ import annotations

import math

import numpy as np

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.product.layout import Layout
from sfumato.optimise.product.levelling import level
from sfumato.optimise.product.profiles import relaxed, windows
from sfumato.optimise.product.strands import decoupled
from sfumato.optimise.product.two_level import MASSES, NODES, Ball, Heights, Profile, TwoLevel, bend

WIDE = 2_000  # cells beyond which heights are tabled more coarsely and T stays what the relaxation says


def two_level(ball: Ball, p: Floats, epsilon: float, profile: Profile, budget: Budget) -> Layout:
    """The best two-level blocks found under a profile, their atoms ordered so that the total is level."""
    E, shares = math.exp(epsilon), p.sum(1)
    wide = p.size > WIDE
    nodes, grid = (17, bend(129)) if wide else (NODES, bend(MASSES))
    heights = [Heights(ball, float(s), E, profile, nodes, grid) for s in shares]
    low, high = 1 / E, 1 / (1 + profile.drop)
    envelopes, total, _ = relaxed(heights, shares, low, high)
    rng = np.random.default_rng(0)
    families = [
        TwoLevel(p[s] / shares[s], h, windows(p[s] / shares[s], env.support(total), rng))
        for s, (h, env) in enumerate(zip(heights, envelopes, strict=True))
    ]
    more = {"tolerance": 1e-3, "rounds": 8, "steps": 1} if wide else {}
    layout = decoupled(families, shares, total, low, high, budget, **more)  # type: ignore[arg-type]
    return level(layout, p, passes=2, trials=60) if wide else level(layout, p)
