"""A mechanism of least loss made private: what its ratios exceed is paid by a constant law."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import GHOST, MARGIN, Floats
from sfumato.optimise.loss.problem import LossProblem
from sfumato.optimise.loss.ratios import PairBall, on_grid, worst_per_output
from sfumato.optimise.repair import goal, lifted, mixed

TRACE = 1e-9  # share of every output mixed in before the first check: solvers stop that far outside


def merge_ghosts(problem: LossProblem, q: Floats) -> Floats:
    """Clip, normalise, and give the mass of hardly ever sent outputs to the live output nearest in distance."""
    q = np.maximum(q, 0.0)
    q = q / q.sum(axis=0)
    ghost = q.max(axis=1) < GHOST
    live = np.flatnonzero(~ghost)
    for y in np.flatnonzero(ghost):
        gap = np.abs(problem.distance[:, live] - problem.distance[:, [y]]).max(axis=0)
        q[live[np.argmin(gap)]] += q[y]
        q[y] = 0.0
    return np.asarray(q)


def _means(ball: PairBall, q: Floats) -> Floats:
    """P̂(y|s), or the largest entry where P̂_s = 0: a cap of M over F."""
    mean = np.einsum("ysu,su->ys", q, ball.conditional)
    return np.asarray(np.where(ball.marginal > 0.0, mean, q.max(axis=2)))


def _excess(ball: PairBall, q: Floats, e: float) -> Floats:
    """max over pairs of N − e·M for every output: at P̂, or on the grid of splits."""
    if ball.radius <= 0.0:
        mean = np.einsum("ysu,su->ys", q, ball.conditional)[:, ball.marginal > 0.0]
        return np.asarray(mean.max(axis=1) - e * mean.min(axis=1))
    return on_grid(ball, q, e).excess


def mended(problem: LossProblem, q: Floats) -> Floats:
    """Q mixed with as little of a constant law as brings the worst ratio in floats below e^ε by a margin.

    What an output exceeds is read off the grid, or from N ≤ ρM over F: x ≤ (ρ − e)M ≤ (ρ − e) max_s P̂(y|s). A first
    trace of the constant law is added unseen, because a check costs more than the trace.
    """
    ball = problem.ball
    q = merge_ghosts(problem, q)
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:
        return constant(problem) if ball.radius > 0.0 else _levelled(problem, q)
    e = float(np.exp(goal(problem.epsilon)))

    def excess(q: Floats) -> Floats:
        wide = problem.expand(q)
        ratio = worst_per_output(ball, wide)
        if not (ratio > e).any():
            return np.zeros(len(q))
        grid = np.maximum(_excess(ball, wide, e), 0.0)
        rest = np.maximum(np.where(np.isfinite(ratio), ratio - e, 0.0), 0.0)
        need = np.where(grid > 0.03 * rest * wide.max(axis=(1, 2)), grid, _means(ball, wide).max(axis=1) * rest)
        return np.where(ratio > e, np.maximum(need, np.finfo(float).tiny), 0.0)

    found = lifted(mixed(q, TRACE * q.max(axis=1)) if ball.radius > 0.0 else q, excess, e - 1.0)
    return constant(problem) if found is None else found


def _levelled(problem: LossProblem, q: Floats) -> Floats:
    """ε = 0 at a point: the solver's Q has P̂(y|s) equal for all s up to rounding, which integers cannot keep."""
    mean = np.einsum("ysu,su->ys", problem.expand(q), problem.ball.conditional)[:, problem.ball.marginal > 0.0]
    return q if len(mean) == 0 or np.ptp(mean, axis=1).max() == 0.0 else constant(problem)


def constant(problem: LossProblem) -> Floats:
    """The best single output, always sent: private whatever happens."""
    alone = [np.repeat(row[:, None], problem.inputs, axis=1) for row in np.eye(problem.outputs)]
    return min(alone, key=lambda q: problem.distortion(q)[0])
