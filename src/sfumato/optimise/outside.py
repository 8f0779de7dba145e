"""The best of all private rows, for rows of about ten numbers: cuts from outside, rows from inside (ours).

Finitely many cuts leave a polyhedral cone that contains every private row; the best mixture of its extreme rays bounds
every private mechanism, because a row is a sum of rays and the gain is convex and homogeneous. The rays in that mixture
are not quite private: their worst cases are the next cuts, and mixed with a little of the constant row they are rows of
a design. Both sides meet (docs/robust.md, section 6).
"""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import SOLVED, Bools, Floats, entropy, xlogx
from sfumato.optimise.budget import Budget, spend
from sfumato.optimise.cone import NEAR, Cone, repaired
from sfumato.optimise.funnel.rays import Degenerate, SimpleCone, TooManyRays
from sfumato.optimise.linear import best_cover
from sfumato.optimise.search import GAIN, InformationAim

NUMBERS = 16  # in a row, up to which it is worth trying
RAYS = 2.0  # at most, over the gap that is asked for or that counts as none
FACETS = int(np.iinfo(np.int16).max)  # as many as can be told apart where a ray lists its own
LOOSE = 2.0**-31  # cuts are moved outward by up to twice this: no more of them than needed meet at a ray, and rounding
# of the conditionals, a thousand times smaller, does not count
EMPTY = 1e-6  # mass of a number without any: the bound is looser by as much, and cuts by LOOSE in units of it


class Outside:
    """A cone that contains every private row, by its extreme rays w_x = P̂_x v_x with Σ w = 1."""

    def __init__(self, mean: Floats, limit: int, budget: Budget, times: float = 1.0) -> None:
        self.mean, self.budget, self.times = mean, budget, times  # the last: what the bound is taken
        self.cone = SimpleCone(len(mean), FACETS, limit)
        self.random, self.count = np.random.default_rng(3), len(mean)
        self.full, self.bound = False, np.inf
        self.cuts = np.zeros((0, len(mean)))  # worst cases that did cut

    def cut(self, normals: Floats) -> int:
        """Cut at some worst cases, those that cost most rays first; how many did cut."""
        rows = normals / self.mean
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)
        rows = rows - LOOSE * (1.0 + self.random.random((len(rows), 1)))
        made, above = 0, self._above(rows)
        while len(rows) and not self.full and self.count < FACETS and not self.budget.over:
            lost = np.count_nonzero(above, axis=0)
            at = int(lost.argmax())
            spend(35, self.cone.vectors.size)
            if lost[at] == 0:
                break
            kept, rest = self._apply(rows[at]), np.arange(len(rows)) != at
            if kept is not None:
                made += 1
                self.cuts = np.vstack([self.cuts, normals[at]])
                above = np.concatenate([above[kept], self._above(rows, int(np.count_nonzero(kept)))])
            rows, normals, above = rows[rest], normals[rest], above[:, rest]
        return made

    def _above(self, rows: Floats, since: int = 0) -> Bools:
        """Which rays, from one of them on, lie outside of which cuts [ray, cut]."""
        rays = self.cone.vectors[since:]
        spend(2 * len(rows), rays.size)
        return np.asarray(rays @ rows.T > 0.0)

    def _apply(self, row: Floats) -> Bools | None:
        """One cut, and which rays it left; none where they are too many or signs in doubt: the cone stays larger."""
        try:
            kept = self.cone.cut(row, self.count)
        except (TooManyRays, Degenerate) as error:
            self.full = isinstance(error, TooManyRays)
            return None
        self.count += 1
        return kept

    def best(self) -> Floats:
        """The unit rows of the best mixture of rays; its value and slack in prices are the bound.

        I(X;Y) = Σ_y α_y Σ_x w log(w/P̂) = H(X) + Σ_y α_y Σ_x w log w for a mixture Σ α w = P̂. Weak duality needs the
        rays, and these are floats good to about 1e-13: a thousand times that is added.
        """
        points = np.concatenate([self.cone.vectors, self.mean[None]])
        cover = best_cover(self.mean, points, xlogx(points).sum(axis=1))
        self.bound = min(self.bound, self.times * (cover.bound + entropy(self.mean)) + SOLVED)
        return np.asarray(cover.points / self.mean)


def meet(
    cone: Cone, outer: Cone, master: InformationAim, budget: Budget, *, gap: float, known: Floats | None = None
) -> tuple[float, Floats]:
    """Improve the master's pool until value and bound are within a relative `gap`; returns the bound and its cuts.

    `outer` is the cone at ε itself, without the margin that is left for sealing. `known` are cuts to begin with. Where
    rows have too many numbers nothing is tried and the bound is ∞.

    The programme of rays is simple only if every number has mass: those without get a little. With B for whether X is
    among them I(X;Y) ≥ I(X;Y|B) ≥ P(B = 0)·I(X;Y|B = 0), so the bound is divided by what mass is left to the others.
    """
    mean = np.where(cone.coordinates.p > 0, cone.coordinates.p, EMPTY)
    if len(mean) > NUMBERS:
        return float("inf"), np.zeros((0, len(mean)))
    outside = Outside(mean / mean.sum(), int(RAYS / min(gap, GAIN)), budget, float(mean.sum()))
    master.solve()
    outside.cut(outer.cuts(master.used()[0], room=NEAR).normals if known is None else known)
    while True:
        met = outside.best()
        if budget.over:  # what follows is for the next round
            break
        worst = outer.cuts(met)
        odds = worst.greatest(len(met))[:, None] / cone.rise  # of the constant row: what these worst cases ask for
        rows = (met + odds) / (1 + odds)
        rows = rows[rows @ cone.coordinates.p > 0.0]  # a ray may have no mass but that of numbers without any
        master.add(repaired(cone, rows, loose=True))
        value = master.solve()
        budget.tell("outside", value, outside.bound)
        if outside.bound - value <= gap * value or not outside.cut(worst.normals):
            break
    near = np.abs(outside.cuts @ met.T).min(1, initial=np.inf) < NEAR  # elsewhere the others cost rays and cut nothing
    return outside.bound, outside.cuts[near]
