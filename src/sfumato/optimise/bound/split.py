"""The split bound: every pair of secrets shares the slack in one way, and rows are a product over secrets again."""

from __future__ import annotations

import time

import numpy as np

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.bound.pricing import Block, Queries
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import DUAL, INFINITY, LinearProgramme

PAIRED = 24  # values up to which exchanges of two are tried
LISTED = 12  # values whose subsets are listed for the start
TURNS = (20, 4)  # of two-level rows at the first length T and at later ones
LENGTHS = 7  # halvings for T
SETTLED = 1e-3  # nats: two-level rows worth less than this more are not looked for
LARGE = 0.35  # share from which one secret dominates: prices that fit t = 1 fail for its own families
STRAND = 0.2  # seconds that a secret takes at least
LEAN = 0.42  # of the slack for M, the rest for m: M grows faster with its part
EDGES = np.array([0.0, 0.08, 1.0])  # of log t in units of ε: families of a distinguished secret
NEAR = np.array([-0.4, -0.2, -0.1, -0.04, 0.0, 0.04, 0.1, 0.2, 0.4])  # edges of blocks of log c, in units of ε
RADIUS = 0.02  # of the first step of prices, times 1/√q
CUTS, QUICK = 12, 3  # rounds of branch and bound for a table that counts, and for one that steers
BELOW = 0.1  # nats below the value at t = 1 down to which tables with higher floors are made good


class Strand:
    """One secret's blocks in K = {m ≥ 1, M ≤ E}, its prices y, and its master at a common length T.

    min q·y + T·r with r ≥ Σ q(φ(h) − y·h) for every block h seen (docs/robust.md, section 3).
    """

    def __init__(self, q: Floats, order: float, above: float, below: float, E: float) -> None:
        self.q, self.E = q, E
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
        self.add(np.outer([1.0, E], np.ones(len(q))))
        if len(q) > 1:
            self.add(np.concatenate(self._corners(np.concatenate([eye, 1.0 - eye]))))

    def add(self, blocks: Floats, gain: Floats | None = None) -> None:
        gain = xlogx(blocks) @ self.q if gain is None else gain
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
        sets = self.sets
        if len(self.q) > LISTED:
            sets = (np.argsort(np.argsort(y))[None] < np.arange(1, len(self.q))[:, None]).astype(float)
            flips = np.eye(len(self.q))
            for _ in range(3):
                best = sets[np.argsort(-self._worth(sets, y))[:6]]
                near = np.abs(best[:, None] - flips).reshape(-1, len(self.q))
                swaps = np.abs(near[: 2 * len(self.q), None] - flips).reshape(-1, len(self.q))
                near = np.concatenate([near, swaps]) if len(self.q) <= PAIRED else near
                near = near[(near.sum(1) > 0) & (near.sum(1) < len(self.q))]
                sets = np.concatenate([best, near[np.argsort(-self._worth(near, y))[: 6 * len(self.q)]]])
            sets = np.unique(sets, axis=0)
        worth = self._worth(sets, y)
        top = np.argsort(-worth)[: 4 + len(self.q) // 2]
        return sets[top], worth[top]

    def _worth(self, sets: Floats, y: Floats) -> Floats:
        mass, priced, whole = np.minimum(sets @ self.q, 1.0), sets @ (self.q * y), float(self.q @ y)
        return np.asarray(np.max([
            mass * xlogx(low + d) + (1 - mass) * xlogx(low) - low * whole - d * priced for low, d in self._levels(mass)
        ], axis=0))

    def solve(self, T: float, turns: int = 0) -> None:
        """Prices y and r at this length, with two-level rows added for so many turns."""
        self.lp.cost(np.array([T]))
        for turn in range(turns + 1):
            found = self.lp.solve(DUAL)
            if not found.optimal:
                return
            self.r, self.y, self.value = float(found.x[0]), found.x[1:], float(found.value)
            if turn == turns or len(self.q) == 1:
                return
            sets, worth = self._best(self.y)
            if worth[0] < self.r + SETTLED:
                return
            self.add(np.concatenate(self._corners(sets)))

    def near(self, y: Floats, radius: float) -> Floats:
        """The master's prices within a radius of these: the bound is steep, so steps must be short."""
        index = np.arange(1, len(y) + 1, dtype=np.int32)
        far = radius / np.sqrt(self.q)
        self.lp.h.changeColsBounds(len(y), index, y - far, y + far)
        found = self.lp.solve(DUAL)
        self.low = float(found.value)
        return found.x[1:] if found.optimal else y

    def table(self, y: Floats, floor: float, roof: float, least: float, budget: Budget, cuts: int) -> Floats:
        """Rows (c₁, c₂, B): in a block of means c, Σ q(φ(w) − y·w) ≤ B for w = v/c with m(v) ≥ floor, M(v) ≤ roof.

        A block with c·B + φ(c) ≤ least at both ends need not be good.
        """
        if self.block is None:
            edges = np.linspace(floor, roof, 9)
            return np.column_stack([edges[:-1], edges[1:], np.full(8, -float(y[0]))])
        middle, width = float(np.log(floor * roof)) / 2, float(np.log(roof / floor))
        edges = np.exp(np.concatenate([[np.log(floor)], middle + NEAR * width, [np.log(roof)]]))
        above, below = roof / edges[:-1], floor / edges[1:]
        ends = np.minimum((least - xlogx(edges[:-1])) / edges[:-1], (least - xlogx(edges[1:])) / edges[1:])
        first = (edges[1:] > np.exp(middle + 1e-9)).astype(np.int64)
        asked = Queries(np.column_stack([above, below]), 1 - first)
        found = self.block.price(y, asked, ends + SETTLED, cuts, budget)
        self.found = asked, found
        return np.column_stack([edges[:-1], edges[1:], np.maximum(found.value, ends + SETTLED)])

    def learn(self, y: Floats, table: Floats) -> None:
        """The relaxed block of the worst place of the last table, for the master."""
        if self.block is None:
            return
        asked, found = self.found
        top = _height(table)
        for query in np.argsort(-top)[:2]:
            item = found.items.take(found.items.query == query)
            row = self.block.relaxed(y, asked, item.take(np.array([int(item.value.argmax())])))
            if row is not None:
                for c in table[query, :2]:
                    self.add(c * row[0][None], np.array([c * row[1] + float(xlogx(np.array(c)))]))


def _height(table: Floats, tilt: float = 0.0) -> Floats:
    """The greatest c(B − tilt) + φ(c) of each block: convex in c, so at an end."""
    return np.asarray(np.max([table[:, i] * (table[:, 2] - tilt) + xlogx(table[:, i]) for i in (0, 1)], axis=0))


class Split:
    """Secrets with about half of the slack each, less for M than for m: any M and m have all of it together."""

    def __init__(self, p: Floats, slack: Slack, epsilon: float) -> None:
        self.shares, self.E, self.epsilon = p.sum(axis=1), float(np.exp(epsilon)), epsilon
        self.largest = int(self.shares.argmax())
        self.strands = [
            Strand(row[row > 0] / share, slack.kappa, slack.given(share, LEAN), slack.given(share, 1.0 - LEAN), self.E)
            for row, share in zip(p, self.shares.tolist(), strict=True)
        ]

    def start(self, budget: Budget) -> float:
        """The length T at which Σ P̂_s r_s = −1/T, by halving; the value of two-level rows there.

        ∞ if time does not suffice.
        """
        low, high = 1.0 / self.E, 1.0
        for turn in range(LENGTHS):
            self.T = (low + high) / 2
            for strand in self.strands:
                if budget.over and turn == 0:
                    return np.inf
                strand.solve(self.T, 0 if budget.over else TURNS[turn > 0])
            slope = float(sum(x * s.r for x, s in zip(self.shares, self.strands, strict=True)))
            low, high = (self.T, high) if slope + 1.0 / self.T > 0 else (low, self.T)
        return float(np.log(self.T) + sum(x * s.value for x, s in zip(self.shares, self.strands, strict=True)))

    def fits(self, budget: Budget) -> bool:
        """Whether the time left suffices for the two tables of each secret that a bound needs at least."""
        strand, began = self.strands[self.largest], time.monotonic()
        strand.table(strand.y, 1.0, self.E, strand.r, FREE, 0)
        return budget.left > 2.5 * len(self.strands) * (time.monotonic() - began)

    def improve(self, budget: Budget, turns: int) -> None:
        """A few turns of relaxed blocks for each secret at T, the best prices are kept."""
        self.y, self.tables = [s.y for s in self.strands], []
        for s, strand in enumerate(self.strands):
            # a share of the time as large as the share of the value that is at stake
            mine = budget.part(float(self.shares[s] / self.shares[s:].sum()))
            self.y[s], table = self._prices(strand, self.true[s], mine, turns)
            self.tables.append(table)

    def _prices(self, strand: Strand, true: int, budget: Budget, turns: int) -> tuple[Floats, Floats]:
        """Prices within a radius of the best, which grows while they get better, and their table at t = 1."""
        best, radius, y = np.inf, RADIUS, strand.y
        kept = y, np.zeros((0, 3))
        for turn in range(turns + 1):
            y = kept[0] if turn == turns else y
            least = float((strand.gain[:true] - strand.blocks[:true] @ (strand.q * y)).max())
            # the first table is needed whatever time is left (see `fits`), the others may stop anywhere
            cuts = (QUICK if turn < turns else CUTS) if turn else 0
            table = strand.table(y, 1.0, self.E, least, budget if turn else FREE, cuts)
            value = float(strand.q @ y) + self.T * float(_height(table).max())
            radius *= 1.3 if value < best and turn else 0.7
            if value < best:
                best, kept = value, (y, table)
            if budget.over or strand.block is None:
                break
            strand.learn(y, table)
            y = strand.near(kept[0], radius)
        return kept

    def run(self, budget: Budget, turns: int) -> float:
        self.true = [len(s.gain) for s in self.strands]
        self.improve(budget.part(0.5), turns)
        return Families(self).run(budget)


class Families:
    """Rows with a distinguished secret s0 and t in [t₁, t₂]: floor t₁ for the others, roof E·t₂ for s0."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.t = np.exp(split.epsilon * EDGES)
        count = len(self.t) - 1
        self.rest = [[table] * count for table in split.tables]  # a table with floor 1 serves every floor above
        self.own: list[list[Floats | None]] = [[None] * count for _ in split.tables]
        self.top = [float(_height(table).max()) for table in split.tables]
        self.tight = np.zeros((len(split.tables), 2, count), dtype=bool)
        self.tight[:, 0, 0] = True

    def run(self, budget: Budget) -> float:
        """The worst family's tables are made good, until it is good already or time is over."""
        split = self.split
        for s in range(len(split.strands)):
            self._own(s, len(self.t) - 2, budget)
        best = np.inf
        while True:
            value, (s0, k) = self.assembled()
            best = min(best, value)
            todo = [(s, 0, k) for s in np.argsort(-split.shares) if s != s0 and not self.tight[s, 0, k]]
            todo = ([] if self.tight[s0, 1, k] else [(s0, 1, k)]) + todo[:4]
            if not todo or budget.over:
                return best
            for s, kind, at in todo:
                if budget.over:
                    return best
                (self._own if kind else self._rest)(s, at, budget)

    def _own(self, s: int, k: int, budget: Budget) -> None:
        split = self.split
        roof = split.E * float(self.t[k + 1])
        table = split.strands[s].table(split.y[s], 1.0, roof, self.top[s], FREE, 0 if budget.over else 1)
        self.own[s] = [table if i == k or (i < k and self.own[s][i] is None) else x for i, x in enumerate(self.own[s])]
        self.tight[s, 1, k] = True

    def _rest(self, s: int, k: int, budget: Budget) -> None:
        split = self.split
        table = split.strands[s].table(split.y[s], float(self.t[k]), split.E, self.top[s] - BELOW, FREE, 1)
        if _height(table).max() < _height(self.rest[s][k]).max():  # both hold; a hasty one may be the looser
            self.rest[s] = [table if i >= k else x for i, x in enumerate(self.rest[s])]
        self.tight[s, 0, k] = True

    def assembled(self) -> tuple[float, tuple[int, int]]:
        """Σλ + max(0, price/z) over all families, at the best common shift of the prices."""
        split = self.split
        constant = sum(x * float(s.q @ y) for x, s, y in zip(split.shares, split.strands, split.y, strict=True))
        best = np.inf, (0, 0)
        for shift in np.concatenate([np.linspace(-0.6, 0.6, 25), np.linspace(-0.08, 0.08, 17)]):
            worst, where = self._price(float(shift))
            value = constant - 1.0 + float(np.log(split.T)) - float(shift) + worst
            if value < best[0]:
                best = value, where
        return best

    def _price(self, shift: float) -> tuple[float, tuple[int, int]]:
        split, d = self.split, self.split.largest
        taus = np.exp(np.linspace(0.0, 2.0 * split.epsilon, 61))
        tilts = np.log(taus * split.T) - shift
        worst, where = 0.0, (0, 0)

        def heights(table: Floats) -> Floats:
            return np.stack([_height(table, float(x)) for x in tilts])  # [τ, block]

        for k in range(len(self.t) - 1):
            rest = [heights(self.rest[s][k]) for s in range(len(split.strands))]
            tops = np.array([x * r.max(1) for x, r in zip(split.shares, rest, strict=True)])
            for s0 in range(len(split.strands)):
                own = self.own[s0][k]
                assert own is not None
                mine = heights(own)
                total = taus + tops.sum(0) - tops[d]
                if s0 != d:
                    total = total + split.shares[s0] * mine.max(1) - tops[s0]
                blocks, table = (mine, own) if s0 == d else (rest[d], self.rest[d][k])
                price = (total[:, None] + split.shares[d] * blocks).min(0)
                z = self._least(s0, k, table[:, 0])
                at = price / z
                if at.max() > worst:
                    worst, where = float(at.max()), (s0, k)
        return worst, where

    def _least(self, s0: int, k: int, c: Floats) -> Floats:
        """z is at least the largest secret's mean and the floors of the others."""
        shares, d, t = self.split.shares, self.split.largest, float(self.t[k])
        floor = np.full(len(shares), t)
        floor[s0] = 1.0
        return np.asarray(shares[d] * c + float(shares @ floor) - shares[d] * floor[d])


def split(p: Floats, slack: Slack, epsilon: float, budget: Budget = FREE, turns: int = 8) -> float:
    """The bound with half of the slack for every secret; ∞ where it would say nothing or time does not suffice."""
    if p.sum(axis=1).max() > LARGE or p.shape[1] < 3:  # one secret dominates, or `two_values` says more
        return np.inf
    if budget.left < STRAND * len(p):
        return np.inf
    half = Split(p, slack, epsilon)
    enough = np.isfinite(half.start(budget.part(0.2))) and half.fits(budget)
    return min(half.run(budget, turns), entropy(p.ravel())) if enough else np.inf
