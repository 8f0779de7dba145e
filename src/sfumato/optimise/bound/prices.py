"""What one secret's block of a row may be worth, and prices of the values of all secrets at which that is least.

A bound is Σ P̂ q·y + T·max over families of Σ_s P̂_s r_s, where a family says for each secret in which corridor
K = {m ≥ floor, M ≤ roof} its blocks h lie, and r ≥ Σ q(φ(h) − y·h) for all of them (docs/robust.md, sections 3 and 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, EMPTY, GHOST, Bools, Floats, Ints, xlogx
from sfumato.optimise.bound.dual import SIGN, UNUSED, Items, PricingDual, Queries, curve
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.conic import ConicProgramme, Terms, exponential, power, solved
from sfumato.optimise.product.blocks import decoupled
from sfumato.optimise.product.two_level import Heights, Profile, TwoLevel, possible
from sfumato.optimise.search import BOLDER, SERIOUS, SHYER, TRUSTED
from sfumato.tolerances import LEAST
from sfumato.uncertainty.balls import SharedRadius
from sfumato.uncertainty.power_tilting import kappa

# --- the worth of a block bounded over all rows, two-level or not, for any number of values ---------------------------
# Blocks have a mean q·w in [c₁, c₂] and two *sides*: M(w; k) ≤ L and m(w; k') ≥ l, the worst means over the
# conditionals that spend at most k and k'. With h(x) = (x^κ − 1)/κ and x = 1 − ϰ(w − L) the first holds iff w ≤ L or,
# for some ϰ > 0, w ≤ L + 1/ϰ and Σ q h(x) ≥ k (docs/robust.md, section 14); the second is its mirror image.


RATIO = 1.5  # of the ends of a cell of ϰ at first
LAST_CELL = 40.0  # times 1/|L − 1|: from this ϰ on only the box w ≤ L + 1/ϰ is kept
TAIL = -1.0  # for ρ: beyond the last cell
ASIDE = 1e-9  # of a budget, by which it is made smaller, of a box larger, and least gap: more than rounding takes
MASS_PASSES = 600  # passes for the masses of an order that has no closed form
PLACES = 4800  # items times values in memory at once
TAKEN = 40  # items with the greatest bounds that are cut at a time
CELL_FIRST = 0.1  # a cell that loses this part of what a value loses is cut first: all values gain by it
PLACES_TRIED = 40  # places ϰ at which a side that is not looked at is tried
NO_FLOOR = -1e6  # stands for −∞: by how much bounds exceed it says which is the greatest


class Block:
    """One secret with shares q > 0 and what T(D) may be on either side, as a set of laws whose secrets share nothing:
    parts of T(B) ≥ Σ_s P̂_s T(D_s), for every order (uncertainty/power_tilting.py)."""

    budget = 0.0

    def __init__(self, q: Floats, ball: SharedRadius, above: float, below: float) -> None:
        self.q, self.ball, self.order = q, ball, kappa(ball.alpha)
        self.k, one = (1.0 - ASIDE) * np.array([above, below]), np.maximum(1.0 - q, LEAST)
        reached = [ball.masses(q, 1.0, k) for k in self.k]
        self.rates = [tuple(np.maximum(x / one, LEAST) for x in (high - q, q - low)) for low, high in reached]

    @cached_property
    def places(self) -> Floats:
        """The masses of sets at which heights of two-level blocks are known."""
        return possible(self.q, self.q)

    @cached_property
    def _reached(self) -> tuple[Floats, Floats]:
        w = self.places[:, None]
        spend(60 if self.ball.closed else MASS_PASSES, w.size)
        return self.ball.masses(w, 1.0, self.k[1])[0], self.ball.masses(w, 1.0, self.k[0])[1]

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of mass w, which are those of `places`."""
        return self._reached

    def family(self, ratio: float, scaled: bool = False) -> TwoLevel:
        """The two-level blocks with m ≥ 1 and M ≤ ratio, or with M ≤ ratio·m and the mean 1."""
        heights = Heights(self, 0, 1.0, ratio, Profile(), w=self.places)
        return TwoLevel(self.q, heights.scaled() if scaled else heights)

    def box(self, level: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Limits of each w_u by the laws (1 − r)q + r·e_u, r of either sign, and by w ≥ 0: affine in the mean."""
        (above, below), c = self.rates, mean[:, :, None]
        up, down = level[:, None, :1] - c, c - level[:, None, 1:]
        top = np.minimum((c + up / above[0]).max(1), (c + down / below[1]).max(1))
        bottom = np.maximum((c - down / below[0]).min(1), (c - up / above[1]).min(1))
        return np.maximum(bottom - ASIDE, 0.0), np.minimum(top, mean[:, 1:] / self.q) * (1.0 + ASIDE)

    def _cells(self, items: Items, i: int, side: int) -> Items:
        """An item with every cell of a side that it did not look at, all ϰ that a row may need: none below k/|L − c|,
        because h(x) ≤ x − 1, in equal ratios, and ρ ≤ 1/|κ| for κ < 0: H is concave then."""
        k, gap = self.k[side], max(SIGN[side] * (items.level[i, side] - items.mean[i, side]), ASIDE)
        if self.order < 0 and k >= -1.0 / self.order:  # such a conditional may be anything: w itself is bounded
            edges = np.array([1.0 / (DUST * gap)])
        else:
            first, last = k / gap * (1.0 - ASIDE), max(LAST_CELL / gap, k / gap)
            most = min(RATIO, 1.0 - 1.0 / self.order) if self.order < 0 else RATIO
            edges = np.geomspace(first, last, int(np.ceil(np.log(last / first) / np.log(most))) + 1)
        many = items.take(np.full(len(edges), i))
        many.kappa[:, side], many.rho[:, side] = edges, np.append(edges[1:] / edges[:-1] - 1.0, TAIL)
        return many

    def _begun(self, asked: Queries) -> Items:
        """The cells of the side that each query looks at first."""
        n, (low, high) = len(asked.first), self.box(asked.level, asked.mean)
        none, x, value = np.full((n, 2), UNUSED), np.full((n, 3), np.nan), np.full(n, np.inf)
        whole = Items(np.arange(n), asked.level, asked.tilt, asked.mean, np.ones((n, 2)), none, low, high, x, value)
        return Items.together([self._cells(whole, i, int(side)) for i, side in enumerate(asked.first)])

    def price(
        self, y: Floats, asked: Queries, floor: Floats, rounds: int = 2, budget: Budget = FREE,
        tree: Items | None = None,
    ) -> tuple[Floats, Items]:
        """Upper bounds on Σ q(φ(w) − (y + tilt)·w), one per query, and the items whose greatest they are; those below
        `floor` need not be good. By branch and bound: a part is bounded by its own dual and by that of the whole.

        `tree` are items of the same queries to go on from, at other prices.
        """
        start = self._begun(asked) if tree is None else replace(tree, value=np.full(len(tree.value), np.inf))
        every = self._valued(start, y, floor)
        for _ in range(rounds):
            over = every.value - np.maximum(floor[every.query], NO_FLOOR)
            chosen = np.argsort(-over, kind="stable")[: min(TAKEN, np.count_nonzero(over > 0.0))]
            if not len(chosen) or budget.over:
                break
            parts = self._valued(self._split(every.take(chosen), y), y, floor)
            every = Items.together([every.take(np.delete(np.arange(len(over)), chosen)), parts])
        top = np.full(len(asked.first), -np.inf)
        np.maximum.at(top, every.query, every.value)
        return top, every

    def _split(self, items: Items, y: Floats) -> Items:
        """Each item in parts, where it loses most: the side not looked at, a cell, a value that lies in two places at
        once, or its mean."""
        cell, depth, where, w = PricingDual(self, items).losses(y)
        depth, unused = depth * self.q, items.rho == UNUSED
        deepest = depth.max(1)
        alone = unused.any(1) & ((deepest < DUST) | self._broken(items, w))
        halve = cell.max(1) > np.maximum(CELL_FIRST * deepest, DUST)
        below, above = (items.take(np.arange(len(alone))) for _ in range(2))
        at, side = np.flatnonzero(halve), cell.argmax(1)[halve]
        root = np.sqrt(1.0 + items.rho[at, side])
        below.rho[at, side] = above.rho[at, side] = root - 1.0
        above.kappa[at, side] *= root
        at = np.flatnonzero(~halve & (deepest >= DUST))
        u = depth.argmax(1)[at]
        below.high[at, u] = above.low[at, u] = where[at, u]
        at = np.flatnonzero(~halve & (deepest < DUST))
        below.mean[at, 1] = above.mean[at, 0] = items.mean[at].mean(1)
        cells = [self._cells(items, i, int(unused[i].argmax())) for i in np.flatnonzero(alone).tolist()]
        parts = Items.together([below.take(~alone), above.take(~alone)])
        low, high = self.box(parts.level, parts.mean)
        parts = replace(parts, low=np.maximum(parts.low, low), high=np.minimum(parts.high, high))
        return Items.together([parts, *cells])

    def _broken(self, items: Items, w: Floats) -> Bools:
        """Whether w is outside the side that an item does not look at, as far as a few ϰ tell."""
        side = np.where(items.rho[:, 0] == UNUSED, 0, 1)
        rows, sign, k = np.arange(len(side)), SIGN[side][:, None], self.k[side][:, None]
        over = sign * (w - items.level[rows, side][:, None])
        gap = sign * (items.level - items.mean)[rows, side][:, None]
        steps = k / np.maximum(gap, ASIDE) * np.geomspace(1.0, LAST_CELL / self.k.min(), PLACES_TRIED)
        x = 1.0 - steps[:, :, None] * over[:, None, :]
        inside = (x > 0.0).all(2) & (curve(np.maximum(x, DUST), self.order) @ self.q >= k)
        return np.asarray(~(inside.any(1) | (over <= 0.0).all(1)))

    def _valued(self, items: Items, y: Floats, floor: Floats) -> Items:
        """The items with their bounds, a few at a time; those without rows are left out."""
        items, step = items.inhabited(self.q), max(PLACES // len(self.q), 8)
        parts = (items.take(slice(at, at + step)) for at in range(0, len(items.query) or 1, step))
        return Items.together([PricingDual(self, x).minimised(y, floor[x.query]) for x in parts])


# --- prices: those that suit one family alone may be worth nothing in another, so they are fitted to all at once ------
# A proximal bundle over blocks that are met on the way, then a table (docs/robust.md, section 14, split). It begins at
# y = 1 + Σ_h θ_h φ(h), what each value tells: the programme's own y are a degenerate vertex.


BLOCK_SETTLED = 1e-3  # nats: blocks worth less than this more are not looked for
MEANS = 4  # blocks of log c that are priced; a table has them in halves, as what holds for one holds for either
BLOCKS_PRICED = 6  # blocks for each value and corridor in the programme of prices
STILL_TO_GAIN = 1e-3  # nats that prices stand to gain when they are left
STRAND = 0.02  # seconds that a secret takes at least, for each of its values


class Corridor:
    """The blocks with m ≥ floor and M ≤ roof that were met, or those with M ≤ roof·m and the mean 1; each with what it
    gains. Those of a floor are floor·h, h those of the floor 1: they are worth floor·(Σ qφ(h) − q·(y − log floor)·h).
    """

    def __init__(self, block: Block, floor: float, roof: float, scaled: bool = False) -> None:
        self.block, self.q, self.floor, self.roof = block, block.q, floor, roof
        self.climb = Climb(block, roof / floor, scaled)
        self.family = block.family(roof / floor, scaled)
        self.blocks, self.gain = np.zeros((0, len(self.q))), np.zeros(0)
        self.tree: Items | None = None
        self.add(floor * self.family.ends)

    def add(self, blocks: Floats) -> None:
        self.blocks = np.concatenate([self.blocks, blocks])
        self.gain = np.append(self.gain, xlogx(blocks) @ self.q)

    def worth(self, y: Floats) -> Floats:
        return np.asarray(self.gain - self.blocks @ (self.q * y))

    def learn(self, y: Floats) -> None:
        """The block that is worth most at these prices, as far as a climb finds it."""
        if len(self.q) == 1:
            return
        own, near = y - np.log(self.floor), self.blocks[self.worth(y).argmax()] / self.floor
        starts = np.array([near, *self.family.best(self.q * own, 1)])
        best = starts[(xlogx(starts) @ self.q - starts @ (self.q * own)).argmax()]
        self.add(self.floor * self.climb.climbed(own, best)[None])

    def table(self, y: Floats, rounds: int, budget: Budget) -> Floats:
        """Rows (c₁, c₂, B): Σ q(φ(v) − y·v) ≤ B for the blocks v with q·v in [c₁, c₂]; what is known of the corridor
        from other prices is gone on from. It need not be better than what is attained."""
        edges = np.geomspace(self.floor, self.roof, 2 * MEANS + 1)
        if len(self.q) == 1:
            ends = xlogx(edges) - float(y[0]) * edges
            most = np.maximum(ends[:-1], ends[1:])  # convex
        else:
            asked = Queries.by_mean(self.floor, self.roof, MEANS)
            enough = np.full(MEANS, self.worth(y).max() + BLOCK_SETTLED)
            value, self.tree = self.block.price(y, asked, enough, rounds, budget, self.tree)
            most = np.repeat(np.maximum(value, enough), 2)
        return np.column_stack([edges[:-1], edges[1:], most])

    def near(self, y: Floats) -> Ints:
        """The blocks worth most, and the two constants: without them prices have no end."""
        return np.union1d(np.argsort(-self.worth(y), kind="stable")[: BLOCKS_PRICED * len(self.q)], [0, 1])


def sums(which: Ints, factors: Floats | float = 1.0) -> sparse.csr_matrix:
    """The matrix whose row i adds up factors·x[which[i]]."""
    data = np.broadcast_to(factors, which.shape).ravel()
    return sparse.csr_matrix((data, which.ravel(), np.arange(0, which.size + 1, which.shape[1])))


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
        layout = decoupled(first, shares, total, least, 1.0, budget, tolerance=BLOCK_SETTLED, rounds=6, steps=2)
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
            if budget.over or old - self.model < STILL_TO_GAIN:
                break

    def _next(self) -> Floats:
        """min w·y + T·ρ + Σ w(y − c)²/(2·bold) with ρ ≥ Σ_s r_s for every family, r_s ≥ P̂_s·worth of known blocks."""
        secrets = zip(self.shares, self.corridors, self.of(self.y), strict=True)
        each = [(x, [(c, c.near(mine)) for c in own]) for x, own, mine in secrets]
        blocks = [x * np.concatenate([c.blocks[k] * c.q for c, k in own]) for x, own in each]
        gains = [x * c.gain[k] for x, own in each for c, k in own]
        number = self.families + np.cumsum([0, *map(len, self.corridors[:-1])])
        a = sparse.bmat([
            [sparse.block_diag(blocks), sums(np.repeat(np.arange(len(gains)), [len(x) for x in gains])[:, None]), None],
            [None, -sums(number), np.ones((len(number), 1))],
        ], format="coo")
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
    """Blocks with m ≥ a and M ≤ E·a, where a = 1, or where the mean is 1, by a cone programme a step: M ≤ L iff
    Σ q (t + L − w)^κ t^{1−κ} ≥ (1 + κk)t for some t = 1/ϰ ≥ 0 (docs/robust.md, section 14)."""

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
            if not found.solved or not more > worth + GAINED:
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
