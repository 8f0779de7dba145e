"""What one secret's block of a row may be worth, bounded over all rows, two-level or not, for any number of values.

Blocks have a mean q·w in [c₁, c₂] and two *sides*: M(w; k) ≤ L and m(w; k') ≥ l, the worst means over the conditionals
that spend at most k and k'. With h(x) = (x^κ − 1)/κ and x = 1 − ϰ(w − L) the first holds iff w ≤ L or, for some ϰ > 0,
w ≤ L + 1/ϰ and Σ q h(x) ≥ k (Hölder: docs/robust.md, section 14); the second is its mirror image. For fixed ϰ each is
one separable concave constraint, and weak duality bounds the worth Σ q(φ(w) − y·w) by scalar maxima.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from sfumato.optimise.arrays import DUST, Bools, Floats, Ints
from sfumato.optimise.bound.dual import SIGN, UNUSED, Items, PricingDual, Queries, curve
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.product.two_level import possible
from sfumato.uncertainty.balls import SharedRadius
from sfumato.uncertainty.power_tilting import kappa

RATIO = 1.5  # of the ends of a cell of ϰ at first
LAST = 40.0  # times 1/|L − 1|: from this ϰ on only the box w ≤ L + 1/ϰ is kept
TAIL = -1.0  # for ρ: beyond the last cell
INWARD = 1e-9  # relative
SEARCHED = 600  # passes for the masses of an order that has no closed form
PLACES = 4800  # items times values in memory at once
TAKEN = 40  # items with the greatest bounds that are cut at a time
CELLS = 0.1  # a cell that loses this part of what a value loses is cut first: all values gain by it


class Block:
    """One secret with shares q > 0, and what T(D) may be on either side, as a set of laws whose secrets share nothing.

    Conditionals with divergences D_s occur together in a ball iff Σ_s P̂_s T(D_s) ≤ T(B), its budget, for every order
    (uncertainty/power_tilting.py). Budgets are made smaller by INWARD, so that rounding leaves every law inside F.
    """

    budget = 0.0

    def __init__(self, q: Floats, ball: SharedRadius, above: float, below: float) -> None:
        self.q, self.ball, self.order = q, ball, kappa(ball.alpha)
        self.k, one = (1.0 - INWARD) * np.array([above, below]), np.maximum(1.0 - q, 1e-300)
        reached = [ball.masses(q, 1.0, k) for k in self.k]
        self.alone = reached[1][0], reached[0][1]  # least and greatest R(u) of the sides that ask for them
        self.rates = [tuple(np.maximum(x / one, 1e-300) for x in (high - q, q - low)) for low, high in reached]

    @cached_property
    def places(self) -> Floats:
        """The masses of sets at which heights of two-level blocks are known."""
        return possible(self.q, self.q)

    @cached_property
    def _reached(self) -> tuple[Floats, Floats]:
        w = self.places[:, None]
        spend(60 if self.order in (0.5, -1.0) else SEARCHED, w.size)
        return self.ball.masses(w, 1.0, self.k[1])[0], self.ball.masses(w, 1.0, self.k[0])[1]

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of mass w, which are those of `places`."""
        return self._reached

    def box(self, level: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Limits of each w_u by the laws (1 − r)q + r·e_u, r of either sign, and by w ≥ 0: affine in the mean."""
        high, low = [], []
        for c in (mean[:, :1], mean[:, 1:]):
            up, down = level[:, :1] - c, c - level[:, 1:]
            high.append((c + up / self.rates[0][0], c + down / self.rates[1][1]))
            low.append((c - down / self.rates[1][0], c - up / self.rates[0][1]))
        top = np.minimum(np.maximum(high[0][0], high[1][0]), np.maximum(high[0][1], high[1][1]))
        bottom = np.maximum(np.minimum(low[0][0], low[1][0]), np.minimum(low[0][1], low[1][1]))
        wide = 1.0 + 1e-9  # rounding, outward
        return np.maximum(bottom - 1e-9, 0.0), np.minimum(top, mean[:, 1:] / self.q) * wide

    def _chain(self, side: int, level: float, mean: Floats) -> tuple[Floats, Floats]:
        """Every ϰ that a row may need: none below k/|L − c|, because h(x) ≤ x − 1."""
        k, gap = float(self.k[side]), max(float(SIGN[side]) * (level - float(mean[side])), 1e-9)
        if self.order < 0 and k >= -1.0 / self.order:  # such a conditional may be anything: w itself is bounded
            edges = np.array([1e12 / gap])
        else:
            edges = _edges(k / gap * (1.0 - 1e-9), max(LAST / gap, k / gap), self.order)
        return edges, np.append(edges[1:] / edges[:-1] - 1.0, TAIL)

    def cells(self, asked: Queries) -> Items:
        """The cells of the side that each query looks at first."""
        (low, high), parts = self.box(asked.level, asked.mean), []
        for i, side in enumerate(asked.first):
            at, rho = self._chain(int(side), float(asked.level[i, side]), asked.mean[i])
            n = len(at)
            kappas, rhos, x = np.ones((n, 2)), np.full((n, 2), UNUSED), np.full((n, 3), np.nan)
            kappas[:, side], rhos[:, side] = at, rho
            many, none = np.full(n, i), np.full(n, np.inf)
            parts.append(Items(many, asked.mean[many], kappas, rhos, low[many], high[many], x, none))
        return Items.together(parts)

    def price(
        self, y: Floats, asked: Queries, floor: Floats, rounds: int = 2, budget: Budget = FREE,
        tree: Items | None = None,
    ) -> tuple[Floats, Items]:
        """Upper bounds on Σ q(φ(w) − (y + tilt)·w), one per query, and the items whose greatest they are; those below
        `floor` need not be good.

        Branch and bound: the items with the greatest bounds are cut, in ϰ, by the other side, in a value of w or in
        the mean. A part is bounded by its own dual and by that of the whole. `tree` are items to go on from, of other
        prices or of a wider set: a lower l or a higher L with the same means.
        """
        start = self.cells(asked) if tree is None else self._again(tree, asked)
        every = self._valued(start, y, asked, floor)
        for _ in range(rounds):
            open_ = np.flatnonzero(every.value > floor[every.query])
            if not len(open_) or budget.over:
                break
            over = every.value[open_] - np.maximum(floor[every.query[open_]], -1e6)
            chosen = open_[np.argsort(-over, kind="stable")[:TAKEN]]
            rest = np.ones(len(every.query), dtype=bool)
            rest[chosen] = False
            parts = self._valued(self._split(every.take(chosen), y, asked), y, asked, floor)
            every = Items.together([every.take(rest), parts])
        top = np.full(len(asked.first), -np.inf)
        np.maximum.at(top, every.query, every.value)
        return top, every

    def _again(self, items: Items, asked: Queries) -> Items:
        """Items whose cells and boxes still cover everything, to be valued again from the multipliers they have."""
        low, high = self.box(asked.level[items.query], items.mean)
        low, high = np.maximum(items.low, low), np.minimum(items.high, high)
        return replace(items, low=low, high=high, value=np.full(len(low), np.inf))

    def _split(self, items: Items, y: Floats, asked: Queries) -> Items:
        """Each item in parts, where it loses most: the side not looked at, a cell, a value that lies in two places at
        once, or its mean."""
        cell, depth, where, w = PricingDual(self, items, asked).losses(y)
        depth = depth * self.q
        alone = (items.rho == UNUSED).any(1) & ((depth.max(1) < DUST) | self._broken(items, asked, w))
        halve = ~alone & (cell.max(1) > np.maximum(CELLS * depth.max(1), DUST))
        mean = ~halve & ~alone & (depth.max(1) < DUST)
        cut = ~(halve | mean | alone)
        side, u = cell.argmax(1), depth.argmax(1)
        parts = [
            _halved(items.take(halve), side[halve]), _cut(items.take(cut), u[cut], where[cut, u[cut]]),
            self._narrowed(items.take(mean), asked),
        ]
        return Items.together(parts + [self._both(items.take(np.array([i])), asked) for i in np.flatnonzero(alone)])

    def _broken(self, items: Items, asked: Queries, w: Floats) -> Bools:
        """Whether w is outside the side that an item does not look at, as far as a few ϰ tell."""
        side = np.where(items.rho[:, 0] == UNUSED, 0, 1)
        level, sign = asked.level[items.query, side][:, None], SIGN[side][:, None]
        over = sign * (w - level)
        gap = sign * (level - items.mean[np.arange(len(side)), side][:, None])
        steps = self.k[side][:, None] / np.maximum(gap, 1e-9) * np.geomspace(1.0, LAST / self.k.min(), 40)
        x = 1.0 - steps[:, :, None] * over[:, None, :]
        inside = (x > 0.0).all(2) & (curve(np.maximum(x, 1e-12), self.order) @ self.q >= self.k[side][:, None])
        return np.asarray(~(inside.any(1) | (over <= 0.0).all(1)))

    def _both(self, item: Items, asked: Queries) -> Items:
        """One item with every cell of the side that it did not look at."""
        side = int((item.rho[0] == UNUSED).argmax())
        at, rho = self._chain(side, float(asked.level[item.query[0], side]), item.mean[0])
        many = item.take(np.zeros(len(at), dtype=np.int64))
        many.kappa[:, side], many.rho[:, side] = at, rho
        return many

    def _narrowed(self, items: Items, asked: Queries) -> Items:
        """The range of the mean in two, each with its own box."""
        middle, parts = items.mean.mean(1), []
        for end in (0, 1):
            mean = items.mean.copy()
            mean[:, 1 - end] = middle
            low, high = self.box(asked.level[items.query], mean)
            parts.append(replace(items, mean=mean, low=np.maximum(items.low, low), high=np.minimum(items.high, high)))
        return Items.together(parts)

    def _valued(self, items: Items, y: Floats, asked: Queries, floor: Floats) -> Items:
        """The items with their bounds, a few at a time."""
        step = max(PLACES // len(self.q), 8)
        parts = (items.take(slice(at, at + step)) for at in range(0, len(items.query), step))
        return Items.together([PricingDual(self, x, asked).minimised(y, floor[x.query]) for x in parts])


def _edges(first: float, last: float, order: float) -> Floats:
    """Cells of ϰ in equal ratios; ρ ≤ 1/|κ| for κ < 0: H is concave then."""
    most = min(RATIO, 1.0 - 1.0 / order) if order < 0 else RATIO
    return np.geomspace(first, last, int(np.ceil(np.log(last / first) / np.log(most))) + 1)


def _cut(items: Items, u: Ints, where: Floats) -> Items:
    """The box of one value of each item in two."""
    rows, low, high = np.arange(len(items.query)), items.low.copy(), items.high.copy()
    low[rows, u], high[rows, u] = where, where
    return Items.together([replace(items, low=low), replace(items, high=high)])


def _halved(items: Items, side: Ints) -> Items:
    """The cell of one side of each item in two."""
    rows = np.arange(len(side))
    root = np.sqrt(1.0 + items.rho[rows, side])
    kappa, rho = items.kappa.copy(), items.rho.copy()
    rho[rows, side] = root - 1.0
    kappa[rows, side] *= root
    return Items.together([replace(items, rho=rho), replace(items, kappa=kappa, rho=rho)])
