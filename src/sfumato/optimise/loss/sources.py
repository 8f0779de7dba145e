"""Sets of source distributions, and least loss when nothing is assumed about the distribution: one linear programme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import MARGIN, Floats
from sfumato.optimise.linear import LinearProgramme, Solution
from sfumato.optimise.loss.mending import constant, merge_ghosts
from sfumato.optimise.loss.problem import LeastLoss, LossProblem
from sfumato.optimise.loss.ratios import all_pairs, support
from sfumato.optimise.repair import goal, lifted

# --- sets of source distributions, known by the largest value of a linear function over them --------------------------


CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule
WHOLE = 1e-9  # by which a given distribution may miss 1: files carry decimal digits


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """A closed set of distributions, seen through the largest value of a linear function."""

    members: Floats  # [k, M], some to start with
    worst: Callable[[Floats], tuple[float, Floats]]
    """c ↦ max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    def __post_init__(self) -> None:
        p = self.members
        if p.ndim != 2 or p.size == 0:
            raise InputError("the source set is empty: give at least one distribution.")
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > WHOLE:
            raise InputError("sources must be distributions: nonnegative rows that sum to 1.")

    @property
    def size(self) -> int:
        """M, the number of letters."""
        return int(self.members.shape[1])

    @staticmethod
    def listed(p: Floats) -> Sources:
        """Finitely many distributions (or their convex hull: the same thing here [003, Lemma 2])."""

        def worst(c: Floats) -> tuple[float, Floats]:
            values = p @ c
            return float(values.max()), p[int(np.argmax(values))]

        return Sources(p, worst)

    @staticmethod
    def chi_square(p: Floats, radius: float) -> Sources:
        """The χ² ball of the given radius around p."""
        return Sources(p[None, :], lambda c: support(c, p, radius))


# --- one linear programme ---------------------------------------------------------------------------------------------
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
