"""The most informative mechanism under a promise, in stages: starts of every origin in one pool, then moves.

Each stage takes the pool and adds to it, so none can lose. One that fails is left out and named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.all_levels import NUMBERS, Carried, OneLevel, Together, joinable, meet, rows_for
from sfumato.optimise.arrays import SEALING, Floats, Ints, canonical, xlogx
from sfumato.optimise.budget import INTERRUPTED, NUMBER, STAGE, Budget
from sfumato.optimise.cone import Cap, Coordinates, RatioCone, repaired, settled
from sfumato.optimise.product.blocks import Arrangement, Families, safe, two_level
from sfumato.optimise.product.two_level import DROPS, TRIES, Profile, capped, climbed, liked
from sfumato.optimise.search import CALM, GAIN, InformationAim, Move, Tangents, improve, last_rows, mixed_again
from sfumato.optimise.starts import FreeRows, ProductMover, Simplices, merged
from sfumato.tolerances import LEAST
from sfumato.uncertainty import ChiSquareBall, RenyiBall
from sfumato.uncertainty.sets import WorstPairs

GAP = GAIN  # relative, between value and bound, at which neither is worked on any more: what a search counts as none
LISTED_GAP = 1e-6  # the same where worst cases are finitely many: what meets there is the optimum
SPIKES = 600  # sets that rows under a cap begin from
FEW = 0.15  # of the time left: products where secrets are few, because coarser tables say more, and these where not
MANY = 4  # cells for each pair of secrets from which coarser tables are begun with
Around = ChiSquareBall | RenyiBall | Simplices  # sets that are known around other tables too
FAILURES = (ArithmeticError, ValueError, IndexError, RuntimeError, np.linalg.LinAlgError)  # of a stage that is left out


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """What is asked of a search, and what it may begin with."""

    reads: str = "both"
    gap: float = GAP
    quick: bool = False  # little work where rows are listed
    profile: Profile | None = None  # to which two-level rows keep, and no others are sought
    at_most: float | None = None  # κ: a second promise, at_most-RLDP over any distribution
    bounding: bool = True  # whether a bound is of any use: False for whoever has one and no time
    starts: Sequence[Floats] = ()  # private rows over all inputs
    others: Sequence[Floats] = ()  # rows of other designs of the table, private or not
    carried: Carried | None = None  # what the same search ended with at another ε


AS_USUAL = Sought()


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

    def __init__(self, within: WorstPairs, epsilon: float, budget: Budget, asked: Sought) -> None:
        self.within, self.epsilon, self.budget, self.asked, self.bound = within, epsilon, budget, asked, float("inf")
        self.carried, self.simplices = asked.carried, isinstance(within, Simplices)
        spare = SEALING if self.simplices else 0.0  # they enclose the set: room enough
        self.cone = RatioCone(within, epsilon + spare, asked.reads, asked.at_most)
        self.last = RatioCone(within, epsilon + spare, asked.reads, asked.at_most, closely=True)
        self.coordinates = self.cone.coordinates
        self.master = InformationAim(self.coordinates, budget)
        self.stages: dict[str, float] = {}
        self.notes: list[str] = []
        self.families: dict[Profile, Families] = {}  # of two-level designs, those of the best profile first
        self.seen = np.flatnonzero(within.joint.p_secret > 0)
        self.coarse = False  # whether cells are merged
        self.cuts = np.zeros((0, len(self.coordinates.p)))

    @property
    def around(self) -> Around:
        """The set, for stages that are for sets which are known around other tables too."""
        assert isinstance(self.within, Around)
        return self.within

    @property
    def few(self) -> bool:
        """Whether secrets are few beside the cells, or these merged already: then merging pays most, and blocks of one
        secret at a time tell little."""
        return self.coarse or int(np.count_nonzero(self.within.joint.p)) >= MANY * len(self.seen) ** 2

    def run(self) -> InformativeRows:
        """Every stage while there is time."""
        self.budget = self.budget.less(self.last.cost(last_rows(len(self.coordinates.p))))  # for `finished`
        self.master.budget = self.budget.firm
        self._search()
        return self.finished()

    def _search(self) -> None:
        """The pool of every stage that gains something; interrupting ends with the best so far."""
        try:
            if self.carried is not None:
                self.begin()
            for start in self.asked.starts if self.carried is None else ():
                self.attempt("starts", partial(self.pool, start))
            for rows in self.asked.others if self.apart else ():
                self.attempt("others", partial(self.pool, rows, steep=True))
            for name, stage in self._wanted():
                if self.apart and not self.budget.over:
                    self.attempt(name, stage)
        except KeyboardInterrupt:
            self.budget.halt()
            self.notes.append(INTERRUPTED)

    def _wanted(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """The stages in their order."""
        p, alone, quick = self.within.joint.p, self.asked.profile is None, self.asked.quick
        cells, empty = np.count_nonzero(p), len(self.seen) < len(p)
        around = self.asked.reads == "both" and isinstance(self.within, Around)
        if around and empty and len(self.seen) > 1 and self.carried is None:
            yield "seen", self._without_empty
            if alone:
                yield "anything", self._anything
        if around and alone and self.carried is None and not quick and cells > 2 * len(self.seen) + 2:
            yield "coarser", self._coarser
        if around and not empty and len(p) > 1 and (self.simplices or self.around.budget > 0):
            yield "product", self._products
        if not alone:
            return
        if self.cone.cap is not None and not self.cone.free:
            yield "spikes", self._spikes
        if self.asked.bounding and self.carried is None:
            yield "outside", self.outside
        if not quick:
            yield "moves", self._moves

    @property
    def apart(self) -> bool:
        """Whether there is something to gain between value and bound."""
        return self.bound - self.master.value > self.asked.gap * self.master.value

    def begin(self) -> None:
        """Rows of another ε, and worst cases from outside where those of the other are likely to meet here too."""
        if self.carried is not None:
            rows = self.carried.rows
            self.attempt("carried", lambda: self.master.add(rows_for(self.cone, rows)))
        if self.carried is None or self.carried.near:
            self.attempt("outside", self.outside)

    def handed(self) -> Carried:
        """What another ε may begin with."""
        gap = self.bound / max(self.master.value, LEAST) - 1.0
        return Carried(self.master.used()[0], self.cuts, self.cone.E, gap)

    def attempt(self, name: str, stage: Callable[[], object]) -> None:
        try:
            stage()
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

    def _below(self, joint: Joint, starts: Sequence[Floats] = (), share: float = STAGE, coarse: bool = False) -> Floats:
        """Rows over all cells of another table, found in the same way with a ball of the same radius around it."""
        asked = replace(self.asked, gap=GAP, bounding=False, starts=starts, others=())
        below = Chain(self.around.around(joint), self.epsilon, self.budget.part(share), asked)
        below.coarse = coarse
        below._search()
        self.notes += below.notes
        return below.coordinates.full(below.master.used()[0])

    def _without_empty(self) -> None:
        """Rows for the secrets that occur, with both ends of what those that do not may answer (`with_empty`): the
        master takes of each as much as makes the numbers of all rows sum to 1."""
        joint, (S, U) = self.within.joint, self.within.joint.shape
        known = self.coordinates.full(self.master.points).reshape(-1, S, U)[:, self.seen]
        smaller = Joint.from_probabilities(joint.p[self.seen], n=joint.n)
        found = self._below(smaller, [known.reshape(len(known), -1)], 1.0 - FEW)  # all but the answer
        out = np.ones((len(found), S, U))
        out[:, self.seen] = found.reshape(len(found), -1, U)
        x = self.coordinates.taken(out.reshape(len(out), -1))
        self.master.add(repaired(self.cone, self.cone.with_empty(x)))

    def _anything(self) -> None:
        """Rows for any distribution, as steep as this set allows: secrets that never occur may do anything in it."""
        free = FreeRows(Cap.of(self.within.joint, self.coordinates, self.epsilon, self.asked.reads), self.coordinates.p)
        aim = InformationAim(self.coordinates, self.budget)
        improve(aim, [lambda _, budget: free.rows(aim.prices, budget)], self.budget.part())
        self.master.add(settled(self.cone, aim.used()[0]))

    def _products(self) -> None:
        """Two-level designs under the best profile, and under none where that costs little: a profile asks more than
        privacy does, of most rows, so they join the pool as steep as their own pairs allow."""
        asked, plain = self.asked, capped(self.epsilon, self.asked.at_most)
        small = len(self.coordinates.p) <= NUMBERS or self.few  # met from outside, or moved from coarser ones
        budget = self.budget.part(FEW) if self.few and asked.profile is None else self.budget.part()
        best = asked.profile or plain
        if asked.profile is None and self.around.budget > 0:
            best = liked(self.around, self.within.joint.p, self.epsilon, asked.at_most, budget.part(1 / 3))[0]
            best = best if small or asked.quick or self.carried else self._climbed(best, plain, budget.part())
        for profile in dict.fromkeys([best, plain] if asked.profile is None else [best]):
            if not (self.families and budget.over) or profile in self.families:
                x = self.coordinates.taken(two_level(self._under(profile), budget).rows())
                x = x[x @ self.coordinates.p > 0]
                self.master.add(settled(self.cone, x) if self.budget.fits(self.cone.cost(len(x))) else x)
        self.families = {best: self.families.pop(best), **self.families}

    def _climbed(self, first: Profile, plain: Profile, budget: Budget) -> Profile:
        """The profile whose design keeps most by a part of the work, from the one that a relaxation likes: that asks
        for column sums on average alone, and likes great drops too much."""
        values: dict[Profile, float] = {}

        def rough(profile: Profile) -> float:
            if profile not in values and not (values and budget.over):
                values[profile] = two_level(self._under(profile), budget, rough=True).value(self.within.joint.p)
            return values.get(profile, -np.inf)

        flat = replace(first, drop=DROPS[1] * float(np.expm1(self.epsilon)))
        best = climbed(rough, max(first, flat, key=rough), self.epsilon, self.asked.at_most, TRIES // 2)[0]
        best = max(best, plain, key=rough)
        self.families = {x: self.families[x] for x in sorted(values, key=lambda x: -values[x])}
        return best

    def _under(self, profile: Profile) -> Families:
        if profile not in self.families:
            self.families[profile] = Families(self.around, self.around.joint.p, self.epsilon, profile)
        return self.families[profile]

    def outside(self) -> None:
        """Rows of few numbers: cuts from outside, which also bound every private mechanism."""
        asked = self.asked
        cap = None if asked.at_most is None else asked.at_most + SEALING
        outer = RatioCone(self.within, self.epsilon + SEALING, asked.reads, cap)
        known = None if self.carried is None or asked.reads != "both" else self.carried.cuts(outer.E)
        gap = min(asked.gap, LISTED_GAP) if self.simplices else asked.gap
        self.bound, self.cuts = meet(self.cone, outer, self.master, self.budget.part(), gap=gap, known=known)

    def _coarser(self) -> None:
        """The rows of a table with half as many cells, spread over this one."""
        joint = self.within.joint
        coarse, cell = merged(joint, (int(np.count_nonzero(joint.p)) - len(self.seen)) // 2)
        self.pool(self._below(coarse, share=STAGE if self.few else FEW, coarse=True)[:, cell])

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
        improve(self.master, [Tangents(self.cone, self.master, given=tall)], self.budget.part(STAGE / 2), calm=1)

    def _moves(self) -> None:
        moves: list[Move] = [Tangents(self.cone, self.master)]
        if self.cone.free and self.cone.cap is not None:
            free = FreeRows(self.cone.cap, self.coordinates.p)
            moves = [lambda _, budget: free.rows(self.master.prices, budget)]
        elif self.families and self.carried is None:
            moves = [self._priced([ProductMover(x) for x in self.families.values()]), *moves]
        improve(self.master, moves, self.budget, calm=CALM if self.carried is None else 1)

    def _priced(self, movers: list[ProductMover]) -> Move:
        """Rows of product form for the master's prices, under the best profile and, in turn, one of the others."""
        best, others = movers[0], itertools.cycle(movers[1:] or movers)

        def move(_: Floats, budget: Budget) -> Floats:
            prices = np.zeros(self.within.joint.shape)
            prices.ravel()[self.coordinates.cell] = self.master.prices
            found = [x.rows(prices, budget) for x in dict.fromkeys((best, next(others)))]
            return self.coordinates.unit(self.coordinates.taken(np.concatenate(found)))

        return move

    def finished(self) -> InformativeRows:
        """The rows in use and those nearly in use, private to the last pair, mixed once more."""
        x, theta = mixed_again(self.last, self.master).used()
        rows = self.coordinates.full(theta[:, None] * x)
        value = float(theta @ (xlogx(x) @ self.coordinates.p))
        return InformativeRows(rows / rows.sum(0), value, self.bound, self.stages, self.notes, self.handed())


# --- a table in an order of its own, through the stages; tables whose rows cannot be listed are whole layouts ---------


LISTED_ROW = 600  # numbers in a row up to which rows are listed: the master is a dense programme with so many equations
PAIR_PASSES = 40  # passes over all pairs of secrets of a row, to find the worst
DIGITS = 12  # of starts: sums over labels in another order differ after these, and a search magnifies it
UNEVEN = 2.0  # times its even share of the time that is left, which a level of a curve may take to be met from outside


def most_informative(
    within: WorstPairs, epsilon: float, budget: Budget, asked: Sought = AS_USUAL
) -> InformativeRows:
    """Rows that keep most of I(X;Y) under ε-RLDP over the set, whatever the order of its labels."""
    within, order = _in_own_order(within, asked.reads)
    first = [x[:, order].round(DIGITS) for x in asked.starts]
    starts, others = [x[np.lexsort(x.T)] for x in first], [x[:, order] for x in asked.others]
    return _back(Chain(within, epsilon, budget, replace(asked, starts=starts, others=others)).run(), order)


def informative_along(
    within: WorstPairs, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float, once: float | None = None,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    Levels that are not met are moved together, `once` as in `Together.run`; their bounds hold as they are.
    """
    within, order = _in_own_order(within, reads)
    chains = [Chain(within, x, budget, Sought(reads, gap)) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (within.joint.p_secret <= 0).any():
        return None
    last: Carried | None = None
    for i, (chain, rows) in enumerate(zip(reversed(chains), reversed(starts), strict=True)):
        chain.pool(np.concatenate(rows)[:, order])
        chain.carried, chain.budget = last, budget.part(min(1.0, UNEVEN / (len(chains) - i)))
        chain.begin()
        last = chain.handed()
    levels = [OneLevel(x.cone, x.master, enough=x.bound / (1 + gap)) for x in chains]
    Together(levels).run(budget, once=once)
    return [_back(x.finished(), order) for x in chains]


def _in_own_order(within: WorstPairs, reads: str) -> tuple[WorstPairs, Ints]:
    """A set around its table in an order of its own, and the place of each input there in the table as given."""
    joint = within.joint
    s, u = canonical(joint.p) if isinstance(within, Around) else map(np.arange, joint.shape)
    if isinstance(within, Around):
        within = within.around(Joint.from_probabilities(joint.p[s][:, u], n=joint.n))
    return within, u if reads == "useful" else (s[:, None] * len(u) + u).ravel()


def _back(found: InformativeRows, order: Ints) -> InformativeRows:
    found.rows = found.rows[:, : len(order)][:, np.argsort(order)]
    return found


def listable(within: WorstPairs, reads: str, budget: Budget) -> bool:
    """Whether rows are few enough to be listed, and time suffices to make them private to the last pair twice over."""
    numbers = Coordinates.count(within.joint, reads)
    if numbers > LISTED_ROW:
        return False
    cost = RatioCone(within, 1.0, reads, closely=True).cost(last_rows(numbers))
    return budget.fits(2.0 * (cost + pairing(within.joint, numbers)))


def pairing(joint: Joint, numbers: int) -> float:
    """Seconds to find the worst pairs of secrets of the last rows, which have so many numbers."""
    return PAIR_PASSES * NUMBER * last_rows(numbers) * np.count_nonzero(joint.p_secret) ** 2


def coarse_rows(within: Around, epsilon: float, budget: Budget, at_most: float | None = None) -> InformativeRows | None:
    """Rows of the finest merged table whose rows can be listed, spread over this one; None without such a table."""
    joint = within.joint
    alone, S = int(np.count_nonzero(joint.p)), len(joint.p)
    while (alone := (alone - S) // 2) > S:
        coarse, cell = merged(joint, alone)
        around = within.around(coarse)
        if listable(around, "both", budget):
            found = most_informative(around, epsilon, budget, Sought(at_most=at_most, bounding=False))
            found.rows = found.rows[:, cell]
            return found
    return None


SAFE = 5e-3  # seconds of `safe` for a secret of a ball whose masses are no closed form


def widest(
    within: ChiSquareBall | RenyiBall, epsilon: float, budget: Budget, profile: Profile | None = None,
    at_most: float | None = None, each: float = 0.0,
) -> tuple[Arrangement, Profile]:
    """A layout where rows are not listed, under the profile that a relaxation likes; `each` as in `decoupled`."""
    p = within.joint.p
    chosen = liked(within, p, epsilon, at_most, budget.part())[0] if profile is None else profile
    each += 0.0 if within.closed else SAFE
    families = Families(within, p, epsilon, chosen, budget)
    return safe(two_level(families, budget, each=each), within, p, epsilon), chosen
