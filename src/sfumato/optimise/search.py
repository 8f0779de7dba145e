"""The search: rows in a pool, mixed by a master, moved over the cone, until nothing gains or the time is over."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import Cone, repaired
from sfumato.optimise.moves import mover

FLOORS = (1e-5, 1e-5, 1e-2, 1e-5, 1e-3, 1e-5, 1e-1)  # in turn: a flatter slope lets a row leave its zeros
STEPS = (0.3, 1.0, 3.0)  # of the logarithms of rows that are perturbed
STRANGERS = 0.5  # rows of no origin for each row in use: without them the search sticks
CALM = 6  # turns without a gain after which the search ends
GAIN = 2e-5  # of the value: less does not count


class Master(Protocol):
    """What mixes a pool: unit rows join it, `steer` says where moves begin, `slopes` what they maximise."""

    value: float

    def add(self, rows: Floats) -> None: ...
    def solve(self) -> float: ...
    def steer(self) -> Floats: ...
    def learn(self) -> None: ...
    def slopes(self, rows: Floats, floor: Floats) -> Floats: ...


def moved(cone: Cone, master: Master, budget: Budget = FREE, *, seed: int = 0, calm: int = CALM) -> float:
    """Improve the master's pool; returns its value."""
    rng, moves = np.random.default_rng(seed), mover(cone)
    value, still, turn = master.solve(), 0, 0
    while still < calm and not budget.over:
        starts = master.steer()
        bases, floors = _bases(starts, cone.coordinates.p, turn, rng)
        found = moves.rows(lambda v, at: master.slopes(v, floors[at]), bases, budget)
        if not len(found):
            break
        found = repaired(cone, found)
        master.add(np.concatenate([found, complements(cone, found)]))
        before, value = value, master.solve()
        master.learn()
        still = 0 if value > before + GAIN * abs(before) else still + 1
        turn += 1
        budget.tell("rows", value)
    return value


def complements(cone: Cone, rows: Floats) -> Floats:
    """For each row one that is high where it is low: both together make a constant, so a new row can always be used."""
    rest = rows.max(1, keepdims=True) - rows
    rest = rest[rest.max(1) > 0]
    return repaired(cone, rest + 1e-12)


def _bases(rows: Floats, p: Floats, turn: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rows to move from: those at hand, and half as many that are perturbed or of no origin; and their floors."""
    count = int(STRANGERS * len(rows)) + 1
    some = np.where(rng.random((count, 1)) < 0.5, 1.0, rows[rng.integers(len(rows), size=count)])
    some = some * np.exp(rng.normal(0.0, rng.choice(STEPS, size=(count, 1)), some.shape))
    floors = np.append(np.full(len(rows), FLOORS[turn % len(FLOORS)]), rng.choice(FLOORS, size=count))
    bases = np.concatenate([rows, some])
    return bases / (bases @ p)[:, None], floors[:, None]
