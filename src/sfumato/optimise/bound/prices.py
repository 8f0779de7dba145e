"""What blocks of one secret may be worth, and prices of the values of all secrets.

A bound is Σ P̂ q·y + T·max over families of Σ_s P̂_s r_s, where a family says for each secret in which corridor
K = {m ≥ floor, M ≤ roof} its blocks h lie, and r ≥ Σ q(φ(h) − y·h) for all of them (docs/robust.md, sections 3 and 14).
Prices y that suit one family alone may be worth nothing in another, so they are fitted to all of them at once, by a
proximal bundle over blocks that are met on the way: two-level ones, and those that climbs from them reach. A table of
what any block may be worth is made for the prices that are left in the end.
The programme's own y are a degenerate vertex at which other blocks are worth far more, so the bundle is begun at
y = 1 + Σ_h θ_h φ(h), what each value tells; the 1 makes r about −1/T, as the total asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import EMPTY, GHOST, Floats, Ints, xlogx
from sfumato.optimise.bound.dual import SIGN, Items, Queries
from sfumato.optimise.bound.pricing import Block
from sfumato.optimise.budget import Budget, spend
from sfumato.optimise.conic import ConicProgramme, Terms, exponential, power, solved
from sfumato.optimise.product.blocks import decoupled
from sfumato.optimise.product.two_level import Heights, Profile, TwoLevel
from sfumato.optimise.search import BOLDER, SERIOUS, SHYER, TRUSTED

SETTLED = 1e-3  # nats: blocks worth less than this more are not looked for
MEANS = 4  # blocks of log c that are priced; a table has them in halves, as what holds for one holds for either
CLIMBS = 1  # blocks from which better ones are looked for at a time
BUNDLE = 6  # blocks for each value and corridor in the programme of prices
CLOSE = 1e-3  # nats that prices stand to gain when they are left
STRAND = 0.02  # seconds that a secret takes at least, for each of its values


class Corridor:
    """The blocks with m ≥ floor and M ≤ roof that were met, or those with M ≤ roof·m and the mean 1; each with what it
    gains. Those of a floor are floor·h, h those of the floor 1: they are worth floor·(Σ qφ(h) − q·(y − log floor)·h).
    """

    def __init__(self, block: Block, floor: float, roof: float, scaled: bool = False) -> None:
        self.block, self.q, self.floor, self.roof = block, block.q, floor, roof
        self.climb = Climb(block, roof / floor, scaled)
        heights = Heights(block, 0, 1.0, roof / floor, Profile(), w=block.places)
        self.family = TwoLevel(block.q, heights.scaled() if scaled else heights)
        self.blocks, self.gain = np.zeros((0, len(self.q))), np.zeros(0)
        self.tree: Items | None = None
        self.add(floor * self.family.ends)

    def add(self, blocks: Floats) -> None:
        self.blocks = np.concatenate([self.blocks, blocks])
        self.gain = np.append(self.gain, xlogx(blocks) @ self.q)

    def worth(self, y: Floats) -> Floats:
        return np.asarray(self.gain - self.blocks @ (self.q * y))

    def learn(self, y: Floats) -> None:
        """Blocks that are worth most at these prices, as far as climbs find them."""
        if len(self.q) == 1:
            return
        own = y - np.log(self.floor)
        near = self.blocks[np.argsort(-self.worth(y), kind="stable")[:CLIMBS]] / self.floor
        starts = np.concatenate([near, self.family.best(self.q * own, CLIMBS)])
        best = np.argsort(starts @ (self.q * own) - xlogx(starts) @ self.q, kind="stable")[:CLIMBS]
        self.add(self.floor * np.array([self.climb.climbed(own, h) for h in starts[best]]))

    def table(self, y: Floats, rounds: int, budget: Budget) -> Floats:
        """Rows (c₁, c₂, B): Σ q(φ(v) − y·v) ≤ B for the blocks v with q·v in [c₁, c₂]; what is known of the corridor
        from other prices is gone on from. It need not be better than what is attained."""
        edges = np.geomspace(self.floor, self.roof, 2 * MEANS + 1)
        if len(self.q) == 1:
            ends = xlogx(edges) - float(y[0]) * edges
            most = np.maximum(ends[:-1], ends[1:])  # convex
        else:
            asked, enough = Queries.by_mean(self.floor, self.roof, MEANS), np.full(MEANS, self.worth(y).max() + SETTLED)
            value, self.tree = self.block.price(y, asked, enough, rounds, budget, self.tree)
            most = np.repeat(np.maximum(value, enough), 2)
        return np.column_stack([edges[:-1], edges[1:], most])

    def near(self, y: Floats) -> Ints:
        """The blocks worth most, and the two constants: without them prices have no end."""
        return np.union1d(np.argsort(-self.worth(y), kind="stable")[: BUNDLE * len(self.q)], [0, 1])


class Prices:
    """min over y of Σ P̂ q·y + max over T of T·R(y) + log T, R(y) the greatest Σ_s P̂_s r_s(y_s) of a family, by a
    proximal bundle: T is what suits the prices that are kept."""

    def __init__(
        self, shares: Floats, corridors: Sequence[Sequence[Corridor]], families: Ints, total: float, least: float,
        budget: Budget,
    ) -> None:
        """The corridors of each secret, of which family f has number families[f, s]; T in [least, 1]."""
        self.shares, self.corridors, self.families, self.least = shares, corridors, families, least
        self.ends = np.cumsum([len(own[0].q) for own in corridors])
        self.weight = np.concatenate([x * own[0].q for x, own in zip(shares, corridors, strict=True)])
        first, told = [own[0].family for own in corridors], []
        layout = decoupled(first, shares, total, least, 1.0, budget, tolerance=SETTLED, rounds=6, steps=2)
        for own, theta, blocks in zip(corridors, layout.lengths, layout.heights, strict=True):
            told.append(theta @ xlogx(blocks) + 1.0)
            own[0].add(own[0].floor * blocks)
        self.T, self.y, self.model, self.bold = layout.total, np.concatenate(told), -np.inf, 1.0

    def of(self, y: Floats) -> list[Floats]:
        """The prices of each secret."""
        return np.split(y, self.ends[:-1])

    def height(self, y: Floats) -> float:
        """R(y), as far as blocks are known."""
        each = zip(self.shares, self.corridors, self.of(y), self.families.T, strict=True)
        tops = [share * np.array([x.worth(mine).max() for x in own])[k] for share, own, mine, k in each]
        return float(np.sum(tops, axis=0).max())

    def worth(self, y: Floats) -> float:
        """Σ P̂ q·y + T·R(y) + log T at the T in [least, 1] that makes it greatest, which is kept: convex in y."""
        R = self.height(y)
        self.T = float(np.clip(-1.0 / min(R, -1.0), self.least, 1.0))
        return float(self.weight @ y) + self.T * R + float(np.log(self.T))

    def fit(self, turns: int, budget: Budget) -> None:
        """Prices are tried, and taken or tried again nearby, as long as there is much to gain."""
        tried, first = self.y, True
        for _ in range(turns):
            for own, mine in zip(self.corridors, self.of(tried), strict=True):
                for corridor in own:
                    corridor.learn(mine)
            new, old = self.worth(tried), self.worth(self.y)
            promised = old - self.model
            if first or new < old - SERIOUS * max(promised, 0.0):
                self.bold *= BOLDER if not first and new < old - TRUSTED * promised else 1.0
                self.y, old = tried, new
            else:
                self.bold *= SHYER
            self.worth(self.y)
            first, tried = False, self.y if budget.over else self._next()
            if budget.over or old - self.model < CLOSE:
                break

    def _next(self) -> Floats:
        """min w·y + T·ρ + Σ w(y − c)²/(2·bold) with ρ ≥ Σ_s r_s for every family, r_s ≥ P̂_s·worth of known blocks."""
        blocks, gains, at, wide = [], [], [], sum(map(len, self.corridors))
        for x, own, mine in zip(self.shares, self.corridors, self.of(self.y), strict=True):
            near = [c.near(mine) for c in own]
            blocks.append(x * np.concatenate([c.blocks[k] * c.q for c, k in zip(own, near, strict=True)]))
            gains += [x * c.gain[k] for c, k in zip(own, near, strict=True)]
            at.append(sparse.block_diag([np.ones((len(k), 1)) for k in near]))
        number = self.families + np.cumsum([0, *map(len, self.corridors[:-1])])
        row = np.repeat(np.arange(len(number)), number.shape[1])
        some = sparse.csr_matrix((-np.ones(number.size), (row, number.ravel())), (len(number), wide))
        known = sparse.hstack([sparse.block_diag(blocks), sparse.block_diag(at)])
        a = sparse.bmat([[known, None], [sparse.hstack([sparse.csr_matrix((len(number), len(self.y))), some]),
                                         np.ones((len(number), 1))]], format="coo")
        spend(200, a.nnz)
        spend(1, 30 * sum(len(b) * b.shape[1] ** 2 for b in blocks))
        programme, right = ConicProgramme(a.shape[1]), np.concatenate([*gains, np.zeros(len(number))])
        programme.nonnegative(a.row.astype(np.int64), a.col.astype(np.int64), a.data, -right)
        cost, bend = np.zeros(a.shape[1]), np.zeros(a.shape[1])
        cost[: len(self.y)], cost[-1] = self.weight * (1.0 - self.y / self.bold), self.T
        bend[: len(self.y)] = self.weight / self.bold
        found = programme.solve(cost, tolerance=GHOST, refine=True, bend=bend).x
        tried = found[: len(self.y)]
        self.model = float(self.weight @ tried) + self.T * float(found[-1]) + float(np.log(self.T))
        return tried


# --- blocks of one secret that are worth much at given prices: what prices learn from, and they prove nothing ---------


GAINED = 1e-4  # nats that a step must gain: a climb ends after two or three
ACCURATE = 1e-6  # digits asked of the solver: a block that is a little outside misleads nobody


class Climb:
    """Blocks with m ≥ a and M ≤ E·a, where a = 1, or where the mean is 1.

    The worth Σ q(φ(w) − y·w) is convex, so the block that is best for its tangent is worth at least as much: a cone
    programme a step, M ≤ L being Σ q (t + L − w)^κ t^{1−κ} ≥ (1 + κk)t for some t = 1/ϰ ≥ 0 (docs/robust.md, 14).
    """

    def __init__(self, block: Block, E: float, scaled: bool) -> None:
        self.q, n, order, programme = block.q, len(block.q), block.order, ConicProgramme()
        w, a, one, zero = programme.fresh(n), programme.fresh(1), np.ones(n), np.zeros(n, dtype=np.int64)
        programme.equal(zero if scaled else zero[:1], w if scaled else a, self.q if scaled else one[:1], -one[:1])
        programme.hold([(w, one)])
        for sign, level, slack in zip(SIGN, (E, 1.0), block.k.tolist(), strict=True):
            t, under = programme.fresh(1), programme.fresh(n)
            every: Terms = [(np.repeat(t, n), one)]
            above: Terms = [*every, (np.repeat(a, n), sign * level * one), (w, -sign * one)]
            _root(programme, order, above, every, [(under, one)])
            way, share = -1.0 if order < 0 else 1.0, 1.0 + order * slack if order else slack
            columns, factors = np.append(under, t), way * np.append(self.q, -share)
            programme.nonnegative(np.zeros(n + 1, dtype=np.int64), columns, factors, np.zeros(1))
        self.cost = np.zeros(programme.variables)
        self.solver = programme.solver(self.cost, tolerance=ACCURATE)

    def climbed(self, y: Floats, w: Floats) -> Floats:
        """From one block to a better one, until there is none for the tangent, or the solver fails."""
        worth, n = float(self.q @ (xlogx(w) - y * w)), len(self.q)
        while True:
            spend(8 + 1.6 * n)
            self.cost[:n] = self.q * (y - 1.0 - np.log(np.maximum(w, EMPTY)))
            self.solver.update(q=self.cost)
            found = solved(self.solver)
            other = np.maximum(found.x[:n], 0.0)
            more = float(self.q @ (xlogx(other) - y * other))
            if "Solved" not in found.status or not more > worth + GAINED:
                return w
            w, worth = other, more


def _root(programme: ConicProgramme, order: float, x: Terms, t: Terms, under: Terms) -> None:
    """under ≤ x^κ t^{1−κ}, ≥ for κ < 0, and t log(x/t) for κ = 0."""
    if order == 0.5:
        programme.products(x, t, under)
    elif order > 0.0:
        programme.each(power(order, 1.0 - order), x, t, under)
    elif order < 0.0:
        programme.each(power(1.0 / (1.0 - order), -order / (1.0 - order)), under, x, t)
    else:
        programme.each(exponential, under, t, x)
