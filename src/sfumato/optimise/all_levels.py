"""Cuts from outside, what one ε leaves to the next, and all levels of a curve in one search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from sfumato.joint import entropy
from sfumato.optimise.arrays import DUST, SOLVED, Bools, Floats, Ints, xlogx
from sfumato.optimise.barrier import BallMover, Barrier, smooth
from sfumato.optimise.budget import Budget, spend
from sfumato.optimise.cone import NEAR, Cone, RatioCone, repaired, settled
from sfumato.optimise.funnel.rays import Degenerate, SimpleCone, TooManyRays
from sfumato.optimise.linear import best_cover
from sfumato.optimise.search import GAIN, InformationAim, Master, bases_of, private_with_complements
from sfumato.tolerances import LEAST

# --- the best of all private rows, for rows of about ten numbers: cuts from outside, rows from inside (ours) ----------
# Why both sides meet is told in docs/robust.md, section 6, under the best of all mechanisms.


NUMBERS = 16  # in a row, up to which it is worth trying
RAYS = 2.0  # at most, over the gap that is asked for or that counts as none
FACETS = int(np.iinfo(np.int16).max)  # as many as can be told apart where a ray lists its own
LOOSE = 2.0**-31  # cuts are moved outward by up to twice this: no more of them than needed meet at a ray, and rounding
# of the conditionals, a thousand times smaller, does not count
UNSEEN = 1e-6  # mass of a number without any: the bound is looser by as much, and cuts by LOOSE in units of it


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
            rest = np.arange(len(rows)) != at
            try:
                kept = self.cone.cut(rows[at], self.count)
                made, self.count, self.cuts = made + 1, self.count + 1, np.vstack([self.cuts, normals[at]])
                above = np.concatenate([above[kept], self._above(rows, int(np.count_nonzero(kept)))])
            except (TooManyRays, Degenerate) as error:  # or signs in doubt: the cone stays larger
                self.full = isinstance(error, TooManyRays)
            rows, normals, above = rows[rest], normals[rest], above[:, rest]
        return made

    def _above(self, rows: Floats, since: int = 0) -> Bools:
        """Which rays, from one of them on, lie outside of which cuts [ray, cut]."""
        rays = self.cone.vectors[since:]
        spend(2 * len(rows), rays.size)
        return np.asarray(rays @ rows.T > 0.0)

    def best(self) -> Floats:
        """The unit rows of the best mixture Σ α w = P̂ of rays; H(X), its value and slack in prices are the bound."""
        points = np.concatenate([self.cone.vectors, self.mean[None]])
        cover = best_cover(self.mean, points, xlogx(points).sum(axis=1), budget=self.budget.firm)
        bound = self.times * (cover.bound + entropy(self.mean)) + SOLVED  # rays are floats good to about 1e-13
        self.bound = min(self.bound, bound)
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
    mean = np.where(cone.coordinates.p > 0, cone.coordinates.p, UNSEEN)
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


# --- from one ε to the next -------------------------------------------------------------------------------------------
# A row that is mixed with the constant row until it is private at a smaller ε loses what it told of U at no cost. So
# two things are changed apart: how far the means of the secrets lie from each other, which is what ε pays for, and how
# much each secret's part is mixed with its own mean, which is what the set's radius asks for.


POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # of the means of the secrets: nearer to each other, and further apart
WORTH = 0.1  # relative gap up to which it is likely that cuts from outside meet at the next ε too
INSIDE = 0.999  # of ε, that means alone may take: something is left to mix with


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """Rows over the coordinates that a search ended with, the worst cases that it cut at, and how far it came."""

    rows: Floats
    normals: Floats  # of R₁·v_{s₁} − E·R₂·v_{s₂}
    E: float
    gap: float  # relative, between value and what was met from outside

    @property
    def near(self) -> bool:
        """Whether cuts from outside are likely to meet at the next level: elsewhere other bounds say as much."""
        return self.gap < WORTH

    def cuts(self, E: float) -> Floats:
        """The same worst cases at another level: s₁ ≠ s₂, so that the sign of a number says on which side it is."""
        return np.where(self.normals < 0.0, self.normals * (E / self.E), self.normals)


def rows_for(cone: RatioCone, rows: Floats) -> Floats:
    """Private rows of a level from those of another: as steep as may be, and with means nearer or further apart."""
    out = settled(cone, rows)
    if cone.reads != "both" or cone.cap is not None:
        return out
    return np.concatenate([out, repaired(cone, _spread(cone, cone.coordinates.unit(rows)))])


def _spread(cone: RatioCone, rows: Floats) -> Floats:
    """Rows v_s·c_s^{k−1} mixed with c_s^k, c_s the mean of each secret, for several powers k."""
    p, of = cone.coordinates.p, cone.coordinates.cell // cone.within.joint.shape[1]
    each = np.equal.outer(of, np.unique(of)) * p[:, None]
    means = np.maximum(rows @ (each / np.maximum(each.sum(0), LEAST)), DUST)
    means[:, each.sum(0) <= 0.0] = 1.0
    level, place = np.log(means), np.searchsorted(np.unique(of), of)
    most = INSIDE * np.log(cone.E) / np.maximum(np.ptp(level, axis=1), DUST)
    flat = np.concatenate([np.exp(np.minimum(power, most)[:, None] * level) for power in POWERS])
    again = len(POWERS), 1
    return repaired(cone, (flat / np.tile(means, again))[:, place] * np.tile(rows, again), flat[:, place])


# --- all levels in one search -----------------------------------------------------------------------------------------
# The barrier takes its ratio row by row (`Barrier.E`), and on tables of ordinary size it is the calls that cost time,
# not the numbers in them: a turn of moves for twelve levels at once costs about as much as for two.


ROWS = 80  # that one level begins a turn from, at least, where there is much to gain: most are strangers
MUCH = 5e-3  # of the value
LENT = 8  # rows of each neighbour among them, at most
LAST = 0.1  # of the rows of a turn that need not have arrived: the last ones follow a bent boundary, in small steps
Aim = TypeVar("Aim", bound=Master)


@dataclass(eq=False)
class OneLevel(Generic[Aim]):
    """The promise at one ε, and the best mixture of its rows so far."""

    cone: RatioCone
    master: Aim
    enough: float = np.inf  # value at which nothing more is sought, and rows are only lent to the neighbours
    calm: int = 0  # turns without gain
    rows: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # from which its moves begin, and its neighbours'

    @property
    def met(self) -> bool:
        return self.master.value >= self.enough

    @property
    def far(self) -> bool:
        """Whether there may be much to gain."""
        return self.enough - self.master.value > MUCH * abs(self.master.value)


def joinable(cone: RatioCone) -> bool:
    """Whether levels can be searched together: smooth balls, no cap, few secrets."""
    count = len(cone.secrets)
    return smooth(cone) and count * (count - 1) <= cone.most and cone.cap is None


class Together(Generic[Aim]):
    """Turns of moves for several levels of the same table and set, in increasing order of ε."""

    def __init__(self, levels: Sequence[OneLevel[Aim]], rows: int = ROWS, last: float = LAST) -> None:
        self.levels, self.mover, self.rows, self.last = list(levels), BallMover(levels[0].cone), rows, last
        self.rng = np.random.default_rng(0)
        self.mover.sharper()  # turns are few

    def run(self, budget: Budget, *, once: float | None = None) -> None:
        """Turns until no level gains any more, `once` of its value at least; or with the time, where a turn that would
        not end is not begun."""
        for level in self.levels:
            level.master.solve()
            level.rows = level.master.used()[0] if level.met else level.master.steer()
        live, pace = [i for i, level in enumerate(self.levels) if not level.met], 0.0
        while live and not budget.over and budget.left >= pace * len(live):
            began, many = budget.clock(), len(live)
            with suppress(np.linalg.LinAlgError):  # a move that fails adds nothing
                self._turn(live, budget)
            live = [i for i in live if self._goes_on(self.levels[i], once or GAIN, budget)]
            pace = (budget.clock() - began) / many

    def _goes_on(self, level: OneLevel[Aim], gain: float, budget: Budget) -> bool:
        """Mix anew; whether that was worth something in one of its last turns, and something is left to gain."""
        before, value = level.master.value, level.master.solve()
        level.master.learn()
        level.rows = level.master.steer()
        level.calm = 0 if value > before + gain * abs(value) else level.calm + 1
        budget.tell("rows", value)
        return level.calm <= level.far and not level.met

    def _turn(self, live: list[int], budget: Budget) -> None:
        """New rows for the levels that are still gaining, some of them from rows of their neighbours."""
        levels, begun = [self.levels[i] for i in live], []
        for i, level in zip(live, levels, strict=True):
            near = [self.levels[j].rows for j in (i - 1, i + 1) if 0 <= j < len(self.levels)]
            lent = [rows[self.rng.permutation(len(rows))[:LENT]] for rows in near]
            own = np.concatenate([level.rows, *lent])
            begun.append(bases_of(own, self.mover.p, self.rng, self.rows if level.far else 0))
        owner = np.repeat(np.arange(len(live)), [len(bases) for bases in begun])

        def slopes(v: Floats, at: Ints) -> Floats:
            out = np.empty_like(v)
            for k in np.unique(owner[at]):
                out[owner[at] == k] = levels[k].master.slopes(v[owner[at] == k])
            return out

        E, every = np.array([level.cone.E for level in levels])[owner], np.arange(len(owner))
        barrier = Barrier(self.mover, E[:, None])
        inside = [repaired(level.cone, bases, loose=True) for level, bases in zip(levels, begun, strict=True)]
        costs = slopes(np.concatenate(begun), every)
        found = self.mover.solved(barrier, np.concatenate(inside), costs, slopes, every, budget, self.last)
        for k, level in enumerate(levels):
            level.master.add(private_with_complements(level.cone, found[owner == k]))
