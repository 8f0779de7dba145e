"""What one secret's block of a row may be worth, bounded over all rows, two-level or not, for any number of values.

Blocks have a mean q·w in [c₁, c₂] and two *sides*: M(w; k) ≤ L and m(w; k') ≥ l, the worst means over the conditionals
that spend at most k and k'. With h(x) = (x^κ − 1)/κ and x = 1 − ϰ(w − L) the first holds iff w ≤ L or, for some ϰ > 0,
w ≤ L + 1/ϰ and Σ q h(x) ≥ k (Hölder: docs/robust.md, section 14); the second is its mirror image. For fixed ϰ each is
one separable concave constraint, and weak duality bounds the worth Σ q(φ(w) − y·w) by scalar maxima.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, Bools, Floats, Ints, xlogx
from sfumato.optimise.bound.slack import curve, reach
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.linear import INFINITY, LinearProgramme

NODES = 32  # at which the scalar functions are known; between them they lie below a chord and a stated bump
RATIO, FAR_RATIO, TURNING = 1.5, 2.2, 40.0  # of cells of ϰ: near its least value, and beyond so many times it
LAST = 40.0  # times 1/|L − 1|: from this ϰ on only the box w ≤ L + 1/ϰ is kept
TAIL, UNUSED = -1.0, -2.0  # for ρ: beyond the last cell, and a side that is not looked at (yet)
STEPS, FEWER, CHECK = 30, 14, 6  # of the ellipsoid method over the multipliers, any of which are valid: at first, for
# items whose multipliers are known, and between looks
AGAIN = 0.15  # of the first ellipsoid, for parts of an item whose multipliers are known
FAR = 200.0  # from where the multiplier of q·w = 1 is looked for
PLACES = 4800  # items times values in memory at once
LEAST = 0.0025  # of x: below it h is replaced by its value there, which is larger
TIED = 0.15  # nats within which two places of a value count as equally good
TAKEN = 40  # items with the greatest bounds that are cut at a time
COARSE = 0.6  # ρ above which a cell is cut first, before the other side is looked at
CELLS = 0.1  # a cell that loses this part of what a value loses is cut first: all values gain by it
SIGN = np.array([1.0, -1.0])  # of the two sides, M first


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Cells [ϰ, ϰ(1 + ρ)] of one or both sides of a query, with a box for w and a range for its mean."""

    query: Ints
    mean: Floats  # [i, end]
    kappa: Floats  # [i, side]
    rho: Floats
    low: Floats  # [i, u]
    high: Floats
    x: Floats  # [i, 3] multipliers: of the sides, and of the mean with the slopes of h taken out, NaN if not known
    value: Floats

    def take(self, which: Ints | Bools) -> Items:
        return Items(*(getattr(self, name)[which] for name in self.__slots__))

    @staticmethod
    def together(parts: list[Items]) -> Items:
        return Items(*(np.concatenate([getattr(part, name) for part in parts]) for name in Items.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Blocks to be priced: levels L and l, the range of q·w, which side is looked at first, and the mean's own price.

    What is priced is v = 1 + stretch·(w − 1) ≥ 0: {m(v) ≥ 1, M(v) ≤ L'} is {m(w) ≥ 1, M(w) ≤ L}, stretched by
    (L' − 1)/(L − 1).
    """

    level: Floats  # [query, side]
    mean: Floats  # [query, end]
    first: Ints
    tilt: Floats
    stretch: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A bound per query, and the items whose greatest it is."""

    value: Floats
    items: Items


class Block:
    """One secret: q > 0 on at least two values, order κ, and what T(D) may be on either side."""

    def __init__(self, q: Floats, order: float, above: float, below: float) -> None:
        self.q, self.order, self.k = q, order, np.array([above, below])
        one = np.maximum(1.0 - q, 1e-300)
        self.rates = []
        for k in self.k:
            low, high = reach(q, float(k), order)
            self.rates.append((np.maximum((high - q) / one, 1e-300), np.maximum((q - low) / one, 1e-300)))

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
            kappas, rhos, x = np.ones((n, 2)), np.full((n, 2), UNUSED), np.tile([0.0, 0.0, np.nan], (n, 1))
            kappas[:, side], rhos[:, side], x[:, side] = at, rho, 2.0 / max(float(self.k[side]), 1e-12)
            many, none = np.full(n, i), np.full(n, np.inf)
            parts.append(Items(many, asked.mean[many], kappas, rhos, low[many], high[many], x, none))
        return Items.together(parts)

    def price(
        self, y: Floats, asked: Queries, floor: Floats, rounds: int = 2, budget: Budget = FREE,
        tree: Items | None = None,
    ) -> Priced:
        """Upper bounds on Σ q(φ(w) − (y + tilt)·w), one per query; those below `floor` need not be good.

        Branch and bound: the items with the greatest bounds are cut, in ϰ, by the other side, in a value of w or in
        the mean. A part is bounded by its own dual and by that of the whole. `tree` are items to go on from, of other
        prices or of a wider set: a lower l or a higher L with the same means.
        """
        start = self.cells(asked) if tree is None else self._again(tree, asked)
        every = self._valued(start, y, asked, floor, budget)
        for _ in range(rounds):
            open_ = np.flatnonzero(every.value > floor[every.query])
            if not len(open_) or budget.over:
                break
            over = every.value[open_] - np.maximum(floor[every.query[open_]], -1e6)
            chosen = open_[np.argsort(-over, kind="stable")[:TAKEN]]
            rest = np.ones(len(every.query), dtype=bool)
            rest[chosen] = False
            parts = self._valued(self._split(every.take(chosen), y, asked), y, asked, floor, budget)
            every = Items.together([every.take(rest), parts])
        top = np.full(len(asked.first), -np.inf)
        np.maximum.at(top, every.query, every.value)
        return Priced(top, every)

    def _again(self, items: Items, asked: Queries) -> Items:
        """Items whose cells and boxes still cover everything, to be valued again from the multipliers they have."""
        low, high = self.box(asked.level[items.query], items.mean)
        low, high = np.maximum(items.low, low), np.minimum(items.high, high)
        return replace(items, low=low, high=high, value=np.full(len(low), np.inf))

    def _split(self, items: Items, y: Floats, asked: Queries) -> Items:
        """Each item in parts, where it loses most: the side not looked at, a cell, a value that lies in two places at
        once, or its mean."""
        cell, depth, where = _Dual(self, items, asked).losses(y)
        depth, wide = depth * self.q, items.rho.max(1) > COARSE
        alone = ~wide & (items.rho == UNUSED).any(1)
        halve = wide | (~alone & (cell.max(1) > np.maximum(CELLS * depth.max(1), DUST)))
        mean = ~halve & ~alone & (depth.max(1) < DUST)
        cut = ~(halve | mean | alone)
        side, u = np.where(wide, items.rho.argmax(1), cell.argmax(1)), depth.argmax(1)
        parts = [
            _halved(items.take(halve), side[halve]), _cut(items.take(cut), u[cut], where[cut, u[cut]]),
            self._narrowed(items.take(mean), asked),
        ]
        return Items.together(parts + [self._both(items.take(np.array([i])), asked) for i in np.flatnonzero(alone)])

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

    def _valued(self, items: Items, y: Floats, asked: Queries, floor: Floats, budget: Budget) -> Items:
        """The items with their bounds; those that time does not reach keep what they have, ∞ if they are new."""
        parts, step = [], max(PLACES // len(self.q), 8)
        for at in range(0, len(items.query), step):
            part = items.take(np.arange(at, min(at + step, len(items.query))))
            parts.append(part if budget.over else _Dual(self, part, asked).minimised(y, floor[part.query]))
        return Items.together(parts) if parts else items

    def relaxed(self, y: Floats, asked: Queries, item: Items) -> tuple[Floats, float] | None:
        """The mean block and its mean φ that attain the bound of one item, up to rounding: steering only."""
        return _Dual(self, item, asked).primal(y)


def _edges(first: float, last: float, order: float) -> Floats:
    """Cells of ϰ in ratios that grow: beyond many times the least ϰ the constraint hardly changes with it.

    ρ ≤ 1/|κ| for κ < 0: H is concave then.
    """
    most = 1.0 - 1.0 / order if order < 0 else np.inf
    edges = np.array([first])
    for end, ratio in ((min(TURNING * first, last), RATIO), (last, FAR_RATIO)):
        count = int(np.ceil(np.log(end / edges[-1]) / np.log(min(ratio, most)) - 1e-9))
        if count > 0:
            edges = np.concatenate([edges, edges[-1] * (end / edges[-1]) ** (np.arange(1, count + 1) / count)])
    return edges


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


class _Dual:
    """The scalar functions of items at their nodes: w, φ(w) and H, a side's constraint at the far end of its cell.

    Σ q h(1 − ϰ(w − L)) is concave in ϰ, hence below its tangent at the near end; a tangent is linear, so it reaches k
    at an end. The near end is the far end of the cell before (below the first cell nothing is feasible), so the far end
    decides: H = h(x) + ρ(x − 1)x^{κ−1} ≥ k on average. H is concave in w, so between nodes it exceeds its chord by at
    most Δ(s₁ − m)(m − s₂)/(s₁ − s₂), s the slopes at the ends and m that of the chord; φ is convex and lies
    below its chord.
    """

    def __init__(self, block: Block, items: Items, asked: Queries) -> None:
        self.q, self.items, self.price = block.q, items, asked.tilt[items.query]
        spend(80, items.low.size * NODES)
        level, first = asked.level[items.query], asked.first[items.query]
        low, high = np.maximum(items.low, 1.0 - 1.0 / asked.stretch), items.high
        self.mean = 1.0 + asked.stretch * (items.mean - 1.0)
        for side, sign in enumerate(SIGN):
            used = items.rho[:, side] != UNUSED
            limit = np.where(used, level[:, side] + sign / items.kappa[:, side], sign * np.inf)[:, None]
            low, high = (low, np.minimum(high, limit)) if sign > 0 else (np.maximum(low, limit), high)
        self.empty = (low > high).any(1) | (low @ self.q > items.mean[:, 1]) | (high @ self.q < items.mean[:, 0])
        self.w = _nodes(low, np.maximum(low, high), items, level, first)
        self.v = np.maximum(1.0 + asked.stretch * (self.w - 1.0), 0.0)
        self.phi = xlogx(self.v)
        self.on = on = items.rho >= 0.0
        self.level, self.order = level, block.order
        self.h, self.k = np.zeros((2, *self.w.shape)), np.where(on, block.k, 0.0)
        for side in (0, 1):
            at = np.flatnonzero(on[:, side])
            slope = -SIGN[side] * items.kappa[at, side][:, None, None]
            x = np.maximum(1.0 + slope * (self.w[at] - level[at, side][:, None, None]), LEAST)
            self.h[side, at] = _far_end(x, items.rho[at, side][:, None, None], block.order)
        self.tilt = np.where(on, SIGN * items.kappa, 0.0) / asked.stretch

    def of(self, which: Ints) -> _Dual:
        """That of some of the items; of what `at` looks at alone."""
        if len(which) == len(self.k):
            return self
        some = copy(self)
        some.phi, some.v, some.h, some.k = self.phi[which], self.v[which], self.h[:, which], self.k[which]
        some.mean, some.tilt, some.price = self.mean[which], self.tilt[which], self.price[which]
        return some

    def _worth(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """φ − (y + η)w + ωH at the nodes, and η = η' − Σ ωϰ·sign."""
        eta = x[:, 2] - (x[:, :2] * self.tilt).sum(1)
        worth = -(y + (eta + self.price)[:, None])[:, :, None] * self.v
        worth += self.phi
        for side in (0, 1):
            if x[:, side].any():
                worth += x[:, side][:, None, None] * self.h[side]
        return worth, eta

    def at(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Values of the dual at multipliers and a subgradient."""
        spend(10, self.v.size)
        worth, eta = self._worth(x, y)
        best = worth.argmax(-1)
        best += NODES * np.arange(best.size).reshape(best.shape)
        end = self.mean[np.arange(len(eta)), (eta > 0.0).astype(np.int64)]
        value = worth.ravel()[best] @ self.q - (x[:, :2] * self.k).sum(1) + eta * end
        rest = end - self.v.ravel()[best] @ self.q
        slopes = [
            h.ravel()[best] @ self.q - k - tilt * rest for h, k, tilt in zip(self.h, self.k.T, self.tilt.T, strict=True)
        ]
        return value, np.column_stack([*slopes, rest])

    def minimised(self, y: Floats, floor: Floats) -> Items:
        """The ellipsoid method in three dimensions, for all items at once; an item below its floor is left."""
        items = self.items
        value, best, own = items.value.copy(), items.x.copy(), np.full(len(items.value), np.inf)
        value[self.empty] = -np.inf
        on = np.flatnonzero(~self.empty & (value > floor))
        fresh, middle = np.isnan(items.x[on, 2]), 1.8 + np.log(self.mean[on, 0]) - float(self.q @ y) - self.price[on]
        x, shape = items.x[on], np.zeros((len(on), 3, 3))
        x[fresh, 2] = middle[fresh]
        scale = np.where(self.k[on] > 0, 1.0 / np.maximum(self.k[on], 1e-12), 0.0)
        size = np.where(fresh[:, None] | (x[:, :2] == 0.0), 1.0, AGAIN)
        shape[:, [0, 1], [0, 1]] = (2.5 * size * scale) ** 2
        shape[:, 2, 2] = np.where(fresh, 10.0, 10.0 * AGAIN) ** 2
        far = np.column_stack([50.0 * scale, np.full(len(on), FAR)])
        ends = np.column_stack([-far[:, :2], middle - far[:, 2]]), np.column_stack([far[:, :2], middle + far[:, 2]])
        live = self.of(on)
        for step in range(STEPS):
            if not len(on):
                break
            inside = np.maximum(x, [0.0, 0.0, -np.inf])
            f, g = live.at(inside, y)
            out = x[:, :2].min(1) < 0
            g[out] = -np.eye(3)[x[out, :2].argmin(1)]
            better = f < own[on]
            deep = np.where(out, -x[:, :2].min(1), f - np.minimum(own[on], f))
            best[on[better]] = inside[better]
            own[on], value[on] = np.minimum(own[on], f), np.minimum(value[on], f)
            x, shape = _shrunk(x, shape, g, deep)
            x = np.clip(x, *ends)
            if step == 0 or step % CHECK == CHECK - 1:
                keep = (value[on] > floor[on]) & (fresh | (step < FEWER))
                on, x, shape, fresh, live = on[keep], x[keep], shape[keep], fresh[keep], live.of(np.flatnonzero(keep))
                ends = ends[0][keep], ends[1][keep]
        return replace(items, x=best, value=value)

    def losses(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """What an item loses, in nats: by the width of its cells [i, side]; by each value that lies in two places,
        how deep the valley between them is, and where."""
        worth, _ = self._worth(self.items.x, y)
        top, best = worth.max(-1), worth.argmax(-1)[..., None]
        near = worth >= top[..., None] - TIED
        first, last = near.argmax(-1)[..., None], NODES - 1 - near[..., ::-1].argmax(-1)[..., None]
        between = (np.arange(NODES) >= first) & (np.arange(NODES) <= last)
        valley = np.where(between, worth, np.inf)
        where = np.take_along_axis(self.w, valley.argmin(-1)[..., None], -1)[..., 0]
        cell, w = np.zeros((len(top), 2)), np.take_along_axis(self.w, best, -1)[..., 0]
        for side, sign in enumerate(SIGN):
            at = np.flatnonzero(self.on[:, side])
            far = sign * (self.items.kappa[at, side] * (1.0 + self.items.rho[at, side]))[:, None]
            true = curve(np.maximum(1.0 - far * (w[at] - self.level[at, side][:, None]), LEAST), self.order)
            tangent = np.take_along_axis(self.h[side, at], best[at], -1)[..., 0]
            cell[at, side] = self.items.x[at, side] * ((tangent - true) @ self.q)
        return cell, top - valley.min(-1), where

    def primal(self, y: Floats) -> tuple[Floats, float] | None:
        """The linear programme whose dual was minimised, of the first item: weights on the nodes of each value."""
        w, phi, values = self.v[0], self.phi[0], len(self.q)
        weight = np.repeat(self.q, NODES)
        worth = phi - (y + self.price[0])[:, None] * w
        lp = LinearProgramme(-weight * worth.ravel(), np.zeros(w.size), np.full(w.size, INFINITY), warm=True)
        means = (weight * x.ravel() for x in (w, self.h[0, 0], self.h[1, 0]))
        rows = [sparse.kron(sparse.eye(values), np.ones((1, NODES))), *means]
        one, mean = np.ones(values), self.mean[0]
        lp.add(
            sparse.vstack([sparse.csr_matrix(r) for r in rows]),
            np.concatenate([one, mean[:1], self.k[0]]), np.concatenate([one, mean[1:], [INFINITY] * 2]),
        )
        found = lp.solve()
        if not found.optimal:
            return None
        share = found.x.reshape(values, NODES)
        return (share * w).sum(1), float(self.q @ (share * phi).sum(1))


def _nodes(low: Floats, high: Floats, items: Items, level: Floats, first: Ints) -> Floats:
    """Places w from low to high, even in √x of the first side, where its h bends; even in w in its tail."""
    rows = np.arange(len(first))
    kappa, at, sign = (a[rows, first][:, None, None] for a in (items.kappa, level, np.tile(SIGN, (len(first), 1))))
    low, high = low[:, :, None], high[:, :, None]
    grid = np.linspace(0.0, 1.0, NODES)
    ends = [np.sqrt(np.maximum(1.0 - sign * kappa * (w - at), 0.0)) for w in (low, high)]
    x = (ends[0] + (ends[1] - ends[0]) * grid) ** 2
    tail = (items.rho[rows, first] < 0.0)[:, None, None]
    w = np.clip(np.where(tail, low + (high - low) * grid, at + sign * (1.0 - x) / kappa), low, high)
    w[..., 0], w[..., -1] = low[..., 0], high[..., 0]
    return np.asarray(w)


def _far_end(x: Floats, rho: Floats, order: float) -> Floats:
    """H at the nodes, raised by what it may exceed its chords by on either side."""
    power = 1.0 / np.sqrt(x) if order == 0.5 else x ** (order - 1.0)
    value = curve(x, order) + rho * (x - 1.0) * power
    slope = power * (1.0 + rho * order) + rho * (1.0 - order) * power / x
    step = np.diff(x, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = np.diff(value, axis=-1) / step
        one, two = slope[..., :-1] - chord, chord - slope[..., 1:]
        bump = np.nan_to_num(np.abs(step * one * two / (one + two)), nan=0.0, posinf=0.0)
    none = np.zeros((*bump.shape[:-1], 1))
    return np.asarray(value + np.maximum(np.concatenate([bump, none], -1), np.concatenate([none, bump], -1)))


def _shrunk(x: Floats, shape: Floats, g: Floats, deep: Floats) -> tuple[Floats, Floats]:
    """One step of the ellipsoid method with deep cuts."""
    n = x.shape[1]
    along = np.einsum("iab,ib->ia", shape, g)
    norm = np.sqrt(np.maximum((g * along).sum(1), 1e-60))  # zero where nothing is left to gain
    a = np.clip(deep / norm, 0.0, 0.9)
    half = np.sqrt(np.maximum(np.einsum("iaa->ia", shape), 0.0))
    unit = np.clip(along / norm[:, None], -half, half)  # Cauchy–Schwarz, which rounding may break
    x = x - ((1.0 + n * a) / (n + 1))[:, None] * unit
    outer = unit[:, :, None] * unit[:, None, :]
    less = 2.0 * (1.0 + n * a) / ((n + 1) * (1.0 + a))
    return x, (n * n * (1.0 - a * a) / (n * n - 1))[:, None, None] * (shape - less[:, None, None] * outer)
