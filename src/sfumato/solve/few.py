"""Few secrets and useful values: rows with a distinguished secret over the exact ball, then general rows (ours).

The families are those of `distinguished` with the product set (profile 1), where heights are closed forms, so the
points of every secret and every t are one array. Pricing is a heuristic, hence no bound of the family. Its rows are
where `general_rows` starts from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.solve.general_rows import refined
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.mixture import Mixture
from sfumato.solve.pricing import indicator
from sfumato.solve.watch import FREE, Watch
from sfumato.solve.worst_rows import Settled
from sfumato.uncertainty.tilting import mass_range, spread_of

NODES = 5  # values of t: rows are moved afterwards, so these need not be close
COARSE = 1e-4  # relative reduced cost below which a row is not worth adding: likewise
SLOPES = 16  # tangents of φ from which rows are suggested
MENDED = 64  # rows improved secret by secret per round
ROUNDS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Two-level points [s, t, k] of every secret: heights [s, t, k, u], gain Σ p φ(h) and z = Σ p h."""

    heights: Floats
    gain: Floats
    z: Floats


def two_level(p: Floats, C: Floats, floor: Floats, roof: Floats) -> Points:
    """Every two-level point of {v : m(v) ≥ floor, M(v) ≤ roof} over each secret's ball, for each (floor, roof)."""
    k = p.shape[1]
    sets = indicator(np.arange(1, (1 << k) - 1), k)
    low, high = mass_range(np.clip((p / p.sum(1)[:, None]) @ sets.T, 0.0, 1.0), C[:, None])
    low, high, floor, roof = low[:, None], high[:, None], floor[:, None], roof[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (roof - floor) / (high - low)
        lo = floor - d * low
        steep = np.where(lo < 0, roof / high, d)
        least = np.where((lo < 0) & (low > 0), floor / low, steep)
    lo = np.maximum(lo, 0.0)
    steps = np.concatenate([steep, np.where(least < steep, least, steep)], 2)[..., None]  # [s, t, kind and set, 1]
    steps = np.where(np.isfinite(steps), steps, 0.0)
    inner = np.tile(lo, 2)[..., None] + steps * np.tile(sets, (2, 1))
    # A set that cannot carry the floor falls back to a constant.
    inner = np.where(steps > 0, inner, floor[:, :, None])
    ends = np.broadcast_to(np.concatenate([floor, roof], 1)[:, :, None], (len(p), len(floor), 2, k))
    heights = np.concatenate([inner, ends], axis=2)
    flat = p[:, None, :, None]
    return Points(heights, (xlogx(heights) @ flat)[..., 0], (heights @ flat)[..., 0])


class Search:
    """Column generation over (s0, t) for one E."""

    def __init__(self, p: Floats, b: float, E: float, start: Floats | None) -> None:
        self.p, self.E = p, E
        self.C = spread_of(b, p.sum(axis=1))
        self.lp = Mixture(p.size, None)
        rows = np.ones((1, p.size)) if start is None else np.concatenate([np.ones((1, p.size)), start])
        unit = rows / (rows @ p.ravel())[:, None]
        self.lp.add(unit, xlogx(unit) @ p.ravel())

    def at(self, t: Floats, close: float) -> None:
        """Complete the columns for these t, whichever secret is the distinguished one."""
        own = two_level(self.p, self.C, np.ones(len(t)), self.E * t)
        other = two_level(self.p, self.C, t, np.full(len(t), self.E))
        points = Points(*(np.stack([getattr(own, x), getattr(other, x)]) for x in ("heights", "gain", "z")))
        top = float(own.z.max(axis=(1, 2)).sum())
        slopes = 1.0 + np.log(np.geomspace(1.0, max(top, 1.01), SLOPES))
        for _ in range(ROUNDS):
            if not self.lp.solve():
                return
            rows, gain = self._suggested(points, slopes, close)
            if not len(rows):
                return
            z = rows @ self.p.ravel()
            self.lp.add(rows / z[:, None], gain / z)
        self.lp.solve()

    def _suggested(self, points: Points, slopes: Floats, close: float) -> tuple[Floats, Floats]:
        """Rows whose reduced cost is positive: the best of each tangent of φ, then mended.

        Arrays are [role, s, t, slope, point]; role 0 is the distinguished secret's.
        """
        duals = self.lp.dual[:-1].reshape(self.p.shape)
        S = len(self.p)
        price = points.gain - (points.heights @ duals[:, None, :, None])[..., 0]
        best = (price[..., None, :] - slopes[:, None] * points.z[..., None, :]).argmax(-1)
        a, z = (np.take_along_axis(x, best, -1) for x in (price, points.z))
        # With s0 distinguished, all others play their common role.
        reduced = a[1].sum(0) + a[0] - a[1] - xlogx(z[1].sum(0) + z[0] - z[1])  # [s0, t, slope]
        picked = np.argpartition(-reduced.ravel(), min(MENDED, reduced.size - 1))[:MENDED]
        s0, t, slope = np.unravel_index(picked, reduced.shape)
        s = np.arange(S)
        role = (s != s0[:, None]).astype(np.int64)  # [row, s]
        choice = best[role, s, t[:, None], slope[:, None]]
        return self._mended(choice, role, t[:, None], points, price, close)

    def _mended(
        self, choice: Ints, role: Ints, t: Ints, points: Points, price: Floats, close: float
    ) -> tuple[Floats, Floats]:
        """The rows after coordinate ascent over secrets, those that are worth adding, with their μ."""
        S, s = len(self.p), np.arange(len(self.p))
        a, zs = price[role, s, t], points.z[role, s, t]  # [row, s, point]
        row = np.arange(len(choice))
        z = np.take_along_axis(zs, choice[..., None], -1)[..., 0].sum(1)
        for i in (*range(S), *range(S - 1)):
            rest = z - zs[row, i, choice[:, i]]
            choice[:, i] = (a[:, i] - xlogx(rest[:, None] + zs[:, i])).argmax(1)
            z = rest + zs[row, i, choice[:, i]]
        reduced = np.take_along_axis(a, choice[..., None], -1)[..., 0].sum(1) - xlogx(z)
        good = np.flatnonzero(reduced > close * abs(self.lp.value) + 1e-12)
        names = np.concatenate([choice[good], role[good], t[good]], axis=1)
        good = good[np.unique(names, axis=0, return_index=True)[1]] if len(good) else good
        good = good[np.argsort(-reduced[good])[: 2 * self.p.size]]
        at = (role[good], s, t[good], choice[good])
        rows = points.heights[at].reshape(-1, self.p.size)
        return rows, points.gain[at].sum(1) - xlogx(z[good])

    def rows(self) -> Floats:
        """The mechanism of the last solution."""
        on = self.lp.theta > 1e-12
        return np.asarray(self.lp.theta[on, None] * self.lp.columns[on])


def few(p: Floats, b: float, epsilon: float, start: Floats | None = None, *, watch: Watch = FREE) -> Settled:
    """The best rows found over F: a search of two-level rows over the product set, then general rows from there.

    `start` are private rows (any scale) to do at least as well as.
    """
    E = float(np.exp(epsilon))
    search = Search(p, b, E, start)
    search.at(E ** np.linspace(0.0, 1.0, NODES), COARSE)
    rows = search.rows()
    watch.tell("few", search.lp.value)
    watch.keep(layout_of_rows(rows, p), search.lp.value)
    return refined(rows, p, b, epsilon, watch=watch)
