"""Least loss when nothing is assumed about the distribution: one linear programme.

P(y|s1) ≤ e^ε P(y|s2) for every distribution means Q(y|s1,u) ≤ e^ε Q(y|s2,u') for all u, u' and s1 ≠ s2 [000, Prop. 3]:
with T_{ys} ≥ Q(y|s,·) ≥ B_{ys} that is T_{ys1} ≤ e^ε B_{ys2}. Rows of the same secret stay free, as in SRR.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats
from sfumato.solve.distortion import Answer
from sfumato.solve.distortion_problem import MARGIN, Problem, merge_ghosts, mixed
from sfumato.solve.growing import GrowingLP, Solution
from sfumato.solve.pair_ratios import all_pairs

STEPS = 8  # of mending; each pays for the whole excess, so the second is for rounding


def least_loss_anywhere(problem: Problem) -> Answer:
    """The least E d(U, Y) at P̂, or at the worst input with robust utility, and a bound from the prices of the LP.

    Only the centre and the distances of the problem are used; its radius does not matter.
    """
    solution = _programme(problem).solve()
    q = np.maximum(solution.x[: problem.outputs * problem.inputs].reshape(problem.outputs, -1), 0.0)
    q = _mended(problem, merge_ghosts(problem, q / q.sum(axis=0)))
    return Answer(q, _loss(problem, q), _bound(problem, solution), "lp")


def _programme(problem: Problem) -> GrowingLP:
    """Over Q[y, x], T[y, s], B[y, s] and D; rows: sums, T − Q ≥ 0, Q − B ≥ 0, e^ε B − T ≥ 0, D − loss(s, u) ≥ 0."""
    ys, xs, (ss, us) = problem.outputs, problem.inputs, problem.p.shape
    size, sides, groups = ys * xs, ys * ss, ss if problem.reads_both else 1
    robust = problem.robust_utility
    cost = np.concatenate([np.zeros(size) if robust else problem.cost(problem.p).ravel(), np.zeros(2 * sides), [1.0]])
    top = float(problem.distance.max())
    lp = GrowingLP(cost, np.zeros(len(cost)), np.append(np.ones(size + 2 * sides), top if robust else 0.0))
    sums = sparse.hstack([sparse.kron(np.ones((1, ys)), sparse.eye(xs)), sparse.csr_matrix((xs, 2 * sides + 1))])
    lp.add(sparse.csr_matrix(sums), np.ones(xs), np.ones(xs))
    y, s, u = (x.ravel() for x in np.indices((ys, ss, us)))
    cell = sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), y * xs + (s % groups) * us + u)), (len(y), size))
    side = sparse.csr_matrix((np.ones(len(y)), (np.arange(len(y)), y * ss + s)), (len(y), sides))
    empty = sparse.csr_matrix((len(y), sides))
    blank = sparse.csr_matrix((len(y), 1))
    _above(lp, sparse.hstack([-cell, side, empty, blank]))
    _above(lp, sparse.hstack([cell, empty, -side, blank]))
    at, first, second = all_pairs(ys, ss)
    k = np.arange(len(at))
    rows = np.concatenate([k, k])
    columns = np.concatenate([size + at * ss + first, size + sides + at * ss + second])
    values = np.concatenate([-np.ones(len(k)), np.full(len(k), np.exp(problem.epsilon))])
    _above(lp, sparse.csr_matrix((values, (rows, columns)), (len(k), len(cost))))
    if robust:
        at_cell = (s * us + u, y * xs + (s % groups) * us + u)
        loss = sparse.csr_matrix((problem.distance[u, y], at_cell), (ss * us, size))
        _above(lp, sparse.hstack([-loss, sparse.csr_matrix((ss * us, 2 * sides)), np.ones((ss * us, 1))]))
    return lp


def _above(lp: GrowingLP, rows: sparse.spmatrix) -> None:
    """Append rows ≥ 0."""
    count = rows.shape[0]
    lp.add(sparse.csr_matrix(rows), np.zeros(count), np.full(count, np.inf))


def _bound(problem: Problem, solution: Solution) -> float:
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


def _mended(problem: Problem, q: Floats) -> Floats:
    """Q with what its rows exceed paid by a constant law, as in `distortion_problem.mended`."""
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:
        return np.repeat(q.mean(axis=1)[:, None], problem.inputs, axis=1)
    e = float(np.exp(problem.epsilon - MARGIN))
    apart = ~np.eye(problem.p.shape[0], dtype=bool)
    for _ in range(STEPS):
        wide = problem.expand(q)
        excess = np.where(apart, wide.max(axis=2)[:, :, None] - e * wide.min(axis=2)[:, None, :], 0.0).max(axis=(1, 2))
        if (excess <= 0.0).all():
            break
        q = mixed(q, np.maximum(excess, 0.0) / (e - 1.0))
    return q


def _loss(problem: Problem, q: Floats) -> float:
    loss = np.einsum("ysu,uy->su", problem.expand(q), problem.distance)
    return float(loss.max() if problem.robust_utility else (problem.p * loss).sum())
