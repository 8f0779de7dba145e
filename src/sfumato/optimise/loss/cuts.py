"""Cutting planes: a growing LP, the pair oracle for privacy, the support function for robust utility."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import DUST, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import Solution
from sfumato.optimise.loss.floors import FloorProgramme
from sfumato.optimise.loss.mending import mended
from sfumato.optimise.loss.problem import LeastLoss, LossProblem, PairCuts, priced
from sfumato.optimise.loss.ratios import NEAR, at_angle, exactly_at, on_grid

PATIENCE = 6  # rounds a cut may be slack before it is dropped
EXACT = 1e-3  # relative gap below which the oracle is asked for exact maximisers
VIOLATION = 1e-8  # relative excess of a ratio below which a pair is not cut again
INWARD = 0.5  # where the oracle looks, two rounds in three, between the best nearly private point and the LP optimum


def violated(problem: LossProblem, q: Floats, exact: bool = False) -> tuple[PairCuts, Floats]:
    """A constraint that Q breaks for every pair that breaks one, and the excess N − e^ε M of every output.

    Splits come from a parabola through the grid (members of F all the same, and within 1e-4 of the worst) unless
    `exact` asks for the true maximum.
    """
    ball, wide, e = problem.ball, problem.expand(q), float(np.exp(problem.epsilon))
    rough = on_grid(ball, wide, e)
    y, s1, s2 = np.nonzero(rough.ratio > e * (1.0 - (NEAR / 2 if exact else NEAR / 25)))
    at = rough.angle[y, s1, s2]
    worst = exactly_at(ball, wide, y, s1, s2) if exact else at_angle(ball, wide, y, s1, s2, at)
    worst = worst[np.flatnonzero(worst.ratio > e * (1.0 + VIOLATION))]
    cuts = PairCuts(worst.y, worst.s1, worst.s2, worst.r1, worst.r2)
    first = np.einsum("ku,ku->k", cuts.r1, wide[cuts.y, cuts.s1])
    second = np.einsum("ku,ku->k", cuts.r2, wide[cuts.y, cuts.s2])
    excess = np.zeros(problem.outputs)
    np.maximum.at(excess, cuts.y, first - e * second)
    return cuts, excess


class CuttingProgramme(FloorProgramme):
    """The relaxation: the ratios of means at P̂, and the cuts and sources that were met so far."""

    def __init__(self, problem: LossProblem) -> None:
        ball, us = problem.ball, problem.p.shape[1]
        occupied = np.flatnonzero(ball.marginal > 0.0)
        mean = np.zeros((len(occupied), problem.inputs))
        for i, s in enumerate(occupied):
            start = s * us if problem.reads_both else 0
            mean[i, start : start + us] = ball.conditional[s]
        cost = None if problem.utility_radius > 0.0 else problem.cost(problem.p)
        ends = float(problem.distance.min()), float(problem.distance.max())
        super().__init__(problem.outputs, mean, float(np.exp(problem.epsilon)), cost, ends)
        self.problem = problem
        self.cuts, self.age = PairCuts.none(us), np.zeros(0, dtype=np.int64)
        self.sources: list[Floats] = []
        self.order: list[int] = []  # row kinds after the base: 0 a privacy cut, 1 a utility cut

    def cut(self, cuts: PairCuts) -> None:
        """Add privacy cuts."""
        if len(cuts) == 0:
            return
        self.lp.at_most(cuts.rows(self.problem, self.problem.outputs + 1))
        self.cuts = self.cuts + cuts
        self.age = np.concatenate([self.age, np.zeros(len(cuts), dtype=np.int64)])
        self.order += [0] * len(cuts)

    def source(self, p: Floats) -> None:
        """Add D ≥ Σ c(P) Q."""
        self.lose(self.problem.cost(p))
        self.sources.append(p)
        self.order.append(1)

    def tidy(self, solution: Solution) -> None:
        """Drop privacy cuts that have had no price for a while."""
        kinds = np.array(self.order)
        price = -solution.row_dual[self.base :]
        rows = np.flatnonzero(kinds == 0)
        self.age = np.where(price[rows] > DUST, 0, self.age + 1)
        stale = self.age > PATIENCE
        if stale.sum() < 0.1 * max(1, len(stale)):
            return
        self.lp.drop(rows[stale] + self.base)
        self.cuts, self.age = self.cuts[np.flatnonzero(~stale)], self.age[~stale]
        self.order = np.delete(kinds, rows[stale]).tolist()

    def certify(self, solution: Solution) -> float:
        """The bound that the prices prove, recomputed from scratch: the LP's own number is not trusted."""
        price, kinds = np.maximum(-solution.row_dual[self.base :], 0.0), np.array(self.order, dtype=np.int64)
        weights, shares, p = price[kinds == 0], price[kinds == 1], self.problem.p
        if self.sources:
            shares = shares / shares.sum() if shares.sum() > 0.0 else np.eye(len(self.sources))[0]
            p = np.einsum("k,ksu->su", shares, np.array(self.sources))
        return self.proved(solution, priced(self.problem, self.cuts, weights, p))


class CuttingSearch:
    """Kelley's method with in-out separation on one problem: what is known so far, and one more round."""

    def __init__(self, problem: LossProblem, start: PairCuts | None) -> None:
        self.problem, self.master = problem, CuttingProgramme(problem)
        self.robust = problem.utility_radius > 0.0
        if self.robust:
            self.master.source(problem.p)
        if start is not None and problem.ball.radius > 0.0:
            self.master.cut(start)
        self.inner, self.guess = np.zeros((0, 0)), np.inf  # a nearly private point, not yet mended
        self.best, self.value, self.low, self.tried = np.zeros((0, 0)), np.inf, -np.inf, np.inf
        self.rounds, self.exact = 0, False

    def begin(self, known: LeastLoss) -> None:
        """Go on from what is known; its digits are good, so every maximiser is asked for exactly."""
        self.inner, self.guess, self.exact = known.q, known.value, True
        self.best, self.value, self.low = known.q, known.value, known.bound
        if self.robust and known.source is not None:
            self.master.source(known.source)

    def relaxed(self) -> Floats:
        """The optimum of the relaxation; its prices raise the bound."""
        solution = self.master.lp.solve()
        self.low = max(self.low, self.master.certify(solution))
        self.master.tidy(solution)
        return self.problem.columns(solution.x)

    def separate(self, q: Floats) -> int:
        """Cut off q, or a point on the way to it from inside; the number of fresh cuts."""
        problem, fresh = self.problem, 0
        rise = max(float(np.expm1(problem.epsilon)), 1e-300)
        for inward in (INWARD, 1.0) if self.inner.size and self.rounds % 3 else (1.0,):
            look = inward * q + (1.0 - inward) * self.inner if inward < 1.0 else q
            add = np.zeros(problem.outputs)
            if problem.ball.radius > 0.0:
                cuts, excess = violated(problem, look, self.exact)
                self.master.cut(cuts)
                fresh += len(cuts)
                add = excess / rise
            near = (look + add[:, None]) / (1.0 + add.sum())
            reached = problem.distortion(near)[0]
            if reached < self.guess:
                self.inner, self.guess = near, reached
            if self.robust:
                self.master.source(problem.distortion(look)[1])
            if fresh:
                break
        return fresh

    def settle(self) -> None:
        """Mend the best nearly private point and keep it if it is the best."""
        self.tried = min(self.tried, self.guess)
        q = mended(self.problem, self.inner)
        reached = self.problem.distortion(q)[0]
        if reached < self.value:
            self.best, self.value = q, reached

    def sharpen(self) -> None:
        """Close to the end guesses must be true: forget the rough one and ask for exact maximisers."""
        if not self.exact and self.guess - self.low < EXACT * abs(self.guess):
            self.exact, self.inner = True, mended(self.problem, self.inner)
            self.guess = self.problem.distortion(self.inner)[0]


def solve_by_cuts(
    problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE, start: PairCuts | None = None,
    known: LeastLoss | None = None,
) -> LeastLoss:
    """Mended value and proved bound until they agree to `tolerance`, or the time is over.

    Only (R1, R2) ∈ F_{U|s1,s2} ever enter as cuts, so every LP is a relaxation and its prices prove a bound.
    """
    search = CuttingSearch(problem, start)
    if known is not None:
        search.begin(known)
    scale = max(1e-9, 1e-6 * float(np.abs(problem.distance).max()))
    while True:
        search.rounds += 1
        q = search.relaxed()
        late = budget.over
        search.sharpen()
        stuck = search.separate(q) == 0 and not search.robust
        close = search.guess - search.low <= tolerance * max(abs(search.guess), scale)
        if close or late or stuck or search.guess < 0.5 * search.tried or search.rounds == 1:
            search.settle()
        if search.value - search.low <= tolerance * max(abs(search.value), scale) or late or stuck:
            return LeastLoss(search.best, search.value, search.low, "cuts", search.master.cuts)
