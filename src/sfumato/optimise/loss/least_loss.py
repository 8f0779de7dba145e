"""Least loss under bounded ratios: by cuts, by the cones of the pairs that need them, and at many levels."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.loss.cones import solve_by_cones
from sfumato.optimise.loss.problem import SHARPENING, LeastLoss, LossProblem, PairCuts, all_pairs, mended
from sfumato.optimise.loss.sources import FloorProgramme, Sources, least_distortion
from sfumato.tolerances import LEAST


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


# --- which engine, the cones of some pairs, and many levels at once ---------------------------------------------------


CUT_VALUES, CUT_RADIUS = 10, 1e-2  # |U| and radius up to which they do: measured at 8 × 8 and 15 × 5 against 5 × 8
FEW_SECRETS = 6  # up to which cones of all pairs at once are fastest, as most are tight, and from which cuts win
ROUGH = 1e-5  # accuracy of the solver where it only looks for the pairs that need their cones
NEARLY = 1e-2  # a ratio this close to e^ε earns a pair its exact cone


def engine_for(problem: LossProblem) -> str:
    """Linear problems by LP; many pairs of few values in a small ball by cuts; the others by cones."""
    if math.isinf(problem.privacy_radius):
        return "cuts"  # cones are those of a ball
    if problem.privacy_radius <= 0.0:
        return "cuts" if problem.utility_radius <= 0.0 else "cones"
    secrets, values = problem.p.shape
    flat = values <= CUT_VALUES and problem.radius <= CUT_RADIUS
    return "cuts" if flat and secrets >= FEW_SECRETS else "cones"


def least_loss(
    problem: LossProblem, *, engine: str = "auto", tolerance: float = 1e-6, budget: Budget = FREE,
    start: PairCuts | None = None,
) -> LeastLoss:
    """The mechanism with the least (worst-case) loss, with a proved bound."""
    if problem.epsilon <= 0.0 and problem.privacy_radius > 0.0:
        return best_constant(problem)
    if problem.epsilon**2 < REPAIRED and problem.privacy_radius > 0.0:  # mending takes more than such a level gives
        known = replace(best_constant(problem), bound=-math.inf)
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, start=start, known=known)
    chosen = engine_for(problem) if engine == "auto" or math.isinf(problem.privacy_radius) else engine
    if chosen == "cuts":
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, start=start)
    every = problem.privacy_radius <= 0.0 or problem.p.shape[0] <= FEW_SECRETS
    return solve_by_growing_cones(problem, every=every, tolerance=tolerance, budget=budget)


def best_constant(problem: LossProblem) -> LeastLoss:
    """The best law that ignores its input: least loss at ε = 0 about U."""
    found = least_distortion(Sources.of(problem.judged), problem.distance, 0.0)
    q = np.repeat(found.made[:, :1], problem.inputs, axis=1)
    return LeastLoss(q, problem.distortion(q)[0], found.bound, "constant")


def solve_by_growing_cones(
    problem: LossProblem, *, every: bool = False, tolerance: float = 1e-6, budget: Budget = FREE
) -> LeastLoss:
    """Cones for the pairs of secrets that need them (or for all): most constraints of a large table are slack.

    All pairs hold with the slack split in halves (2|Y||S| sides, cheap and nearly right); those that the answer breaks,
    or nearly, get the exact cone in the next, larger programme. Each is a relaxation, so each of them proves a bound.
    Now and then (about one small table in a hundred at n = 15,000) two secrets weigh so differently that prices are
    good to a few digits only, while the mechanism is right: cuts from the same members of F prove more.
    """
    pairs, e = all_pairs(problem.outputs, problem.p.shape[0]), float(np.exp(problem.epsilon))
    exact, best, began = np.full(len(pairs[0]), every), None, budget.left
    while True:
        chosen = pairs[0][exact], pairs[1][exact], pairs[2][exact]
        rough = best is None and not every
        found = solve_by_cones(problem, exact=chosen, tolerance=ROUGH if rough else REPAIRED, budget=budget)
        best, spent, began = found if best is None else _better(best, found), began - budget.left, budget.left
        if best.within(tolerance) or exact.all() or spent > budget.left:  # the next is no smaller
            break
        assert found.unmended is not None
        grown = exact | (problem.worst(found.unmended, pairs).ratio > e * (1.0 - NEARLY))
        if not rough and np.array_equal(grown, exact):
            break
        exact = grown
    if best.within(tolerance) or problem.privacy_radius <= 0.0 or budget.over:
        return best
    more = budget.part(1.0, SHARPENING)
    cut = solve_by_cuts(problem, tolerance=tolerance, budget=more, start=best.cuts, known=best)
    return replace(best, q=cut.q, value=cut.value, bound=cut.bound)


def _better(best: LeastLoss, found: LeastLoss) -> LeastLoss:
    """The mechanism of the lower value with the proof of the higher bound."""
    proof = found if found.bound >= best.bound else best
    made = found if found.value <= best.value else best
    return replace(proof, q=made.q, value=made.value, unmended=made.unmended)


def losses(
    problem: LossProblem, epsilons: Sequence[float], *, tolerance: float, seconds: float
) -> Iterator[LeastLoss]:
    """The answers at the given ε, in this order: neighbours in the list should be neighbours on the curve.

    Cones of few secrets are solved in threads, as Clarabel works without the interpreter's lock. Members of F do not
    contain ε, so cuts of one level start the next.
    """

    def answer(epsilon: float, start: PairCuts | None = None) -> LeastLoss:
        one = replace(problem, epsilon=float(epsilon))
        return least_loss(one, tolerance=tolerance, start=start, budget=Budget.of(seconds))

    if problem.p.shape[0] <= FEW_SECRETS and engine_for(problem) == "cones":
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            yield from pool.map(answer, epsilons)
        return
    start: PairCuts | None = None
    for epsilon in epsilons:
        found = answer(epsilon, start)
        start = found.cuts if found.engine == "cuts" else None
        yield found
