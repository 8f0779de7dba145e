"""The stages of a design: starts of every origin in one pool, then moves.

Stages form a chain in which each takes the pool and adds to it, so none can lose. A stage that fails is left out and
named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sfumato.optimise.anywhere import FreeRows
from sfumato.optimise.arrays import SEALING, Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.carrying import Carried, rows_for
from sfumato.optimise.cone import RatioCone, repaired, settled
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays, extreme_rays
from sfumato.optimise.master import InformationAim, last_rows, mixed_again
from sfumato.optimise.moves import mover
from sfumato.optimise.outside import NUMBERS, RAYS, meet
from sfumato.optimise.product.blocks import Families, ProductMover, two_level
from sfumato.optimise.product.profiles import OutOfTime, capped, climbed, liked
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.search import CALM, Move, Tangents, improve
from sfumato.optimise.starts import merged

PRODUCT, FEW, COARSE, OUTSIDE = 0.6, 0.15, 0.6, 0.6  # of the time left: designs under profiles, with many or few
# secrets, coarser tables, cuts from outside
SOON = 2  # turns that must gain something together, beside what another ε brought
GAP = 1e-4  # relative, between value and bound, at which neither is worked on any more
FEW_RAYS = 12_000  # where the work shall be small and the same on every machine
SOON_RAYS = 600  # where all of them are listed before anything else: a few hundredths of a second
QUICK_RAYS = 20_000  # where no smaller gap is asked for
SPIKES, ROUNDS = 600, 2  # sets that rows under a cap begin from, and how often prices are taken anew in between
MANY = 4  # cells for each pair of secrets from which coarser tables are begun with
PRICED = 3  # profiles under which rows are made by price at a time
LIKED = 0.3  # the same: to find a profile by a relaxation
SCAN, SCANNED = 0.6, 14  # profiles whose designs are compared: of the time for them, and at most
FLAT = 0.05  # of E − 1: the drop of a profile that is compared with the one that a relaxation likes

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
        carried: Carried | None = None, rays: int | None = None, patient: bool = True,
    ) -> None:
        self.patient = patient  # whether more than one turn may pass without gain
        self.rays = rays or (FEW_RAYS if quick else RAYS if gap < GAP else QUICK_RAYS)
        self.quick, self.at_most, self.bounding = quick, at_most, bounding  # the last: whether a bound is of any use
        self.within, self.epsilon, self.reads, self.gap, self.carried = within, epsilon, reads, gap, carried
        self.bound = float("inf")
        self.spare = SEALING if hasattr(within, "extreme") else 0.0  # simplices enclose the set: room enough
        self.cone = RatioCone(within, epsilon + self.spare, reads, at_most)
        self.last = RatioCone(within, epsilon + self.spare, reads, at_most, closely=True)
        self.coordinates = self.cone.coordinates
        self.budget = budget.less(self.last.cost(last_rows(len(self.coordinates.p))))
        self.master = InformationAim(self.coordinates)
        self.tangents = Tangents(self.cone, self.master)
        self.stages: dict[str, float] = {}
        self.notes: list[str] = []
        self.profiles: list[Profile] = [] if profile is None else [profile]
        self.values: dict[Profile, float] = {}  # of two-level designs
        self.families: dict[Profile, Families] = {}
        self.turn = 0
        self.priced: dict[Profile, ProductMover] = {}
        self.given = profile is not None
        self.seen = np.flatnonzero(within.joint.p_secret > 0)
        self.cuts = np.zeros((0, len(self.coordinates.p)))

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
        return hasattr(self.within, "inequalities") and few and not self.given

    @property
    def merges(self) -> bool:
        """Whether the search begins with a coarser table."""
        cells = int((self.within.joint.p > 0).sum())
        if self.quick or self.given or self.reads != "both" or not hasattr(self.within, "around"):
            return False
        return self.few and cells > 2 * len(self.seen) + 2 and not (self.at_most and cells <= NUMBERS)

    def run(self, starts: Sequence[Floats], others: Sequence[Floats] = ()) -> InformativeRows:
        """Every stage while there is time; interrupting ends with the best so far."""
        self._stages(starts, others)
        return self.finished()

    def _stages(self, starts: Sequence[Floats] = (), others: Sequence[Floats] = ()) -> None:
        try:
            if self.carried is not None and self._met():
                return
            for start in starts if self.carried is None else ():
                self.attempt("starts", partial(self.pool, start))
            for rows in others:
                self.attempt("others", partial(self.pool, rows, steep=True))
            if self.polyhedral:
                self.attempt("rays", partial(self._rays, SOON_RAYS))
                if not self.apart:
                    return
            if self.merges and self.carried is None:
                self.attempt("coarser", self._coarser)
            if self.shared:
                self.attempt("product", self._products)
            if not self.given:
                if self.at_most is not None:
                    self.attempt("spikes", self._spikes)
                if self.bounding and self.carried is None:
                    self.attempt("outside", self._rays if self.polyhedral else self.outside)
                if not self.quick and self.apart:
                    self.attempt("moves", self._moves)
        except KeyboardInterrupt:
            self.notes.append("interrupted: the best design so far")

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
        gap = self.bound / max(self.master.value, 1e-300) - 1.0
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

    def _products(self) -> None:
        """Two-level designs: under the profile that is best by a part of the work, and under none."""
        if self.given:
            self._under(self.profiles[0], self.budget)
            return
        p, best = self.within.joint.p, capped(self.epsilon, self.at_most)
        small = len(self.coordinates.p) <= NUMBERS or self.few  # met from outside, or moved from coarser ones
        budget = self.budget.part(FEW if self.few else PRODUCT)
        if self.within.budget > 0:
            first = liked(self.within, p, self.epsilon, self.at_most, budget.part(LIKED))[0]
            scan = budget.part(SCAN)

            def rough(profile: Profile) -> float:
                if profile not in self.values:
                    if len(self.values) > 1 and scan.over:
                        raise OutOfTime
                    self.values[profile] = two_level(self._families(profile), scan, rough=True).value(p)
                return self.values[profile]

            if small or self.quick or self.carried is not None:
                best = first
            else:  # the relaxation asks for column sums on average alone, and likes great drops too much
                flat = replace(first, drop=FLAT * float(np.expm1(self.epsilon)))
                best = climbed(rough, max(first, flat, key=rough), self.epsilon, self.at_most, SCANNED)[0]
        self._under(best, budget)
        if small and not budget.over:
            self._under(capped(self.epsilon, self.at_most), budget)

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

    def _rays(self, limit: int = QUICK_RAYS) -> None:
        """Every extreme row of a polyhedral cone."""
        facets = self.within.inequalities(self.cone.rise + 1.0)
        if self.cone.cap is not None:
            facets = np.concatenate([facets, self.cone.cap.inequalities(len(self.coordinates.p))])
        found = extreme_rays(
            facets, dimension=len(self.coordinates.p), limit=limit, budget=self.budget.part(OUTSIDE)
        )
        self.master.add(repaired(self.cone, found.vectors))
        self.bound = self.master.solve()  # of the cone: nothing is missing

    def outside(self) -> None:
        """Rows of few numbers: cuts from outside, which also bound every private mechanism."""
        if hasattr(self.within, "inequalities"):
            return
        cap = None if self.at_most is None else self.at_most + SEALING
        outer = RatioCone(self.within, self.epsilon + SEALING, self.reads, cap)
        known = None if self.carried is None or self.reads != "both" else self.carried.cuts(outer.E)
        self.bound, self.cuts = meet(
            self.cone, outer, self.master, self.budget.part(OUTSIDE), gap=self.gap, limit=self.rays, known=known
        )

    def _coarser(self) -> None:
        """The rows of a table with half as many cells, found in the same way, spread over this one."""
        joint = self.within.joint
        groups = merged(joint, (int((joint.p > 0).sum()) - len(self.seen)) // 2)
        below = Chain(
            self.within.around(groups.joint), self.epsilon, self.reads, self.budget.part(COARSE), at_most=self.at_most,
            bounding=False,
        )
        below._stages()
        self.notes += below.notes
        self.pool(groups.spread(below.coordinates.full(below.master.used()[0])))

    def _moves(self) -> None:
        moves: list[Move] = [self.tangents]
        if self.cone.free and self.cone.cap is not None:
            free = FreeRows(self.cone.cap, self.coordinates.p)
            moves = [lambda _, budget: free.rows(self.master.prices, budget)]
        elif self.values and self.carried is None:
            moves = [self._priced, *moves]
        calm = (CALM if self.carried is None else SOON) if self.patient else 1
        improve(self.master, moves, self.budget, calm=calm)

    def _spikes(self) -> None:
        """Under a cap rows have one tall number or a few, and which is for no slope to find: rows that are tall on sets
        of one secret, or on two numbers, are begun with, as far as they are few."""
        cap, n = self.cone.cap, len(self.coordinates.p)
        if cap is None or self.cone.free:
            return
        sets = [*np.eye(n, dtype=bool), *~np.eye(n, dtype=bool)]
        for size in range(2, n):
            more = [c for own in cap.numbers for c in itertools.islice(itertools.combinations(own, size), SPIKES)]
            more += itertools.islice(itertools.combinations(range(n), 2), SPIKES) if size == 2 else []
            if not more or len(sets) + len(more) > SPIKES:
                break
            sets += [np.isin(np.arange(n), c) for c in more]
        bases = self.coordinates.unit(np.where(np.unique(np.array(sets), axis=0), cap.K, 1.0))
        floors = np.full((len(bases), 1), 1e-5)
        for _ in range(ROUNDS):
            self.master.steer()
            found = mover(self.cone).rows(
                lambda v, at: self.master.slopes(v, floors[at]), bases, self.budget.part(COARSE)
            )
            if len(found):
                self.master.add(repaired(self.cone, found, loose=True))
                self.master.solve()
                self.master.learn()

    def _priced(self, _: Floats, budget: Budget) -> Floats:
        """Rows of product form for the master's prices, under the best profile and, in turn, two of the others."""
        p, found = self.within.joint.p, []
        prices = np.zeros(p.size)
        prices[self.coordinates.cell] = self.master.prices
        best, *others = sorted(self.values, key=lambda x: -self.values[x])
        others = others[self.turn % max(len(others), 1) :] + others
        self.turn += PRICED - 1
        for profile in dict.fromkeys([best, *others[: PRICED - 1]]):
            if profile not in self.priced:
                self.priced[profile] = ProductMover(self._families(profile))
            found.append(self.priced[profile].rows(prices.reshape(p.shape), budget))
        return self.coordinates.unit(self.coordinates.taken(np.concatenate(found)))

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
