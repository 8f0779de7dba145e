"""The search for the best estimates: starts, blocks by price, moves over the cone, and a mixture that is private."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.all_levels import OneLevel, Together, joinable
from sfumato.optimise.arrays import EMPTY, Bools, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.carrying import rows_for
from sfumato.optimise.cone import RatioCone, repaired
from sfumato.optimise.estimates.first_rows import BlockMover, of_cells, of_values, steep
from sfumato.optimise.estimates.goal import SETTLED, Goal
from sfumato.optimise.estimates.mixing import USED, Estimates, PreciseRows
from sfumato.optimise.product.profiles import capped, liked
from sfumato.optimise.product.two_level import BlockBall, Profile
from sfumato.optimise.search import moved
from sfumato.optimise.starts import Known
from sfumato.uncertainty import ChiSquareBall, Exactly, RenyiBall, UncertaintySet

BATCH = 16  # rows that are sought at once
STARTS = 3  # climbs for each of them
TOLD = 2.0  # weight that a new row is taken to have, in units of the mean, while the next ones are sought
COARSE = 1e-3  # how well mixtures are solved between climbs
CALM = 2  # climbs that gain little after which blocks have told what they can
LITTLE = 2e-3  # of the error
ROWS = 2.5  # rows of a mixture for each coordinate, about
ROUNDED = 1e-8  # of columns: less than the margin of the cone covers
AFTER = 0.1  # of the time, for the last mixture, besides what making its rows private will take
SEARCH = 0.6  # of the time, at least, for the search itself
LAST = 0.15  # of the time of a curve, for the last mixtures
REACHED = 2e-4  # of the error of the untouched table, which no release is below: nothing more is sought
CARRIED = 2.0  # rows for each coordinate that a level leaves to the next
FROM = 40  # rows that a turn of moves begins from in a curve, at least
LATE = 0.55  # of the rows of a turn, that need not have arrived: tangents turn with the row, and the next turn goes on
GAIN = 3e-4  # of the error: a turn of moves that gains less does not count in a curve
TIMED = 8  # rows on which that is measured


def filled(within: UncertaintySet) -> UncertaintySet:
    """The set with a trace of mass in every cell, where it is a ball: its distributions may have mass in cells that
    were never counted, so these are estimated like all others; what is found is made private over the set itself."""
    joint = within.joint
    if not isinstance(within, (ChiSquareBall, RenyiBall)) or within.budget <= 0 or (joint.p > 0).all():
        return within
    p = np.maximum(joint.p, EMPTY)
    return within.around(Joint.from_probabilities(p / p.sum(), n=joint.n))


def searched(
    within: UncertaintySet, epsilon: float, goal: Goal, reads: str = "both", budget: Budget = FREE,
    known: Floats | None = None, at_most: float | None = None,
) -> PreciseRows | None:
    """The best mixture found within the time; None where not even one mixture fits into it.

    `known` are private rows over the coordinates that join the pool.
    """
    cone, exact = _cones(within, epsilon, reads, at_most)
    search = _Search(cone, epsilon, at_most)
    working = budget.part(1 - AFTER, max(budget.left - search.seconds(budget.clock), SEARCH * budget.left))
    master = Estimates(goal, working)
    if not search.begin(master, known):
        return None
    if search.movers:
        search.climb(master, working)
    if not working.over:
        with contextlib.suppress(np.linalg.LinAlgError):  # a move that fails adds nothing: what was found is kept
            moved(cone, master, working)
    return _settled(exact, master, budget)


def searched_along(
    within: UncertaintySet, epsilons: Sequence[float], goal: Goal, reads: str, budget: Budget,
    known: Sequence[Floats] = (), once: float | None = None,
) -> list[PreciseRows] | None:
    """The same at increasing ε in one search (`optimise.all_levels`), each level begun with the rows of the one below
    as this one allows them (`optimise.carrying`); None where levels are not searched together, or time is too short.

    `known` are the rows of designs from which the whole table can be estimated, one for each level: nothing else is
    begun with then but sets of useful values, which other goals may have no use for. `once` is as in `Together.run`.
    """
    cones = [_cones(within, x, reads, None) for x in epsilons]
    if not all(joinable(x) for x, _ in cones):
        return None
    levels: list[OneLevel[Estimates]] = []
    working, profile = budget.part(1 - LAST), None
    for i, (epsilon, (cone, _)) in enumerate(zip(epsilons, cones, strict=True)):
        master = Estimates(goal, working)
        if known:
            master.add(known[i])
            master.add(steepened(cone, steep(common_sets(cone, epsilon)), loose=True))
            master.solve(COARSE)
        else:
            search = _Search(cone, epsilon, profile=profile)
            profile = search.liked
            if not search.begin(master, _from_below(cone, levels[-1].master) if levels else None):
                return None
        levels.append(OneLevel(cone, master, enough=-(1 + REACHED) * goal.untouched))
    Together(levels, FROM, LATE).run(working, gain=GAIN, once=once)
    return [_settled(exact, x.master, budget) for x, (_, exact) in zip(levels, cones, strict=True)]


def _from_below(cone: RatioCone, master: Estimates) -> Floats:
    """The heaviest rows of a smaller ε as this one allows them."""
    rows, theta = master.used()
    return rows_for(cone, rows[np.argsort(-theta, kind="stable")[: int(CARRIED * len(master.p))]])


def common_sets(cone: RatioCone, epsilon: float) -> Bools:
    """Sets of useful values, the same whatever the secret is."""
    U = cone.within.joint.shape[1]
    return np.asarray(of_values(U, epsilon)[:, cone.coordinates.cell % U])


def _cones(
    within: UncertaintySet, epsilon: float, reads: str, at_most: float | None
) -> tuple[RatioCone, RatioCone]:
    """The private rows of the filled set, and of the set itself in the same coordinates."""
    cone, exact = RatioCone(filled(within), epsilon, reads, at_most), RatioCone(within, epsilon, reads)
    exact.coordinates, exact.secrets, exact.cap = cone.coordinates, cone.secrets, cone.cap
    return cone, exact


def remixed(rows: Floats, goal: Goal, ratio: float, budget: Budget = FREE) -> Floats | None:
    """The best mixture Q[y, i] of private rows for a goal: a sum of private rows is private. None without the time."""
    master = Estimates(goal, budget)
    master.add(rows)
    master.solve(SETTLED)
    return _gathered(*master.best, ratio) if np.isfinite(master.value) else None


def made_private(within: UncertaintySet, epsilon: float, reads: str, rows: Floats) -> Floats:
    """Rows over the coordinates of the filled set, each mixed with a constant until it is private over the set."""
    cone = RatioCone(within, epsilon, reads)
    cone.coordinates = RatioCone(filled(within), epsilon, reads).coordinates
    return repaired(cone, cone.coordinates.unit(rows))


class _Search:
    """The starts of one cone, and climbs from them."""

    def __init__(
        self, cone: RatioCone, epsilon: float, at_most: float | None = None, profile: Profile | None = None
    ) -> None:
        """`profile` is one that was liked at another ε: its drop is taken relative to e^ε − 1."""
        self.liked: Profile | None = None
        self.cone, self.rng = cone, np.random.default_rng(1)
        within = cone.within
        ball = cast(BlockBall, within) if isinstance(within, (ChiSquareBall, RenyiBall)) else None
        if isinstance(within, Exactly) or (ball is not None and ball.budget == 0):
            ball = Known()
        self.movers: list[BlockMover] = []
        if ball is not None and cone.reads == "both":
            p = within.joint.p
            plain = capped(epsilon, at_most)
            both = [plain]
            if ball.budget > 0:
                own = liked(ball, p[p.sum(1) > 0], epsilon, at_most)[0] if profile is None else replace(
                    plain, drop=profile.drop * cone.rise, power=profile.power)
                both.append(own)
                self.liked = replace(own, drop=own.drop / cone.rise)
            self.movers = [BlockMover(ball, cone, epsilon, x) for x in dict.fromkeys(both)]
        self.sets = of_cells(cone.coordinates, within.joint.shape, epsilon, cone.reads)
        self.common = common_sets(cone, epsilon)

    def seconds(self, clock: Callable[[], float]) -> float:
        """What it will take to make the rows of a mixture private exactly, by what a few take."""
        n, some = self.sets.shape[1], self.sets[:: max(1, len(self.sets) // TIMED)][:TIMED]
        self.cone.cuts(self.cone.coordinates.unit(steep(some[:1])))  # the first call loads what it needs
        began = clock()
        self.cone.cuts(self.cone.coordinates.unit(steep(some)))
        return float(ROWS * n / TIMED * (clock() - began))

    def begin(self, master: Estimates, known: Floats | None) -> bool:
        """A first mixture: single cells, which tell everything, and some of all other sets; then the rest by price."""
        n = len(master.p)
        single = np.flatnonzero(self.sets.sum(1) == 1)
        others = np.setdiff1d(np.arange(len(self.sets)), single)
        first = np.append(single, self.rng.permutation(others)[: max(master.most - len(single), n)])
        if master.seconds(len(first)) > master.budget.left:
            return False
        master.add(self._steepest(self.sets[first]))
        master.solve(COARSE)
        rows = [self._steepest(self.sets)] + [m.starts(self.sets) for m in self.movers[1:]]
        fresh = master.goal.coordinates.unit(np.concatenate(rows))
        best = np.argsort(-master.gains(fresh), kind="stable")[: master.most]
        master.add(fresh[best])
        master.add(steepened(self.cone, steep(self.common), loose=True))
        if known is not None and len(known):
            master.add(known)
        master.solve(COARSE)
        return True

    def _steepest(self, sets: Bools) -> Floats:
        return self.movers[0].starts(sets) if self.movers else steepened(self.cone, steep(sets))

    def climb(self, master: Estimates, budget: Budget) -> None:
        """Blocks by price until they gain little: from listed and random sets, and from those found before."""
        found, calm = np.zeros((0, len(master.p)), bool), 0
        while calm < CALM and not budget.over:
            before = master.value
            rows, found = self._varied(master, found, budget)
            master.add(rows)
            master.solve(COARSE)
            budget.tell("blocks", master.value)
            calm = 0 if master.value > before + LITTLE * abs(before) else calm + 1

    def _varied(self, master: Estimates, found: Bools, budget: Budget) -> tuple[Floats, Bools]:
        """As many rows as coordinates, a few at a time: each batch counts as told before the next one is sought, else
        all of them would tell what is known least, and the rest would stay unknown."""
        out, sets = [np.zeros((0, len(master.p)))], [found[:0]]
        rows, theta = master.rows, master.theta
        J = (rows.T * theta) @ rows
        for turn in range(max(len(self.movers), len(master.p) // BATCH)):
            if budget.over:
                break
            slope = master.spread(J)
            climber = self.movers[turn % len(self.movers)]
            new, chosen = climber.rows(slope, master.prices, self._begun(found, STARTS * BATCH), budget)
            best = np.argsort(new @ master.prices - ((new @ slope) * new).sum(1), kind="stable")[:BATCH]
            out.append(new[best])
            sets.append(chosen[best])
            J = J + TOLD / len(rows) * new[best].T @ new[best]
        return np.concatenate(out), np.concatenate(sets)

    def _begun(self, found: Bools, count: int) -> Bools:
        """A third each: listed sets, random sets of any density, and found ones with some cells changed."""
        n, third = self.sets.shape[1], count // 3 + 1
        listed = self.sets[self.rng.integers(len(self.sets), size=third)]
        drawn = self.rng.random((third, n)) < self.rng.uniform(0.05, 0.7, (third, 1))
        old = found[self.rng.integers(len(found), size=third)] if len(found) else ~listed
        return np.concatenate([listed, drawn, old ^ (self.rng.random(old.shape) < 0.05)])


def steepened(cone: RatioCone, rows: Floats, *, loose: bool = False) -> Floats:
    """Unit rows as far from the constant row as the promise allows: adding the constant row once takes `rise` from
    every inequality, so what the worst of them has to spare is how much of it can be taken out (ours)."""
    rows = cone.coordinates.unit(rows)
    found = cone.cuts(rows, loose=loose, room=np.inf)
    worst = np.full(len(rows), -np.inf)
    np.maximum.at(worst, found.y, found.excess)
    spare = np.where(np.isfinite(worst), worst, 0.0) / cone.rise
    rows = np.maximum(rows + np.maximum(spare * (1 + np.sign(spare) * 1e-6), -rows.min(1))[:, None], 0.0)
    return cone.coordinates.unit(rows)


def _settled(cone: RatioCone, master: Estimates, budget: Budget) -> PreciseRows:
    """The best mixture, each row mixed until private exactly; and, if time is left, mixed with each other once more.

    A row v that takes in the constant row o times is v + o: the sum of all of them stays a constant.
    """
    rows, theta = master.best
    on = theta > 0
    rows, theta = rows[on], theta[on]
    private = repaired(cone, rows)
    at, y = np.abs(rows - 1).argmax(1), np.arange(len(rows))
    moved_in = np.maximum(1.0, (rows[y, at] - 1) / np.where(private[y, at] == 1, np.inf, private[y, at] - 1))
    weight = np.where(np.abs(rows[y, at] - 1) > 0, moved_in, 1.0) * theta
    last = Estimates(master.goal, budget)
    last.pace, last.prices, last.slope = master.pace, master.prices, master.slope
    q = _gathered(private, weight / weight.sum(), cone.E)
    last.add(private[weight > USED])
    last.solve(SETTLED)
    if np.isfinite(last.value):
        again = _gathered(*last.best, cone.E)
        q = min((q, again), key=master.goal.of_rows)
    return PreciseRows(q, master.goal.of_rows(q), last, cone)


def _gathered(rows: Floats, theta: Floats, E: float) -> Floats:
    """Q[y, i] with the rows of little weight in one: a sum of private rows is private.

    What columns lack to the same total is one more row, lifted until its entries are within E: that is private too.
    """
    heavy, each = theta > USED, theta[:, None] * rows
    lack = each.sum(0).max() - each.sum(0)
    lack = lack + (lack.max() - E * lack.min()) / (E - 1) if lack.max() > ROUNDED else 0 * lack
    q = np.concatenate([each[heavy], each[~heavy].sum(0, keepdims=True), np.maximum(lack, 0.0)[None]])
    q = q[q.sum(1) > 0]
    return np.asarray(q / q.sum(0))
