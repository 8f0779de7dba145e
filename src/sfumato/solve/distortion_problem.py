"""Least expected loss under bounded ratios: the problem, bounds from below by weak duality, and mending from above.

min_Q max_{P ∈ F_u} Σ P_{su} Q(y|s,u) d(u,y)  subject to  R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·) for (R1,R2) ∈ F_{U|s1,s2}
[002, (7)–(10)]; F_u or F shrink to P̂ where robustness is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.balls import support
from sfumato.solve.pair_ratios import Ball, on_grid, worst_per_output

GHOST = 1e-7  # outputs never sent with more than this probability are artefacts of the solver [errata 002]
MARGIN = 1e-10  # nats left free below ε so that outward rounding does not cross it
MENDING = 40
TRACE = 1e-9  # share of every output mixed in before the first check


@dataclass(frozen=True, eq=False)
class Problem:
    """One of NUNP, NURP, RUNP, RURP. distance[u, y]; the mechanism reads (s, u), or u alone."""

    p: Floats
    radius: float
    epsilon: float
    distance: Floats
    robust_privacy: bool = True
    robust_utility: bool = False
    reads_both: bool = True

    def __post_init__(self) -> None:
        p, d = self.p, self.distance
        if p.ndim != 2 or not np.all(np.isfinite(p)) or (p < 0.0).any() or abs(p.sum() - 1.0) > 1e-9:
            raise InputError("p must be a matrix [s, u] of probabilities that sum to 1.")
        if d.ndim != 2 or d.shape[0] != p.shape[1] or not np.all(np.isfinite(d)):
            raise InputError(f"distance must be a finite matrix [u, y] with {p.shape[1]} rows, got shape {d.shape}.")
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise InputError(f"epsilon must be a finite number of nats, zero or more, got {self.epsilon}.")
        if not (np.isfinite(self.radius) and self.radius >= 0.0):
            raise InputError(f"radius must be finite and zero or more, got {self.radius}.")

    @cached_property
    def ball(self) -> Ball:
        """The set that privacy must hold over."""
        return Ball(self.p, self.radius if self.robust_privacy else 0.0)

    @property
    def utility_radius(self) -> float:
        """Radius of the set that the distortion is the worst of."""
        return self.radius if self.robust_utility else 0.0

    @property
    def outputs(self) -> int:
        """|Y|."""
        return int(self.distance.shape[1])

    @property
    def inputs(self) -> int:
        """|X|: columns of Q."""
        return int(self.p.size if self.reads_both else self.p.shape[1])

    def expand(self, q: Floats) -> Floats:
        """Q[y, x] as [y, s, u]."""
        ss, us = self.p.shape
        if self.reads_both:
            return q.reshape(-1, ss, us)
        return np.broadcast_to(q[:, None, :], (q.shape[0], ss, us))

    def cost(self, p: Floats) -> Floats:
        """c[y, x] with Σ c Q the distortion at the distribution p[s, u]."""
        if self.reads_both:
            return np.asarray((p[None] * self.distance.T[:, None, :]).reshape(self.outputs, -1))
        return np.asarray(p.sum(axis=0)[None] * self.distance.T)

    def distortion(self, q: Floats) -> tuple[float, Floats]:
        """max_{P ∈ F_u} E d(U, Y), by its dual bound (never too small), and the P that attains it."""
        loss = np.einsum("ysu,uy->su", self.expand(q), self.distance)
        value, worst, dual = support(loss, self.p, self.utility_radius)
        return max(value, dual), worst


@dataclass(frozen=True, slots=True)
class Cuts:
    """Privacy constraints R1·Q(y|s1,·) ≤ e^ε R2·Q(y|s2,·). They do not contain ε: valid for all of them."""

    y: Ints
    s1: Ints
    s2: Ints
    r1: Floats
    r2: Floats

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, which: Ints) -> Cuts:
        return Cuts(self.y[which], self.s1[which], self.s2[which], self.r1[which], self.r2[which])

    def __add__(self, other: Cuts) -> Cuts:
        return Cuts(
            *(np.concatenate([getattr(self, f), getattr(other, f)]) for f in ("y", "s1", "s2", "r1", "r2"))
        )

    @staticmethod
    def none(useful: int) -> Cuts:
        """An empty list."""
        empty = np.zeros(0, dtype=np.int64)
        return Cuts(empty, empty, empty, np.zeros((0, useful)), np.zeros((0, useful)))

    def rows(self, problem: Problem, extra: int = 0) -> sparse.csr_matrix:
        """One sparse row per cut over the variables Q[y, x] (and `extra` more)."""
        k, us, xs = len(self), problem.p.shape[1], problem.inputs
        start1 = self.y * xs + (self.s1 * us if problem.reads_both else 0)
        start2 = self.y * xs + (self.s2 * us if problem.reads_both else 0)
        u = np.arange(us)
        columns = np.concatenate([start1[:, None] + u, start2[:, None] + u], axis=1).ravel()
        values = np.concatenate([self.r1, -np.exp(problem.epsilon) * self.r2], axis=1).ravel()
        lines = np.repeat(np.arange(k), 2 * us)
        return sparse.csr_matrix((values, (lines, columns)), shape=(k, problem.outputs * xs + extra))


def centre_cuts(problem: Problem) -> Cuts:
    """The constraints at P̂ itself for every output and pair of occupied secrets."""
    ball = Ball(problem.p, 0.0)
    ss = problem.p.shape[0]
    y, s1, s2 = (x.ravel() for x in np.indices((problem.outputs, ss, ss)))
    keep = (s1 != s2) & (ball.marginal[s1] > 0.0) & (ball.marginal[s2] > 0.0)
    y, s1, s2 = y[keep], s1[keep], s2[keep]
    return Cuts(y, s1, s2, ball.conditional[s1], ball.conditional[s2])


def bound(problem: Problem, cuts: Cuts, weights: Floats, p: Floats) -> float:
    """A lower bound of the optimum from any weights π ≥ 0 on cuts and any P in F_u.

    Σ_x min_y [ c_{yx}(P) + Σ_cuts π (R1 − e^ε R2)_x ]: the Lagrangian minimised over columns in the simplex.
    Members of F are all that is needed; how good the solver was does not matter.
    """
    reduced = problem.cost(p)
    if len(cuts):
        priced = cuts.rows(problem).T @ np.maximum(weights, 0.0)
        reduced = reduced + priced.reshape(reduced.shape)
    return float(reduced.min(axis=0).sum())


def merge_ghosts(problem: Problem, q: Floats) -> Floats:
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


def _means(ball: Ball, q: Floats) -> Floats:
    """P̂(y|s), or the largest entry where P̂_s = 0: a cap of M over F."""
    mean = np.einsum("ysu,su->ys", q, ball.conditional)
    return np.asarray(np.where(ball.marginal > 0.0, mean, q.max(axis=2)))


def _excess(ball: Ball, q: Floats, e: float) -> Floats:
    """max over pairs of N − e·M for every output: at P̂, or on the grid of splits."""
    if ball.radius <= 0.0:
        mean = np.einsum("ysu,su->ys", q, ball.conditional)[:, ball.marginal > 0.0]
        return np.asarray(mean.max(axis=1) - e * mean.min(axis=1))
    return on_grid(ball, q, e).excess


def mended(problem: Problem, q: Floats) -> Floats:
    """Q mixed with as little of a constant law as brings the worst ratio in floats to e^{ε − MARGIN}.

    Adding m_y to row y turns N ≤ e M + x into N + m ≤ e (M + m) as soon as m ≥ x/(e − 1), so every output pays
    for its own excess only. N ≤ ρM over F gives the last step: x ≤ (ρ − e)M ≤ (ρ − e) max_s P̂(y|s).
    A first trace of it is added unseen: solvers stop that far outside, and a check costs more than the trace.
    """
    ball = problem.ball
    q = merge_ghosts(problem, q)
    if problem.p.shape[0] < 2:
        return q
    if problem.epsilon <= 2.0 * MARGIN:
        return constant(problem) if ball.radius > 0.0 else _levelled(problem, q)
    e = float(np.exp(problem.epsilon - MARGIN))
    q = mixed(q, TRACE * q.max(axis=1)) if ball.radius > 0.0 else q
    factor = 1.0
    for _ in range(MENDING):
        wide = problem.expand(q)
        ratio = worst_per_output(ball, wide)
        late = ratio > e
        if not late.any():
            return q
        peak = wide.max(axis=(1, 2))
        grid = np.maximum(_excess(ball, wide, e), 0.0)
        rest = np.maximum(np.where(np.isfinite(ratio), ratio - e, 0.0), 0.0)
        need = np.where(grid > 0.03 * rest * peak, grid, _means(ball, wide).max(axis=1) * rest)
        q = mixed(q, np.where(late, np.maximum(factor * need / (e - 1.0), 1e-16 * peak), 0.0))
        factor *= 1.05
    return constant(problem)


def _levelled(problem: Problem, q: Floats) -> Floats:
    """ε = 0 at a point: the solver's Q has P̂(y|s) equal for all s up to rounding, which integers cannot keep."""
    mean = np.einsum("ysu,su->ys", problem.expand(q), problem.ball.conditional)[:, problem.ball.marginal > 0.0]
    return q if len(mean) == 0 or np.ptp(mean, axis=1).max() == 0.0 else constant(problem)


def mixed(q: Floats, add: Floats) -> Floats:
    """Q with `add` of a constant law in every row, columns summing to 1 again."""
    q = (q + add[:, None]) / (1.0 + add.sum())
    return np.asarray(q / q.sum(axis=0))


def constant(problem: Problem) -> Floats:
    """The best single output, always sent: private whatever happens."""
    costs = [problem.distortion(_always(problem, y))[0] for y in range(problem.outputs)]
    return _always(problem, int(np.argmin(costs)))


def _always(problem: Problem, y: int) -> Floats:
    q = np.zeros((problem.outputs, problem.inputs))
    q[y] = 1.0
    return q
