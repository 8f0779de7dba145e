"""Least loss under bounded ratios: by cuts, or by the cones of the pairs that need them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, Floats
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.loss.cones import solve_by_cones
from sfumato.optimise.loss.problem import SHARPENING, LeastLoss, LossProblem, all_pairs, mended
from sfumato.optimise.loss.sources import FloorProgramme, Sources, least_distortion

NEARLY = 1e-2  # a ratio this close to e^ε earns a pair its exact cone


def centred(problem: LossProblem) -> FloorProgramme:
    """The ratios of means at P̂, or of any input against any other where all distributions may occur [000, Prop. 3]."""
    (ss, us), own = problem.p.shape, None
    if math.isinf(problem.privacy_radius):
        mean, own = np.eye(problem.inputs), np.repeat(np.arange(ss), us) if problem.reads_both else None
    else:
        seen = problem.marginal > 0.0
        mean = problem.conditional[seen]
        if problem.reads_both:
            mean = np.einsum("st,su->stu", np.eye(ss)[seen], mean).reshape(-1, problem.inputs)
    ends = float(problem.distance.min()), float(problem.distance.max())
    robust = problem.utility_radius > 0.0
    return FloorProgramme(mean, float(np.exp(problem.epsilon)), problem.cost(problem.p), ends if robust else None, own)


class CuttingSearch:
    """Kelley's method with in-out separation on one problem: what is known so far, and one more round.

    Only (R1, R2) ∈ F_{U|s1,s2} ever enter as cuts, so every LP is a relaxation and its prices prove a bound.
    """

    def __init__(self, problem: LossProblem, known: LeastLoss) -> None:
        self.problem, self.master, self.best = problem, centred(problem), known
        self.curved, self.robust = 0.0 < problem.privacy_radius < math.inf, problem.utility_radius > 0.0
        self.scale = max(REPAIRED, 1e-6 * float(np.abs(problem.distance).max()))  # of losses that vanish
        if self.robust:  # all sources there are where any distribution may occur
            free = math.isinf(problem.utility_radius)
            for p in np.eye(problem.p.size).reshape(-1, *problem.p.shape) if free else [problem.p]:
                self.source(p)
            if known.source is not None:
                self.source(known.source)
        if known.cuts is not None and self.curved:
            self.master.at_most(known.cuts.rows(problem))

    def source(self, p: Floats) -> None:
        """Add D ≥ Σ c(P) Q."""
        self.master.at_most(self.master.loss(self.problem.cost(p))[None, :])

    def turn(self) -> bool:
        """The optimum of the relaxation, whose prices prove a bound, is mended; it and the point half way to it from
        inside are cut off. Whether this brought a cut, a source that it did not see, a bound or a better point."""
        before, solution = self.best, self.master.solve()
        self.best = replace(before, bound=max(before.bound, self.master.proved(solution)))
        q = self.problem.columns(solution.x)
        made = mended(self.problem, q)
        value = self.problem.distortion(made)[0]
        if value < before.value:
            self.best = replace(self.best, q=made, value=value)
        fresh = self.separate(0.5 * (q + before.q)) + self.separate(q)
        unseen = self.problem.distortion(q)[0] - solution.value
        if fresh > 0 or unseen > max(REPAIRED, SEALING * abs(solution.value)):
            return True
        return max(self.best.bound - before.bound, before.value - self.best.value) > DUST * self.scale

    def separate(self, q: Floats) -> int:
        """A cut for every pair at which q breaks a constraint, by more than sealing leaves room for anyway."""
        if self.robust:
            self.source(self.problem.distortion(q)[1])
        if not self.curved:
            return 0
        cuts, ratio = self.problem.worst(q)
        cuts = cuts[np.flatnonzero(ratio > np.exp(self.problem.epsilon) * (1.0 + SEALING))]
        if len(cuts):
            self.master.at_most(cuts.rows(self.problem))
        return len(cuts)


def solve_by_cuts(
    problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE, known: LeastLoss | None = None
) -> LeastLoss:
    """Mended value and proved bound until they agree to `tolerance`, nothing more comes, or the time is over."""
    even = np.full((problem.outputs, problem.inputs), 1.0 / problem.outputs)
    search = CuttingSearch(problem, known or LeastLoss(even, math.inf, -math.inf, "cuts"))
    while search.turn() and not budget.over:
        best = search.best
        if best.value - best.bound <= tolerance * max(abs(best.value), search.scale):
            break
    return search.best


# --- which engine, and the cones of some pairs ------------------------------------------------------------------------


def least_loss(
    problem: LossProblem, *, engine: str = "auto", tolerance: float = 1e-6, budget: Budget = FREE
) -> LeastLoss:
    """The mechanism with the least (worst-case) loss, with a proved bound: linear problems by LP, others by cones."""
    if problem.epsilon <= 0.0 and problem.privacy_radius > 0.0:
        return best_constant(problem)
    if problem.epsilon**2 < REPAIRED and problem.privacy_radius > 0.0:  # mending takes more than such a level gives
        known = replace(best_constant(problem), bound=-math.inf, engine="cuts")
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, known=known)
    linear = math.isinf(problem.privacy_radius) or max(problem.privacy_radius, problem.utility_radius) <= 0.0
    by_cuts = linear if engine == "auto" else math.isinf(problem.privacy_radius) or engine == "cuts"
    return (solve_by_cuts if by_cuts else solve_by_growing_cones)(problem, tolerance=tolerance, budget=budget)


def best_constant(problem: LossProblem) -> LeastLoss:
    """The best law that ignores its input: least loss at ε = 0 about U."""
    found = least_distortion(Sources.of(problem.judged), problem.distance, 0.0)
    q = np.repeat(found.made[:, :1], problem.inputs, axis=1)
    return LeastLoss(q, problem.distortion(q)[0], found.bound, "constant")


def solve_by_growing_cones(problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE) -> LeastLoss:
    """Cones for the pairs of secrets that need them: most constraints of a large table are slack.

    All pairs hold with the slack split in halves (2|Y||S| sides, cheap and nearly right); those that the answer breaks,
    or nearly, get the exact cone in the next, larger programme. Each is a relaxation, so each of them proves a bound.
    Now and then (about one small table in a hundred at n = 15,000) two secrets weigh so differently that prices are
    good to a few digits only, while the mechanism is right: cuts from the same members of F prove more.
    """
    (y, s1, s2), e = all_pairs(problem.outputs, problem.p.shape[0]), float(np.exp(problem.epsilon))
    exact, best = np.full(len(y), problem.privacy_radius <= 0.0), None
    while True:
        found = solve_by_cones(problem, exact=(y[exact], s1[exact], s2[exact]), budget=budget)
        best = found if best is None else _better(best, found)
        if best.within(tolerance) or exact.all() or budget.over:
            break
        assert found.unmended is not None
        grown = exact | (problem.worst(found.unmended, (y, s1, s2))[1] > e * (1.0 - NEARLY))
        if np.array_equal(grown, exact):
            break
        exact = grown
    if best.within(tolerance) or problem.privacy_radius <= 0.0 or budget.over:
        return best
    return solve_by_cuts(problem, tolerance=tolerance, budget=budget.part(1.0, SHARPENING), known=best)


def _better(best: LeastLoss, found: LeastLoss) -> LeastLoss:
    """The mechanism of the lower value with the proof of the higher bound."""
    proof = found if found.bound >= best.bound else best
    made = found if found.value <= best.value else best
    return replace(proof, q=made.q, value=made.value, unmended=made.unmended)
