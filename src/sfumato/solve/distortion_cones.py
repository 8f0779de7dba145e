"""The four distortion problems as one second-order cone program, and a proved bound from its multipliers.

For each (y, s1, s2): μ1 + μ2 ≤ T, x_i ≥ 0 with x1 = μ1 − Q(y|s1,·), x2 = μ2 + e^ε Q(y|s2,·);
g² ≤ x L, Σ_u p_{u|s} g ≥ L; w² ≤ L f, f² ≤ T w (so f³ ≤ T² L); Σ_i (p_{s_i}/C)^{2/3} f_i ≥ T [errata 002].
Together: the support function of F_{U|s1,s2} at (Q1, −e^ε Q2) is at most 0. Cells with p = 0 keep x ≥ 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.conic import ConicProgram, lorentz_of_product
from sfumato.solve.distortion_problem import Cuts, Problem, bound, centre_cuts, mended
from sfumato.solve.pair_ratios import all_pairs


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


@dataclass(slots=True)
class _Builder:
    """Numbers of variables and rows while the program grows."""

    problem: Problem
    variables: int
    program: ConicProgram

    def fresh(self, count: int) -> Ints:
        start = self.variables
        self.variables += count
        self.program.variables = self.variables
        return np.arange(start, start + count)


def _cells(
    builder: _Builder, p: Floats, base: Ints, columns: Ints, values: Floats, terms: int, total: Ints
) -> Ints:
    """x = base + Σ values·columns ≥ 0 for cells [k, u]; total_k ≤ (Σ_u p √x)². Returns the rows that price x.

    columns, values: [k, u, terms]. Where p > 0 the cone g² ≤ x·total implies x ≥ 0; elsewhere x ≥ 0 is a row.
    The price of cell (k, u) is z[row] + z[row + 1] for cones and z[row] for rows.
    """
    k, us = p.shape
    curved = p > 0.0
    program = builder.program
    where = np.zeros((k, us), dtype=np.int64)
    pair, cell = np.nonzero(~curved)
    lines = np.arange(len(pair))
    if len(pair):
        rows = np.concatenate([lines, np.repeat(lines, terms)])
        cols = np.concatenate([base[pair], columns[pair, cell].ravel()])
        vals = np.concatenate([np.ones(len(pair)), values[pair, cell].ravel()])
        where[pair, cell] = program.nonnegative(len(pair), rows, cols, vals, np.zeros(len(pair)))
    pair, cell = np.nonzero(curved)
    count = len(pair)
    if count == 0:
        return where
    g = builder.fresh(count)
    i = np.arange(count)
    x_cols = np.concatenate([base[pair][:, None], columns[pair, cell]], axis=1)
    x_vals = np.concatenate([np.ones((count, 1)), values[pair, cell]], axis=1)
    spread = np.repeat(i, terms + 1)
    rows = np.concatenate([3 * spread, 3 * spread + 1, 3 * i, 3 * i + 1, 3 * i + 2])
    cols = np.concatenate([x_cols.ravel(), x_cols.ravel(), total[pair], total[pair], g])
    ones = np.ones(count)
    vals = np.concatenate([x_vals.ravel(), x_vals.ravel(), ones, -ones, 2.0 * ones])
    where[pair, cell] = program.product(count, rows, cols, vals)[::3]
    heads = np.unique(pair)
    line = np.searchsorted(heads, pair)
    program.nonnegative(
        len(heads),
        np.concatenate([line, np.arange(len(heads))]),
        np.concatenate([g, total[heads]]),
        np.concatenate([p[pair, cell], -np.ones(len(heads))]),
        np.zeros(len(heads)),
    )
    return where


def _privacy(builder: _Builder, y: Ints, s1: Ints, s2: Ints) -> tuple[Ints, Ints]:
    """All cones of the listed pairs; the rows that price x1 and x2."""
    problem, ball = builder.problem, builder.problem.ball
    k, us, xs = len(y), problem.p.shape[1], problem.inputs
    mass = ball.marginal
    c = ball.slack + mass[s1] + mass[s2]
    mu1, mu2, t = builder.fresh(k), builder.fresh(k), builder.fresh(k)
    line = np.arange(k)
    ones = np.ones(k)
    program = builder.program
    program.nonnegative(
        k, np.tile(line, 3), np.concatenate([t, mu1, mu2]), np.concatenate([ones, -ones, -ones]), np.zeros(k)
    )
    wheres, parts = [], []
    for s, mu, factor in ((s1, mu1, -1.0), (s2, mu2, float(np.exp(problem.epsilon)))):
        start = y * xs + (s * us if problem.reads_both else 0)
        columns = (start[:, None] + np.arange(us))[:, :, None]
        total, f, w = builder.fresh(k), builder.fresh(k), builder.fresh(k)
        wheres.append(
            _cells(builder, ball.conditional[s], mu, columns, np.full((k, us, 1), factor), 1, total)
        )
        program.product(k, *lorentz_of_product(total, f, w))
        program.product(k, *lorentz_of_product(t, w, f))
        parts.append((f, np.cbrt((mass[s] / c) ** 2)))
    program.nonnegative(
        k,
        np.tile(line, 3),
        np.concatenate([parts[0][0], parts[1][0], t]),
        np.concatenate([parts[0][1], parts[1][1], -ones]),
        np.zeros(k),
    )
    return wheres[0], wheres[1]


def _utility(builder: _Builder, distortion: int) -> Ints:
    """D ≥ μ − L/(B+1), L ≤ (Σ P̂ √(μ − v))², v_{su} = Σ_y Q d [errata 002]; the rows that price v."""
    problem = builder.problem
    ss, us = problem.p.shape
    ys, xs = problem.outputs, problem.inputs
    mu, total = builder.fresh(1), builder.fresh(1)
    x = np.arange(ss * us) if problem.reads_both else np.tile(np.arange(us), ss)
    u = np.tile(np.arange(us), ss)
    columns = (np.arange(ys)[None, :] * xs + x[:, None])[None]
    values = -problem.distance[u][None]
    where = _cells(builder, problem.p.reshape(1, -1), mu, columns, values, ys, total)
    builder.program.nonnegative(
        1,
        np.zeros(3, dtype=np.int64),
        np.array([distortion, int(mu[0]), int(total[0])]),
        np.array([1.0, -1.0, 1.0 / (1.0 + problem.radius)]),
        np.zeros(1),
    )
    return where


def _prices(z: Floats, where: Ints, p: Floats) -> Floats:
    """Multipliers of x: z₀ + z₁ of a cone, z of a row."""
    return np.asarray(
        np.maximum(np.where(p > 0.0, z[where] + z[np.minimum(where + 1, len(z) - 1)], z[where]), 0.0)
    )


def _into_pairs(problem: Problem, s1: Ints, s2: Ints, r1: Floats, r2: Floats) -> tuple[Floats, Floats]:
    """Move (R1, R2) towards P̂ just enough that h1 + h2 ≤ C: only members of F prove anything."""
    ball = problem.ball
    mass, centre = ball.marginal, ball.conditional
    c = ball.slack + mass[s1] + mass[s2]

    def size(r: Floats, s: Ints) -> Floats:
        p = problem.p[s]
        ratio = np.divide(p * p, r, out=np.where(p > 0.0, np.inf, 0.0), where=r > 0.0)
        return np.asarray(np.sqrt(ratio.sum(axis=1)))

    def mix(r: Floats, s: Ints, share: Floats) -> Floats:
        return np.asarray(
            np.where(mass[s][:, None] > 0.0, (1.0 - share[:, None]) * r + share[:, None] * centre[s], r)
        )

    share = np.zeros(len(s1))
    for step in (0.0, *(4.0**-k for k in range(26, -1, -1))):
        outside = size(mix(r1, s1, share), s1) + size(mix(r2, s2, share), s2) > c
        share = np.where(outside, step, share)
    return mix(r1, s1, share), mix(r2, s2, share)


def _into_ball(problem: Problem, p: Floats) -> Floats:
    """Move P towards P̂ until Σ P̂²/P ≤ 1 + B."""
    for step in (0.0, *(4.0**-k for k in range(26, -1, -1))):
        mixed = (1.0 - step) * p + step * problem.p
        ratio = np.divide(problem.p**2, mixed, out=np.where(problem.p > 0.0, np.inf, 0.0), where=mixed > 0.0)
        if ratio.sum() <= 1.0 + problem.radius:
            return np.asarray(mixed)
    return problem.p


def _members(
    problem: Problem, z: Floats, pairs: tuple[Ints, Ints, Ints], where: tuple[Ints, Ints]
) -> tuple[Cuts, Floats]:
    """The multipliers of x1 and x2 are weight·R1 and weight·R2: members of F once moved inside, with their prices."""
    y, s1, s2 = pairs
    conditional = problem.ball.conditional
    first, second = (_prices(z, at, conditional[s]) for at, s in zip(where, (s1, s2), strict=True))
    weights, other = first.sum(axis=1), second.sum(axis=1)
    keep = np.flatnonzero((weights > 0.0) & (other > 0.0))
    r1, r2 = first[keep] / weights[keep, None], second[keep] / other[keep, None]
    r1, r2 = _into_pairs(problem, s1[keep], s2[keep], r1, r2)
    return Cuts(y[keep], s1[keep], s2[keep], r1, r2), weights[keep]


def solve_by_cones(problem: Problem, *, tolerance: float = 1e-9, time_limit: float = 600.0) -> Found:
    """Clarabel on the cone form; its multipliers, moved into F, prove the bound whatever its tolerance."""
    ys, xs = problem.outputs, problem.inputs
    size = ys * xs
    builder = _Builder(problem, size, ConicProgram(size))
    program = builder.program
    cell = np.arange(size)
    program.equal(xs, cell % xs, cell, np.ones(size), -np.ones(xs))
    program.nonnegative(size, cell, cell, np.ones(size), np.zeros(size))
    robust = problem.ball.radius > 0.0
    pairs = all_pairs(ys, problem.p.shape[0])
    cuts = Cuts.none(problem.p.shape[1]) if robust else centre_cuts(problem)
    where = _privacy(builder, *pairs) if robust else None
    fixed = _at_centre(builder, cuts) if len(cuts) else np.zeros(0, dtype=np.int64)
    cost = np.zeros(builder.variables)
    cost[:size] = problem.cost(problem.p).ravel()
    if problem.utility_radius > 0.0:
        worst = int(builder.fresh(1)[0])
        where_p = _utility(builder, worst)
        cost = np.zeros(builder.variables)
        cost[worst] = 1.0
    answer = program.solve(cost, tolerance=tolerance, time_limit=time_limit)
    source = problem.p
    if problem.utility_radius > 0.0:
        price = _prices(answer.z, where_p, problem.p.reshape(1, -1))
        source = _into_ball(problem, (price / price.sum()).reshape(problem.p.shape))
    weights = answer.z[fixed]
    if where is not None:
        cuts, weights = _members(problem, answer.z, pairs, where)
    q = np.maximum(answer.x[:size].reshape(ys, xs), 0.0)
    q = q / q.sum(axis=0)
    sealed = mended(problem, q)
    low = bound(problem, cuts, weights, source)
    return Found(sealed, problem.distortion(sealed)[0], low, cuts, weights, source, q)


def _at_centre(builder: _Builder, cuts: Cuts) -> Ints:
    """The constraints at P̂ as rows; their numbers."""
    rows = cuts.rows(builder.problem).tocoo()
    at = rows.row.astype(np.int64), rows.col.astype(np.int64)
    return builder.program.nonnegative(len(cuts), *at, -rows.data, np.zeros(len(cuts)))
