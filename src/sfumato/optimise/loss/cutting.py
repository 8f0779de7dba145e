"""Least loss by linear programmes: bounded ratios with floors, any distribution at once, and cuts over a ball."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, MARGIN, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import INFINITY, LinearProgramme, Solution
from sfumato.optimise.loss.problem import (
    LeastLoss,
    LossProblem,
    PairCuts,
    all_pairs,
    all_worst,
    constant,
    mended,
    merge_ghosts,
    priced,
)
from sfumato.optimise.repair import goal, lifted

# --- bounded ratios with a floor under every output -------------------------------------------------------------------


class FloorProgramme:
    """The LP over Q[y, x], floors m_y and the loss D, with m_y ≤ mean_k·Q(y|·) ≤ e m_y for the rows of mean[k, x].

    A floor for every output turns k² ratios into 2k rows. Whatever else is asked for is appended after them.
    """

    def __init__(
        self, outputs: int, mean: Floats, e: float, cost: Floats | None = None,
        ends: tuple[float, float] = (-INFINITY, INFINITY),
    ) -> None:
        """With cost[y, x] the loss is Σ cost·Q; without, it is D, which lies between `ends`."""
        (k, xs), size = mean.shape, outputs * mean.shape[1]
        self.shape, self.mean, self.e = (outputs, xs), mean, e
        first = np.zeros(size) if cost is None else cost.ravel()
        objective = np.concatenate([first, np.zeros(outputs), [float(cost is None)]])
        lower, upper = np.append(np.zeros(size + outputs), ends[0]), np.append(np.ones(size + outputs), ends[1])
        self.lp = LinearProgramme(objective, lower, upper)
        each, blank = sparse.eye(outputs), sparse.csr_matrix((outputs * k, 1))
        means, floor = sparse.kron(each, sparse.csr_matrix(mean)), sparse.kron(each, np.ones((k, 1)))
        sums = [sparse.kron(np.ones((1, outputs)), sparse.eye(xs)), sparse.csr_matrix((xs, outputs + 1))]
        self.lp.equal(sparse.hstack(sums), 1.0)
        self.lp.at_most(sparse.hstack([means, -e * floor, blank]))
        self.lp.at_most(sparse.hstack([-means, floor, blank]))
        self.base = self.lp.rows

    def lose(self, cost: Floats) -> None:
        """Append D ≥ Σ cost·Q for the costs [y, x] of one source."""
        self.lp.at_most(np.concatenate([cost.ravel(), np.zeros(self.shape[0]), [-1.0]])[None, :])

    def proved(self, solution: Solution, cost: Floats) -> float:
        """The loss from below by weak duality, whatever HiGHS says: prices of the floors, clipped to be valid.

        cost[y, x] is that of the priced source, with the priced rows that were appended; columns of Q lie in the
        simplex and floors in [0, 1].
        """
        price = np.maximum(-solution.row_dual[self.shape[1] : self.base], 0.0)
        up, down = price.reshape(2, self.shape[0], -1)
        floors = np.minimum(down.sum(axis=1) - self.e * up.sum(axis=1), 0.0).sum()
        return float((cost + (up - down) @ self.mean).min(axis=0).sum() + floors)


# --- whatever the distribution is: one linear programme ---------------------------------------------------------------
# P(y|s1) ≤ e^ε P(y|s2) for every distribution means Q(y|s1,u) ≤ e^ε Q(y|s2,u') for all u, u' and s1 ≠ s2 [000, Prop.
# 3]: with T_{ys} ≥ Q(y|s,·) ≥ B_{ys} that is T_{ys1} ≤ e^ε B_{ys2}. Rows of the same secret stay free, as in SRR.


def least_loss_anywhere(problem: LossProblem) -> LeastLoss:
    """The least E d(U, Y) at P̂, or at the worst input with robust utility, and a bound from the prices of the LP.

    Only the centre and the distances of the problem are used; its radius does not matter.
    """
    solution = _programme(problem).solve()
    q = _mended(problem, merge_ghosts(problem, problem.columns(solution.x)))
    return LeastLoss(q, _loss(problem, q), _bound(problem, solution), "lp")


def _programme(problem: LossProblem) -> LinearProgramme:
    """Over Q[y, x], T[y, s], B[y, s] and D; rows: sums, T − Q ≥ 0, Q − B ≥ 0, e^ε B − T ≥ 0, D − loss(s, u) ≥ 0."""
    ys, xs, (ss, us) = problem.outputs, problem.inputs, problem.p.shape
    size, sides, groups = ys * xs, ys * ss, ss if problem.reads_both else 1
    robust = problem.robust_utility
    cost = np.concatenate([np.zeros(size) if robust else problem.cost(problem.p).ravel(), np.zeros(2 * sides), [1.0]])
    top = float(problem.distance.max())
    lp = LinearProgramme(cost, np.zeros(len(cost)), np.append(np.ones(size + 2 * sides), top if robust else 0.0))
    sums = sparse.hstack([sparse.kron(np.ones((1, ys)), sparse.eye(xs)), sparse.csr_matrix((xs, 2 * sides + 1))])
    lp.equal(sums, 1.0)
    y, s, u = (x.ravel() for x in np.indices((ys, ss, us)))
    cell = sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), y * xs + (s % groups) * us + u)), (len(y), size))
    side = sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), y * ss + s)), (len(y), sides))
    empty = sparse.csr_matrix((len(y), sides))
    blank = sparse.csr_matrix((len(y), 1))
    lp.at_least(sparse.hstack([-cell, side, empty, blank]))
    lp.at_least(sparse.hstack([cell, empty, -side, blank]))
    at, first, second = all_pairs(ys, ss)
    k = np.arange(len(at))
    rows = np.concatenate([k, k])
    columns = np.concatenate([size + at * ss + first, size + sides + at * ss + second])
    values = np.concatenate([-np.ones(len(k)), np.full(len(k), np.exp(problem.epsilon))])
    lp.at_least(sparse.csr_matrix((values, (rows, columns)), (len(k), len(cost))))
    if robust:
        at_cell = (s * us + u, y * xs + (s % groups) * us + u)
        loss = sparse.csr_matrix((problem.distance[u, y], at_cell), (ss * us, size))
        lp.at_least(sparse.hstack([-loss, sparse.csr_matrix((ss * us, 2 * sides)), np.ones((ss * us, 1))]))
    return lp


def _bound(problem: LossProblem, solution: Solution) -> float:
    """Weak duality with prices clipped to be valid: Σ_x min_y of the priced cost, and boxes [0, 1] for T and B."""
    ys, xs, (ss, us) = problem.outputs, problem.inputs, problem.p.shape
    price = np.maximum(solution.row_dual[xs:], 0.0)
    cells = ys * ss * us
    up, down = price[:cells].reshape(ys, ss, us), price[cells : 2 * cells].reshape(ys, ss, us)
    at, first, second = all_pairs(ys, ss)
    pair = np.zeros((ys, ss, ss))
    pair[at, first, second] = price[2 * cells : 2 * cells + len(at)]
    p = problem.p
    if problem.robust_utility:
        shares = price[2 * cells + len(at) :].reshape(ss, us)
        p = shares / shares.sum() if shares.sum() > 0.0 else p
    extra = (up - down) if problem.reads_both else (up - down).sum(axis=1, keepdims=True)
    reduced = problem.cost(p) + extra.reshape(ys, xs)
    tops = pair.sum(axis=2) - up.sum(axis=2)
    bottoms = down.sum(axis=2) - np.exp(problem.epsilon) * pair.sum(axis=1)
    return float(reduced.min(axis=0).sum() + np.minimum(tops, 0.0).sum() + np.minimum(bottoms, 0.0).sum())


def _mended(problem: LossProblem, q: Floats) -> Floats:
    """Q with what its rows exceed paid by a constant law."""
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:
        return np.repeat(q.mean(axis=1)[:, None], problem.inputs, axis=1)
    e = float(np.exp(goal(problem.epsilon)))
    same = np.eye(problem.p.shape[0], dtype=bool)

    def excess(q: Floats) -> Floats:
        wide = problem.expand(q)
        over = wide.max(axis=2)[:, :, None] - e * wide.min(axis=2)[:, None, :]
        return np.asarray(np.where(same, 0.0, over).max(axis=(1, 2)))

    found = lifted(q, excess, e - 1.0)
    return constant(problem) if found is None else found


def _loss(problem: LossProblem, q: Floats) -> float:
    loss = np.einsum("ysu,uy->su", problem.expand(q), problem.distance)
    return float(loss.max() if problem.robust_utility else (problem.p * loss).sum())


# --- over a χ² ball: cutting planes, the pair oracle for privacy, the support function for robust utility -------------


PATIENCE = 6  # rounds a cut may be slack before it is dropped
VIOLATION = 1e-8  # relative excess of a ratio below which a pair is not cut again
INWARD = 0.5  # where the oracle looks, two rounds in three, between the best nearly private point and the LP optimum


def violated(problem: LossProblem, q: Floats) -> tuple[PairCuts, Floats]:
    """A constraint that Q breaks for every pair that breaks one, and the excess N − e^ε M of every output."""
    wide, e = problem.expand(q), float(np.exp(problem.epsilon))
    worst = all_worst(problem.ball, wide)
    worst = worst[np.flatnonzero(worst.ratio > e * (1.0 + VIOLATION))]
    return worst, worst.excess(wide, e)


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
        self.rounds = 0

    def begin(self, known: LeastLoss) -> None:
        """Go on from what is known."""
        self.inner, self.guess = known.q, known.value
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
                cuts, excess = violated(problem, look)
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
        stuck = search.separate(q) == 0 and not search.robust
        close = search.guess - search.low <= tolerance * max(abs(search.guess), scale)
        if close or late or stuck or search.guess < 0.5 * search.tried or search.rounds == 1:
            search.settle()
        if search.value - search.low <= tolerance * max(abs(search.value), scale) or late or stuck:
            return LeastLoss(search.best, search.value, search.low, "cuts", search.master.cuts)
