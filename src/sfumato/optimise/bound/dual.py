"""Weak duality for blocks of one secret: scalar functions at nodes, and multipliers that make the bound least."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.optimise.arrays import DUST, Bools, Floats, Ints, xlogx
from sfumato.optimise.budget import spend

if TYPE_CHECKING:
    from sfumato.optimise.bound.prices import Block

DUAL_NODES = 32  # at which the scalar functions are known, and as many around the best one, where the bound is proved
UNUSED = -2.0  # for ρ: a side that is not looked at (yet)
DUAL_STEPS = 14  # of the search for multipliers, any of which are valid
WORTHWHILE = 0.8  # share of items still looked at, below which the others are put aside
WIDE_AT_FIRST = 2.0  # where multipliers may be at first, in units that suit them
AGAIN = 0.1  # of the first distance, for parts of an item whose multipliers are known
LEAST_X = 0.0025  # of x: below it h is replaced by its value there, which is larger
CENTRED = 5  # steps of Newton's method to a centre, which need not be exact
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

    def take(self, which: Ints | Bools | slice) -> Items:
        return Items(*(getattr(self, name)[which] for name in self.__slots__))

    @staticmethod
    def together(parts: list[Items]) -> Items:
        return Items(*(np.concatenate([getattr(part, name) for part in parts]) for name in Items.__slots__))


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

    def __init__(self, block: Block, items: Items, asked: Queries) -> None:
        self.q, self.items, self.price = block.q, items, asked.tilt[items.query]
        spend(16, items.low.size * DUAL_NODES)
        level = asked.level[items.query]
        low, high, self.mean = items.low, items.high, items.mean
        for side, sign in enumerate(SIGN):
            used = items.rho[:, side] != UNUSED
            limit = np.where(used, level[:, side] + sign / items.kappa[:, side], sign * np.inf)[:, None]
            low, high = (low, np.minimum(high, limit)) if sign > 0 else (np.maximum(low, limit), high)
        self.empty = (low > high).any(1) | (low @ self.q > items.mean[:, 1]) | (high @ self.q < items.mean[:, 0])
        self.w = _nodes(low, np.maximum(low, high), items, level)
        self.phi = xlogx(self.w)
        self.on = on = items.rho >= 0.0
        self.level, self.order = level, block.order
        self.h, self.k = np.zeros((2, *self.w.shape)), np.where(on, block.k, 0.0)
        for side in (0, 1):
            at = np.flatnonzero(on[:, side])
            self.h[side, at] = self._far_end(at, side, self.w[at])[0]
        self.tilt = np.where(on, SIGN * items.kappa, 0.0)

    def _far_end(self, at: Ints, side: int, w: Floats) -> tuple[Floats, Floats]:
        """H of a side at places [item, u, node] and its slope there."""
        slope, rho = (a[at, side][:, None, None] for a in (-SIGN * self.items.kappa, self.items.rho))
        x = np.maximum(1.0 + slope * (w - self.level[at, side][:, None, None]), LEAST_X)
        power = 1.0 / np.sqrt(x) if self.order == 0.5 else x ** (self.order - 1.0)
        steep = power * (1.0 + rho * self.order + rho * (1.0 - self.order) / x)
        return curve(x, self.order) + rho * (x - 1.0) * power, slope * steep

    def proved(self, x: Floats, y: Floats) -> Floats:
        """The dual at multipliers, with scalar maxima over all w and not only over nodes."""
        spend(12, self.w.size)
        eta = x[:, 2] - (x[:, :2] * self.tilt).sum(1)
        peaks, index = self._peaks(self.w, x, y, eta), np.arange(DUAL_NODES - 1)
        at = np.clip(peaks.argmax(-1)[..., None] - 1, 0, DUAL_NODES - 4)
        outside = np.where((index >= at) & (index < at + 3), -np.inf, peaks).max(-1)
        ends = [np.take_along_axis(self.w, i, -1) for i in (at, at + 3)]
        finer = ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, DUAL_NODES)
        top = np.maximum(outside, self._peaks(finer, x, y, eta).max(-1))
        end = self.mean[np.arange(len(eta)), (eta > 0.0).astype(np.int64)]
        return np.asarray(top @ self.q - (x[:, :2] * self.k).sum(1) + eta * end)

    def _peaks(self, w: Floats, x: Floats, y: Floats, eta: Floats) -> Floats:
        """Between neighbouring places: φ lies below its chord, the rest, which is concave, below its tangents there."""
        phi, price = xlogx(w), (y + (eta + self.price)[:, None])[:, :, None]
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

    def of(self, which: Ints) -> PricingDual:
        """That of some of the items."""
        if len(which) == len(self.k):
            return self
        some = copy(self)
        some.items, some.h = self.items.take(which), self.h[:, which]
        for name in ("w", "phi", "k", "mean", "tilt", "price", "level", "on"):
            setattr(some, name, getattr(self, name)[which])
        return some

    def _worth(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """φ − (y + η)w + ωH at the nodes, and η = η' − Σ ωϰ·sign."""
        eta = x[:, 2] - (x[:, :2] * self.tilt).sum(1)
        worth = -(y + (eta + self.price)[:, None])[:, :, None] * self.w
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
        end = self.mean[np.arange(len(eta)), (eta > 0.0).astype(np.int64)]
        value = worth.ravel()[best] @ self.q - (x[:, :2] * self.k).sum(1) + eta * end
        rest = end - self.w.ravel()[best] @ self.q
        slopes = [
            h.ravel()[best] @ self.q - k - tilt * rest for h, k, tilt in zip(self.h, self.k.T, self.tilt.T, strict=True)
        ]
        return value, np.column_stack([*slopes, rest])

    def minimised(self, y: Floats, floor: Floats) -> Items:
        """The least value of the dual for all items at once; an item below its floor is left."""
        items = self.items
        value, best, own = items.value.copy(), items.x.copy(), np.full(len(items.value), np.inf)
        value[self.empty] = -np.inf
        on = np.flatnonzero(~self.empty & (value > floor))
        x, radius = self._begun(on, y)
        live, planes = self.of(on), Planes(x, radius, self.on[on])
        for _ in range(DUAL_STEPS):
            if not len(on):
                break
            f, g = live.at(x, y)
            better = f < own[on]
            best[on[better]] = x[better]
            own[on] = np.minimum(own[on], f)
            keep = own[on] > floor[on]
            x = planes.next(f, g)
            if keep.mean() < WORTHWHILE:
                on, x, live = on[keep], x[keep], live.of(np.flatnonzero(keep))
                planes.keep(keep)
        asked = np.flatnonzero(np.isfinite(own))
        value[asked] = np.minimum(value[asked], self.of(asked).proved(best[asked], y))
        return replace(items, x=best, value=value)

    def _begun(self, on: Ints, y: Floats) -> tuple[Floats, Floats]:
        """Where the multipliers begin, and how far away they may be."""
        x = self.items.x[on]
        fresh, scale = np.isnan(x[:, 2]), 1.0 / self.items.kappa[on]  # ωH rises with w by ωϰ, about as φ does
        new = np.column_stack([fresh[:, None] | (x[:, :2] == 0.0), fresh])
        x[fresh, 2] = (1.8 + np.log(self.mean[on, 0]) - float(self.q @ y) - self.price[on])[fresh]
        x[:, :2] = np.where(self.on[on], np.where(fresh[:, None], scale, np.maximum(x[:, :2], 1e-2 * scale)), 0.0)
        return x, np.where(new, 1.0, AGAIN) * np.column_stack([WIDE_AT_FIRST * scale, np.full(len(on), WIDE_AT_FIRST)])

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
            step = sign * kappa * (w[at] - self.level[at, side][:, None])
            tangent = self._far_end(at, side, w[at][:, :, None])[0][:, :, 0]
            inside = [1.0 - (1.0 + part * rho) * step for part in (0.0, 0.5, 1.0)]
            h = [curve(np.maximum(x, LEAST_X), self.order) @ self.q for x in inside]
            true = [np.where((x > 0.0).all(1), mean, -np.inf) for x, mean in zip(inside, h, strict=True)]
            least = np.maximum(np.max(true, axis=0), h[0])
            cell[at, side] = self.items.x[at, side] * (tangent @ self.q - least)
        return cell, valley.max(-1), where, w


class Planes:
    """The least value of many convex functions of three numbers at once, by cutting planes from analytic centres.

    A plane z ≥ f + g·(x − x') for every point x' that was asked, and z below the best value by less than `short`: the
    next point is the centre of what is left, in the sense of logarithms of distances [Goffin, Haurie & Vial 1992].
    About fourteen points leave 1e-3 of a nat of what a thousand would find. x ≥ 0 for sides in use.
    """

    def __init__(self, x: Floats, radius: Floats, used: Bools) -> None:
        count = len(x)
        self.scale, self.used = radius, np.column_stack([used, np.ones(count, dtype=bool)])
        self.first = self.x = self.best = x / radius
        self.value, self.short = np.full(count, np.inf), np.full(count, np.nan)
        self.normal, self.right = np.zeros((count, 3, 4)), np.zeros((count, 3))
        self.normal[:, [0, 1], [0, 1]] = -used.astype(float)
        self.right[:, :2] = ~used
        self.normal[:, 2, 3] = 1.0

    def keep(self, which: Bools) -> None:
        for name in ("scale", "used", "first", "x", "best", "value", "short", "normal", "right"):
            setattr(self, name, getattr(self, name)[which])

    def next(self, f: Floats, g: Floats) -> Floats:
        """The next point, from value and slope at the last one."""
        g = g * self.scale * self.used
        self.best, self.value = np.where((f < self.value)[:, None], self.x, self.best), np.minimum(self.value, f)
        self.short = np.where(np.isnan(self.short), np.maximum(np.abs(g).sum(1), 1e-5), self.short)
        plane = np.column_stack([g, -np.ones(len(f))])
        self.normal = np.concatenate([self.normal, plane[:, None]], 1)
        self.right = np.column_stack([self.right, (g * self.x).sum(1) - f])
        self.right[:, 2] = self.value + self.short
        centre = self._centre(np.column_stack([self.best, self.value + self.short / 2]))
        self.short = np.maximum(0.3 * (self.value - centre[:, 3]), 1e-5 * (1.0 + np.abs(self.value)))
        self.x = np.where(np.isfinite(centre).all(1, keepdims=True), centre[:, :3], self.best)
        self.x[:, :2] = np.maximum(self.x[:, :2], 0.0) * self.used[:, :2]
        return np.asarray(self.x * self.scale)

    def _centre(self, x: Floats) -> Floats:
        """Newton's method from a point inside; a quadratic keeps x near where it began until planes say more."""
        weight = np.ones(self.right.shape[1])
        weight[:2], weight[2] = 0.3, max(1.0, 0.5 * (len(weight) - 3))
        held, at, all_four = np.where(self.used, 1.0, 1e12), np.arange(3), np.arange(4)
        spend(5 * CENTRED, self.normal.size)
        for _ in range(CENTRED):
            room = self.right - (self.normal @ x[:, :, None])[:, :, 0]
            slope = ((weight / room)[:, None] @ self.normal)[:, 0]
            slope[:, :3] += (x[:, :3] - self.first) * held
            steep = self.normal * (np.sqrt(weight) / room)[:, :, None]
            bend = steep.transpose(0, 2, 1) @ steep
            bend[:, at, at] += held
            bend[:, all_four, all_four] *= 1.0 + 1e-10  # rounding must not leave it singular
            step = -np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
            far = ((self.normal @ step[:, :, None])[:, :, 0] / room).max(1)
            x = x + np.minimum(1.0, 0.7 / np.maximum(far, DUST))[:, None] * step
        return x


def _nodes(low: Floats, high: Floats, items: Items, level: Floats) -> Floats:
    """Places w from low to high: half of them even in √x of each side, where its h bends, or even in w."""
    low, high, sides = low[:, :, None], high[:, :, None], []
    grid = np.linspace(0.0, 1.0, DUAL_NODES // 2 + 1)
    for side, sign in enumerate(SIGN):
        kappa, at = (a[:, side][:, None, None] for a in (items.kappa, level))
        ends = [np.sqrt(np.maximum(1.0 - sign * kappa * (w - at), 0.0)) for w in (low, high)]
        bent = at + sign * (1.0 - (ends[0] + (ends[1] - ends[0]) * grid) ** 2) / kappa
        even = low + (high - low) * grid
        w = np.where((items.rho[:, side] < 0.0)[:, None, None], even, bent)
        sides.append(w[..., :-1] if side == 0 else w[..., 1:])
    w = np.clip(np.sort(np.concatenate(sides, -1), -1), low, high)
    w[..., 0], w[..., -1] = low[..., 0], high[..., 0]
    return np.asarray(w)
