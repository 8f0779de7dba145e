"""Few secrets and useful values: rows with a distinguished secret over the exact ball, priced all at once (ours).

The families are those of `distinguished` with the product set (profile 1), where heights are closed forms, so the
points of every t are one array. Pricing is a heuristic, hence no bound of the family: the
optimum at P̂ bounds the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.mixture import Mixture
from sfumato.solve.oracle import radius
from sfumato.solve.pricing import indicator
from sfumato.solve.twolevel import mass_range
from sfumato.solve.watch import FREE, Watch
from sfumato.uncertainty.tilting import worst_pairs

MARGIN = 1e-7  # nats left for the sealing of weights into integers
SLOPES = 16  # tangents of φ from which rows are suggested
MENDED = 64  # rows improved secret by secret per round
ROUNDS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Two-level points [t, k] of one secret: heights, gain Σ p φ(h) and z = Σ p h."""

    heights: Floats
    gain: Floats
    z: Floats


def two_level(p: Floats, C: float, floor: Floats, roof: Floats) -> Points:
    """Every two-level point of {v : m(v) ≥ floor, M(v) ≤ roof} over one ball, for each (floor, roof)."""
    k = len(p)
    sets = indicator(np.arange(1, (1 << k) - 1), k)
    low, high = mass_range(np.clip(sets @ (p / p.sum()), 0.0, 1.0), np.array(C))
    floor, roof = floor[:, None], roof[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (roof - floor) / (high - low)
        lo = floor - d * low
        steep = np.where(lo < 0, roof / high, d)
        least = np.where((lo < 0) & (low > 0), floor / low, steep)
    lo = np.maximum(lo, 0.0)
    steps = np.stack([steep, np.where(least < steep, least, steep)])  # [kind, t, set]
    steps = np.where(np.isfinite(steps), steps, 0.0)
    points = [lo[:, :, None] + step[:, :, None] * sets for step in steps]
    # A set that cannot carry the floor falls back to a constant.
    points = [np.where((step > 0)[:, :, None], x, floor[:, :, None]) for step, x in zip(steps, points, strict=True)]
    ends = np.broadcast_to(np.concatenate([floor, roof], 1)[:, :, None], (len(floor), 2, k))
    heights = np.concatenate([*points, ends], axis=1)
    return Points(heights, xlogx(heights) @ p, heights @ p)


class Search:
    """Column generation over (s0, t) for one E, with columns kept from one set of t to the next."""

    def __init__(self, p: Floats, b: float, E: float, start: Floats | None) -> None:
        self.p, self.E = p, E
        shares = p.sum(axis=1)
        self.C = [float(radius(float(share), np.array(b))) for share in shares]
        self.lp = Mixture(p.size, None)
        rows = np.ones((1, p.size)) if start is None else np.concatenate([np.ones((1, p.size)), start])
        unit = rows / (rows @ p.ravel())[:, None]
        self.lp.add(unit, xlogx(unit) @ p.ravel())
        self.t = np.ones(len(unit))

    def at(self, t: Floats) -> None:
        """Complete the columns for these t, whichever secret is the distinguished one."""
        n, S = len(t), len(self.p)
        one, E = np.ones(n), np.full(n, self.E)
        own = [two_level(self.p[s], self.C[s], one, self.E * t) for s in range(S)]
        other = [two_level(self.p[s], self.C[s], t, E) for s in range(S)]
        top = sum(float(x.z.max()) for x in own)
        slopes = 1.0 + np.log(np.geomspace(1.0, max(top, 1.01), SLOPES))
        for _ in range(ROUNDS):
            if not self.lp.solve():
                return
            rows, gain, taken = self._suggested(own, other, t, slopes)
            if not len(rows):
                return
            z = rows @ self.p.ravel()
            self.lp.add(rows / z[:, None], gain / z)
            self.t = np.append(self.t, taken)
        self.lp.solve()

    def _suggested(
        self, own: list[Points], other: list[Points], t: Floats, slopes: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Rows whose reduced cost is positive: the best of each tangent of φ, then mended."""
        duals = self.lp.dual[:-1].reshape(self.p.shape)
        n, S, m = len(t), len(self.p), len(slopes)
        prices = [[x.gain - x.heights @ duals[s] for s, x in enumerate(group)] for group in (own, other)]
        best, a, z = [], [], []
        for group, price in zip((own, other), prices, strict=True):
            at = [(c[:, None] - slopes[:, None] * x.z[:, None]).argmax(2) for c, x in zip(price, group, strict=True)]
            best.append(at)
            a.append([np.take_along_axis(c, i, 1) for c, i in zip(price, at, strict=True)])
            z.append([np.take_along_axis(x.z, i, 1) for x, i in zip(group, at, strict=True)])
        choice = np.empty((S, n, m, S), np.int64)
        value, height = np.zeros((S, n, m)), np.zeros((S, n, m))
        for s0 in range(S):
            for s in range(S):
                role = 0 if s == s0 else 1
                choice[s0, :, :, s] = best[role][s]
                value[s0] += a[role][s]
                height[s0] += z[role][s]
        reduced = (value - xlogx(height)).ravel()
        picked = np.argpartition(-reduced, min(MENDED, len(reduced) - 1))[:MENDED]
        mine, place = np.divmod(picked, n * m)
        return self._mended(choice.reshape(-1, S)[picked], mine, place // m, own, other, prices, t)

    def _mended(
        self, choice: Ints, s0: Ints, i: Ints, own: list[Points], other: list[Points],
        prices: list[list[Floats]], t: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        S = len(self.p)
        count = own[0].z.shape[1]

        def table(s: int, name: str) -> Floats:
            mine = (s0 == s)[:, None]
            return np.asarray(np.where(mine, getattr(own[s], name)[i], getattr(other[s], name)[i]))

        zs = [table(s, "z") for s in range(S)]
        a = [np.where((s0 == s)[:, None], prices[0][s][i], prices[1][s][i]) for s in range(S)]
        row = np.arange(len(choice))
        z = np.sum([zs[s][row, choice[:, s]] for s in range(S)], axis=0)
        for s in (*range(S), *range(S - 1)):
            rest = z - zs[s][row, choice[:, s]]
            choice[:, s] = (a[s] - xlogx(rest[:, None] + zs[s])).argmax(1)
            z = rest + zs[s][row, choice[:, s]]
        reduced = np.sum([a[s][row, choice[:, s]] for s in range(S)], axis=0) - xlogx(z)
        good = np.flatnonzero(reduced > 2e-6 * abs(self.lp.value) + 1e-12)
        code = np.zeros(len(choice), np.int64)
        for s in range(S):
            code = (code * 1_000_003 + choice[:, s]) % (1 << 40)
        code = code * 4096 + i * S + s0
        good = good[np.unique(code[good], return_index=True)[1]]
        good = good[np.argsort(-reduced[good])[: 2 * self.p.size]]
        blocks, gain = [], -xlogx(z[good])
        for s in range(S):
            mine = (s0[good] == s)[:, None]
            blocks.append(np.where(mine, own[s].heights[i[good], choice[good, s]],
                                   other[s].heights[i[good], choice[good, s]]))
            gain = gain + xlogx(blocks[-1]) @ self.p[s]
        assert choice.max() < count
        return np.concatenate(blocks, axis=1), gain, t[i[good]]

    def used(self) -> Floats:
        """The t of the rows in use."""
        return np.unique(self.t[self.lp.theta > 1e-9])

    def rows(self) -> Floats:
        on = self.lp.theta > 1e-12
        return np.asarray(self.lp.theta[on, None] * self.lp.columns[on])


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """Rows Q[y, x] with their value in nats and their worst log-ratio over F, in floats."""

    rows: Floats
    value: float
    log_ratio: float


def worst_rows(rows: Floats, p: Floats, b: float) -> tuple[float, Floats, Floats]:
    """The worst log-ratio over F, and for every row and pair the greatest and least mean that attain its own."""
    S, U = p.shape
    shares = p.sum(axis=1)
    q = p / shares[:, None]
    unit = (rows / (rows @ p.ravel())[:, None]).reshape(-1, S, U)
    first, second = np.nonzero(~np.eye(S, dtype=bool))
    y = np.repeat(np.arange(len(rows)), len(first))
    s1, s2 = np.tile(first, len(rows)), np.tile(second, len(rows))
    found = worst_pairs(unit[y, s1], q[s1], shares[s1], unit[y, s2], q[s2], shares[s2], b)
    top, low = (found.first * unit[y, s1]).sum(1), (found.second * unit[y, s2]).sum(1)
    return float(np.log(found.ratio.max())), top, low


def value_of(rows: Floats, p: Floats) -> float:
    flat = p.ravel()
    return float((xlogx(rows) @ flat).sum() - xlogx(rows @ flat).sum())


def settled(rows: Floats, p: Floats, b: float, epsilon: float) -> Few:
    """The rows, mixed with the constant law just enough that their level is ε − MARGIN."""
    E = float(np.exp(epsilon - MARGIN))
    for _ in range(6):
        level, top, low = worst_rows(rows, p, b)
        if level <= epsilon - MARGIN:
            break
        odds = float(((top - E * low) / (E - 1.0)).max()) * (1 + 1e-6) + 1e-10
        share = odds / (1.0 + odds)
        rows = (1.0 - share) * rows + share * (rows @ p.ravel())[:, None]
    return Few(rows, value_of(rows, p), level)


def few(p: Floats, b: float, epsilon: float, *, watch: Watch = FREE) -> Few:
    """The best rows found for the product set at a nominal ε raised as far as the exact level over F allows.

    A first search on few t tells how far that is; the second starts from its rows and refines t.
    """
    E = float(np.exp(epsilon))
    rough = Search(p, b, E, None)
    rough.at(E ** np.linspace(0.0, 1.0, 5))
    start, t = rough.rows(), rough.used()
    best = settled(start, p, b, epsilon)
    watch.tell("few", best.value)
    watch.keep(layout_of_rows(best.rows, p), best.value)
    if watch.over:
        return best
    room = max(epsilon - MARGIN - best.log_ratio, 0.0)
    E = float(np.exp(epsilon + room))
    search = Search(p, b, E, start)
    ratio = E**0.25
    for _ in range(3):
        ratio = ratio ** (1.0 / 3.0)
        around = t[:, None] * ratio ** np.array([-1.0, 0.0, 1.0])
        search.at(np.unique(np.clip(np.append(around, 1.0), 1.0, E).round(12)))  # t = 1 is always worth a look
        t = search.used()
        watch.tell("few", search.lp.value)
        if watch.over:
            break
    found = settled(search.rows(), p, b, epsilon)
    return found if found.value > best.value else best
