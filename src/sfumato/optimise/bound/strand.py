"""One secret's part of a bound: prices y of its values, found on two-level blocks first and then on any blocks.

min q·y + T·r with r ≥ Σ q(φ(h) − y·h) for every block h in K = {m ≥ 1, M ≤ E} (docs/robust.md, section 3). Two-level
blocks give a start; the blocks in K that climbs from them reach are what the prices learn from then, and a table of
what any block may be worth is made for the prices that are left in the end.
The programme's own y are a degenerate vertex at which other blocks are worth far more, so a proximal bundle is begun at
y = 1 + Σ_h θ_h φ(h), what each value tells; the 1 makes r about −1/T, as the total asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import Floats, Ints, xlogx
from sfumato.optimise.bound.climb import Climb
from sfumato.optimise.bound.dual import Items, Queries
from sfumato.optimise.bound.pricing import Block, Priced
from sfumato.optimise.bound.slack import reach
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.conic import ConicProgramme
from sfumato.optimise.linear import DUAL, INFINITY, LinearProgramme

PAIRED = 24  # values up to which exchanges of two are tried
LISTED = 12  # values whose subsets are listed
EXCHANGES, STARTS = 3, 6  # of sets of more values: rounds of exchanges, and sets they begin at
SETTLED = 1e-3  # nats: blocks worth less than this more are not looked for
CLIMBS = 4  # blocks from which better ones are looked for at a time
BUNDLE = 20  # blocks for each value in the programme of prices
SERIOUS, TRUSTED = 0.1, 0.5  # shares of the promised fall at which prices are taken, and boldness grows
BOLDER, SHYER = 2.0, 0.6
ALIKE = 30.0  # times bolder: what all prices of a secret move alike
TINY = 1e-3  # what is not below zero stands for this
STEERED = 1e-6  # accuracy of the programme of prices, which are judged by what they prove
CLOSE = 1e-3  # of the value: what prices may still gain when they are left


STRAND = 0.02  # seconds that a secret takes at least, for each of its values


class BoundStrand:
    """One secret with shares q of its values, the slack of its two sides, and E."""

    MEANS = 4  # blocks of log c
    tree: Items | None = None  # what branch and bound knows of K
    SCALED = False  # whether blocks are scaled to the mean 1

    def __init__(self, q: Floats, order: float, above: float, below: float, E: float) -> None:
        self.q, self.order, self.E = q, order, E
        self.block = Block(q, order, above, below) if len(q) > 1 else None
        far = np.full(len(q), 2.0 / q.min() + 40.0)
        self.lp = LinearProgramme(np.append(1.0, q), np.append(-INFINITY, -far), np.append(INFINITY, far), warm=True)
        self.blocks, self.gain = np.zeros((0, len(q))), np.zeros(0)
        grid = np.sin(np.linspace(0.0, np.pi / 2, 257)) ** 2
        self.reach = grid, reach(grid, below, order)[0], reach(grid, above, order)[1]
        eye = np.eye(len(q))
        self.sets = np.concatenate([eye, 1.0 - eye]) if len(q) > 2 else eye
        if 2 < len(q) <= LISTED:
            self.sets = (np.arange(1, (1 << len(q)) - 1)[:, None] >> np.arange(len(q)) & 1).astype(float)
        self._add(np.outer([1.0, E], np.ones(len(q))))
        if len(q) > 1:
            self._add(np.concatenate(self._corners(np.concatenate([eye, 1.0 - eye]))))

    def _gained(self, blocks: Floats, gain: Floats) -> tuple[Floats, Floats]:
        """Blocks and their gains as the programme takes them."""
        return blocks, gain

    def _add(self, blocks: Floats, gain: Floats | None = None) -> None:
        blocks, gain = self._gained(blocks, xlogx(blocks) @ self.q if gain is None else gain)
        self.blocks, self.gain = np.concatenate([self.blocks, blocks]), np.concatenate([self.gain, gain])
        self.lp.add(np.column_stack([np.ones(len(gain)), blocks * self.q]), gain, np.full(len(gain), INFINITY))

    def _levels(self, mass: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """(low, step) of the two corners of lo + d·1_H in K: the steepest, or 0 off H and d = E/r₊ or 1/r₋."""
        low, high = (np.interp(mass, self.reach[0], x) for x in self.reach[1:])
        d = (self.E - 1.0) / np.maximum(high - low, 1e-300)
        flat = 1.0 - d * low < 0.0
        one, two = self.E / np.maximum(high, 1e-300), 1.0 / np.maximum(low, 1e-300)
        start = np.where(flat, 0.0, 1.0 - d * low)
        return (start, np.where(flat, one, d)), (start, np.where(flat, two, d))

    def _corners(self, sets: Floats) -> list[Floats]:
        return [low[:, None] + d[:, None] * sets for low, d in self._levels(np.minimum(sets @ self.q, 1.0))]

    def _best(self, y: Floats) -> tuple[Floats, Floats]:
        """The sets worth most at y, and what they are worth."""
        sets, count = self.sets, len(self.q)
        if count > LISTED:
            sets, flips = (np.argsort(np.argsort(y))[None] < np.arange(1, count)[:, None]).astype(float), np.eye(count)
            for _ in range(EXCHANGES):
                best = sets[np.argsort(-self._worth(sets, y))[:STARTS]]
                near = np.abs(best[:, None] - flips).reshape(-1, count)
                swaps = np.abs(near[: 2 * count, None] - flips).reshape(-1, count)
                near = np.concatenate([near, swaps]) if count <= PAIRED else near
                near = near[(near.sum(1) > 0) & (near.sum(1) < count)]
                sets = np.concatenate([best, near[np.argsort(-self._worth(near, y))[: 6 * count]]])
            sets = np.unique(sets, axis=0)
        worth = self._worth(sets, y)
        top = np.argsort(-worth)[: 4 + count // 2]
        return sets[top], worth[top]

    def _worth(self, sets: Floats, y: Floats) -> Floats:
        spend(30, sets.size)
        mass, priced, whole = np.minimum(sets @ self.q, 1.0), sets @ (self.q * y), float(self.q @ y)
        return np.asarray(np.max([
            self._weighed(low + d * mass, mass * xlogx(low + d) + (1 - mass) * xlogx(low), low * whole + d * priced)
            for low, d in self._levels(mass)
        ], axis=0))

    def _weighed(self, mean: Floats, gain: Floats, priced: Floats) -> Floats:
        return gain - priced

    def solve(self, T: float, turns: int = 0, budget: Budget = FREE) -> None:
        """The programme at this length, with two-level blocks added for so many turns: r, y at a vertex, and θ."""
        self.lp.cost(np.array([T]))
        for turn in range(turns + 1):
            found = self.lp.solve(DUAL)
            if not found.optimal:
                return
            self.r, self.vertex, self.theta = float(found.x[0]), found.x[1:], found.row_dual
            if turn == turns or len(self.q) == 1 or budget.over:
                return
            sets, worth = self._best(self.vertex)
            if worth[0] < self.r + SETTLED:
                return
            self._add(np.concatenate(self._corners(sets)))

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
        if self.block is None:
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

    def begin(self) -> None:
        """What each value tells, as the first prices to be judged."""
        self.y = self.vertex if self.block is None else np.asarray(self.theta @ xlogx(self.blocks)) + 1.0
        self.tried, self.model, self.r, self.bold = self.y, -np.inf, np.inf, 1.0
        k = np.zeros(2) if self.block is None else self.block.k
        self.climb = Climb(self.q, self.order, k, self.E, self.SCALED)

    def worth(self, T: float) -> float:
        """q·y + T·r at the prices that are kept."""
        return float(self.q @ self.y) + T * self.r

    def judge(self, T: float) -> None:
        """The best blocks that are found at the prices that are tried: they are kept, or one is more careful."""
        y, first = self.tried, self.r == np.inf
        if self.block is not None:
            starts = np.concatenate([self.blocks[self._first(y)], self._gained(*self._told(self._best(y)[0]))[0]])
            best = np.argsort(-(xlogx(starts) @ self.q - starts @ (self.q * y)), kind="stable")[:CLIMBS]
            self._add(np.array([self.climb.climbed(y, w) for w in starts[best]]))
        r, self.r = self._height(y), np.inf if first else self._height(self.y)
        value, best_known = float(self.q @ y) + T * r, self.worth(T)
        promised = best_known - self.model
        if first or value < best_known - SERIOUS * max(promised, 0.0):
            self.bold *= BOLDER if not first and value < best_known - TRUSTED * promised else 1.0
            self.y, self.r = y, r
        else:
            self.bold *= SHYER

    def _told(self, sets: Floats) -> tuple[Floats, Floats]:
        blocks = np.concatenate(self._corners(sets))
        return blocks, xlogx(blocks) @ self.q

    def _height(self, y: Floats) -> float:
        return float((self.gain - self.blocks @ (self.q * y)).max())

    def _first(self, y: Floats) -> Ints:
        return np.asarray(np.argsort(-(self.gain - self.blocks @ (self.q * y)), kind="stable")[:CLIMBS])

    @property
    def near(self) -> Ints:
        """The blocks worth most at the prices that are kept, and the two constants: without them prices have no end."""
        worth = self.gain - self.blocks @ (self.q * self.y)
        return np.union1d(np.argsort(-worth)[: BUNDLE * len(self.q)], [0, 1])


def steer(strands: Sequence[BoundStrand], shares: Floats, T: float | None = None) -> float:
    """New prices to be tried for all secrets: a proximal bundle, min Σ P̂_s(q·y + |y − c|²/2·bold) + F(Σ P̂_s r_s).

    F(R) = T·R for a length T that is given; else −log(−R), the best of T·R + log T + 1 over T, and T is returned. What
    all prices of a secret move alike counts little as a distance: that is what balances secrets.
    """
    programme, bend, cost, places = ConicProgramme(), [], [], []
    for strand, x in zip(strands, shares.tolist(), strict=True):
        q, near = strand.q, strand.near
        at = programme.fresh(len(q) + 2)  # y less what all move alike, that, and r
        bend += [x * q / strand.bold, [x / (ALIKE * strand.bold), 0.0]]
        cost += [x * (q - q * strand.y / strand.bold), [x, 0.0 if T is None else x * T]]
        rows = np.column_stack([strand.blocks[near] * q, strand.blocks[near] @ q, np.ones(len(near))])
        i, k = (a.ravel() for a in np.indices(rows.shape))
        programme.nonnegative(i, at[k], rows.ravel(), -strand.gain[near])
        spend(30 + 2.4 * len(near))
        spend(1, 0.6 * rows.size * len(q) + 5 * len(q) ** 3)
        places.append(at)
    r = np.array([at[-1] for at in places])
    if T is None:  # −log(−R) to second order, at what is proved
        near, total = -1.0 / min(sum(x * s.r for x, s in zip(shares, strands, strict=True)), -TINY), programme.fresh(1)
        bend, cost = [*bend, [near**2]], [*cost, [2.0 * near]]
        programme.equal(np.zeros(len(r) + 1, np.int64), np.append(r, total), np.append(shares, -1.0), np.zeros(1))
    found = programme.solve(np.concatenate(cost), tolerance=STEERED, bend=np.concatenate(bend))
    x = found.x
    T = float(-1.0 / min(x[r] @ shares, -TINY)) if T is None else T
    for strand, at in zip(strands, places, strict=True):
        strand.tried = x[at[:-2]] + x[at[-2]]
        strand.model = float(strand.q @ strand.tried) + T * float(x[at[-1]])
    return T


def height(table: Floats, tilt: float = 0.0) -> Floats:
    """The greatest B − tilt·c of each block of a table."""
    return np.asarray(table[:, 2] - np.minimum(tilt * table[:, 0], tilt * table[:, 1]))
