"""The stages of a design: starts of every origin in one pool, then moves.

Stages form a chain in which each takes the pool and adds to it, so none can lose. A stage that fails is left out and
named. One that others follow has its part of the time that is left (`Budget.part`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.arrays import SEALING, TINY, Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.carrying import Carried, rows_for
from sfumato.optimise.cone import Cap, RatioCone, repaired, settled
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays, extreme_rays
from sfumato.optimise.master import InformationAim, last_rows, mixed_again
from sfumato.optimise.outside import NUMBERS, RAYS, meet
from sfumato.optimise.product.blocks import Families, ProductMover, two_level
from sfumato.optimise.product.profiles import DROPS, TRIES, OutOfTime, capped, climbed, liked
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.search import CALM, GAIN, Move, Tangents, improve
from sfumato.optimise.starts import FreeRows, merged

GAP = GAIN  # relative, between value and bound, at which neither is worked on any more: what a search counts as none
SPIKES = 600  # sets that rows under a cap begin from
FEW = 0.15  # of the time left: products where secrets are few, because coarser tables say more
MANY = 4  # cells for each pair of secrets from which coarser tables are begun with
INTERRUPTED = "interrupted: the best design so far"
FAILURES = (ArithmeticError, ValueError, IndexError, RuntimeError, np.linalg.LinAlgError)  # of a stage that is left out


@dataclass(eq=False)
class InformativeRows:
    """Rows Q[y, cell] whose columns sum to 1, and how they came about."""

    rows: Floats
    value: float
    bound: float  # of every mechanism that is private over the set, where it was met from outside; ∞ otherwise
    stages: dict[str, float] = field(default_factory=dict)  # value after each stage
    notes: list[str] = field(default_factory=list)
    carried: Carried | None = None  # for a search at another ε


class Chain:
    """The stages of one design over a set whose secrets share a budget, or over any other set."""

    def __init__(
        self, within: Any, epsilon: float, reads: str, budget: Budget, *, gap: float = GAP,
        profile: Profile | None = None, quick: bool = False, at_most: float | None = None, bounding: bool = True,
        carried: Carried | None = None, rays: int | None = None, calm: int = CALM,
    ) -> None:
        self.calm = calm  # turns that may pass without gain
        self.rays = rays or int(RAYS / gap)
        self.quick, self.at_most, self.bounding = quick, at_most, bounding  # the last: whether a bound is of any use
        self.within, self.epsilon, self.reads, self.gap, self.carried = within, epsilon, reads, gap, carried
        self.bound = float("inf")
        spare = SEALING if hasattr(within, "extreme") else 0.0  # simplices enclose the set: room enough
        self.cone = RatioCone(within, epsilon + spare, reads, at_most)
        self.last = RatioCone(within, epsilon + spare, reads, at_most, closely=True)
        self.coordinates = self.cone.coordinates
        self.budget = budget
        self.master = InformationAim(self.coordinates)
        self.stages: dict[str, float] = {}
        self.notes: list[str] = []
        self.profile = profile
        self.values: dict[Profile, float] = {}  # of two-level designs
        self.families: dict[Profile, Families] = {}
        self.seen = np.flatnonzero(within.joint.p_secret > 0)
        self.hindered = False  # whether secrets that never occur take something from the others
        self.cuts = np.zeros((0, len(self.coordinates.p)))

    @property
    def empty(self) -> bool:
        """Whether secrets never occur, beside several that do, in a set that is known around other tables."""
        alike = self.reads == "both" and hasattr(self.within, "around") and self.carried is None
        return alike and 1 < len(self.seen) < len(self.within.joint.p)

    @property
    def shared(self) -> bool:
        """Whether two-level rows under profiles are known for the set."""
        known = hasattr(self.within, "masses_of") or (hasattr(self.within, "masses") and self.within.budget > 0)
        return known and self.reads == "both" and len(self.seen) == len(self.within.joint.p) > 1

    @property
    def few(self) -> bool:
        """Whether secrets are few beside the cells: merging pays, and blocks of one secret at a time tell little."""
        return int((self.within.joint.p > 0).sum()) >= MANY * len(self.seen) ** 2

    @property
    def polyhedral(self) -> bool:
        """Whether private rows are those of finitely many inequalities over few numbers."""
        few = len(self.coordinates.p) == self.within.joint.p.size <= NUMBERS
        return hasattr(self.within, "inequalities") and few and self.profile is None

    @property
    def merges(self) -> bool:
        """Whether the search begins with a coarser table."""
        cells = int((self.within.joint.p > 0).sum())
        if self.quick or self.carried or self.profile or self.reads != "both" or not hasattr(self.within, "around"):
            return False
        met = self.at_most is not None and cells <= NUMBERS
        return (self.few or self.hindered) and cells > 2 * len(self.seen) + 2 and not met

    def run(self, starts: Sequence[Floats], others: Sequence[Floats] = ()) -> InformativeRows:
        """Every stage while there is time; interrupting ends with the best so far."""
        self.budget = self.budget.less(self.last.cost(last_rows(len(self.coordinates.p))))
        self._stages(starts, others)
        return self.finished()

    def _stages(self, starts: Sequence[Floats], others: Sequence[Floats] = ()) -> None:
        try:
            self._in_order(starts, others)
        except KeyboardInterrupt:
            self.notes.append(INTERRUPTED)

    def _in_order(self, starts: Sequence[Floats], others: Sequence[Floats]) -> None:
        if self.carried is not None and self._met():
            return
        for start in starts if self.carried is None else ():
            self.attempt("starts", partial(self.pool, start))
        for rows in others:
            self.attempt("others", partial(self.pool, rows, steep=True))
        for name, stage in self._wanted():
            if self.apart and not self.budget.over and INTERRUPTED not in self.notes:
                self.attempt(name, stage)

    def _wanted(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """The stages in their order; whether a later one is wanted may depend on what an earlier one found."""
        if self.polyhedral:
            yield "rays", self._rays
        if self.empty:
            yield "seen", self._without_empty
            if self.profile is None and not self.cone.free:
                yield "anything", self._anything
        if self.merges:
            yield "coarser", self._coarser
        if self.shared:
            yield "product", self._products
        if self.profile is not None:
            return
        if self.at_most is not None and not self.cone.free:
            yield "spikes", self._spikes
        if self.bounding and self.carried is None:
            yield "outside", self.outside
        if not self.quick:
            yield "moves", self._moves

    @property
    def apart(self) -> bool:
        """Whether there is something to gain between value and bound."""
        return self.bound - self.master.value > self.gap * self.master.value

    def _met(self) -> bool:
        """Whether what comes from another ε suffices: its rows, and its worst cases from outside."""
        assert self.carried is not None
        self.attempt("carried", self.begin)
        if self.carried.near:
            self.attempt("outside", self.outside)
        return not self.apart

    def begin(self) -> None:
        """Rows of another ε join the pool."""
        if self.carried is not None:
            self.master.add(rows_for(self.cone, self.carried.rows))

    def handed(self) -> Carried:
        """What another ε may begin with."""
        gap = self.bound / max(self.master.value, TINY) - 1.0
        return Carried(self.master.used()[0], self.cuts, self.cone.E, gap)

    def attempt(self, name: str, stage: Callable[[], object]) -> None:
        try:
            stage()
        except (TooManyRays, Degenerate):
            pass  # too many extreme rows to list: the other stages do without
        except FAILURES as error:
            self.notes.append(f"the stage {name!r} was left out ({type(error).__name__}: {error})")
        self.stages[name] = self.master.solve()
        self.budget.tell(name, self.master.value)

    def pool(self, rows: Floats, steep: bool = False) -> None:
        """Rows over all cells, private already or made as steep as may be; on small tables that costs nothing."""
        x = self.coordinates.taken(rows)
        x = x[x @ self.coordinates.p > 0]
        if len(x):
            self.master.add(settled(self.cone, x) if steep or len(self.coordinates.p) <= NUMBERS else x)

    def _below(self, joint: Joint, starts: Sequence[Floats] = ()) -> tuple[Floats, float]:
        """Rows over all cells of another table, found in the same way with a ball of the same radius around it, and
        their value."""
        below = Chain(
            self.within.around(joint), self.epsilon, self.reads, self.budget.part(), profile=self.profile,
            quick=self.quick, at_most=self.at_most, bounding=False,
        )
        below._stages(starts)
        self.notes += below.notes
        return below.coordinates.full(below.master.used()[0]), below.master.value

    def _without_empty(self) -> None:
        """Rows for the secrets that occur, with what those that do not may answer.

        The latter share one number of each row, of no mass. It may lie in an interval, and both ends go into the pool:
        the master takes of each as much as makes the numbers of all rows sum to 1.
        """
        joint, (S, U) = self.within.joint, self.within.joint.shape
        known = self.coordinates.full(self.master.points).reshape(-1, S, U)[:, self.seen]
        smaller = Joint.from_probabilities(joint.p[self.seen], n=joint.n)
        found, value = self._below(smaller, [known.reshape(len(known), -1)])
        out = np.ones((len(found), S, U))
        out[:, self.seen] = found.reshape(len(found), -1, U)
        x = self.coordinates.taken(out.reshape(len(out), -1))
        self.master.add(repaired(self.cone, self.cone.with_empty(x)))
        self.hindered = value > self.master.solve() * (1 + GAP)

    def _anything(self) -> None:
        """Rows for any distribution, as steep as this set allows: secrets that never occur may do anything in it."""
        free = FreeRows(Cap.of(self.within.joint, self.coordinates, self.epsilon, self.reads), self.coordinates.p)
        aim = InformationAim(self.coordinates)
        improve(aim, [lambda _, budget: free.rows(aim.prices, budget)], self.budget.part())
        before = self.master.solve()
        self.master.add(settled(self.cone, aim.used()[0]))
        self.hindered |= self.master.solve() > before * (1 + GAP)

    def _products(self) -> None:
        """Two-level designs: which profile is best is asked of a relaxation, then of designs by a part of the work.

        The relaxation asks for column sums on average alone, and likes great drops too much.
        """
        if self.profile is not None:
            self._under(self.profile, self.budget)
            return
        p, plain = self.within.joint.p, capped(self.epsilon, self.at_most)
        small = len(self.coordinates.p) <= NUMBERS or self.few  # met from outside, or moved from coarser ones
        best, budget = plain, self.budget.part(FEW) if self.few else self.budget.part()
        if self.within.budget > 0:
            best, scan = liked(self.within, p, self.epsilon, self.at_most, budget.part(1 / 3))[0], budget.part()

            def rough(profile: Profile) -> float:
                if profile not in self.values:
                    if len(self.values) > 1 and scan.over:
                        raise OutOfTime
                    self.values[profile] = two_level(self._families(profile), scan, rough=True).value(p)
                return self.values[profile]

            if not (small or self.quick or self.carried):
                flat = replace(best, drop=DROPS[1] * float(np.expm1(self.epsilon)))
                best = climbed(rough, max(best, flat, key=rough), self.epsilon, self.at_most, TRIES // 2)[0]
        self._under(best, budget)
        if small and not budget.over:
            self._under(plain, budget)

    def _families(self, profile: Profile) -> Families:
        if profile not in self.families:
            self.families[profile] = Families(self.within, self.within.joint.p, self.epsilon, profile)
        return self.families[profile]

    def _under(self, profile: Profile, budget: Budget) -> None:
        """The best two-level design found under a profile; its rows join the pool as steep as their own pairs allow.

        A profile asks more than privacy does, of most rows.
        """
        x = self.coordinates.taken(two_level(self._families(profile), budget).rows())
        theta = x @ self.coordinates.p
        x, theta = self.coordinates.unit(x[theta > 0]), theta[theta > 0]
        steep = settled(self.cone, x) if self.cone.cost(len(x)) <= self.budget.left else x
        self.values[profile] = float(_weights(theta, x, steep) @ (xlogx(steep) @ self.coordinates.p))
        self.master.add(steep)

    def _rays(self) -> None:
        """Every extreme row of a polyhedral cone."""
        facets, size = self.within.inequalities(self.cone.E), len(self.coordinates.p)
        if self.cone.cap is not None:
            facets = np.concatenate([facets, self.cone.cap.inequalities(size)])
        found = extreme_rays(facets, dimension=size, limit=self.rays, budget=self.budget.part())
        self.master.add(repaired(self.cone, found.vectors))
        self.bound = self.master.solve()  # of the cone: nothing is missing

    def outside(self) -> None:
        """Rows of few numbers: cuts from outside, which also bound every private mechanism."""
        cap = None if self.at_most is None else self.at_most + SEALING
        outer = RatioCone(self.within, self.epsilon + SEALING, self.reads, cap)
        known = None if self.carried is None or self.reads != "both" else self.carried.cuts(outer.E)
        self.bound, self.cuts = meet(
            self.cone, outer, self.master, self.budget.part(), gap=self.gap, limit=self.rays, known=known
        )

    def _coarser(self) -> None:
        """The rows of a table with half as many cells, spread over this one."""
        joint = self.within.joint
        groups = merged(joint, (int((joint.p > 0).sum()) - len(self.seen)) // 2)
        self.pool(groups.spread(self._below(groups.joint)[0]))

    def _spikes(self) -> None:
        """Under a cap rows have one tall number or a few, and which is for no slope to find: rows that are tall on sets
        of one secret, or on two numbers, are begun with, as far as they are few."""
        cap, n = self.cone.cap, len(self.coordinates.p)
        assert cap is not None
        sets = [*np.eye(n, dtype=bool), *~np.eye(n, dtype=bool)]
        for size in range(2, n):
            more = [c for own in cap.numbers for c in itertools.islice(itertools.combinations(own, size), SPIKES)]
            more += itertools.islice(itertools.combinations(range(n), 2), SPIKES) if size == 2 else []
            if not more or len(sets) + len(more) > SPIKES:
                break
            sets += [np.isin(np.arange(n), c) for c in more]
        tall = self.coordinates.unit(np.where(np.unique(np.array(sets), axis=0), cap.K, 1.0))
        improve(self.master, [Tangents(self.cone, self.master, given=tall)], self.budget.part(), calm=1)

    def _moves(self) -> None:
        moves: list[Move] = [Tangents(self.cone, self.master)]
        if self.cone.free and self.cone.cap is not None:
            free = FreeRows(self.cone.cap, self.coordinates.p)
            moves = [lambda _, budget: free.rows(self.master.prices, budget)]
        elif self.values and self.carried is None:
            order = sorted(self.values, key=lambda x: -self.values[x])
            moves = [self._priced([ProductMover(self._families(x)) for x in order]), *moves]
        improve(self.master, moves, self.budget, calm=self.calm)

    def _priced(self, movers: list[ProductMover]) -> Move:
        """Rows of product form for the master's prices, under the best profile and, in turn, one of the others."""
        best, others, p = movers[0], itertools.cycle(movers[1:] or movers), self.within.joint.p

        def move(_: Floats, budget: Budget) -> Floats:
            prices = np.zeros(p.size)
            prices[self.coordinates.cell] = self.master.prices
            found = [x.rows(prices.reshape(p.shape), budget) for x in dict.fromkeys((best, next(others)))]
            return self.coordinates.unit(self.coordinates.taken(np.concatenate(found)))

        return move

    def finished(self) -> InformativeRows:
        """The rows in use and those nearly in use, private to the last pair, mixed once more."""
        x, theta = mixed_again(self.last, self.master).used()
        rows = self.coordinates.full(theta[:, None] * x)
        value = float(theta @ (xlogx(x) @ self.coordinates.p))
        return InformativeRows(rows / rows.sum(0), value, self.bound, self.stages, self.notes, self.handed())


def _weights(theta: Floats, x: Floats, y: Floats) -> Floats:
    """Weights of unit rows y for which Σ is the constant that Σθx is, where each x is a mixture of y and the constant
    or y one of x and the constant: x − 1 = k(y − 1), so the weights are θk/Σθk."""
    at = np.abs(y - 1.0).argmax(1)[:, None]
    away = np.take_along_axis(y - 1.0, at, 1)[:, 0]
    k = np.divide(np.take_along_axis(x - 1.0, at, 1)[:, 0], away, out=np.ones(len(x)), where=away != 0.0)
    return np.asarray(theta * k / (theta @ k))
