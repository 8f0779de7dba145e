"""Weak duality for blocks of one secret: scalar functions at nodes, and multipliers that make the bound least."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.optimise.arrays import DUST, SOLVED, Bools, Floats, Ints, xlogx
from sfumato.optimise.budget import spend

if TYPE_CHECKING:
    from sfumato.optimise.bound.prices import Block

DUAL_NODES = 32  # at which the scalar functions are known, and as many around the best one, where the bound is proved
UNUSED = -2.0  # for ρ: a side that is not looked at (yet)
DUAL_STEPS = 14  # of the search for multipliers, any of which are valid
WORTHWHILE = 0.8  # share of items still looked at, below which the others are put aside
WIDE_AT_FIRST = 2.0  # where multipliers may be at first, in units that suit them
AGAIN = 0.1  # of the first distance, for parts of an item whose multipliers are known
LIFTED = 1e-2  # of its unit, for the known multiplier of a side: 0 is no place to begin
ABOVE_MEAN = 1.8  # the multiplier of the mean at first, above its logarithm
LEAST_X = 0.0025  # of x: below it h is replaced by its value there, which is larger
SIGN = np.array([1.0, -1.0])  # of the two sides, M first


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Cells [ϰ, ϰ(1 + ρ)] of one or both sides of a query, with a box for w and a range for its mean."""

    query: Ints
    level: Floats  # [i, side]
    tilt: Floats
    mean: Floats  # [i, end]
    kappa: Floats  # [i, side]
    rho: Floats
    low: Floats  # [i, u]
    high: Floats
    x: Floats  # [i, 3] multipliers: of the sides, and of the mean with the slopes of h taken out, NaN if not known
    value: Floats

    def take(self, which: Ints | Bools | slice) -> Items:
        return Items(*(getattr(self, name)[which] for name in self.__slots__))

    @staticmethod
    def together(parts: list[Items]) -> Items:
        return Items(*(np.concatenate([getattr(part, name) for part in parts]) for name in Items.__slots__))

    def inhabited(self, q: Floats) -> Items:
        """Those that may hold rows, with what the sides leave of their boxes: w ≤ L + 1/ϰ and w ≥ l − 1/ϰ."""
        ends = np.where(self.rho != UNUSED, self.level + SIGN / self.kappa, SIGN * np.inf)
        low, high = np.maximum(self.low, ends[:, 1:]), np.minimum(self.high, ends[:, :1])
        empty = (low > high).any(1) | (low @ q > self.mean[:, 1]) | (high @ q < self.mean[:, 0])
        return replace(self, low=low, high=high).take(~empty)


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Blocks to be priced: levels L and l, the range of q·w, which side is looked at first, the mean's own price."""

    level: Floats  # [query, side]
    mean: Floats  # [query, end]
    first: Ints
    tilt: Floats

    @staticmethod
    def by_mean(floor: float, roof: float, count: int, tilted: bool = False) -> Queries:
        """Blocks of the mean c, with the slope of φ as its price or none; below the middle m binds more, above it M."""
        edges = np.geomspace(floor, roof, count + 1)
        mean, first = np.column_stack([edges[:-1], edges[1:]]), np.arange(count) < count // 2
        tilt = 1.0 + np.log(mean.mean(1)) if tilted else np.zeros(count)
        return Queries(np.tile([roof, floor], (count, 1)), mean, first.astype(np.int64), tilt)


def curve(x: Floats, order: float) -> Floats:
    """h(x) = (x^κ − 1)/κ, log x at κ = 0: concave for κ ≤ 1, and at most x − 1."""
    if order == 0.5:
        return np.asarray(2.0 * np.sqrt(x) - 2.0)  # χ²: good to 1e-16, and k is not small beside that
    logs = np.log(x)
    return np.asarray(np.expm1(order * logs) / order if order != 0.0 else logs)


class PricingDual:
    """The scalar functions of items at their nodes: w, φ(w) and H, a side's constraint at the far end of its cell.

    The far end decides: H = h(x) + ρ(x − 1)x^{κ−1} ≥ k on average (docs/robust.md, section 14, pricing). Multipliers
    are looked for with maxima over the nodes; what is proved at the best of them (`proved`) has maxima over all w.
    """

    def __init__(self, block: Block, items: Items) -> None:
        self.q, self.order, self.items = block.q, block.order, items
        spend(16, items.low.size * DUAL_NODES)
        self.w = _nodes(items)
        self.phi, self.h = xlogx(self.w), np.zeros((2, *self.w.shape))
        self.on = items.rho >= 0.0
        self.k, self.slope = np.where(self.on, block.k, 0.0), np.where(self.on, SIGN * items.kappa, 0.0)
        for side in (0, 1):
            at = np.flatnonzero(self.on[:, side])
            self.h[side, at] = self._far_end(at, side, self.w[at])[0]

    def _far_end(self, at: Ints, side: int, w: Floats) -> tuple[Floats, Floats]:
        """H of a side at places [item, u, node] and its slope there."""
        slope, rho = (a[at, side][:, None, None] for a in (-SIGN * self.items.kappa, self.items.rho))
        x = np.maximum(1.0 + slope * (w - self.items.level[at, side][:, None, None]), LEAST_X)
        power = 1.0 / np.sqrt(x) if self.order == 0.5 else x ** (self.order - 1.0)
        steep = power * (1.0 + rho * self.order + rho * (1.0 - self.order) / x)
        return curve(x, self.order) + rho * (x - 1.0) * power, slope * steep

    def proved(self, x: Floats, y: Floats) -> Floats:
        """The dual at multipliers, with scalar maxima over all w and not only over nodes."""
        spend(12, self.w.size)
        eta = x[:, 2] - (x[:, :2] * self.slope).sum(1)
        peaks, index = self._peaks(self.w, x, y, eta), np.arange(DUAL_NODES - 1)
        at = np.clip(peaks.argmax(-1)[..., None] - 1, 0, DUAL_NODES - 4)
        outside = np.where((index >= at) & (index < at + 3), -np.inf, peaks).max(-1)
        ends = [np.take_along_axis(self.w, i, -1) for i in (at, at + 3)]
        finer = ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, DUAL_NODES)
        top = np.maximum(outside, self._peaks(finer, x, y, eta).max(-1))
        end = self.items.mean[np.arange(len(eta)), (eta > 0.0).astype(np.int64)]
        return np.asarray(top @ self.q - (x[:, :2] * self.k).sum(1) + eta * end)

    def _peaks(self, w: Floats, x: Floats, y: Floats, eta: Floats) -> Floats:
        """Between neighbouring places: φ lies below its chord, the rest, which is concave, below its tangents there."""
        phi, price = xlogx(w), (y + (eta + self.items.tilt)[:, None])[:, :, None]
        worth, slope = phi - price * w, np.broadcast_to(-price, w.shape).copy()
        for side in (0, 1):
            at = np.flatnonzero(self.on[:, side] & (x[:, side] > 0.0))
            height, steep = self._far_end(at, side, w[at])
            worth[at] += x[at, side][:, None, None] * height
            slope[at] += x[at, side][:, None, None] * steep
        step = np.diff(w, axis=-1)
        chord = np.diff(phi, axis=-1) / np.where(step > 0.0, step, 1.0)
        a, b = worth[..., :-1], worth[..., 1:]
        up, down = slope[..., :-1] + chord, slope[..., 1:] + chord
        inside = (up > 0.0) & (down < 0.0)
        meet = (b - a - down * step) / np.where(inside, up - down, 1.0)
        return np.maximum(np.maximum(a, b), np.where(inside, a + up * np.clip(meet, 0.0, step), -np.inf))

    def _worth(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """φ − (y + η)w + ωH at the nodes, and η = η' − Σ ωϰ·sign."""
        eta = x[:, 2] - (x[:, :2] * self.slope).sum(1)
        worth = -(y + (eta + self.items.tilt)[:, None])[:, :, None] * self.w
        worth += self.phi
        for side in (0, 1):
            if x[:, side].any():
                worth += x[:, side][:, None, None] * self.h[side]
        return worth, eta

    def at(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Values of the dual at multipliers and a subgradient."""
        spend(2, self.w.size)
        worth, eta = self._worth(x, y)
        best = worth.argmax(-1)
        best += DUAL_NODES * np.arange(best.size).reshape(best.shape)
        end = self.items.mean[np.arange(len(eta)), (eta > 0.0).astype(np.int64)]
        value = worth.ravel()[best] @ self.q - (x[:, :2] * self.k).sum(1) + eta * end
        rest = end - self.w.ravel()[best] @ self.q
        slopes = [
            h.ravel()[best] @ self.q - k - own * rest for h, k, own in zip(self.h, self.k.T, self.slope.T, strict=True)
        ]
        return value, np.column_stack([*slopes, rest])

    def of(self, which: Bools) -> PricingDual:
        """That of some of the items."""
        some = copy(self)
        some.items, some.h = self.items.take(which), self.h[:, which]
        for name in ("w", "phi", "on", "k", "slope"):
            setattr(some, name, getattr(self, name)[which])
        return some

    def minimised(self, y: Floats, floor: Floats) -> Items:
        """The items with the least value of the dual, all at once; one below its floor is left."""
        x = least(self, y, floor, *self._begun(y))
        return replace(self.items, x=x, value=np.fmin(self.items.value, self.proved(x, y)))

    def _begun(self, y: Floats) -> tuple[Floats, Floats]:
        """Where the multipliers begin, and how far away they may be."""
        items, x, unit = self.items, self.items.x.copy(), 1.0 / self.items.kappa  # ωH rises with w by ωϰ, about as φ
        fresh = np.isnan(x[:, 2])
        new = np.column_stack([fresh[:, None] | (x[:, :2] == 0.0), fresh])
        x[fresh, 2] = (ABOVE_MEAN + np.log(items.mean[:, 0]) - float(self.q @ y) - items.tilt)[fresh]
        x[:, :2] = np.where(self.on, np.where(fresh[:, None], unit, np.maximum(x[:, :2], LIFTED * unit)), 0.0)
        return x, np.where(new, 1.0, AGAIN) * WIDE_AT_FIRST * np.column_stack([unit, np.ones(len(x))])

    def losses(self, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """What an item loses, in nats: by the width of its cells [i, side]; by each value that lies in two places,
        how deep the valley between them is, and where."""
        worth, _ = self._worth(self.items.x, y)
        best, top = worth.argmax(-1)[..., None], worth.max(-1, keepdims=True)
        left, right = np.maximum.accumulate(worth, -1), np.maximum.accumulate(worth[..., ::-1], -1)[..., ::-1]
        valley = 2.0 * np.minimum(left, right) - top - worth
        where = np.take_along_axis(self.w, valley.argmax(-1)[..., None], -1)[..., 0]
        cell, w = np.zeros((len(worth), 2)), np.take_along_axis(self.w, best, -1)[..., 0]
        for side, sign in enumerate(SIGN):
            at = np.flatnonzero(self.on[:, side])
            kappa, rho = self.items.kappa[at, side][:, None], self.items.rho[at, side][:, None]
            step = sign * kappa * (w[at] - self.items.level[at, side][:, None])
            tangent = self._far_end(at, side, w[at][:, :, None])[0][:, :, 0]
            inside = np.array([1.0 - (1.0 + part * rho) * step for part in (0.0, 0.5, 1.0)])
            h = curve(np.maximum(inside, LEAST_X), self.order) @ self.q
            true = np.maximum(np.where((inside > 0.0).all(2), h, -np.inf).max(0), h[0])
            cell[at, side] = self.items.x[at, side] * (tangent @ self.q - true)
        return cell, valley.max(-1), where, w


CENTRED = 5  # steps of Newton's method to a centre, which need not be exact
OF_SIGNS, OF_FLOOR = 0.3, 0.5  # weights of their logarithms: of x ≥ 0, and of the best value for each plane
NARROWER = 0.3  # of the distance from the best value to the last centre: how far below it the next is sought
INWARD = 0.7  # of the way to the boundary, that a step may go
FLAT = 1e-5  # least distance in which values are sought, relative
HELD = 1e12  # keeps what is not in use where it is


def least(live: PricingDual, y: Floats, floor: Floats, x: Floats, radius: Floats) -> Floats:
    """Where many convex functions of three numbers are about least, by cutting planes from analytic centres.

    A plane z ≥ f + g·(x − x') for every point x' that was asked, and z below the best value by less than `short`: the
    next point is the centre of what is left, in the sense of logarithms of distances [Goffin, Haurie & Vial 1992].
    About fourteen points leave 1e-3 of a nat of what a thousand would find. x ≥ 0 for sides in use.
    """
    count, found, on, free = len(x), x.copy(), np.arange(len(x)), np.column_stack([live.on, np.full(len(x), True)])
    first = x = best = x / radius
    value, short = np.full(count, np.inf), np.zeros(count)
    normal, right = np.zeros((count, 3, 4)), np.zeros((count, 3))
    normal[:, [0, 1], [0, 1]], right[:, :2] = -live.on.astype(float), ~live.on
    normal[:, 2, 3] = 1.0
    for step in range(DUAL_STEPS):
        f, g = live.at(x * radius, y)
        g = g * radius * free
        best, value = np.where((f < value)[:, None], x, best), np.minimum(value, f)
        short = short if step else np.maximum(np.abs(g).sum(1), FLAT)
        normal = np.concatenate([normal, np.column_stack([g, -np.ones(len(f))])[:, None]], 1)
        right = np.column_stack([right, (g * x).sum(1) - f])
        right[:, 2] = value + short
        centre = _centre(normal, right, np.column_stack([best, value + short / 2]), first, free)
        short = np.maximum(NARROWER * (value - centre[:, 3]), FLAT * (1.0 + np.abs(value)))
        x = np.where(np.isfinite(centre).all(1, keepdims=True), centre[:, :3], best)
        x[:, :2] = np.maximum(x[:, :2], 0.0) * live.on
        found[on], open_ = best * radius, value > floor[on]
        if np.count_nonzero(open_) < WORTHWHILE * len(on):
            on, live = on[open_], live.of(open_)
            x, first, best, value, short, normal, right, radius, free = (
                old[open_] for old in (x, first, best, value, short, normal, right, radius, free)
            )
    return found


def _centre(normal: Floats, right: Floats, x: Floats, first: Floats, free: Bools) -> Floats:
    """Newton's method from a point inside; a quadratic keeps x near where it began until planes say more."""
    weight, held, diagonal = np.ones(right.shape[1]), np.where(free, 1.0, HELD), np.arange(4)
    weight[:2], weight[2] = OF_SIGNS, max(1.0, OF_FLOOR * (len(weight) - 3))
    spend(5 * CENTRED, normal.size)
    for _ in range(CENTRED):
        room = right - (normal @ x[:, :, None])[:, :, 0]
        slope = ((weight / room)[:, None] @ normal)[:, 0]
        slope[:, :3] += (x[:, :3] - first) * held
        steep = normal * (np.sqrt(weight) / room)[:, :, None]
        bend = steep.transpose(0, 2, 1) @ steep
        bend[:, diagonal[:3], diagonal[:3]] += held
        bend[:, diagonal, diagonal] *= 1.0 + SOLVED  # rounding must not leave it singular
        step = -np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        far = ((normal @ step[:, :, None])[:, :, 0] / room).max(1)
        x = x + np.minimum(1.0, INWARD / np.maximum(far, DUST))[:, None] * step
    return x


def _nodes(items: Items) -> Floats:
    """Places w from low to high: half of them even in √x of each side, where its h bends, or even in w."""
    low, high, grid = items.low[:, :, None], items.high[:, :, None], np.linspace(0.0, 1.0, DUAL_NODES // 2 + 1)
    sides, even = [], low + (high - low) * grid
    for side, sign in enumerate(SIGN):
        kappa, at = (a[:, side][:, None, None] for a in (items.kappa, items.level))
        ends = [np.sqrt(np.maximum(1.0 - sign * kappa * (w - at), 0.0)) for w in (low, high)]
        bent = at + sign * (1.0 - (ends[0] + (ends[1] - ends[0]) * grid) ** 2) / kappa
        w = np.where((items.rho[:, side] < 0.0)[:, None, None], even, bent)
        sides.append(w[..., side : side + DUAL_NODES // 2])
    w = np.clip(np.sort(np.concatenate(sides, -1), -1), low, high)
    w[..., 0], w[..., -1] = low[..., 0], high[..., 0]
    return np.asarray(w)
