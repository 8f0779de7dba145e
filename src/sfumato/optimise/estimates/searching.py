"""The search for the best estimates: starts, blocks by price, moves over the cone, and a mixture that is private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import Bools, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import RatioCone, repaired
from sfumato.optimise.estimates.blocks import BlockMover, Known
from sfumato.optimise.estimates.goal import Goal
from sfumato.optimise.estimates.master import FINE, Estimates
from sfumato.optimise.estimates.starts import of_cells, steep
from sfumato.optimise.product.profiles import ranked
from sfumato.optimise.product.two_level import Ball, Profile
from sfumato.optimise.search import moved
from sfumato.uncertainty import ChiSquareBall, Exactly, RenyiBall, UncertaintySet

CLIMBED = 400_000  # rows climbed at once, times coordinates
LEAST_CLIMBED, MOST_CLIMBED = 48, 512
FRESH = 1.0  # rows added after a climb for each coordinate, at most
CALM = 2  # climbs that gain little after which blocks have told what they can
LITTLE = 2e-3  # of the error
CLIMBS = 0.5  # of the time, at most, where moves can follow
AFTER = 0.15  # of the time, for the last mixture


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Private rows Q[y, i] over the coordinates, their error, and the master with its prices."""

    rows: Floats
    error: float
    master: Estimates
    cone: RatioCone


def searched(
    within: UncertaintySet, epsilon: float, goal: Goal, reads: str = "both", budget: Budget = FREE,
    known: Floats | None = None,
) -> Found | None:
    """The best mixture found within the time; None where not even one mixture fits into it.

    `known` are private rows over the coordinates that join the pool.
    """
    cone = RatioCone(within, epsilon, reads)
    working = budget.part(1 - AFTER)
    master, search = Estimates(goal, working), _Search(cone, epsilon)
    if not search.begin(master, known):
        return None
    if search.movers:
        search.climb(master, working.part(CLIMBS))
    if not working.over:
        moved(cone, master, working)
    return _settled(cone, master, budget)


class _Search:
    """The starts of one cone, and climbs from them."""

    def __init__(self, cone: RatioCone, epsilon: float) -> None:
        self.cone, self.rng = cone, np.random.default_rng(1)
        within = cone.within
        ball: Ball | None = within if isinstance(within, (ChiSquareBall, RenyiBall)) else None
        if isinstance(within, Exactly) or (ball is not None and ball.budget == 0):
            ball = Known()
        self.movers: list[BlockMover] = []
        if ball is not None and cone.reads == "both":
            shares = within.joint.p_secret
            profiles = [] if ball.budget == 0 else ranked(ball, shares[shares > 0], epsilon)[:1]
            self.movers = [BlockMover(ball, cone, epsilon, x) for x in dict.fromkeys([Profile(), *profiles])]
        self.sets = of_cells(cone.coordinates, within.joint.shape, epsilon, cone.reads)

    def begin(self, master: Estimates, known: Floats | None) -> bool:
        """A first mixture: single cells, which tell everything, and some of all other sets; then the rest by price."""
        n = len(master.p)
        single = np.flatnonzero(self.sets.sum(1) == 1)
        others = np.setdiff1d(np.arange(len(self.sets)), single)
        first = np.append(single, self.rng.permutation(others)[: max(master.most - len(single), n)])
        if master.seconds(len(first)) > master.budget.left:
            return False
        master.add(repaired(self.cone, self._steepest(self.sets[first])))
        master.solve()
        rows = [self._steepest(self.sets)] + [m.starts(self.sets) for m in self.movers[1:]]
        fresh = master.goal.coordinates.unit(np.concatenate(rows))
        best = np.argsort(-master.gains(fresh), kind="stable")[: master.most]
        master.add(repaired(self.cone, fresh[best]))
        if known is not None and len(known):
            master.add(known)
        if not master.budget.over:
            master.solve()
        return True

    def _steepest(self, sets: Bools) -> Floats:
        return self.movers[0].starts(sets) if self.movers else steep(sets)

    def climb(self, master: Estimates, budget: Budget) -> None:
        """Blocks by price until they gain little: from listed and random sets, and from those found before."""
        n = len(master.p)
        count = int(np.clip(CLIMBED // n, LEAST_CLIMBED, MOST_CLIMBED))
        found, calm = np.zeros((0, n), bool), 0
        while calm < CALM and not budget.over:
            before = master.value
            climbed = [m.rows(master.slope, master.prices, self._begun(found, count), budget) for m in self.movers]
            rows, sets = (np.concatenate([c[k] for c in climbed]) for k in (0, 1))
            order = np.argsort(-master.gains(rows), kind="stable")[: max(int(FRESH * n), LEAST_CLIMBED)]
            found = sets[order]
            master.add(repaired(self.cone, rows[order]))
            master.solve()
            budget.tell("blocks", master.value)
            calm = 0 if master.value > before + LITTLE * abs(before) else calm + 1

    def _begun(self, found: Bools, count: int) -> Bools:
        """A third each: listed sets, random sets of any density, and found ones with some cells changed."""
        n, third = self.sets.shape[1], count // 3 + 1
        listed = self.sets[self.rng.integers(len(self.sets), size=third)]
        drawn = self.rng.random((third, n)) < self.rng.uniform(0.05, 0.7, (third, 1))
        old = found[self.rng.integers(len(found), size=third)] if len(found) else ~listed
        return np.concatenate([listed, drawn, old ^ (self.rng.random(old.shape) < 0.05)])


def _settled(cone: RatioCone, master: Estimates, budget: Budget) -> Found:
    """The rows in use, each mixed until private exactly, and mixed with each other once more, to the last digit."""
    rows, _ = master.used()
    last = Estimates(master.goal, budget)
    last.pace = master.pace
    last.add(repaired(cone, rows))
    last.solve(FINE)
    if not np.isfinite(last.value):  # no time: the mixture as it is, its rows private already
        last = master
    rows, theta = last.used()
    q = theta[:, None] * rows
    q = q / q.sum(0)
    return Found(q, master.goal.of_rows(q), last, cone)
