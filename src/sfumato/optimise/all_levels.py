"""A curve over ε as one search: a turn of moves makes rows for all levels at once, and each begins from its
neighbours' rows too.

Worst cases are those of rows, whatever ε is, and Newton's method on the barrier takes its ratio row by row
(`moves.barrier.Barrier.E`). On tables of ordinary size it is the calls that cost time, not the numbers in them, so
that twelve levels cost about as much as two.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.budget import Budget
from sfumato.optimise.carrying import Carried, rows_for
from sfumato.optimise.chain import Chain, InformativeRows
from sfumato.optimise.cone import RatioCone, mixed_until_private
from sfumato.optimise.informative import Ordered
from sfumato.optimise.moves.barrier import BallMover, Barrier, smooth
from sfumato.optimise.search import GAIN, Master, bases_of

ROWS = 80  # that one level begins a turn from, at least, where there is much to gain: most are strangers
MUCH = 5e-3  # of the value
LENT = 8  # rows of each neighbour among them, at most
LISTED = 12  # ordered pairs of secrets up to which rows are moved under all of them
LAST = 0.1  # of the rows of a turn that need not have arrived: the last ones follow a bent boundary, in small steps
CALM = 1  # turns without gain after which a level is left alone, and twice as many where there may be much to gain
MOVES = 0.9  # of the time that is left: moves of all levels that were not met from outside
RAYS = 8_000  # of a cone that is cut at from outside, at most
EACH = 2.0  # times its even share of the time that is left, which a level may take to be met from outside
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
    """Whether levels of this set can be searched together: balls whose boundary is smooth, few secrets, no cap."""
    count = len(cone.secrets)
    return smooth(cone) and count * (count - 1) <= LISTED and cone.cap is None


class Together(Generic[Aim]):
    """Turns of moves for several levels of the same table and set, in increasing order of ε."""

    def __init__(
        self, levels: Sequence[OneLevel[Aim]], rows: int = ROWS, last: float = LAST, seed: int = 0
    ) -> None:
        self.levels, self.mover, self.rows, self.last = list(levels), BallMover(levels[0].cone), rows, last
        self.rng = np.random.default_rng(seed)
        first, second = np.nonzero(~np.eye(len(levels[0].cone.secrets), dtype=bool))
        self.pairs = first, second

    def run(self, budget: Budget, *, gain: float = GAIN, once: float | None = None) -> None:
        """Turns until no level gains any more, and none by the rows of its neighbours; or with the time, where a turn
        that would not end is not begun. With `once` the first turn that gains less than that is a level's last."""
        least, calm = (gain, CALM) if once is None else (once, 1)
        for level in self.levels:
            level.master.solve()
            level.rows = level.master.used()[0] if level.met else level.master.steer()
        live, pace = [i for i, level in enumerate(self.levels) if not level.met], 0.0
        while live and not budget.over and budget.left >= pace * len(live):
            began, many = budget.clock(), len(live)
            with suppress(np.linalg.LinAlgError):  # a move that fails adds nothing
                self._turn(live, budget)
            live = [i for i in live if self._goes_on(self.levels[i], least, calm * (1 + self.levels[i].far), budget)]
            pace = (budget.clock() - began) / many
            if not live and once is None and not budget.over:
                live = self._exchanged(least, budget)

    def _goes_on(self, level: OneLevel[Aim], gain: float, calm: int, budget: Budget) -> bool:
        """Mix anew; whether that was worth something in one of so many turns, and something is left to gain."""
        before, value = level.master.value, level.master.solve()
        level.master.learn()
        level.rows = level.master.steer()
        level.calm = 0 if value > before + gain * abs(value) else level.calm + 1
        budget.tell("rows", value)
        return level.calm < calm and not level.met

    def _exchanged(self, gain: float, budget: Budget) -> list[int]:
        """Levels that gain something by the rows of their neighbours, as their own ε allows them: these go on."""
        out = []
        for i in reversed([i for i, level in enumerate(self.levels) if not level.met]):
            near = [self.levels[j].master.used()[0] for j in (i - 1, i + 1) if 0 <= j < len(self.levels)]
            self.levels[i].master.add(rows_for(self.levels[i].cone, np.concatenate(near)))
            out += [i] if self._goes_on(self.levels[i], gain, 1, budget) else []
        return out[::-1]

    def _turn(self, live: list[int], budget: Budget) -> None:
        """New rows for the levels that are still gaining."""
        begun = []
        for i in live:
            near = [self._lent(j) for j in (i - 1, i + 1) if 0 <= j < len(self.levels)]
            own = np.concatenate([self.levels[i].rows, *near])
            begun.append(bases_of(own, self.mover.p, self.rng, self.rows if self.levels[i].far else 0))
        ends, starts = np.cumsum([len(bases) for bases in begun])[:-1], np.concatenate(begun)
        owner = np.searchsorted(ends, np.arange(len(starts)), side="right")

        def slopes(v: Floats, at: Ints) -> Floats:
            out = np.empty_like(v)
            for k in np.unique(owner[at]):
                mine = owner[at] == k
                out[mine] = self.levels[live[k]].master.slopes(v[mine])
            return out

        every, E = np.arange(len(starts)), np.array([self.levels[i].cone.E for i in live])[owner]
        barrier = Barrier(self.mover, *self.pairs, E[:, None])
        inside, costs = self.private(starts, E), slopes(starts, every)
        found = self.private(self.mover.solved(barrier, inside, costs, slopes, every, budget, self.last), E)
        rest = self.private(found.max(1, keepdims=True) - found + 1e-12, E)  # each with a row makes a constant
        for i, x, y in zip(live, np.split(found, ends), np.split(rest, ends), strict=True):
            self.levels[i].master.add(np.concatenate([x, y]))

    def _lent(self, i: int) -> Floats:
        """Some rows of a level, for a neighbour."""
        rows = self.levels[i].rows
        return rows[self.rng.permutation(len(rows))[:LENT]]

    def private(self, x: Floats, E: Floats) -> Floats:
        """Rows of mass 1, each mixed with the constant row until nearly private at its own level (`cone.repaired`)."""
        cone, (first, second) = self.levels[0].cone, self.pairs
        s1, s2 = cone.secrets[first], cone.secrets[second]

        def odds(rows: Floats, at: Ints) -> Floats:
            v, many = cone.cells(rows), len(rows)
            one, two = v[:, s1].reshape(-1, v.shape[2]), v[:, s2].reshape(-1, v.shape[2])
            worst = cone.within.pairs(one, two, np.tile(s1, many), np.tile(s2, many), close=cone.NEARLY)
            high, low = ((r * w).sum(1).reshape(many, -1) for r, w in ((worst.first, one), (worst.second, two)))
            return np.asarray((high - E[at, None] * low).max(1) / (E[at] - 1))

        return mixed_until_private(cone.coordinates.unit(x), odds)


def informative_along(
    within: Any, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float, once: float | None = None,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    Levels that are not met are moved together, `once` as in `Together.run`; their bounds hold as they are.
    """
    own = Ordered.of(within, reads)
    chains = [Chain(own.within, x, reads, budget, gap=gap, rays=RAYS) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (own.within.joint.p_secret <= 0).any():
        return None
    last: Carried | None = None
    for i, (chain, rows) in enumerate(zip(reversed(chains), reversed(starts), strict=True)):
        chain.pool(np.concatenate([own.there(start) for start in rows]))
        chain.carried, chain.budget = last, budget.part(min(1.0, EACH / (len(chains) - i)))
        chain.attempt("carried", chain.begin)
        if last is None or last.near:
            chain.attempt("outside", chain.outside)
        last = chain.handed()
    levels = [OneLevel(x.cone, x.master, enough=x.bound / (1 + gap)) for x in chains]
    Together(levels).run(budget.part(MOVES), once=once)
    return [own.back(x.finished()) for x in chains]
