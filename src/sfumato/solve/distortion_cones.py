"""The four distortion problems as one second-order cone program, and a proved bound from its multipliers.

Per (y, s1, s2) the support function of F_{U|s1,s2} at (Q1, −e^ε Q2) is at most 0 [002, Thm 3; errata 002]:
μ1 + μ2 ≤ T, x1 = μ1 − Q1 ≥ 0, x2 = μ2 + e^ε Q2 ≥ 0, L ≤ (Σ_u p_{u|s} √x)², f³ ≤ T² L, Σ_i (p_{s_i}/C)^{2/3} f_i ≥ T.
For a small ball all of these are large numbers that nearly cancel (μ ~ B^{−1/2}), and a solver loses their difference.
So the program is written in what is left after cancelling, with a = p_s/C, β = 1 − a1 − a2, μ = L + ν, L = a(T + λ),
f = a^{1/3}(T + φ), √(Lf) ≥ a^{2/3}(T + ω), and k = ν − Q1 or ν + e^ε Q2, so that x = L + k:
h² ≤ L (k − 2h), Σ p h ≥ 0; φ² ≤ T (ω − 2φ); (λ − φ)²/4 ≤ (σ − ω)(2T + σ + ω), σ = (λ + φ)/2;
a1 φ1 + a2 φ2 ≥ β T ≥ Σ_i (a_i λ_i + ν_i). With r = √β the variables are T r, λ/r, φ/r, ω/r and l = L r, all of
one size. Cells with p = 0 keep x ≥ 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.conic import ConicProgram, ConicSolution
from sfumato.solve.distortion_cells import Builder, Cells, Terms
from sfumato.solve.distortion_members import into_ball, into_pairs
from sfumato.solve.distortion_problem import Cuts, Problem, bound, centre_cuts, mended
from sfumato.solve.pair_ratios import all_pairs
from sfumato.uncertainty.tilting import spread_of

Pairs = tuple[Ints, Ints, Ints]  # y, s1, s2


@dataclass(frozen=True, slots=True)
class Found:
    """A mended mechanism and its value, the proved bound, and the members of F and prices that prove it."""

    q: Floats
    value: float
    bound: float
    cuts: Cuts
    weights: Floats
    source: Floats  # the P in F_u that the bound rests on
    unmended: Floats  # the solver's own answer, for comparison


def privacy(builder: Builder, y: Ints, s1: Ints, s2: Ints) -> tuple[Cells, Cells]:
    """All cones of the listed pairs; the cells that price Q1 and Q2."""
    problem, mass, slack = builder.problem, builder.problem.ball.marginal, builder.problem.ball.slack
    one, c = np.ones(len(y)), slack + mass[s1] + mass[s2]
    beta = slack / c
    r = np.sqrt(beta)
    t = builder.fresh(len(y))
    spent: Terms = [(t, one)]
    earned: Terms = [(t, -one)]
    cells = []
    for s, factor in ((s1, -1.0), (s2, float(np.exp(problem.epsilon)))):
        a = mass[s] / c
        nu, length, priced = builder.side(y, s, factor, r)
        lam, phi, omega = (builder.fresh(len(y)) for _ in range(3))
        builder.rows([(length, one), (t, -a), (lam, -a * beta)], equal=True)
        builder.products([(t, one)], [(omega, one), (phi, -2.0 * one)], [(phi, r)])
        half = 0.5 * one
        builder.products(
            [(lam, half), (phi, half), (omega, -one)],
            [(t, 2.0 * one), (lam, half * beta), (phi, half * beta), (omega, beta)],
            [(lam, half * r), (phi, -half * r)],
        )
        spent += [(lam, -a), (nu, -1.0 / r)]
        earned.append((phi, a))
        cells.append(priced)
    builder.rows(spent)
    builder.rows(earned)
    return cells[0], cells[1]


def evenly(builder: Builder, y: Ints, s1: Ints, s2: Ints) -> tuple[Ints, Cells, Cells]:
    """The listed pairs with the slack split in halves alone: a relaxation with 2|Y||S| sides for all pairs together.

    Returns the rows that price the pairs, and the cells [y·|S| + s, u] that price N and M of one output and secret.
    """
    problem, ball = builder.problem, builder.problem.ball
    outputs, secrets = (x.ravel() for x in np.indices((problem.outputs, problem.p.shape[0])))
    r = np.sqrt(1.0 - 1.0 / spread_of(0.5 * ball.slack, ball.marginal[secrets]))
    one, levels, cells = np.ones(len(r)), [], []
    for factor in (-1.0, 1.0):  # N at least the greatest mean, M at most the least
        level = builder.fresh(len(r))
        nu, length, priced = builder.side(outputs, secrets, factor, r)
        builder.rows([(level, -factor * one), (nu, -one), (length, -r)])
        levels.append(level)
        cells.append(priced)
    first, second = y * problem.p.shape[0] + s1, y * problem.p.shape[0] + s2
    e = np.full(len(y), float(np.exp(problem.epsilon)))
    return builder.rows([(levels[1][second], e), (levels[0][first], -np.ones(len(y)))]), cells[0], cells[1]


def utility(builder: Builder) -> tuple[Ints, Cells]:
    """D ≥ ν + L·B/(1 + B), the support function of F at v_{su} = Σ_y Q d [errata 002]; D and the cells that price v."""
    problem = builder.problem
    ss, us = problem.p.shape
    worst, nu, length = (builder.fresh(1) for _ in range(3))
    x = np.arange(ss * us) if problem.reads_both else np.tile(np.arange(us), ss)
    columns = (np.arange(problem.outputs)[None, :] * problem.inputs + x[:, None])[None]
    r = np.sqrt(np.array([problem.radius / (1.0 + problem.radius)]))
    cells = builder.cells(
        problem.p.reshape(1, -1), r, nu, length, columns, -problem.distance[np.tile(np.arange(us), ss)][None]
    )
    builder.rows([(worst, np.ones(1)), (nu, -np.ones(1)), (length, -r)])
    return worst, cells


def started(problem: Problem) -> tuple[Builder, Floats, Cells | None]:
    """Q in columns of the simplex, the cost, and the cells of robust utility."""
    ys, xs = problem.outputs, problem.inputs
    size = ys * xs
    builder = Builder(problem, ConicProgram(size))
    cell = np.arange(size)
    builder.program.equal(xs, cell % xs, cell, np.ones(size), -np.ones(xs))
    builder.program.nonnegative(size, cell, cell, np.ones(size), np.zeros(size))
    if problem.utility_radius <= 0.0:
        return builder, problem.cost(problem.p).ravel(), None
    worst, cells = utility(builder)
    cost = np.zeros(builder.program.variables)
    cost[worst] = 1.0
    return builder, cost, cells


def columns_of(problem: Problem, x: Floats) -> Floats:
    """Q[y, x] of a solution, columns summing to 1."""
    q = np.maximum(x[: problem.outputs * problem.inputs].reshape(problem.outputs, -1), 0.0)
    return np.asarray(q / q.sum(axis=0))


def solve_by_cones(
    problem: Problem, *, exact: Pairs | None = None, tolerance: float = 1e-9, time_limit: float = 600.0
) -> Found:
    """Clarabel on the cone form; its multipliers, moved into F, prove the bound.

    With `exact` the other pairs hold for the split of the slack in halves alone: a smaller program, and a relaxation.
    """
    program = Program.of(problem, exact)
    answer = program.builder.program.solve(program.cost, tolerance=tolerance, time_limit=time_limit)
    return program.read(problem, answer)


Reader = Callable[[Floats], tuple[Cuts, Floats]]  # from multipliers to members of F with their prices


@dataclass(frozen=True, slots=True)
class Program:
    """The cone program of a problem, and how its multipliers are read; ε enters as the factor e^ε of some entries."""

    builder: Builder
    cost: Floats
    judged: Cells | None  # of robust utility
    readers: list[Reader]

    @staticmethod
    def of(problem: Problem, exact: Pairs | None = None) -> Program:
        """With `exact` only those pairs get their cones."""
        builder, cost, judged = started(problem)
        return Program(builder, cost, judged, _readers(builder, exact))

    def read(self, problem: Problem, answer: ConicSolution) -> Found:
        """The mended mechanism and the proved bound; `problem` may have another ε than the one this was made for."""
        source = problem.p
        if self.judged is not None:
            price = self.judged.prices(answer.z)
            source = into_ball(problem, (price / price.sum()).reshape(problem.p.shape))
        cuts, weights = Cuts.none(problem.p.shape[1]), np.zeros(0)
        for read in self.readers:
            more, prices = read(answer.z)
            cuts, weights = cuts + more, np.concatenate([weights, prices])
        q = columns_of(problem, answer.x)
        sealed = mended(problem, q)
        low = bound(problem, cuts, weights, source)
        return Found(sealed, problem.distortion(sealed)[0], low, cuts, weights, source, q)


def _readers(builder: Builder, exact: Pairs | None) -> list[Reader]:
    """Put the privacy constraints into the program: at P̂, of all pairs, or of some with the others relaxed."""
    problem = builder.problem
    if problem.ball.radius <= 0.0:
        return [_as_rows(builder, centre_cuts(problem))]
    if exact is None:
        return [_exactly(builder, all_pairs(problem.outputs, problem.p.shape[0]))]
    cones = [_exactly(builder, exact)] if len(exact[0]) else []
    return [*cones, _in_halves(builder, others(problem, exact))]


def _exactly(builder: Builder, pairs: Pairs) -> Reader:
    first, second = privacy(builder, *pairs)
    return lambda z: into_pairs(builder.problem, pairs, first.prices(z), second.prices(z))


def _in_halves(builder: Builder, pairs: Pairs) -> Reader:
    """Members of a pair are those of its two sides; the price of a pair is that of its row."""
    y, s1, s2 = pairs
    rows, greatest, least = evenly(builder, *pairs)
    ss = builder.problem.p.shape[0]

    def read(z: Floats) -> tuple[Cuts, Floats]:
        first, second = greatest.prices(z)[y * ss + s1], least.prices(z)[y * ss + s2]
        live = np.flatnonzero((z[rows] > 0.0) & (first.sum(axis=1) > 0.0) & (second.sum(axis=1) > 0.0))
        cuts, _ = into_pairs(builder.problem, (y[live], s1[live], s2[live]), first[live], second[live])
        return cuts, z[rows[live]]

    return read


def _as_rows(builder: Builder, cuts: Cuts) -> Reader:
    """The constraints at given members of F."""
    rows = cuts.rows(builder.problem).tocoo()
    at = rows.row.astype(np.int64), rows.col.astype(np.int64)
    fixed = builder.program.nonnegative(len(cuts), *at, -rows.data, np.zeros(len(cuts)))
    return lambda z: (cuts, z[fixed])


def others(problem: Problem, pairs: Pairs) -> Pairs:
    """Every pair of different secrets that is not listed."""
    ys, ss = problem.outputs, problem.p.shape[0]
    listed = np.zeros((ys, ss, ss), dtype=bool)
    listed[pairs] = True
    y, s1, s2 = all_pairs(ys, ss)
    rest = np.flatnonzero(~listed[y, s1, s2])
    return y[rest], s1[rest], s2[rest]
