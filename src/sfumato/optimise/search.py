"""The search: a pool of private rows, a master that mixes them, moves that make new ones, until nothing gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.optimise.arrays import DUST, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import Cone, repaired
from sfumato.optimise.moves import mover

STEPS = (0.3, 1.0, 3.0)  # of the logarithms of rows that are perturbed
FEWEST = 48  # rows that a turn begins from: in small tables most are strangers, and cost next to nothing
FIRST = 12  # rows that its first turn begins from, before it is known what a row costs
CALM = 6  # turns of each move that must gain something together, and have room in the time as far as can be foretold
GAIN = 1e-4  # of the value: less does not count over all these turns


class Master(Protocol):
    """What the search asks of an aim: mix rows, and say which are missing."""

    value: float

    def add(self, rows: Floats) -> None:
        """Unit rows join the pool."""

    def solve(self) -> float:
        """Mix the pool best; greater is better."""

    def used(self) -> tuple[Floats, Floats]:
        """Rows in use and their weights."""

    def steer(self) -> Floats:
        """New prices, and the rows from which moves begin."""

    def learn(self) -> None:
        """Judge the prices by the rows that came in."""

    def slopes(self, rows: Floats) -> Floats:
        """Tangents of the aim at unit rows, less the prices."""


Move = Callable[[Floats, Budget], Floats]
"""From the rows that the master starts from to new rows of mass 1, private already."""


class Tangents:
    """The move that any cone allows: tangents of the aim, maximised over the cone, at rows of every origin or at given
    ones."""

    def __init__(self, cone: Cone, master: Master, given: Floats | None = None) -> None:
        self.cone, self.master, self.mover, self.given = cone, master, mover(cone), given
        self.rng, self.pace = np.random.default_rng(0), 0.0  # seconds for a row

    def __call__(self, rows: Floats, budget: Budget) -> Floats:
        most = budget.left / (CALM * self.pace) if self.pace else FIRST
        some = rows if len(rows) <= most else rows[self.rng.permutation(len(rows))[: int(most) + 1]]
        bases = bases_of(some, self.cone.coordinates.p, self.rng, FEWEST if self.pace else FIRST)
        started = budget.clock()
        found = self.mover.rows(lambda v, _: self.master.slopes(v), bases if self.given is None else self.given, budget)
        self.pace = (budget.clock() - started) / max(len(found), 1)
        return private_with_complements(self.cone, found) if len(found) else found


@dataclass(eq=False)
class _Trial:
    move: Move
    spent: float = 0.0  # seconds in all
    calm: int = 0  # turns since it gained

    def claimed(self) -> float:
        """Seconds that count as spent."""
        return self.spent * (1 + self.calm)


def improve(
    master: Master, moves: Sequence[Move], budget: Budget = FREE, *, calm: int = CALM, gain: float = GAIN
) -> float:
    """The move that had least time goes next; with every turn without gain it has less claim.

    It ends when `calm` turns of every move gained next to nothing, or with the time. A move that has no more rows is
    left out.
    """
    trials, value = [_Trial(move) for move in moves], master.solve()
    budget.tell("rows", value)
    while (live := [x for x in trials if x.calm < calm]) and not budget.over:
        trial = min(live, key=_Trial.claimed)
        started, before = budget.clock(), value
        found = trial.move(master.steer(), budget)
        if not len(found):
            trials.remove(trial)
            continue
        master.add(found)
        value = master.solve()
        master.learn()
        trial.spent += budget.clock() - started
        trial.calm = trial.calm + 1 if value - before <= gain / calm * abs(value) else 0
        budget.tell("rows", value)
    return value


def private_with_complements(cone: Cone, rows: Floats) -> Floats:
    """Rows made private, and for each one that is high where it is low: both together make a constant, so that a new
    row can always be used."""
    rows = repaired(cone, rows, loose=True)
    rest = rows.max(1, keepdims=True) - rows
    return np.concatenate([rows, repaired(cone, rest[rest.max(1) > 0] + DUST, loose=True)])


def bases_of(rows: Floats, p: Floats, rng: np.random.Generator, fewest: int) -> Floats:
    """Rows to move from: those at hand, and half as many that are perturbed or of no origin."""
    count = max(len(rows) // 2, fewest - len(rows)) + 1
    some = np.where(rng.random((count, 1)) < 0.5, 1.0, rows[rng.integers(len(rows), size=count)])
    some = some * np.exp(rng.normal(0.0, rng.choice(STEPS, size=(count, 1)), some.shape))
    bases = np.concatenate([rows, some])
    return np.asarray(bases / (bases @ p)[:, None])
