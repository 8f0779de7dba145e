"""One secret's part of a bound: prices y of its values, found on two-level blocks first and then on any blocks.

min q·y + T·r with r ≥ Σ q(φ(h) − y·h) for every block h in K = {m ≥ 1, M ≤ E} (docs/robust.md, section 3). Two-level
blocks give a start, by the programme that designs have too; the blocks in K that climbs from them reach are what the
prices learn from then, and a table of what any block may be worth is made for the prices that are left in the end.
The programme's own y are a degenerate vertex at which other blocks are worth far more, so a proximal bundle is begun at
y = 1 + Σ_h θ_h φ(h), what each value tells; the 1 makes r about −1/T, as the total asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import EMPTY, Floats, Ints, xlogx
from sfumato.optimise.bound.dual import Items, Queries
from sfumato.optimise.bound.pricing import Block, Priced
from sfumato.optimise.budget import Budget, spend
from sfumato.optimise.conic import ConicProgramme, Terms, exponential, power, proximal, solved
from sfumato.optimise.master import BOLDER, SERIOUS, SHYER, TRUSTED
from sfumato.optimise.product.blocks import decoupled
from sfumato.optimise.product.two_level import Heights, Profile, TwoLevel, possible

SETTLED = 1e-3  # nats: blocks worth less than this more are not looked for
CLIMBS = 4  # blocks from which better ones are looked for at a time
BUNDLE = 20  # blocks for each value in the programme of prices
CLOSE = 1e-3  # of the value: what prices may still gain when they are left
STRAND = 0.02  # seconds that a secret takes at least, for each of its values


class BoundStrand:
    """One secret with shares q of its values, the slack of its two sides, and E."""

    MEANS = 4  # blocks of log c
    tree: Items | None = None  # what branch and bound knows of K
    SCALED = False  # whether blocks are scaled to the mean 1

    def __init__(self, q: Floats, order: float, above: float, below: float, E: float) -> None:
        self.q, self.E, self.block = q, E, Block(q, order, above, below)
        heights = Heights(self.block, 0, 1.0, E, Profile(), w=possible(q, q))
        self.family = TwoLevel(q, heights.scaled() if self.SCALED else heights)

    def begin(self, theta: Floats, blocks: Floats) -> None:
        """What each value tells under a mixture of two-level blocks, as the first prices to be judged."""
        told = theta @ xlogx(blocks) + 1.0
        if len(self.q) == 1:  # the chord of φ over [1, E] is worth the same at both ends: nothing is better
            told = np.full(1, self.E * np.log(self.E) / (self.E - 1.0))
        self.y = self.tried = np.asarray(told)
        self.blocks, self.gain = np.zeros((0, len(self.q))), np.zeros(0)
        self._add(np.concatenate([self.family.ends, blocks]))
        self.model, self.r, self.bold = -np.inf, np.inf, 1.0
        self.climb = Climb(self.q, self.block.order, self.block.k, self.E, self.SCALED)

    def _add(self, blocks: Floats) -> None:
        self.blocks = np.concatenate([self.blocks, blocks])
        self.gain = np.concatenate([self.gain, xlogx(blocks) @ self.q])

    def queries(self, floor: float, roof: float) -> Queries:
        """Blocks of the mean c; below their middle m binds more, above it M."""
        edges = np.geomspace(floor, roof, self.MEANS + 1)
        mean, first = np.column_stack([edges[:-1], edges[1:]]), np.arange(self.MEANS) < self.MEANS // 2
        level = np.tile([roof, floor], (self.MEANS, 1))
        return Queries(level, mean, first.astype(np.int64), np.zeros(self.MEANS))

    def table(
        self, y: Floats, floor: float, roof: float, least: float, rounds: int, budget: Budget, tree: Items | None = None
    ) -> Floats:
        """Rows (c₁, c₂, B): Σ q(φ(v) − y·v) ≤ B for blocks with m(v) ≥ floor, M(v) ≤ roof and q·v in [c₁, c₂].

        What is below `least` need not be good. `tree` is what is known of K: it serves for a higher floor, a lower
        roof, and, stretched from E downward, for a lower floor.
        """
        if len(self.q) == 1:
            edges = np.linspace(floor, roof, 9)
            ends = xlogx(edges) - float(y[0]) * edges  # convex
            return np.column_stack([edges[:-1], edges[1:], np.maximum(ends[:-1], ends[1:])])
        asked = self.queries(floor, roof)
        if tree is not None:
            known, stretch = self.queries(1.0, self.E), (self.E - floor) / (self.E - 1.0)
            asked = replace(known, level=asked.level) if floor >= 1.0 else replace(known, stretch=stretch)
        self.asked, enough = asked, self._enough(asked, least + SETTLED)
        self.found: Priced = self.block.price(y, asked, enough, rounds, budget, tree)
        return self._listed(asked, np.maximum(self.found.value, enough))

    def _enough(self, asked: Queries, least: float) -> Floats:
        """Per query, what need not be good."""
        return np.full(len(asked.first), least)

    def _listed(self, asked: Queries, value: Floats) -> Floats:
        return np.column_stack([asked.stretched(asked.mean), value])

    def worth(self, T: float) -> float:
        """q·y + T·r at the prices that are kept."""
        return float(self.q @ self.y) + T * self.r

    def judge(self, T: float) -> None:
        """The best blocks that are found at the prices that are tried: they are kept, or one is more careful."""
        y, first = self.tried, self.r == np.inf
        if len(self.q) > 1:
            starts = np.concatenate([self.blocks, self.family.best(self.q * y, CLIMBS)])
            best = np.argsort(self.q * y @ starts.T - xlogx(starts) @ self.q, kind="stable")[:CLIMBS]
            self._add(np.array([self.climb.climbed(y, w) for w in starts[best]]))
        r, self.r = self._height(y), np.inf if first else self._height(self.y)
        value, best_known = float(self.q @ y) + T * r, self.worth(T)
        promised = best_known - self.model
        if first or value < best_known - SERIOUS * max(promised, 0.0):
            self.bold *= BOLDER if not first and value < best_known - TRUSTED * promised else 1.0
            self.y, self.r = y, r
        else:
            self.bold *= SHYER

    def _height(self, y: Floats) -> float:
        return float((self.gain - self.blocks @ (self.q * y)).max())

    @property
    def near(self) -> Ints:
        """The blocks worth most at the prices that are kept, and the two constants: without them prices have no end."""
        worth = self.gain - self.blocks @ (self.q * self.y)
        return np.union1d(np.argsort(-worth)[: BUNDLE * len(self.q)], [0, 1])

    def steer(self, T: float) -> float:
        """New prices to be tried, min q·y + T·r + |y − c|²/2·bold over the blocks that are known; what they promise."""
        near = self.near
        self.tried, r, _ = proximal(self.blocks[near], self.gain[near], self.y, self.q, self.bold, T)
        self.model = float(self.q @ self.tried) + T * r
        return self.worth(T) - self.model


def begin(strands: Sequence[BoundStrand], shares: Floats, total: float, least: float, budget: Budget) -> float:
    """First prices of all secrets, and the length T in [least, 1] that suits them, by two-level blocks."""
    layout = decoupled(
        [s.family for s in strands], shares, total, least, 1.0, budget, tolerance=SETTLED, rounds=6, steps=2
    )
    for strand, theta, blocks in zip(strands, layout.lengths, layout.heights, strict=True):
        strand.begin(theta, blocks)
    return layout.total


# --- blocks of one secret that are worth much at given prices: what prices learn from, and they prove nothing ---------


GAINED = 1e-4  # nats that a step must gain: a climb ends after two or three
ACCURATE = 1e-6  # digits asked of the solver: a block that is a little outside misleads nobody


class Climb:
    """Blocks with m ≥ a and M ≤ E·a, where a = 1, or where the mean is 1.

    The worth Σ q(φ(w) − y·w) is convex, so the block that is best for its tangent is worth at least as much: a cone
    programme a step, M ≤ L being Σ q (t + L − w)^κ t^{1−κ} ≥ (1 + κk)t for some t = 1/ϰ ≥ 0 (docs/robust.md, 14).
    """

    def __init__(self, q: Floats, order: float, k: Floats, E: float, mean: bool) -> None:
        n = len(q)
        self.q, programme = q, ConicProgramme()
        w, a, one, zero = programme.fresh(n), programme.fresh(1), np.ones(n), np.zeros(n, dtype=np.int64)
        programme.equal(zero if mean else zero[:1], w if mean else a, q if mean else one[:1], -one[:1])
        programme.nonnegative(np.arange(n), w, one, np.zeros(n))
        for sign, level, slack in zip((1.0, -1.0), (E, 1.0), k.tolist(), strict=True):
            t, under = programme.fresh(1), programme.fresh(n)
            all_t: Terms = [(np.repeat(t, n), one)]
            _root(programme, order, [*all_t, (np.repeat(a, n), sign * level * one), (w, -sign * one)], all_t, under)
            way, share = (-1.0, 1.0 + order * slack) if order < 0 else (1.0, 1.0 + order * slack if order else slack)
            programme.nonnegative(
                np.zeros(n + 1, dtype=np.int64), np.append(under, t), way * np.append(q, -share), np.zeros(1)
            )
        self.cost = np.zeros(programme.variables)
        self.solver = programme.solver(self.cost, tolerance=ACCURATE)

    def best(self, slope: Floats) -> Floats:
        """The block that is best for a linear aim; NaN where the solver fails."""
        spend(100 + 10 * len(self.q))
        self.cost[: len(self.q)] = -slope
        self.solver.update(q=self.cost)
        found = solved(self.solver)
        return np.maximum(found.x[: len(self.q)], 0.0) if "Solved" in found.status else np.full(len(self.q), np.nan)

    def climbed(self, y: Floats, w: Floats) -> Floats:
        """From one block to a better one, until there is none for the tangent."""
        worth = float(self.q @ (xlogx(w) - y * w))
        while True:
            other = self.best(self.q * (np.log(np.maximum(w, EMPTY)) + 1.0 - y))
            more = float(self.q @ (xlogx(other) - y * other))
            if not more > worth + GAINED:
                return w
            w, worth = other, more


def _root(programme: ConicProgramme, order: float, x: Terms, t: Terms, under: Ints) -> None:
    """under ≤ x^κ t^{1−κ}, ≥ for κ < 0, and t log(x/t) for κ = 0."""
    g: Terms = [(under, np.ones(len(under)))]
    if order == 0.5:
        programme.products(x, t, g)
    elif order > 0.0:
        programme.each(power(order, 1.0 - order), x, t, g)
    elif order < 0.0:
        programme.each(power(1.0 / (1.0 - order), -order / (1.0 - order)), g, x, t)
    else:
        programme.each(exponential, g, t, x)
