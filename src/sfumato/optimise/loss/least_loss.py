"""Least loss under bounded ratios: by cuts, or by the cones of the pairs that need them, and a bound from their prices.

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

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import REPAIRED, SEALING, Bools, Floats, Ints
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.conic import ConicProgramme, LawProgramme
from sfumato.optimise.linear import Matrix
from sfumato.optimise.loss.problem import SHARPENING, LeastLoss, LossProblem, PairIndex, all_pairs, mended
from sfumato.optimise.loss.sources import UNKNOWN, Answer, against
from sfumato.uncertainty.balls import spread_of
from sfumato.uncertainty.sets import Anything

CELL, PAIR = 5e-5, 1.5e-6  # seconds at least for each output and cell, and for each of them and secret
NEARLY = 1e-2  # a ratio this close to e^ε earns a pair its exact cone
SHARES = (0.0, *(4.0**-k for k in range(26, -1, -1)))  # of P̂ to mix in, until a point is inside the ball
Prices = Callable[[Floats], Floats]  # of the cells of one side, from multipliers
Reader = Callable[[Floats], tuple[Matrix, Floats]]  # from multipliers to rows that members of F hold, with their prices


def centred(problem: LossProblem, cones: bool = False) -> LawProgramme:
    """The LP over Q[y, x], floors f and, where the worst counts, the loss D: ratios of means at P̂, or of any input
    against any other where all distributions may occur [000, Prop. 3]; cones over a ball hold at P̂ by themselves.

    One floor for every output turns k² ratios into 2k rows: f_y ≤ mean_k·Q(y|·) ≤ e f_y. Where inputs of the same
    secret are not compared, every secret has a top and a bottom, B_ys ≤ Q(y|s,·) ≤ T_ys, and T_ys1 ≤ e B_ys2 for
    s1 ≠ s2. Whatever else is asked for is appended after these rows.
    """
    (ss, us), own, e, laws = problem.p.shape, None, float(np.exp(problem.epsilon)), LawProgramme()
    if math.isinf(problem.privacy_radius):
        mean, own = np.eye(problem.inputs), np.repeat(np.arange(ss), us) if problem.reads_both else None
    else:
        seen = np.flatnonzero((problem.marginal > 0.0) & (not cones or problem.privacy_radius <= 0.0))
        mean = np.zeros((len(seen), problem.inputs))
        np.put_along_axis(mean, problem.at(np.zeros_like(seen), seen), problem.conditional[seen], axis=1)
    high, low, apart = _floors(len(mean), e, own)
    cost, worst = problem.cost(problem.read(problem.p)), problem.utility_radius > 0.0
    laws.laws(np.zeros(cost.shape) if worst else cost)
    laws.box(problem.outputs * high.shape[1])
    for means, floors in ((mean, -high), (-mean, low), (np.zeros((len(apart), problem.inputs)), apart)):
        each = (sparse.kron(sparse.eye(problem.outputs), sparse.csr_matrix(x)) for x in (means, floors))
        laws.at_most(sparse.hstack(list(each)))
    if worst:
        laws.box(1, 1.0, float(problem.distance.min()), float(problem.distance.max()))
    return laws


def _floors(means: int, e: float, own: Ints | None) -> tuple[Floats, Floats, Floats]:
    """How floors enter above and below each mean, and the rows that hold them together: [·, floor of an output]."""
    if own is None:
        floors = min(means, 1)
        return np.full((means, floors), e), np.ones((means, floors)), np.zeros((0, floors))
    one = np.eye(int(own.max()) + 1)
    first, second = np.nonzero(1.0 - one)
    blank = np.zeros((means, len(one)))
    return np.hstack([one[own], blank]), np.hstack([blank, one[own]]), np.hstack([one[first], -e * one[second]])


# --- cones: each constraint is put into the programme, and reads members of F with their prices from its multipliers --


def cells(
    conic: ConicProgramme, p: Floats, r: Floats, columns: Ints, values: Floats | float
) -> tuple[Ints, Ints, Prices]:
    """ν, l ≤ r·(Σ_u p √x)² with x = l/r + ν + Σ values·Q ≥ 0, and the prices of x, for every entry; p[k, u], columns
    [k, u, terms]. k enters the first row of a cone with +share and the second with −share."""
    nu, length, pair = conic.fresh(len(p)), conic.fresh(len(p)), np.repeat(np.arange(len(p)), p.shape[1])
    h, one, share = conic.fresh(p.size), np.ones(p.size), 1.0 / np.sqrt(r[pair])
    terms = (x.reshape(p.size, -1).T for x in (columns, np.broadcast_to(values, columns.shape)))
    kept = [(column, share * value) for column, value in zip(*terms, strict=True)]
    row = conic.products([(length[pair], share)], [(nu[pair], share), *kept, (h, -2.0 * share)], [(h, one)])
    live = np.flatnonzero(p)
    heads, line = np.unique(pair[live], return_inverse=True)
    conic.nonnegative(line, h[live], p.ravel()[live], np.zeros(len(heads)))
    return nu, length, lambda z: np.maximum(share * (z[row] - z[row + 1]), 0.0).reshape(p.shape)


def stretched(conic: ConicProgramme, t: Ints, length: Ints, a: Floats, beta: Floats) -> tuple[Ints, Ints]:
    """λ and φ with L = a(T + λ) and f = a^{1/3}(T + φ), f³ ≤ T² L, for every entry."""
    lam, phi, omega = (conic.fresh(len(t)) for _ in range(3))
    one, half, r = np.ones(len(t)), np.full(len(t), 0.5), np.sqrt(beta)
    conic.hold([(length, one), (t, -a), (lam, -a * beta)], equal=True)
    conic.products([(t, one)], [(omega, one), (phi, -2.0 * one)], [(phi, r)])
    conic.products(
        [(lam, half), (phi, half), (omega, -one)],
        [(t, 2.0 * one), (lam, half * beta), (phi, half * beta), (omega, beta)],
        [(lam, half * r), (phi, -half * r)],
    )
    return lam, phi


def exactly(problem: LossProblem, conic: ConicProgramme, pairs: PairIndex) -> Reader:
    """All cones of the listed pairs."""
    (y, s1, s2), mass = pairs, problem.marginal
    one, c = np.ones(len(y)), problem.slack + mass[s1] + mass[s2]
    beta = problem.slack / c
    t, r = conic.fresh(len(y)), np.sqrt(beta)
    spent, earned, prices = [(t, one)], [(t, -one)], list[Prices]()
    for s, factor in ((s1, -1.0), (s2, float(np.exp(problem.epsilon)))):
        a = mass[s] / c
        nu, length, priced = cells(conic, problem.conditional[s], r, problem.at(y, s), factor)
        lam, phi = stretched(conic, t, length, a, beta)
        spent += [(lam, -a), (nu, -1.0 / r)]
        earned.append((phi, a))
        prices.append(priced)
    conic.hold(spent)
    conic.hold(earned)
    return lambda z: into_pairs(problem, pairs, prices[0](z), prices[1](z))


def in_halves(problem: LossProblem, conic: ConicProgramme, pairs: PairIndex) -> Reader:
    """The listed pairs with the slack split in halves alone: a relaxation with 2|Y||S| sides for all pairs together.

    Members of a pair are those of its two sides; the price of a pair is that of its row.
    """
    (y, s1, s2), ss = pairs, problem.p.shape[0]
    outputs, secrets = (x.ravel() for x in np.indices((problem.outputs, ss)))
    r = np.sqrt(1.0 - 1.0 / spread_of(0.5 * problem.slack, problem.marginal[secrets]))
    one, levels, prices = np.ones(len(r)), [], []
    for factor in (-1.0, 1.0):  # N at least the greatest mean, M at most the least
        level = conic.fresh(len(r))
        nu, length, priced = cells(conic, problem.conditional[secrets], r, problem.at(outputs, secrets), factor)
        conic.hold([(level, -factor * one), (nu, -one), (length, -r)])
        levels.append(level)
        prices.append(priced)
    first, second = y * ss + s1, y * ss + s2
    e = np.full(len(y), float(np.exp(problem.epsilon)))
    rows = conic.hold([(levels[1][second], e), (levels[0][first], -np.ones(len(y)))])
    return lambda z: into_pairs(problem, pairs, prices[0](z)[first], prices[1](z)[second], z[rows])


def worst_loss(problem: LossProblem, laws: LawProgramme, conic: ConicProgramme) -> Reader:
    """D ≥ ν + L·B/(1 + B), the support function of F at v_{su} = Σ_y Q d [errata 002]; D is the last of the laws."""
    y, s = (x.ravel() for x in np.indices((problem.outputs, len(problem.p))))
    columns = problem.at(y, s).reshape(problem.outputs, -1).T[None]
    r = np.sqrt(np.array([problem.utility_radius / (1.0 + problem.utility_radius)]))
    centre, distances = problem.p.reshape(1, -1), np.tile(problem.distance, (1, len(problem.p), 1))
    nu, length, prices = cells(conic, centre, r, columns, -distances)
    conic.hold([(np.array([laws.size - 1]), np.ones(1)), (nu, -np.ones(1)), (length, -r)])

    def read(z: Floats) -> tuple[Matrix, Floats]:
        price, most = prices(z), np.sqrt([1.0 + problem.utility_radius])
        p, = _inside([(centre, price / price.sum(), centre)], most)
        return problem.spent(problem.read(p.reshape(problem.p.shape)), laws.size), np.ones(1)

    return read


def into_pairs(
    problem: LossProblem, pairs: PairIndex, first: Floats, second: Floats, paid: Floats | None = None
) -> tuple[Matrix, Floats]:
    """A solver's multipliers of x1 and x2 are weight·R1 and weight·R2: members of F once moved inside, with prices,
    which are these weights unless others are paid."""
    weights, other = first.sum(axis=1), second.sum(axis=1)
    price = weights if paid is None else paid
    keep = np.flatnonzero((weights > 0.0) & (other > 0.0) & (price > 0.0))
    y, s1, s2 = (x[keep] for x in pairs)
    sides = ((s1, first[keep] / weights[keep, None]), (s2, second[keep] / other[keep, None]))
    most = problem.slack + problem.marginal[s1] + problem.marginal[s2]
    first, second = _inside([(problem.p[s], r, problem.conditional[s]) for s, r in sides], most)
    return problem.rows((y, s1, s2), first, second), price[keep]


def _inside(parts: Sequence[tuple[Floats, Floats, Floats]], most: Floats) -> tuple[Floats, ...]:
    """R of every part (p, R, centre), moved towards its centre by the least share of those tried, for each of its rows,
    at which Σ_parts √(Σ p²/R) ≤ most; what has no mass is free."""
    share, out = np.zeros((len(most), 1)), np.ones(len(most), dtype=np.bool_)
    for step in SHARES:
        share[out] = step
        now = tuple(np.where(p.any(axis=1, keepdims=True), r + share * (centre - r), r) for p, r, centre in parts)
        free = (np.where(p > 0.0, np.inf, 0.0) for p, _, _ in parts)  # ∞ where R misses a cell
        squares = [np.divide(p * p, r, out=o, where=r > 0.0) for (p, _, _), r, o in zip(parts, now, free, strict=True)]
        out = np.asarray(sum(np.sqrt(x.sum(axis=-1)) for x in squares) > most)
        if not out.any():
            break
    return now


def solve_by_cones(problem: LossProblem, *, exact: Bools | None = None, budget: Budget = FREE) -> LeastLoss:
    """Clarabel on the cones of all pairs; its multipliers, moved into F, prove the bound.

    With `exact` the other pairs hold for the split of the slack in halves alone: a smaller programme, and a relaxation.
    """
    laws, pairs = centred(problem, cones=True), all_pairs(problem.outputs, len(problem.p))
    conic, fixed = laws.conic()
    every = np.ones(len(pairs[0]), dtype=np.bool_) if exact is None else exact
    parts = ((exactly, every), (in_halves, ~every)) if problem.privacy_radius > 0.0 else ()
    readers = [put(problem, conic, (pairs[0][k], pairs[1][k], pairs[2][k])) for put, k in parts if k.any()]
    if problem.utility_radius > 0.0:
        readers.append(worst_loss(problem, laws, conic))
    answer = conic.solve(laws.cost, tolerance=REPAIRED, budget=budget)
    prices = [answer.z[fixed]]
    for read in readers:
        rows, paid = read(answer.z)
        laws.at_most(rows)
        prices.append(paid)
    q, bound = problem.columns(answer.x), laws.bound(np.maximum(np.concatenate(prices), 0.0))
    private = mended(problem, q)
    return LeastLoss(private, problem.distortion(private)[0], bound, "cones", relaxed=laws, unmended=q)


# --- cuts -------------------------------------------------------------------------------------------------------------


def solve_by_cuts(
    problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE, known: LeastLoss | None = None
) -> LeastLoss:
    """Kelley's method with in-out separation, until value and bound agree to `tolerance`, nothing comes, or time ends.

    Each round mends the optimum of the relaxation, whose prices prove a bound as only members of F ever enter, and cuts
    it off with the point half way to it from inside.
    """
    best = known or replace(UNKNOWN, q=np.full((problem.outputs, problem.inputs), 1.0 / problem.outputs))
    master = best.relaxed or centred(problem)

    def respond(met: Floats, fresh: Floats, best: LeastLoss) -> Answer:
        if problem.utility_radius > 0.0:
            master.at_most(np.array([problem.spent(p, master.size) for p in fresh]).reshape(-1, master.size))
        solution = master.solve(budget)
        q = problem.columns(solution.x)
        made, between = mended(problem, q), 0.5 * (q + best.q)
        value, (_, p), (high, worst) = problem.distortion(made)[0], problem.distortion(between), problem.distortion(q)
        unseen = high - solution.value > max(REPAIRED, SEALING * abs(solution.value))  # by sources met so far
        found = replace(best, q=made, value=value, bound=master.proved(solution))
        if solution.ended:  # what it was at may be worse than one output
            return found.or_else(one_output(problem)), [], False
        cuts = sum([separated(problem, master, x) for x in (between, q)])
        return found, [p, worst] if unseen or cuts else [], cuts > 0

    return against(problem.members, respond, lambda best: budget.over or best.within(tolerance), best)


def separated(problem: LossProblem, master: LawProgramme, q: Floats) -> int:
    """How many pairs q breaks by more than sealing leaves room for anyway: each enters as a cut."""
    if not 0.0 < problem.privacy_radius < math.inf:
        return 0
    pairs, worst = problem.worst(q)
    bad = np.flatnonzero(worst.ratio > np.exp(problem.epsilon) * (1.0 + SEALING))
    y, s1, s2 = (x[bad] for x in pairs)
    master.at_most(problem.rows((y, s1, s2), worst.first[bad], worst.second[bad]))
    return len(bad)


# --- which engine, and the cones of some pairs ------------------------------------------------------------------------


def least_loss(
    problem: LossProblem, *, engine: str = "auto", tolerance: float = 1e-6, budget: Budget = FREE
) -> LeastLoss:
    """The mechanism with the least (worst-case) loss, with a proved bound: linear problems by LP, others by cones."""
    fits = budget.fits(problem.outputs * problem.p.size * (CELL + PAIR * len(problem.p)))
    if problem.epsilon**2 < REPAIRED:  # mending takes more than such a level gives
        silent = best_constant(problem)
        if problem.epsilon <= 0.0 and problem.privacy_radius > 0.0:
            return silent
        known = replace(silent, bound=-math.inf, engine="cuts")
        return solve_by_cuts(problem, tolerance=tolerance, budget=budget, known=known) if fits else known
    if not fits:
        return one_output(problem)
    linear = math.isinf(problem.privacy_radius) or max(problem.privacy_radius, problem.utility_radius) <= 0.0
    by_cuts = linear if engine == "auto" else math.isinf(problem.privacy_radius) or engine == "cuts"
    return (solve_by_cuts if by_cuts else solve_by_growing_cones)(problem, tolerance=tolerance, budget=budget)


def one_output(problem: LossProblem) -> LeastLoss:
    """The best single output for all inputs, without a bound: what costs least time."""
    lost = [problem.judged.support(np.tile(d, (len(problem.p), 1))).value for d in problem.distance.T]
    q = np.repeat(np.eye(problem.outputs)[:, [int(np.argmin(lost))]], problem.inputs, axis=1)
    return LeastLoss(q, min(lost), -math.inf, "constant")


def best_constant(problem: LossProblem) -> LeastLoss:
    """The best law that ignores its input: least loss at ε = 0 about U."""
    about = replace(problem, within=Anything(problem.within.joint), epsilon=0.0, reads_both=False)
    found = solve_by_cuts(about, tolerance=REPAIRED)
    q = np.repeat(found.q[:, :1], problem.inputs, axis=1)
    return replace(found, q=q, value=problem.distortion(q)[0], engine="constant", relaxed=None)


def solve_by_growing_cones(problem: LossProblem, *, tolerance: float = 1e-6, budget: Budget = FREE) -> LeastLoss:
    """Cones for the pairs of secrets that need them, then cuts where prices prove too little (docs/distortion.md).

    Others hold with the slack split in halves. Each programme is a relaxation, so each of them proves a bound.
    """
    pairs, most = all_pairs(problem.outputs, len(problem.p)), float(np.exp(problem.epsilon)) * (1.0 - NEARLY)
    exact = np.full(len(pairs[0]), problem.privacy_radius <= 0.0)
    best = found = solve_by_cones(problem, exact=exact, budget=budget)
    while not (best.within(tolerance) or exact.all() or budget.over):
        assert found.unmended is not None
        grown = exact | (problem.worst(found.unmended, pairs)[1].ratio > most)
        if np.array_equal(grown, exact):
            break
        exact, found = grown, solve_by_cones(problem, exact=grown, budget=budget)
        best = best.or_else(found)
    if best.within(tolerance) or problem.privacy_radius <= 0.0 or budget.over:
        return best
    return solve_by_cuts(problem, tolerance=tolerance, budget=budget.part(1.0, SHARPENING), known=best)
