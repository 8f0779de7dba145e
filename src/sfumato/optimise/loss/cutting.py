"""Least loss by linear programmes: bounded ratios with floors, which are all there is to it at P̂ or over every
distribution, and cuts over a ball."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, Floats, Ints
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.laws import LawProgramme
from sfumato.optimise.loss.problem import LeastLoss, LossProblem, PairCuts, mended
from sfumato.tolerances import LEAST

# --- bounded ratios with a floor under every output -------------------------------------------------------------------


class FloorProgramme(LawProgramme):
    """The LP over Q[y, x], floors f and the loss D, with mean_k·Q(y|·) ≤ e mean_l·Q(y|·) for the rows of mean[k, x].

    One floor for every output turns k² ratios into 2k rows: f_y ≤ mean_k·Q(y|·) ≤ e f_y. Where means of the same
    secret are not compared (`own` says whose each is), every secret has a top and a bottom, B_ys ≤ mean_k·Q ≤ T_ys,
    and T_ys1 ≤ e B_ys2 for s1 ≠ s2. Whatever else is asked for is appended after these rows.
    """

    def __init__(
        self, mean: Floats, e: float, cost: Floats, ends: tuple[float, float] | None = None, own: Ints | None = None
    ) -> None:
        """The loss is Σ cost·Q for cost[y, x]; with `ends` it is D, which lies between them."""
        super().__init__()
        (ys, xs), (high, low, apart) = cost.shape, _floors(len(mean), e, own)
        self.laws(cost if ends is None else np.zeros(cost.shape))
        self.box(ys * high.shape[1])
        for means, floors in ((mean, -high), (-mean, low), (np.zeros((len(apart), xs)), apart)):
            self.at_most(sparse.hstack([sparse.kron(sparse.eye(ys), sparse.csr_matrix(x)) for x in (means, floors)]))
        if ends is not None:
            self.box(1, 1.0, *ends)

    def loss(self, cost: Floats) -> Floats:
        """The row of D ≥ Σ cost·Q for the costs [y, x] of one source."""
        return np.concatenate([cost.ravel(), np.zeros(self.size - cost.size - 1), [-1.0]])


def _floors(means: int, e: float, own: Ints | None) -> tuple[Floats, Floats, Floats]:
    """How floors enter above and below each mean, and the rows that hold them together: [·, floor of an output]."""
    if own is None:
        return np.full((means, 1), e), np.ones((means, 1)), np.zeros((0, 1))
    one = np.eye(int(own.max()) + 1)
    first, second = np.nonzero(1.0 - one)
    blank = np.zeros((means, len(one)))
    return np.hstack([one[own], blank]), np.hstack([blank, one[own]]), np.hstack([one[first], -e * one[second]])


def centred(problem: LossProblem) -> FloorProgramme:
    """The ratios of means at P̂, or of any input against any other where all distributions may occur [000, Prop. 3]."""
    (ss, us), own = problem.p.shape, None
    if np.isinf(problem.privacy_radius):
        mean, own = np.eye(problem.inputs), np.repeat(np.arange(ss), us) if problem.reads_both else None
    else:
        seen = problem.marginal > 0.0
        mean = problem.conditional[seen]
        if problem.reads_both:
            mean = np.einsum("st,su->stu", np.eye(ss)[seen], mean).reshape(-1, problem.inputs)
    ends = float(problem.distance.min()), float(problem.distance.max())
    robust = problem.utility_radius > 0.0
    return FloorProgramme(mean, float(np.exp(problem.epsilon)), problem.cost(problem.p), ends if robust else None, own)


# --- over a χ² ball: cutting planes, the pair oracle for privacy, the support function for robust utility -------------


LOOKS = 3  # rounds in which each looks from another place, and it ends when none brings a cut, bound or better point


def violated(problem: LossProblem, q: Floats) -> tuple[PairCuts, Floats]:
    """A constraint that Q breaks for every pair that breaks one, and the excess N − e^ε M of every output.

    What sealing leaves room for anyway is not cut again.
    """
    e, worst = float(np.exp(problem.epsilon)), problem.worst(q)
    worst = worst[np.flatnonzero(worst.ratio > e * (1.0 + SEALING))]
    return worst, worst.excess(problem.expand(q), e)


class CuttingSearch:
    """Kelley's method with in-out separation on one problem: what is known so far, and one more round."""

    def __init__(self, problem: LossProblem, start: PairCuts | None, known: LeastLoss | None) -> None:
        self.problem, self.master, self.cuts = problem, centred(problem), PairCuts.none(problem.p.shape[1])
        self.robust = problem.utility_radius > 0.0
        for p in problem.corners if self.robust else ():
            self.source(p)
        if start is not None and problem.privacy_radius > 0.0:
            self.cut(start)
        self.inner, self.guess = np.zeros((0, 0)), np.inf  # a nearly private point, not yet mended
        self.best, self.value, self.low = self.inner, np.inf, -np.inf
        if known is not None:
            self.inner, self.guess = known.q, known.value
            self.best, self.value, self.low = known.q, known.value, known.bound
            if self.robust and known.source is not None:
                self.source(known.source)

    def cut(self, cuts: PairCuts) -> None:
        """Add privacy cuts."""
        if len(cuts):
            self.master.at_most(cuts.rows(self.problem))
            self.cuts = self.cuts + cuts

    def source(self, p: Floats) -> None:
        """Add D ≥ Σ c(P) Q."""
        self.master.at_most(self.master.loss(self.problem.cost(p))[None, :])

    def relaxed(self) -> Floats:
        """The optimum of the relaxation; its prices raise the bound."""
        solution = self.master.solve()
        self.low = max(self.low, self.master.proved(solution))
        return self.problem.columns(solution.x)

    def separate(self, q: Floats, halfway: bool) -> int:
        """Cut off q, or the point half way to it from inside; the number of fresh cuts."""
        problem, fresh = self.problem, 0
        rise = max(float(np.expm1(problem.epsilon)), LEAST)
        for look in (0.5 * (q + self.inner), q) if self.inner.size and halfway else (q,):
            add = np.zeros(problem.outputs)
            if problem.privacy_radius > 0.0:
                cuts, excess = violated(problem, look)
                self.cut(cuts)
                fresh += len(cuts)
                add = excess / rise
            near = (look + add[:, None]) / (1.0 + add.sum())
            reached = problem.distortion(near)[0]
            if reached < self.guess:
                self.inner, self.guess = near, reached
            if self.robust:
                self.source(problem.distortion(look)[1])
            if fresh:
                break
        return fresh

    def settle(self) -> None:
        """Mend the best nearly private point and keep it if it is the best."""
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
    search, turn, idle = CuttingSearch(problem, start, known), 0, 0
    scale = max(REPAIRED, 1e-6 * float(np.abs(problem.distance).max()))
    while True:
        turn += 1
        before = search.low, search.guess
        q = search.relaxed()
        late, fresh = budget.over, search.separate(q, turn % LOOKS > 0)
        better = max(search.low - before[0], before[1] - search.guess) > DUST * scale
        idle = 0 if fresh or better else idle + 1
        done = late or (fresh == 0 and (not search.robust or idle == LOOKS))
        if done or search.guess - search.low <= tolerance * max(abs(search.guess), scale):
            search.settle()
            if done or search.value - search.low <= tolerance * max(abs(search.value), scale):
                return LeastLoss(search.best, search.value, search.low, "cuts", search.cuts)
