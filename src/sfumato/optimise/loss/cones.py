"""The four distortion problems as one second-order cone programme, and a proved bound from its multipliers.

Per (y, s1, s2) the support function of F_{U|s1,s2} at (Q1, −e^ε Q2) is at most 0 [002, Thm 3; errata 002]:
μ1 + μ2 ≤ T, x1 = μ1 − Q1 ≥ 0, x2 = μ2 + e^ε Q2 ≥ 0, L ≤ (Σ_u p_{u|s} √x)², f³ ≤ T² L, Σ_i (p_{s_i}/C)^{2/3} f_i ≥ T.
For a small ball all of these are large numbers that nearly cancel (μ ~ B^{−1/2}), and a solver loses their difference.
So the programme is written in what is left after cancelling, with a = p_s/C, β = 1 − a1 − a2, μ = L + ν, L = a(T + λ),
f = a^{1/3}(T + φ), √(Lf) ≥ a^{2/3}(T + ω), and k = ν − Q1 or ν + e^ε Q2, so that x = L + k:
h² ≤ L (k − 2h), Σ p h ≥ 0; φ² ≤ T (ω − 2φ); (λ − φ)²/4 ≤ (σ − ω)(2T + σ + ω), σ = (λ + φ)/2;
a1 φ1 + a2 φ2 ≥ β T ≥ Σ_i (a_i λ_i + ν_i). With r = √β the variables are T r, λ/r, φ/r, ω/r and l = L r, all of
one size. Where p = 0 the cone alone remains: some h has h² ≤ L (k − 2h) iff x ≥ 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.optimise.arrays import REPAIRED, Floats, Ints
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.conic import ConicProgramme, LawProgramme
from sfumato.optimise.loss.problem import LeastLoss, LossProblem, PairCuts, PairIndex, all_pairs, mended
from sfumato.uncertainty.chi_square import spread_of

SHARES = (0.0, *(4.0**-k for k in range(26, -1, -1)))  # of P̂ to mix in, until a point is inside the ball
Reader = Callable[[Floats], tuple[PairCuts, Floats]]  # from multipliers to members of F with their prices


@dataclass(frozen=True, slots=True)
class ConeCells:
    """The first row of the cone of cell [k, u], and how k enters it: enough to read the price of x."""

    row: Ints
    scale: Floats

    def prices(self, z: Floats) -> Floats:
        """Multipliers of x: k enters the first row of a cone with +scale and the second with −scale."""
        return np.asarray(np.maximum(self.scale * (z[self.row] - z[self.row + 1]), 0.0))


@dataclass(slots=True)
class LossProgramme(ConicProgramme):
    """The programme of a problem while it grows: Q[y, x] first, then what each constraint needs."""

    problem: LossProblem = field(kw_only=True)

    def cells(self, p: Floats, r: Floats, nu: Ints, length: Ints, columns: Ints, values: Floats) -> ConeCells:
        """l ≤ r·(Σ_u p √x)², x = l/r + ν + Σ values·Q ≥ 0; p[k, u], columns and values [k, u, terms]."""
        pair, cell = (x.ravel() for x in np.indices(p.shape))
        h, one, share = self.fresh(p.size), np.ones(p.size), 1.0 / np.sqrt(r[pair])
        kept = [(columns[pair, cell, i], share * values[pair, cell, i]) for i in range(columns.shape[2])]
        row = self.products([(length[pair], share)], [(nu[pair], share), *kept, (h, -2.0 * share)], [(h, one)])
        if (live := np.flatnonzero(p.ravel())).size:
            heads, line = np.unique(pair[live], return_inverse=True)
            self.nonnegative(line, h[live], p.ravel()[live], np.zeros(len(heads)))
        return ConeCells(row.reshape(p.shape), share.reshape(p.shape))

    def side(self, y: Ints, s: Ints, factor: float, r: Floats) -> tuple[Ints, Ints, ConeCells]:
        """ν, l and cells of factor·Q(y|s,·) for every entry."""
        problem, count = self.problem, len(y)
        nu, length, us = self.fresh(count), self.fresh(count), problem.p.shape[1]
        start = y * problem.inputs + (s * us if problem.reads_both else 0)
        columns = (start[:, None] + np.arange(us))[:, :, None]
        p = problem.conditional[s]
        return nu, length, self.cells(p, r, nu, length, columns, np.full((count, us, 1), factor))

    def stretched(self, t: Ints, length: Ints, a: Floats, beta: Floats) -> tuple[Ints, Ints]:
        """λ and φ with L = a(T + λ) and f = a^{1/3}(T + φ), f³ ≤ T² L, for every entry."""
        lam, phi, omega = (self.fresh(len(t)) for _ in range(3))
        one, half, r = np.ones(len(t)), np.full(len(t), 0.5), np.sqrt(beta)
        self.hold([(length, one), (t, -a), (lam, -a * beta)], equal=True)
        self.products([(t, one)], [(omega, one), (phi, -2.0 * one)], [(phi, r)])
        self.products(
            [(lam, half), (phi, half), (omega, -one)],
            [(t, 2.0 * one), (lam, half * beta), (phi, half * beta), (omega, beta)],
            [(lam, half * r), (phi, -half * r)],
        )
        return lam, phi


# --- constraints: each is put into the programme, and reads members of F with their prices from its multipliers -------


def at_centre(programme: LossProgramme) -> Reader:
    """P̂ alone, for every output and pair of secrets that occur."""
    problem = programme.problem
    y, s1, s2 = all_pairs(problem.outputs, problem.p.shape[0])
    cuts = PairCuts(y, s1, s2, problem.conditional[s1], problem.conditional[s2])
    cuts = cuts[np.flatnonzero((problem.marginal[s1] > 0.0) & (problem.marginal[s2] > 0.0))]
    rows = cuts.rows(problem).tocoo()
    fixed = programme.nonnegative(
        rows.row.astype(np.int64), rows.col.astype(np.int64), -rows.data, np.zeros(len(cuts))
    )
    return lambda z: (cuts, z[fixed])


def exactly(programme: LossProgramme, pairs: PairIndex) -> Reader:
    """All cones of the listed pairs."""
    (y, s1, s2), problem, mass = pairs, programme.problem, programme.problem.marginal
    one, c = np.ones(len(y)), problem.slack + mass[s1] + mass[s2]
    beta = problem.slack / c
    t, r = programme.fresh(len(y)), np.sqrt(beta)
    spent: list[tuple[Ints, Floats]] = [(t, one)]
    earned: list[tuple[Ints, Floats]] = [(t, -one)]
    cells = []
    for s, factor in ((s1, -1.0), (s2, float(np.exp(problem.epsilon)))):
        a = mass[s] / c
        nu, length, priced = programme.side(y, s, factor, r)
        lam, phi = programme.stretched(t, length, a, beta)
        spent += [(lam, -a), (nu, -1.0 / r)]
        earned.append((phi, a))
        cells.append(priced)
    programme.hold(spent)
    programme.hold(earned)
    return lambda z: into_pairs(problem, pairs, cells[0].prices(z), cells[1].prices(z))


def in_halves(programme: LossProgramme, pairs: PairIndex) -> Reader:
    """The listed pairs with the slack split in halves alone: a relaxation with 2|Y||S| sides for all pairs together.

    Members of a pair are those of its two sides; the price of a pair is that of its row.
    """
    (y, s1, s2), problem = pairs, programme.problem
    ss = problem.p.shape[0]
    outputs, secrets = (x.ravel() for x in np.indices((problem.outputs, ss)))
    r = np.sqrt(1.0 - 1.0 / spread_of(0.5 * problem.slack, problem.marginal[secrets]))
    one, levels, cells = np.ones(len(r)), [], []
    for factor in (-1.0, 1.0):  # N at least the greatest mean, M at most the least
        level = programme.fresh(len(r))
        nu, length, priced = programme.side(outputs, secrets, factor, r)
        programme.hold([(level, -factor * one), (nu, -one), (length, -r)])
        levels.append(level)
        cells.append(priced)
    first, second = y * ss + s1, y * ss + s2
    e = np.full(len(y), float(np.exp(problem.epsilon)))
    rows = programme.hold([(levels[1][second], e), (levels[0][first], -np.ones(len(y)))])

    def read(z: Floats) -> tuple[PairCuts, Floats]:
        most, least = cells[0].prices(z)[first], cells[1].prices(z)[second]
        live = np.flatnonzero((z[rows] > 0.0) & (most.sum(axis=1) > 0.0) & (least.sum(axis=1) > 0.0))
        cuts, _ = into_pairs(problem, (y[live], s1[live], s2[live]), most[live], least[live])
        return cuts, z[rows[live]]

    return read


def worst_loss(programme: LossProgramme) -> tuple[Floats, Callable[[Floats], Floats]]:
    """D ≥ ν + L·B/(1 + B), the support function of F at v_{su} = Σ_y Q d [errata 002]: the cost that is D, and the P
    that the multipliers name."""
    problem = programme.problem
    ss, us = problem.p.shape
    worst, nu, length = (programme.fresh(1) for _ in range(3))
    x = np.arange(ss * us) if problem.reads_both else np.tile(np.arange(us), ss)
    columns = (np.arange(problem.outputs)[None, :] * problem.inputs + x[:, None])[None]
    r = np.sqrt(np.array([problem.utility_radius / (1.0 + problem.utility_radius)]))
    cells = programme.cells(
        problem.p.reshape(1, -1), r, nu, length, columns, -problem.distance[np.tile(np.arange(us), ss)][None]
    )
    programme.hold([(worst, np.ones(1)), (nu, -np.ones(1)), (length, -r)])

    def read(z: Floats) -> Floats:
        price, centre = cells.prices(z), problem.p.reshape(1, -1)
        most = np.sqrt([1.0 + problem.utility_radius])
        return _inside([(centre, price / price.sum(), centre)], most)[0].reshape(problem.p.shape)

    return np.eye(programme.variables)[worst[0]], read


def into_pairs(problem: LossProblem, pairs: PairIndex, first: Floats, second: Floats) -> tuple[PairCuts, Floats]:
    """A solver's multipliers of x1 and x2 are weight·R1 and weight·R2: members of F once moved inside, with prices."""
    weights, other = first.sum(axis=1), second.sum(axis=1)
    keep = np.flatnonzero((weights > 0.0) & (other > 0.0))
    y, s1, s2 = (x[keep] for x in pairs)
    sides = ((s1, first[keep] / weights[keep, None]), (s2, second[keep] / other[keep, None]))
    most = problem.slack + problem.marginal[s1] + problem.marginal[s2]
    inside = _inside([(problem.p[s], r, problem.conditional[s]) for s, r in sides], most)
    return PairCuts(y, s1, s2, *inside), weights[keep]


def _inside(parts: Sequence[tuple[Floats, Floats, Floats]], most: Floats) -> tuple[Floats, ...]:
    """R of every part (p, R, centre), moved towards its centre by the least share of those tried, for each of its rows,
    at which Σ_parts √(Σ p²/R) ≤ most; what has no mass is free."""
    share = np.zeros((len(most), 1))
    for step in SHARES:
        now = tuple(np.where(p.any(axis=1, keepdims=True), r + share * (centre - r), r) for p, r, centre in parts)
        out = sum(_size(p, r) for (p, _, _), r in zip(parts, now, strict=True)) > most
        if not out.any():
            break
        share[out] = step
    return now


def _size(p: Floats, r: Floats) -> Floats:
    """√(Σ p²/R) along the last axis, ∞ where R misses a cell."""
    squares = np.divide(p * p, r, out=np.where(p > 0.0, np.inf, 0.0), where=r > 0.0)
    return np.asarray(np.sqrt(squares.sum(axis=-1)))


# --- the programme ----------------------------------------------------------------------------------------------------


def solve_by_cones(problem: LossProblem, *, exact: PairIndex | None = None, budget: Budget = FREE) -> LeastLoss:
    """Clarabel on the cones of all pairs; its multipliers, moved into F, prove the bound.

    With `exact` the other pairs hold for the split of the slack in halves alone: a smaller programme, and a relaxation.
    """
    xs, size = problem.inputs, problem.outputs * problem.inputs
    programme, cell = LossProgramme(size, problem=problem), np.arange(size)
    programme.equal(cell % xs, cell, np.ones(size), -np.ones(xs))
    programme.nonnegative(cell, cell, np.ones(size), np.zeros(size))
    cost, judge = problem.cost(problem.p).ravel(), None
    if problem.utility_radius > 0.0:
        cost, judge = worst_loss(programme)
    readers = _private(programme, exact)
    answer = programme.solve(cost, tolerance=REPAIRED, budget=budget)
    source = problem.p if judge is None else judge(answer.z)
    cuts, proof, weights = PairCuts.none(problem.p.shape[1]), LawProgramme(), list[Floats]()
    proof.laws(problem.cost(source))
    for read in readers:
        more, prices = read(answer.z)
        proof.at_most(more.rows(problem))
        cuts, weights = cuts + more, [*weights, np.maximum(prices, 0.0)]
    q = problem.columns(answer.x)
    private = mended(problem, q)
    bound = proof.bound(np.concatenate([*weights, np.zeros(0)]))
    return LeastLoss(private, problem.distortion(private)[0], bound, "cones", cuts, source, q)


def _private(programme: LossProgramme, exact: PairIndex | None) -> list[Reader]:
    """Put the privacy constraints into the programme: at P̂, of all pairs, or of some with the others relaxed."""
    problem = programme.problem
    if problem.privacy_radius <= 0.0:
        return [at_centre(programme)]
    pairs = all_pairs(problem.outputs, problem.p.shape[0])
    own = np.full((problem.outputs, *2 * problem.p.shape[:1]), exact is None)
    if exact is not None:
        own[exact] = True
    some = own[pairs]
    parts = (exactly, [x[some] for x in pairs]), (in_halves, [x[~some] for x in pairs])
    return [put(programme, (y, s1, s2)) for put, (y, s1, s2) in parts if len(y)]
