"""Two-level pricing without listing subsets: prefixes, local search, and a rigorous bound by cells of the mass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.solve.pricing import ENUMERATE, Listed, Priced, indicator, spread_best, subset_sums
from sfumato.solve.twolevel import Corridor
from sfumato.uncertainty.tilting import mass_range

_NEVER = 1e300
_QUARTERS = 4
SMALL = 8  # up to this |U| every column is simply kept


@dataclass(eq=False)
class Outer:
    """Per cell of the mass w: corners (lo, d) of a polygon that contains every admissible two-level row with w in
    the cell.

    r₋ at the right end and r₊ at the left end relax all constraints of the cell at once; tangents of the two
    envelopes cut the
    polygon's corners from outside. The gain is convex in (lo, d) and linear in w, so corners and ends of the cell
    suffice (ours).
    """

    lo: Floats  # [cell, corner]
    d: Floats
    gain: Floats

    @classmethod
    def of(cls, corridor: Corridor, left: Floats, right: Floats, tangents: int = 16) -> Outer:
        low = mass_range(right[:, None], corridor.C[None, :])[0]
        high = mass_range(left[:, None], corridor.C[None, :])[1]
        steep = _steepest(corridor, low, high)
        # Where the floor meets lo = 0; beyond it lo = 0 is the lower edge.
        meets = np.where(low > 0.0, corridor.floor / np.where(low > 0.0, low, 1.0), _NEVER).max(axis=1)
        crossing = meets < steep
        end_lo = np.where(crossing, 0.0, np.maximum((corridor.floor - steep[:, None] * low).max(axis=1), 0.0))
        corners = [(end_lo, np.where(crossing, meets, steep)), (end_lo, steep)]
        count = 1 if len(corridor.C) == 1 else tangents
        corners += _between(corridor.floor, low, np.minimum(meets, steep), count, lower=True)
        corners += _between(corridor.roof, high, steep, count, lower=False)
        lo = np.maximum(np.stack([c[0] for c in corners], axis=1), 0.0)
        d = np.stack([c[1] for c in corners], axis=1)
        ends = [(1.0 - w)[:, None] * xlogx(lo) + w[:, None] * xlogx(lo + d) for w in (left, right)]
        return cls(lo, d, np.maximum(*ends))

    def bound(self, least: Floats, total: float, y0: float) -> float:
        """max over cells of gain − lo·y(U) − d·y(H) − y₀ with y(H) ≥ least of the cell."""
        value = self.gain - self.lo * total - self.d * least[:, None] - y0
        return float(value.max())


def _between(level: Floats, slope: Floats, reach: Floats, count: int, *, lower: bool) -> list[tuple[Floats, Floats]]:
    """Corners of the tangents to an envelope of lines level − d·slope on [0, reach], taken at count + 1 places."""
    at = np.arange(len(reach))
    places = np.linspace(0.0, 1.0, count + 1)[:, None] * reach
    lines = []
    for d in places:
        value = level - d[:, None] * slope
        i = value.argmax(axis=1) if lower else value.argmin(axis=1)
        lines.append((level[i], slope[at, i]))
    corners = [(lines[0][0], places[0]), (lines[-1][0] - places[-1] * lines[-1][1], places[-1])]
    for k in range(count):
        (f0, r0), (f1, r1) = lines[k], lines[k + 1]
        apart = np.abs(r1 - r0) > 1e-14
        d = np.where(apart, (f1 - f0) / np.where(apart, r1 - r0, 1.0), places[k])
        d = np.clip(d, places[k], places[k + 1])
        corners.append((f0 - d * r0, d))
    return corners


def _steepest(corridor: Corridor, low: Floats, high: Floats) -> Floats:
    """The greatest step under relaxed mass ranges [cell, node], from the right, so never too small."""
    d = (corridor.roof / np.maximum(high, 1e-12)).min(axis=1)
    at = np.arange(len(d))
    for _ in range(40):
        need = corridor.floor - d[:, None] * low
        room = corridor.roof - d[:, None] * high
        i, j = need.argmax(axis=1), room.argmin(axis=1)
        positive = need[at, i] > 0
        excess = np.where(positive, need[at, i], 0.0) - room[at, j]
        slope = high[at, j] - np.where(positive, low[at, i], 0.0)
        move = np.where((excess > 0) & (slope > 0), excess / np.maximum(slope, 1e-300), 0.0)
        d = d - move
        if not np.any(move > 1e-13 * d):
            break
    return np.asarray(d * (1.0 + 1e-12))


def _simple_sets(k: int) -> Floats:
    """Singletons, their complements and, for small k, pairs."""
    one = np.eye(k)
    sets = [one, 1.0 - one]
    if k <= 24:
        i, j = np.triu_indices(k, 1)
        sets.append(one[i] + one[j])
    return np.concatenate(sets)


@dataclass(eq=False)
class Searched:
    """Two-level columns of one secret: prefix search, swaps, and subsets listed where |U| allows (ours).

    For a given mass the best subset minimises y(H), a knapsack whose relaxation is a prefix of the order y_u/q_u;
    local search mends prefixes.
    """

    q: Floats
    fine: Corridor
    coarse: Corridor
    cells: int = 512
    nodes: int = 1025
    sets: Floats | None = None  # subsets to start from, say those of a neighbouring profile
    tables: tuple[Floats, Floats, Floats] = field(init=False)
    _outer: Outer | None = field(init=False, default=None)
    _turn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        low, high = self.fine.constants()
        self.first = np.array([np.full(len(self.q), low), np.full(len(self.q), high)])
        self._listed = len(self.q) <= ENUMERATE
        self._small = self.points() if len(self.q) <= SMALL else None
        grid = np.sin(np.linspace(0.0, np.pi / 2, self.nodes)) ** 2
        source = self.coarse if self._listed else self.fine
        lo, hi = source.heights(grid if self._small is None else grid[:2])
        self.tables = (grid, lo, hi)
        if self._listed:
            w = np.clip(subset_sums(self.q), 0.0, 1.0)
            self._order = np.argsort(w, kind="stable")
            self._w = w[self._order]
        if self._listed and self._small is None:
            self._kinds = [
                Listed(self.q, at, np.interp(w[at], grid, lo[i]), np.interp(w[at], grid, hi[i]))
                for i, at in self._existing(lo, hi, w)
            ]

    def _existing(self, lo: Floats, hi: Floats, w: Floats) -> list[tuple[int, Ints]]:
        """Which subsets have a candidate of each kind; the later kinds repeat the first where they do not exist."""
        grid = self.tables[0]
        out: list[tuple[int, Ints]] = [(0, np.arange(len(w)))]
        for i in range(1, len(lo)):
            apart = np.flatnonzero(np.interp(w, grid, np.abs(hi[i] - hi[0])) > 1e-9)
            if len(apart):
                out.append((i, apart))
        return out

    def start(self) -> Floats:
        if self._small is not None:
            return self._small
        sets = self.sets if self.sets is not None else _simple_sets(len(self.q))
        return np.concatenate([self.first, self._columns(sets)])

    def points(self) -> Floats:
        """Every two-level column of every kind, |U| small."""
        return np.concatenate([self.first, self._columns(indicator(np.arange(1 << len(self.q)), len(self.q)))])

    def _columns(self, sets: Floats) -> Floats:
        """All kinds of the given subsets."""
        lo, hi = self.fine.heights(np.clip(sets @ self.q, 0.0, 1.0))
        apart = np.abs(hi - hi[0]) > 1e-9
        apart[0] = True
        kind, at = np.nonzero(apart)
        return lo[kind, at][:, None] + (hi - lo)[kind, at][:, None] * sets[at]

    def gain(self, columns: Floats) -> Floats:
        return np.asarray(xlogx(columns) @ self.q)

    def reduced(self, w: Floats, y_in: Floats, total: float, y0: float) -> Floats:
        """Reduced cost of subsets with mass w and y(H) = y_in, from the tables, for the best kind."""
        grid, lo_at, hi_at = self.tables
        best = np.full(w.shape, -np.inf)
        for i in range(len(lo_at)):
            lo, hi = np.interp(w, grid, lo_at[i]), np.interp(w, grid, hi_at[i])
            value = (1.0 - w) * xlogx(lo) + w * xlogx(hi) - lo * total - (hi - lo) * y_in - y0
            best = np.maximum(best, value)
        return np.asarray(best)

    def price(self, y: Floats, y0: float, tolerance: float) -> Priced:
        if self._small is not None:
            gains = self.gain(self._small)
            reduced = gains - self._small @ y - y0
            best = np.argsort(-reduced)[: 2 * len(y)]
            best = best[reduced[best] > tolerance]
            return Priced(self._small[best], gains[best])
        if self._listed:
            return Priced(*self._exhaustive(y, y0, tolerance))
        columns = self._mended(y, y0)
        gains = self.gain(columns)
        good = gains - columns @ y - y0 > tolerance
        return Priced(columns[good], gains[good])

    def ceiling(self, y: Floats, y0: float) -> float:
        """A proved upper bound on the reduced cost of every two-level column."""
        own = float((self.gain(self.first) - self.first @ y - y0).max())
        return max(own, self._listed_ceiling(y, y0) if self._listed else self._hull_ceiling(y, y0))

    def _listed_ceiling(self, y: Floats, y0: float) -> float:
        """Cells are runs of consecutive masses that occur; y(H) is minimised over each run exactly."""
        if self._outer is None:
            cell = np.floor(np.arcsin(np.sqrt(self._w)) * (2 * 4096 / np.pi))
            self._starts = np.flatnonzero(np.diff(cell, prepend=-1.0) > 0)
            ends = np.append(self._starts[1:], len(self._w)) - 1
            self._outer = Outer.of(self.coarse, self._w[self._starts], self._w[ends])
        least = np.minimum.reduceat(subset_sums(y)[self._order], self._starts)
        return self._outer.bound(least, float(y.sum()), y0)

    def _hull_ceiling(self, y: Floats, y0: float) -> float:
        """Cells partition [0, 1]; y(H) is minimised by the knapsack relaxation, convex in the mass."""
        edges = np.sin(np.linspace(0.0, np.pi / 2, self.cells + 1)) ** 2
        if self._outer is None:
            self._outer = Outer.of(self.coarse, edges[:-1], edges[1:])
        knots_w, knots_y = self._hull(y)
        at = np.interp(edges, knots_w, knots_y)
        least = np.minimum(at[:-1], at[1:])
        j = int(knots_y.argmin())
        inside = int(np.searchsorted(edges, knots_w[j])) - 1
        for cell in (inside - 1, inside, inside + 1):
            if 0 <= cell < len(least):
                least[cell] = min(least[cell], knots_y[j])
        return self._outer.bound(least, float(y.sum()), y0)

    def _hull(self, y: Floats) -> tuple[Floats, Floats]:
        """The least y(H) for each mass when one item may be split: prefixes of y/q, empty cells with negative y for
        free."""
        free = float(np.minimum(y[self.q <= 0], 0.0).sum())
        on = np.flatnonzero(self.q > 0)
        on = on[np.argsort(y[on] / self.q[on])]
        return np.concatenate([[0.0], np.cumsum(self.q[on])]), free + np.concatenate([[0.0], np.cumsum(y[on])])

    def _mended(self, y: Floats, y0: float) -> Floats:
        """Prefixes, and the subsets that exchanges of one or two elements reach from the best of them."""
        k = len(self.q)
        key = np.where(self.q > 0, y / np.maximum(self.q, 1e-300), np.where(y < 0, -np.inf, np.inf))
        rank = np.argsort(np.argsort(key, kind="stable"))
        sets = np.tri(k + 1, k, -1)[:, rank]
        total = float(y.sum())
        value = self.reduced(sets @ self.q, sets @ y, total, y0)
        rank = np.argsort(-value)
        best = sets[rank[: 4 if k <= 24 else 2]]
        chosen = [sets[rank[: max(6, k // 2)]]]
        for _ in range(2):
            best = self._exchanged(best, y, y0, total)
            chosen.append(best)
            best = best[:2]
        return self._exact(np.unique(np.concatenate(chosen), axis=0), y, y0)

    def _exchanged(self, sets: Floats, y: Floats, y0: float, total: float) -> Floats:
        """The best few exchanges of each set."""
        k = len(self.q)
        sign = 1.0 - 2.0 * sets  # +1: enters, −1: leaves
        dw, dy = sign * self.q, sign * y
        pair_w = (sets @ self.q)[:, None, None] + dw[:, :, None] + dw[:, None, :]
        pair_y = (sets @ y)[:, None, None] + dy[:, :, None] + dy[:, None, :]
        same = np.arange(k)
        pair_w[:, same, same] -= dw
        pair_y[:, same, same] -= dy
        value = self.reduced(np.clip(pair_w, 0.0, 1.0).ravel(), pair_y.ravel(), total, y0)
        value = value.reshape(len(sets), k * k)
        few = min(k, 16)
        at = np.argpartition(-value, few, axis=1)[:, :few]
        out = np.repeat(sets, few, axis=0)
        a, c = np.divmod(at.ravel(), k)
        row = np.arange(len(out))
        out[row, a] = 1.0 - out[row, a]
        twice = a != c
        out[row[twice], c[twice]] = 1.0 - out[row[twice], c[twice]]
        order = np.argsort(-np.take_along_axis(value, at, axis=1).ravel())
        return out[order[: 2 * k]]

    def _exact(self, sets: Floats, y: Floats, y0: float) -> Floats:
        """Columns of the subsets, the better kind for these duals; heights from the fine corridor, or the tables
        where |U| is large.

        Interpolated heights may exceed the corridor by about 1e-6; the final mixing with a margin pays for that.
        """
        w = np.clip(sets @ self.q, 0.0, 1.0)
        if self._listed:
            lo, hi = self.fine.heights(w)
        else:
            grid = self.tables[0]
            lo, hi = (np.stack([np.interp(w, grid, row) for row in x]) for x in self.tables[1:])
        total, inside = float(y.sum()), sets @ y
        value = (1.0 - w) * xlogx(lo) + w * xlogx(hi) - lo * total - (hi - lo) * inside
        kind = value.argmax(axis=0)
        at = np.arange(len(w))
        lo, hi = lo[kind, at], hi[kind, at]
        return np.asarray(lo[:, None] + (hi - lo)[:, None] * sets)

    def _exhaustive(self, y: Floats, y0: float, tolerance: float) -> tuple[Floats, Floats]:
        """All subsets priced from the tables, the best of each block recomputed on the fine corridor."""
        k = len(self.q)
        best = np.zeros(0, dtype=np.int64)
        # A quarter of the subsets at a time: most rounds find enough in the first quarter they look at.
        for _ in range(_QUARTERS):
            self._turn = (self._turn + 1) % _QUARTERS
            picked = []
            for kind in self._kinds:
                part = kind.part(self._turn, _QUARTERS)
                picked.append(kind.subset[part][spread_best(kind.reduced(y, y0, part), tolerance / 2, 3 * k)])
            best = np.unique(np.concatenate(picked))
            if len(best):
                break
        if not len(best):
            return np.zeros((0, k)), np.zeros(0)
        columns = self._exact(indicator(best, k), y, y0)
        gains = self.gain(columns)
        good = gains - columns @ y - y0 > tolerance
        return columns[good], gains[good]
