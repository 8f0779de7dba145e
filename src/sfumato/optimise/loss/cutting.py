"""Least loss by linear programmes: bounded ratios with floors, which are all there is to it at P̂ or over every
distribution, and cuts over a ball."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, Floats, Ints
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import INFINITY, LinearProgramme, Solution
from sfumato.optimise.loss.problem import LeastLoss, LossProblem, PairCuts, mended, priced
from sfumato.tolerances import LEAST

# --- bounded ratios with a floor under every output -------------------------------------------------------------------


class FloorProgramme:
    """The LP over Q[y, x], floors f and the loss D, with mean_k·Q(y|·) ≤ e mean_l·Q(y|·) for the rows of mean[k, x].

    One floor for every output turns k² ratios into 2k rows: f_y ≤ mean_k·Q(y|·) ≤ e f_y. Where means of the same
    secret are not compared (`own` says whose each is), every secret has a top and a bottom, B_ys ≤ mean_k·Q ≤ T_ys,
    and T_ys1 ≤ e B_ys2 for s1 ≠ s2. Whatever else is asked for is appended after these rows.
    """

    def __init__(
        self, outputs: int, mean: Floats, e: float, cost: Floats | None = None,
        ends: tuple[float, float] = (-INFINITY, INFINITY), own: Ints | None = None,
    ) -> None:
        """With cost[y, x] the loss is Σ cost·Q; without, it is D, which lies between `ends`."""
        xs, size = mean.shape[1], outputs * mean.shape[1]
        self.outputs, self.mean = outputs, mean
        self.high, self.low, self.apart = _floors(len(mean), e, own)
        self.extra = outputs * self.high.shape[1] + 1  # variables after Q
        first = np.zeros(size) if cost is None else cost.ravel()
        objective = np.concatenate([first, np.zeros(self.extra - 1), [float(cost is None)]])
        lower, upper = (np.append(np.full(len(objective) - 1, x), end) for x, end in zip((0.0, 1.0), ends, strict=True))
        self.lp = LinearProgramme(objective, lower, upper)
        sums = sparse.kron(np.ones((1, outputs)), sparse.eye(xs))
        self.lp.equal(sparse.hstack([sums, sparse.csr_matrix((xs, self.extra))]), 1.0)
        blank = np.zeros((len(self.apart), xs))
        for means, floors in ((mean, -self.high), (-mean, self.low), (blank, self.apart)):
            sides = [sparse.kron(sparse.eye(outputs), sparse.csr_matrix(x)) for x in (means, floors)]
            self.lp.at_most(sparse.hstack([*sides, sparse.csr_matrix((outputs * len(means), 1))]))
        self.base = self.lp.rows

    def loss(self, cost: Floats) -> Floats:
        """The row of D ≥ Σ cost·Q for the costs [y, x] of one source."""
        return np.concatenate([cost.ravel(), np.zeros(self.extra - 1), [-1.0]])

    def proved(self, solution: Solution, cost: Floats) -> float:
        """The loss from below by weak duality, whatever HiGHS says: prices of the floors, clipped to be valid.

        cost[y, x] is that of the priced source, with the priced rows that were appended; columns of Q lie in the
        simplex and floors in [0, 1].
        """
        price = np.maximum(-solution.row_dual[self.mean.shape[1] : self.base], 0.0)
        count = self.outputs * len(self.mean)
        up, down, apart = (x.reshape(self.outputs, -1) for x in np.split(price, [count, 2 * count]))
        floors = np.minimum(down @ self.low - up @ self.high + apart @ self.apart, 0.0).sum()
        return float((cost + (up - down) @ self.mean).min(axis=0).sum() + floors)


def _floors(means: int, e: float, own: Ints | None) -> tuple[Floats, Floats, Floats]:
    """How floors enter above and below each mean, and the rows that hold them together: [·, floor of an output]."""
    if own is None:
        return np.full((means, 1), e), np.ones((means, 1)), np.zeros((0, 1))
    one = np.eye(int(own.max()) + 1)
    first, second = np.nonzero(1.0 - one)
    blank = np.zeros((means, len(one)))
    return np.hstack([one[own], blank]), np.hstack([blank, one[own]]), np.hstack([one[first], -e * one[second]])


# --- over a χ² ball: cutting planes, the pair oracle for privacy, the support function for robust utility -------------


SLACK_ROUNDS = 6  # rounds a cut may be slack before it is dropped
LOOKS = 3  # rounds in which each looks from another place, and it ends when none brings a cut, bound or better point


def violated(problem: LossProblem, q: Floats) -> tuple[PairCuts, Floats]:
    """A constraint that Q breaks for every pair that breaks one, and the excess N − e^ε M of every output.

    What sealing leaves room for anyway is not cut again.
    """
    e, worst = float(np.exp(problem.epsilon)), problem.worst(q)
    worst = worst[np.flatnonzero(worst.ratio > e * (1.0 + SEALING))]
    return worst, worst.excess(problem.expand(q), e)


class CuttingProgramme(FloorProgramme):
    """The relaxation: the ratios of means at P̂, and the cuts and sources that were met so far."""

    def __init__(self, problem: LossProblem) -> None:
        (ss, us), e = problem.p.shape, float(np.exp(problem.epsilon))
        own = None
        if np.isinf(problem.radius) and problem.robust_privacy:  # any input against any other [000, Prop. 3]
            mean, own = np.eye(problem.inputs), np.repeat(np.arange(ss), us) if problem.reads_both else None
        else:
            mean = problem.conditional[problem.marginal > 0.0]
            if problem.reads_both:
                mean = np.einsum("st,su->stu", np.eye(ss)[problem.marginal > 0.0], mean).reshape(-1, problem.inputs)
        cost = None if problem.utility_radius > 0.0 else problem.cost(problem.p)
        ends = float(problem.distance.min()), float(problem.distance.max())
        super().__init__(problem.outputs, mean, e, cost, ends, own)
        self.problem = problem
        self.cuts, self.age = PairCuts.none(us), np.zeros(0, dtype=np.int64)
        self.sources: list[Floats] = []
        self.order: list[int] = []  # row kinds after the base: 0 a privacy cut, 1 a utility cut

    def cut(self, cuts: PairCuts) -> None:
        """Add privacy cuts."""
        if len(cuts) == 0:
            return
        self.lp.at_most(cuts.rows(self.problem, self.extra))
        self.cuts = self.cuts + cuts
        self.age = np.concatenate([self.age, np.zeros(len(cuts), dtype=np.int64)])
        self.order += [0] * len(cuts)

    def source(self, p: Floats) -> None:
        """Add D ≥ Σ c(P) Q."""
        self.lp.at_most(self.loss(self.problem.cost(p))[None, :])
        self.sources.append(p)
        self.order.append(1)

    def tidy(self, solution: Solution) -> None:
        """Drop privacy cuts that have had no price for a while."""
        kinds = np.array(self.order)
        price = -solution.row_dual[self.base :]
        rows = np.flatnonzero(kinds == 0)
        self.age = np.where(price[rows] > DUST, 0, self.age + 1)
        stale = self.age > SLACK_ROUNDS
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
        for p in problem.corners if self.robust else ():
            self.master.source(p)
        if start is not None and problem.privacy_radius > 0.0:
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
        """Cut off q, or (two rounds in three) the point half way to it from inside; the number of fresh cuts."""
        problem, fresh = self.problem, 0
        rise = max(float(np.expm1(problem.epsilon)), LEAST)
        for look in (0.5 * (q + self.inner), q) if self.inner.size and self.rounds % LOOKS else (q,):
            add = np.zeros(problem.outputs)
            if problem.privacy_radius > 0.0:
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
    scale, idle = max(REPAIRED, 1e-6 * float(np.abs(problem.distance).max())), 0
    while True:
        search.rounds += 1
        before = search.low, search.guess
        q = search.relaxed()
        late, fresh = budget.over, search.separate(q)
        better = max(search.low - before[0], before[1] - search.guess) > DUST * scale
        idle = 0 if fresh or better else idle + 1
        stuck = fresh == 0 and (not search.robust or idle == LOOKS)
        close = search.guess - search.low <= tolerance * max(abs(search.guess), scale)
        if close or late or stuck or search.guess < 0.5 * search.tried or search.rounds == 1:
            search.settle()
        if search.value - search.low <= tolerance * max(abs(search.value), scale) or late or stuck:
            return LeastLoss(search.best, search.value, search.low, "cuts", search.master.cuts)
