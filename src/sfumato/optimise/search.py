"""The search: a pool of private rows, a master that mixes them, moves that make new ones, until nothing gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from highspy import HighsBasis

from sfumato.optimise.arrays import DUST, EMPTY, REPAIRED, SEALING, Floats, Ints, xlogx
from sfumato.optimise.barrier import BallMover, Slopes, smooth
from sfumato.optimise.budget import FREE, Budget, OutOfTime
from sfumato.optimise.cone import NEAR, SETTLED, Cone, Coordinates, RatioCone, repaired
from sfumato.optimise.conic import proximal
from sfumato.optimise.linear import DEVEX, DUAL, INFINITY, PRIMAL, LinearProgramme, Mixture, Solution
from sfumato.tolerances import LEAST

# --- the master: the best mixture of a pool of private rows, and prices for the rows that are still missing -----------


BESIDE = 64  # rows that are mended for the last mixture although they are not in use
KEPT = 32  # rows kept for each coordinate, those that price out best; and cuts: few are learnt again and again
TALLEST = 1e14  # of a unit row: HiGHS takes no number of 1e15, and with it no other of the same call
FLOOR = 1e-5  # of a unit row, in its tangent: flatter ones gained nothing on random tables
BUNDLE = 300  # rows in the programme that finds prices, beside one for each coordinate
SERIOUS, TRUSTED = 0.1, 0.5  # shares of the promised fall of the bound at which prices are taken, and boldness grows
BOLDER, SHYEST = 2.0, 0.02  # how boldness grows, and its least
SHYER = BOLDER**-0.5  # how it falls: two steps back undo one


class InformationAim(Mixture):
    """max Σ_y θ_y μ(v^y), Σ θ_y v^y = 1, μ(v) = Σ p φ(v) − φ(p·v): a linear programme over unit rows.

    Its own duals are useless as prices: the vertex is degenerate and nothing ever moves. Prices come from a proximal
    bundle instead, min Σλ + max_j (μ_j − λ·v_j) + Σ (λ − c)²/(2tp), begun at c_x = p_x Σ_y θ_y φ(v_x): what x tells.
    """

    def __init__(self, coordinates: Coordinates, budget: Budget = FREE) -> None:
        super().__init__(np.ones(len(coordinates.p)), accuracy=REPAIRED)
        self.coordinates, self.p, self.budget = coordinates, coordinates.p, budget.firm
        self.value, self.fresh = -np.inf, True  # whether rows came in since the last mixture
        self.dual = self.prices = np.zeros(len(self.p))
        self.centre: Floats | None = None
        self.bold, self.upper, self.model = 1.0, np.inf, np.inf
        self.add(np.ones((1, len(self.p))))
        self.weights = np.ones(1)  # a mixture whatever happens to the programme

    def add(self, rows: Floats) -> None:
        rows = self.coordinates.unit(rows)
        rows = rows[rows.max(1, initial=0.0) < TALLEST]
        self.offer(rows, xlogx(rows) @ self.p)
        self.fresh = True

    def solve(self) -> float:
        """Mix the pool best; the value never falls.

        HiGHS's primal simplex may call a mixture optimal whose columns do not sum to 1 (where rows are there twice), or
        that keeps less than the last one: then it is solved from nothing, and by the interior method where that fails.
        Where the time ends before, the mixture that it had come to is taken if it keeps more.
        """
        if not self.fresh:
            return self.value
        self.fresh = False
        for method, strategy in (("simplex", PRIMAL), ("simplex", DUAL), ("ipm", None)):
            self.lp.option("solver", method)
            found = self.lp.solve(strategy, self.budget)
            if self._met(found) and not self.worth @ found.x < self.value - GAIN * abs(self.value):
                self.weights, self.dual = found.x, found.row_dual
                self.value = max(self.value, float(self.worth @ found.x))
                break
            if found.ended:
                self.value = max(self.value, 0.0)  # that of a constant, with which it began
                break
            self.lp.h.clearSolver()
        self.lp.option("solver", "simplex")
        return self.value

    def _met(self, found: Solution) -> bool:
        """Whether columns sum to 1 up to what is shared out in the end; a proof would notice more."""
        whole = found.optimal or (found.ended and found.x.min(initial=0.0) > -REPAIRED)
        return whole and float(np.abs(found.x @ self.points - 1.0).max()) < SEALING

    def used(self) -> tuple[Floats, Floats]:
        on = self.weights > DUST
        return self.points[on], self.weights[on]

    def next(self, prices: Floats, count: int) -> Ints:
        """Rows in use and some more that the programme would take next at these prices."""
        return np.argsort(-np.where(self.weights > DUST, np.inf, self.worth - self.points @ prices))[:count]

    def steer(self) -> Floats:
        if self.centre is None:
            rows, theta = self.used()
            self.centre = self.prices = self.p * (theta @ xlogx(rows))
            self.model = self.value
            return rows
        near = self.next(self.centre, len(self.p) + BUNDLE)
        scale = np.maximum(self.p, EMPTY)
        y, level, weight = proximal(
            self.points[near], self.worth[near], self.centre / scale, scale, self.bold, self.budget
        )
        self.prices = y * scale
        self.model = float(self.prices.sum() + level)
        active = np.flatnonzero(weight > 1e-6 * weight.max(initial=LEAST))
        return self.points[near][active[np.argsort(-weight[active])[: len(self.p) + len(self.p) // 5 + 1]]]

    def learn(self) -> None:
        """Judge the prices by the rows that came in since `steer`: take them, or be more careful."""
        assert self.centre is not None
        bound = self._bound(self.prices)
        self.upper = bound if not np.isfinite(self.upper) else max(self.upper, self._bound(self.centre))
        promised = max(self.upper - self.model, 0.0)
        if bound < self.upper - SERIOUS * promised:
            self.bold *= BOLDER if bound < self.upper - TRUSTED * promised else 1.0
            self.centre, self.upper = self.prices, bound
        else:
            self.bold = max(SHYER * self.bold, SHYEST)
        self.forget(KEPT * len(self.p), self.centre)

    def _bound(self, prices: Floats) -> float:
        return float(prices.sum() + (self.worth - self.points @ prices).max())

    def slopes(self, rows: Floats) -> Floats:
        """The tangent of μ at unit rows, less the prices; entries below the floor count as it: zeros are not final."""
        return np.asarray(self.p * np.log(np.maximum(rows, FLOOR)) - self.prices)


def last_rows(numbers: int) -> int:
    """How many rows the last mixture begins with."""
    return numbers + min(numbers, BESIDE)


def mixed_again(cone: Cone, master: InformationAim) -> InformationAim:
    """The rows in use and those nearly in use, made private to the last worst case, and mixed once more; as they were
    mixed before where HiGHS finds less."""
    last, chosen = InformationAim(master.coordinates), master.next(master.dual, last_rows(len(master.p)))
    last.add(repaired(cone, master.points[chosen]))
    last.weights = np.append(0.0, master.weights[chosen])
    last.value = float(last.worth @ last.weights)
    last.solve()
    return last


# --- moves: new private rows from any start, tangents of the aim maximised over the cone (docs/robust.md, section 6) --
# A maximiser of the tangent cannot be worse than the row at hand: no step length is chosen, and any start will do. By
# Newton's method where the boundary is smooth and known in closed form (`barrier.BallMover`), else by cuts.


ROUNDS = 12  # of cuts: rows stopped early repair into worthless ones


class CutMover:
    """max c·x over private rows of mass 1, for many c, under cuts that all share; each keeps its basis in a call."""

    def __init__(self, cone: Cone) -> None:
        self.cone, self.n = cone, len(cone.coordinates.p)
        nothing = np.zeros(self.n)
        self.lp = LinearProgramme(nothing, nothing, np.full(self.n, INFINITY), maximise=True, warm=True)
        for option in ("simplex_dual_edge_weight_strategy", "simplex_primal_edge_weight_strategy"):
            self.lp.option(option, DEVEX)
        self.lp.add(cone.coordinates.p[None], np.ones(1), np.ones(1))
        self.age, self.pace = np.zeros(1), LEAST  # seconds that a row took

    def rows(self, slopes: Slopes, starts: Floats, budget: Budget) -> Floats:
        """Rows of mass 1, private or nearly so, one for each start, fewer where time is over or a programme fails."""
        started = budget.clock()
        found = self._rounds(slopes, starts, budget)
        self.pace = max((budget.clock() - started) / max(len(found), 1), LEAST)
        return found

    def _rounds(self, slopes: Slopes, starts: Floats, budget: Budget) -> Floats:
        """Rounds of solves, each followed by one call of the oracle for the rows that are still outside."""
        self._forget()
        if len(self.age) == 1:
            self._add(self.cone.cuts(starts, loose=True, room=NEAR).normals)
        costs = slopes(starts, np.arange(len(starts)))
        x, done = np.zeros((len(costs), self.n)), np.zeros(len(costs), bool)
        bases: list[HighsBasis | None] = [None] * len(costs)
        live: Ints = np.arange(len(costs))
        for turn in range(ROUNDS):
            for i in live:
                if budget.over:
                    return x[done]
                found = self._best(costs[i], bases[i], turn == 0)
                if found is not None:
                    x[i], bases[i], done[i] = found, self.lp.basis(), True
            live = live[done[live]]
            if not len(live):
                break
            cuts = self.cone.cuts(x[live], loose=True)
            bad = cuts.excess > SETTLED
            if not bad.any():
                break
            self._add(cuts.normals[bad])
            live = live[np.unique(cuts.y[bad])]
        return x[done]

    def sharper(self) -> None:
        """Cuts are followed to the end as it is."""

    def _best(self, cost: Floats, basis: HighsBasis | None, first: bool) -> Floats | None:
        self.lp.cost(cost)
        if basis is not None:
            self.lp.resume(basis)
        found = self.lp.solve(PRIMAL if first else DUAL)
        if not found.optimal:
            return None
        self.age += 1
        self.age[np.abs(found.row_dual) > DUST] = 0
        return np.maximum(found.x, 0.0)

    def _add(self, normals: Floats) -> None:
        if len(normals):
            self.lp.at_most(normals)
            self.age = np.append(self.age, np.zeros(len(normals)))

    def _forget(self) -> None:
        """Drop the cuts that were not tight for longest, once there are too many."""
        most = KEPT * self.n
        if len(self.age) - 1 > most:
            late = 1 + np.argsort(self.age[1:], kind="stable")[most * 2 // 3 :]
            drop = np.sort(late[self.age[late] > 0])
            self.lp.drop(drop)
            self.age = np.delete(self.age, drop)


# --- the loop ---------------------------------------------------------------------------------------------------------


STEPS = (0.3, 1.0, 3.0)  # of the logarithms of rows that are perturbed
FEWEST = 48  # rows that a turn begins from, if there is time: in small tables most are strangers
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
    """The move that any cone allows: tangents of the aim, maximised over it, at rows of any origin or given ones."""

    def __init__(self, cone: Cone, master: Master, given: Floats | None = None) -> None:
        self.cone, self.master, self.given = cone, master, given
        self.mover = BallMover(cone) if isinstance(cone, RatioCone) and smooth(cone) else CutMover(cone)
        self.rng, self.reached = np.random.default_rng(0), -np.inf  # the value before

    def __call__(self, rows: Floats, budget: Budget) -> Floats:
        most = budget.left / (CALM * self.mover.pace)
        some = rows if len(rows) <= most else rows[self.rng.permutation(len(rows))[: int(most) + 1]]
        bases = bases_of(some, self.cone.coordinates.p, self.rng, int(min(FEWEST, most)))
        if self.master.value - self.reached <= GAIN / CALM * abs(self.master.value):
            self.mover.sharper()
        self.reached = self.master.value
        found = self.mover.rows(lambda v, _: self.master.slopes(v), bases if self.given is None else self.given, budget)
        return private_with_complements(self.cone, found) if len(found) else found


@dataclass(eq=False)
class _Trial:
    move: Move
    spent: float = 0.0  # seconds in all
    calm: int = 0  # turns since it gained


def improve(
    master: Master, moves: Sequence[Move], budget: Budget = FREE, *, calm: int = CALM, gain: float = GAIN
) -> float:
    """The move that had least time goes next; a turn without gain lowers its claim, one without rows ends it.

    It ends when `calm` turns of every move gained next to nothing, or with the time.
    """
    trials, value = [_Trial(move) for move in moves], master.solve()
    budget.tell("rows", value)
    while any(x.calm < calm for x in trials) and not budget.over:  # calm ones too: what others gain moves the prices
        trial = min(trials, key=lambda x: x.spent * (1 + x.calm))
        started, before = budget.clock(), value
        try:
            found = trial.move(master.steer(), budget)
        except OutOfTime:
            break
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
