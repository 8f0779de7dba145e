"""The best of all mechanisms that are private over F, for few cells: cuts from outside, rows from inside (ours).

Every pair of conditionals in F is one linear inequality on rows. Finitely many of them leave a polyhedral cone that
contains every private row; the best mixture of its extreme rays bounds every private mechanism. The rays in that
mixture are not quite private: their worst pairs are the next cuts, and mixed with a little of the constant row they are
rows of a design. Both sides meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.optimise.cover import best_cover
from sfumato.optimise.funnel.rays import Degenerate, SimpleCone, TooManyRays
from sfumato.solve.arrays import Floats, Ints, entropy, xlogx
from sfumato.solve.general_rows import refined
from sfumato.solve.mixture import Mixture
from sfumato.solve.watch import FREE, Watch
from sfumato.solve.worst_rows import Compared, Settled, compared, inside, levelled

FACETS = 8_000  # cuts at most, with the cells
RAYS = 200_000  # rays at most: about a second per round at ten cells
LOOSE = 2.0**-31  # cuts are moved outward by up to twice this: no more of them than needed meet at a ray, and rounding
# of the conditionals, a thousand times smaller, does not count
ALLOWANCE = 1e-10  # added to bounds: weak duality needs the rays, and these are floats good to about 1e-13
NEAR = 0.02  # log-ratios of the first rows this far below ε are cut at from the start
OVER = 1e-9  # relative excess at which a pair is violated


class Outside:
    """A cone that contains every private row, by its extreme rays w_x = P̂_x v_x with Σ w = 1."""

    def __init__(self, p: Floats, E: float, watch: Watch = FREE, limit: int = RAYS) -> None:
        self.p, self.E, self.watch = p, E, watch
        self.live = np.flatnonzero(p.ravel() > 0)
        self.mean = p.ravel()[self.live] / p.sum()
        self.cone = SimpleCone(len(self.live), FACETS, limit)
        self.random = np.random.default_rng(3)
        self.count = len(self.live)
        self.full = False
        self.bound = np.inf

    def cut(self, known: Compared, which: Ints) -> int:
        """Cut at some pairs, those that cost most rays first; how many did cut.

        What a conditional has on cells that never occur goes to q, which brings it nearer to P̂: it stays in F.
        """
        s1, s2 = known.s1[which], known.s2[which]
        first, second = (self._on_live(r[which], s) for r, s in ((known.first, s1), (known.second, s2)))
        kept = Compared(known.rows, known.y[which], s1, s2, known.ratio[which], first, second)
        rows = kept.cuts(self.E, np.arange(len(which)))[:, self.live] / self.mean
        rows /= np.abs(rows).max(axis=1, keepdims=True)
        rows = rows - LOOSE * (1.0 + self.random.random((len(rows), 1)))
        made = 0
        while len(rows) and not self.full and self.count < FACETS and not self.watch.over:
            lost = np.count_nonzero(self.cone.vectors @ rows.T > 0.0, axis=0)
            at = int(lost.argmax())
            if lost[at] == 0:
                break
            made += self._apply(rows[at])
            rows = np.delete(rows, at, axis=0)
        return made

    def _on_live(self, r: Floats, s: Ints) -> Floats:
        q = self.p[s] / self.p[s].sum(1, keepdims=True)
        aside = np.where(q > 0, 0.0, r).sum(1, keepdims=True)
        return np.asarray(np.where(q > 0, r, 0.0) + aside * q)

    def _apply(self, row: Floats) -> bool:
        """One cut; a cut that cannot be made is left out, and the cone stays the larger."""
        try:
            self.cone.cut(row, self.count)
        except TooManyRays:
            self.full = True
            return False
        except Degenerate:
            return False
        self.count += 1
        return True

    def best(self) -> Floats:
        """The rows of the best mixture of rays; its value and slack in prices are the bound.

        I(X;Y) = Σ_y α_y Σ_x w log(w/P̂) = H(X) + Σ_y α_y Σ_x w log w for a mixture Σ α w = P̂.
        """
        rays = self.cone.vectors
        points = np.concatenate([rays, self.mean[None]])
        cover = best_cover(self.mean, points, xlogx(points).sum(axis=1))
        self.bound = min(self.bound, cover.bound + entropy(self.mean) + ALLOWANCE)
        return self._rows(cover.points)

    def _rows(self, points: Floats) -> Floats:
        """Rays as rows v of unit mass."""
        out = np.zeros((len(points), self.p.size))
        out[:, self.live] = points / self.mean
        return levelled(out, self.p)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Private rows Q[y, x] with their value, and a bound that holds for every private mechanism."""

    found: Settled
    bound: float
    rounds: int


def optimum(
    start: Settled, p: Floats, b: float, epsilon: float, *, gap: float, rounds: int = 60, watch: Watch = FREE
) -> Optimum:
    """From private rows towards the best there are, until value and bound are within a relative `gap`."""
    E, flat = float(np.exp(epsilon)), p.ravel()
    outside, lp = Outside(p, E, watch), Mixture(p.size, None)
    rows = levelled(start.rows, p)
    known = compared(rows, p, b)
    outside.cut(known, np.flatnonzero(known.ratio > E * np.exp(-NEAR)))
    unit = np.concatenate([known.rows.reshape(len(rows), -1), np.ones((1, p.size))])
    lp.add(unit, xlogx(unit) @ flat)
    value, turn = start.value, 0
    while turn < rounds:
        turn += 1
        met = outside.best()
        watch.tell("outside", value, outside.bound)
        if outside.bound - value <= gap * value or watch.over:
            break
        known = compared(met, p, b)
        made = outside.cut(known, np.flatnonzero(known.ratio > E * (1.0 + OVER)))
        mixed = inside(met, known, p, b, epsilon)
        lp.add(mixed, xlogx(mixed) @ flat)
        if lp.solve() and lp.value > value:
            on = lp.theta > 1e-12
            rows, value = lp.theta[on, None] * lp.columns[on], lp.value
        if not made:
            break
    found = refined(rows / rows.sum(axis=0), p, b, epsilon)
    return Optimum(found if found.value > start.value else start, outside.bound, turn)
