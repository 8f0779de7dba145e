"""Whole designs of two-level blocks under one profile, for tables of any size."""

from __future__ import annotations

import math

import numpy as np

from sfumato.optimise.arrays import Floats, greatest_gap
from sfumato.optimise.budget import Budget
from sfumato.optimise.product.groups import Groups
from sfumato.optimise.product.layout import Layout
from sfumato.optimise.product.levelling import level
from sfumato.optimise.product.profiles import relaxed, windows
from sfumato.optimise.product.strands import decoupled
from sfumato.optimise.product.two_level import LISTED, NODES, Ball, Heights, Profile, TwoLevel, bend

STEPS = 512  # of the budget at which a finished layout is compared
PROOF = 3e-6  # nats left for the proof on a grid and the rounding
LEVEL = 5e-3  # of the value: what a total that is not level may lose before rows are grouped
WIDE = 2_000  # cells beyond which heights are tabled more coarsely and T stays what the relaxation says


class Families:
    """The two-level blocks of every secret under a profile, and a first total T."""

    def __init__(self, ball: Ball, p: Floats, epsilon: float, profile: Profile) -> None:
        E, self.p, self.shares = math.exp(epsilon), p, p.sum(1)
        self.wide = p.size > WIDE
        self.low, self.high = 1 / E, 1 / (1 + profile.drop)
        laws, heights = p / self.shares[:, None], []
        for s, share in enumerate(self.shares.tolist()):
            measure = ball.measure(s) if hasattr(ball, "measure") else laws[s]
            nodes, masses = (17, bend(129)) if self.wide else (NODES, TwoLevel.masses(laws[s], measure))
            heights.append(Heights(ball, s, share, E, profile, nodes, masses))
        envelopes, self.total, _ = relaxed(heights, self.shares, self.low, self.high)
        rng, few = np.random.default_rng(0), p.shape[1] <= LISTED
        self.blocks = [
            TwoLevel(q, h, None if few else windows(q, env.support(self.total), rng))
            for q, h, env in zip(laws, heights, envelopes, strict=True)
        ]


def two_level(families: Families, budget: Budget, *, rough: bool = False) -> Layout:
    """The best two-level blocks found under a profile, their atoms ordered so that the total is level.

    Where one secret dominates the total cannot be level, and rows are grouped by its block. rough=True does a part of
    the work: enough to compare profiles.
    """
    p, less = families.p, rough or families.wide
    more = {"tolerance": 1e-3, "rounds": 8, "steps": 3 if rough else 1} if less else {}
    apart = decoupled(
        families.blocks, families.shares, families.total, families.low, families.high, budget, **more  # type: ignore[arg-type]
    )
    layout = level(apart, p, passes=2, trials=60) if less else level(apart, p)
    lost = apart.if_level(p) - layout.value(p)
    if less or lost <= LEVEL * layout.value(p) or budget.over or len(p) < 2:
        return layout
    grouped = Groups(families.blocks, p, layout)
    grouped.run(budget)
    other = grouped.layout()
    return other if other.value(p) > layout.value(p) else layout


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
