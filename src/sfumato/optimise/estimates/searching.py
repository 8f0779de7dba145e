"""The search for a design by its estimates: sets of every origin to begin with, then tangents over rows of product form
and over the whole cone, by the loop that every aim shares (`optimise.search`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import cast

import numpy as np

from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism.subset_laws import ORDERS, incidence
from sfumato.optimise.all_levels import OneLevel, Together, joinable
from sfumato.optimise.arrays import EMPTY, GHOST, SEALING, Bools, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import Coordinates, RatioCone, repaired, settled
from sfumato.optimise.estimates.goal import Goal
from sfumato.optimise.estimates.mixing import MIXED_WELL, ON_THE_WAY, USED, Estimates, PreciseRows
from sfumato.optimise.funnel.rays import independent
from sfumato.optimise.product.two_level import BlockBall, Heights, capped, subsets
from sfumato.optimise.search import FEWEST, Tangents, improve
from sfumato.optimise.starts import Known
from sfumato.uncertainty import ChiSquareBall, Exactly, RenyiBall, UncertaintySet

ARRIVING = 0.55  # of the rows of a turn, that need not have arrived: tangents turn with the row, the next turn goes on
FIRST_ROWS = 4  # that are made steep at first, which tells how long others will take
JOINT = 2  # as many parts of the time for all levels together as each has by itself before
REACHED = 2e-4  # of the error of the untouched table, which no release is below: nothing more is sought


def filled(within: UncertaintySet) -> UncertaintySet:
    """The set with a trace of mass in every cell, where it is a ball: its distributions may have mass in cells that
    were never counted, so these are estimated like all others; what is found is made private over the set itself."""
    joint = within.joint
    if not isinstance(within, (ChiSquareBall, RenyiBall)) or within.budget <= 0 or (joint.p > 0).all():
        return within
    p = np.maximum(joint.p, EMPTY)
    return within.around(Joint.from_probabilities(p / p.sum(), joint.secret, joint.useful, n=joint.n))


def searched(
    within: UncertaintySet, epsilon: float, goal: Goal, reads: str = "both", budget: Budget = FREE,
    known: Sequence[Floats] = (), at_most: float | None = None,
) -> PreciseRows | None:
    """The best mixture found within the time, None where not even one fits into it; `known` private rows over the
    coordinates join the pool."""
    return searched_along(within, [epsilon], goal, reads, budget, [known], at_most)[0]


def searched_along(
    within: UncertaintySet, epsilons: Sequence[float], goal: Goal, reads: str, budget: Budget,
    known: Sequence[Sequence[Floats]], at_most: float | None = None, once: float | None = None,
) -> list[PreciseRows | None]:
    """The same at increasing ε, each begun with `known` rows of its own or with those of the level below: in one search
    where the set allows that (`Together`, with its `once`), else one by one."""
    begun: list[_Begun] = []
    try:
        for i, (epsilon, rows) in enumerate(zip(epsilons, known, strict=True)):
            master = Estimates(goal, budget)
            if not budget.fits(master.foretold):  # not even one mixture
                break
            one = _Begun(within, epsilon, master, reads, at_most)
            if not one.begin(rows or [settled(one.cone, x.master.used()[0]) for x in begun[-1:]], budget):
                break
            begun.append(one)
            master.budget = budget = budget.less(one.seconds)
            one.improved(budget.part(1 / (len(epsilons) - i + JOINT * joinable(one.cone))))
        if begun and joinable(begun[0].cone):
            Together(begun, FEWEST, ARRIVING).run(budget, once=once)
    except KeyboardInterrupt:
        budget.halt()
    return [*(x.finished() for x in begun), *[None] * (len(epsilons) - len(begun))]


class _Begun(OneLevel[Estimates]):
    """A search at one ε, over the filled set; what it ends with is private over the set itself, in the same
    coordinates."""

    def __init__(
        self, within: UncertaintySet, epsilon: float, master: Estimates, reads: str, at_most: float | None
    ) -> None:
        cone = RatioCone(filled(within), epsilon, reads, at_most)
        super().__init__(cone, master, enough=-(1 + REACHED) * master.goal.untouched)
        self.exact = copy(cone)
        self.exact.within, self.epsilon, self.rng = within, epsilon, np.random.default_rng(1)
        blocks = reads == "both" and isinstance(within, (ChiSquareBall, RenyiBall, Exactly))  # two-level rows are known
        self.block = BlockMover(cone, epsilon, at_most) if blocks else None
        self.sets = sets_of(cone.coordinates, within.joint.shape, epsilon, reads)

    def begin(self, known: Sequence[Floats], budget: Budget) -> bool:
        """A first mixture of single cells, which tell everything, of useful values, of what is known and of some of all
        other sets; then the rest by price. False where there is no time for the first."""
        U, single = self.cone.within.joint.shape[1], self.sets.sum(1) == 1
        starts = partial(self.steep, budget=budget) if self.block is None else self.block.starts
        first = starts(self.sets[single])
        if len(first) < np.count_nonzero(single):
            return False
        others = starts(np.random.default_rng(1).permutation(self.sets[~single]))
        values = self.steep(values_of(U, self.epsilon)[:, self.cone.coordinates.cell % U], budget)
        self.master.add(np.concatenate([first, values, *known, others]))
        self.master.solve()
        self.master.add(others)
        self.master.solve()
        return True

    def steep(self, sets: Bools, budget: Budget) -> Floats:
        """Rows on the boundary that are tall on sets; twice as many at a time, while that fits into the time."""
        out, size, took = [np.zeros((0, sets.shape[1]))], FIRST_ROWS, 0.0
        while len(sets) and budget.firm.fits(2 * took):
            began = budget.work()
            out.append(settled(self.cone, np.maximum(sets[:size], EMPTY)))
            sets, size, took = sets[size:], 2 * size, budget.work() - began
        return np.concatenate(out)

    def improved(self, budget: Budget) -> None:
        """Rows of product form, where the set has them; then tangents over the whole cone, unless others join."""
        with contextlib.suppress(np.linalg.LinAlgError):  # a move that fails adds nothing: what was found is kept
            if self.block is not None:
                improve(self.master, [self.varied], budget, calm=1, gain=ON_THE_WAY)
            if not joinable(self.cone):
                improve(self.master, [Tangents(self.cone, self.master)], budget)

    def varied(self, rows: Floats, budget: Budget) -> Floats:
        """Rows of product form from as many of each: listed sets, random sets of any density, those of rows in use with
        some cells changed."""
        assert self.block is not None
        listed = self.sets[self.rng.integers(len(self.sets), size=FEWEST)]
        drawn = self.rng.random(listed.shape) < self.rng.uniform(0.05, 0.7, (FEWEST, 1))
        old = rows[self.rng.integers(len(rows), size=FEWEST)] > 1
        sets = np.concatenate([listed, drawn, old ^ (self.rng.random(old.shape) < 0.05)])
        return self.block.climbed(self.master.slope, self.master.prices, sets)

    @property
    def seconds(self) -> float:
        """What it will take to make the rows in use private exactly and to mix them closely, by what a look takes."""
        began = self.master.budget.work()
        self.exact.cuts(self.master.used()[0][::4])
        return 4 * (self.master.budget.work() - began) + 2 * self.master.took

    def finished(self) -> PreciseRows:
        """The rows in use, each mixed with the constant row until private exactly, and with each other once more."""
        last, (rows, theta) = Estimates(self.master.goal), self.master.best
        held = np.union1d(np.flatnonzero(theta > USED), independent(np.sqrt(theta)[:, None] * rows))  # all stays told
        last.add(repaired(self.exact, rows[held]))
        last.solve(MIXED_WELL)
        q = _gathered(*last.best, self.exact.E)
        return PreciseRows(q, last.goal.of_rows(q), last, self.exact)


def _gathered(rows: Floats, theta: Floats, E: float) -> Floats:
    """Q[y, i] with the rows of little weight in one: a sum of private rows is private.

    What columns lack to the same total is one more row, lifted until its entries are within E: that is private too.
    """
    heavy, each = theta > GHOST, theta[:, None] * rows
    lack = each.sum(0).max() - each.sum(0)
    lack = lack + (lack.max() - E * lack.min()) / (E - 1) if lack.max() > SEALING else 0 * lack
    q = np.concatenate([each[heavy], each[~heavy].sum(0, keepdims=True), np.maximum(lack, 0.0)[None]])
    q = q[q.sum(1) > 0]
    return np.asarray(q / q.sum(0))


# --- sets to begin with: those of ordinary protocols, of u alone, of s and of (s, u) ----------------------------------


LISTED_VALUES = 6  # values up to which every set of them is listed
PARTS = 2  # times as many sets as values, where only some are listed: with fewer short searches end early


def sets_of(coordinates: Coordinates, shape: tuple[int, int], epsilon: float, reads: str) -> Bools:
    """Sets of coordinates: of u whatever s is, of s whatever u is, single cells, parts of all cells."""
    if reads == "useful":
        return values_of(shape[1], epsilon)
    (s, u), n = np.divmod(coordinates.cell, shape[1]), len(coordinates.p)
    each = values_of(shape[1], epsilon)[:, u], values_of(shape[0], epsilon)[:, s]
    return _proper(np.eye(n, dtype=bool), *each, _parts(n, epsilon))


def values_of(k: int, epsilon: float) -> Bools:
    """Sets of k values: single ones (GRR) and all but one; every set of a few values (subset selection, unary bits), or
    parts of all, and hyperplanes of a projective space with about the share that is best at ε, and halves."""
    eye = np.eye(k, dtype=bool)
    sets = [eye, ~eye, subsets(k).astype(bool) if k <= LISTED_VALUES else _parts(k, epsilon)]
    for order in fitting(epsilon) if k > LISTED_VALUES else ():
        with contextlib.suppress(InputError):  # blocks of a projective space with k points or more: not too many
            found = np.array(incidence(k, order))
            sets += [found, ~found]
    return _proper(*sets)


def fitting(epsilon: float) -> list[int]:
    """Orders of blocks whose share 1/q is near 1/(e^ε + 1), which is best for LDP; and 2, for larger sets."""
    near = sorted(ORDERS, key=lambda q: abs(math.log(q / (math.exp(epsilon) + 1))))
    return sorted({2, *near[:2]})


def _parts(n: int, epsilon: float) -> Bools:
    """One part of all values out of e^ε + 1, about, the share that is best for LDP; as in Hadamard response [Acharya,
    Sun, Zhang 2019] few sets tell all values apart."""
    rng, parts = np.random.default_rng(0), min(round(math.exp(epsilon) + 1), n)
    turns = range(math.ceil(PARTS * n / parts))
    return np.concatenate([rng.permutation(n) % parts == np.arange(parts)[:, None] for _ in turns])


def _proper(*several: Bools) -> Bools:
    """Each once, without the empty one and the full one."""
    sets = np.unique(np.concatenate(several), axis=0)
    return np.asarray(sets[sets.any(1) & ~sets.all(1)])


# --- rows of product form: a block lo + d·1_H for each secret, private whatever the sets are (optimise/product) -------


SET_PASSES = 5  # over the secrets: more cost time, and rows become alike


class BlockMover:
    """Rows of product form, one set of cells for each secret, changed value by value while that helps. Heights depend
    on the mass of a set alone. What is climbed is vᵀMv/z² − λ·v/z, z = p·v."""

    def __init__(self, cone: RatioCone, epsilon: float, at_most: float | None) -> None:
        ball = cast(BlockBall, cone.within) if getattr(cone.within, "budget", 0.0) > 0 else Known()
        self.p, self.unit = cone.coordinates.p, cone.coordinates.unit
        secret, E, profile = cone.coordinates.cell // cone.within.joint.shape[1], cone.E, capped(epsilon, at_most)
        self.cells = [at for s in np.unique(secret) if len(at := np.flatnonzero((secret == s) & (self.p > 0)))]
        self.heights = [Heights(ball, int(secret[at[0]]), float(self.p[at].sum()), E, profile) for at in self.cells]
        self.least, self.most = self.heights[0].least, self.heights[0].most  # constants

    def starts(self, sets: Bools) -> Floats:
        """Rows on sets of coordinates [y, i], the steeper of the two kinds of heights."""
        out = np.full(sets.shape, self.least)
        for at, heights in zip(self.cells, self.heights, strict=True):
            lo, hi = heights.at(np.clip(sets[:, at] @ self.p[at] / self.p[at].sum(), 0.0, 1.0))
            out[:, at] = np.where(sets[:, at], hi[0][:, None], lo[0][:, None])
        return out

    def climbed(self, slope: Floats, prices: Floats, sets: Bools) -> Floats:
        """Unit rows on sets, of which for each secret in turn one value enters or leaves, or nothing does."""
        rows, y = self.starts(sets), np.arange(len(sets))
        rows[:, self.p <= 0] = np.where(prices[self.p <= 0] < 0, self.most, self.least)
        pull = rows @ slope
        for at, heights in [*zip(self.cells, self.heights, strict=True)] * SET_PASSES:
            near = sets[:, None, at] ^ np.eye(len(at) + 1, len(at), -1, dtype=bool)
            lo, hi = heights.at(np.clip(near @ self.p[at] / self.p[at].sum(), 0.0, 1.0))
            change = np.where(near, hi[..., None], lo[..., None]) - rows[:, None, at]  # [kind, y, exchange, value]
            bent = np.einsum("kyeu,kyeu->kye", change @ slope[np.ix_(at, at)] + 2 * pull[:, None, at], change)
            mean, cost = ((rows @ x)[:, None] + change @ x[at] for x in (self.p, prices))
            mean = np.where(mean > 0, mean, np.inf)  # a row without mass is worth nothing
            score = (((rows * pull).sum(1)[:, None] + bent) / mean - cost) / mean
            kind, best = np.divmod(score.transpose(1, 0, 2).reshape(len(y), -1).argmax(1), len(at) + 1)
            sets[:, at] = near[y, best]
            pull += change[kind, y, best] @ slope[at]
            rows[:, at] += change[kind, y, best]
        return self.unit(rows[rows @ self.p > 0])
