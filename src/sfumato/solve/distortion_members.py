"""From a solver's multipliers to members of the ball: only those prove a bound."""

from __future__ import annotations

import numpy as np

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.distortion_problem import Cuts, Problem

STEPS = (0.0, *(4.0**-k for k in range(26, -1, -1)))  # shares of P̂ to mix in, until the point is inside


def into_pairs(problem: Problem, pairs: tuple[Ints, Ints, Ints], first: Floats, second: Floats) -> tuple[Cuts, Floats]:
    """The multipliers of x1 and x2 are weight·R1 and weight·R2: members of F once moved inside, with their prices."""
    y, s1, s2 = pairs
    weights, other = first.sum(axis=1), second.sum(axis=1)
    keep = np.flatnonzero((weights > 0.0) & (other > 0.0))
    r1, r2 = first[keep] / weights[keep, None], second[keep] / other[keep, None]
    return Cuts(y[keep], s1[keep], s2[keep], *_moved(problem, s1[keep], s2[keep], r1, r2)), weights[keep]


def _moved(problem: Problem, s1: Ints, s2: Ints, r1: Floats, r2: Floats) -> tuple[Floats, Floats]:
    """(R1, R2) moved towards P̂ just enough that h1 + h2 ≤ C."""
    ball = problem.ball
    mass, centre = ball.marginal, ball.conditional
    c = ball.slack + mass[s1] + mass[s2]

    def size(r: Floats, s: Ints) -> Floats:
        p = problem.p[s]
        ratio = np.divide(p * p, r, out=np.where(p > 0.0, np.inf, 0.0), where=r > 0.0)
        return np.asarray(np.sqrt(ratio.sum(axis=1)))

    def mix(r: Floats, s: Ints, share: Floats) -> Floats:
        return np.asarray(np.where(mass[s][:, None] > 0.0, (1.0 - share[:, None]) * r + share[:, None] * centre[s], r))

    share = np.zeros(len(s1))
    for step in STEPS:
        outside = size(mix(r1, s1, share), s1) + size(mix(r2, s2, share), s2) > c
        if not outside.any():
            break
        share = np.where(outside, step, share)
    return mix(r1, s1, share), mix(r2, s2, share)


def into_ball(problem: Problem, p: Floats) -> Floats:
    """P moved towards P̂ until Σ P̂²/P ≤ 1 + B."""
    for step in STEPS:
        mixed = (1.0 - step) * p + step * problem.p
        ratio = np.divide(problem.p**2, mixed, out=np.where(problem.p > 0.0, np.inf, 0.0), where=mixed > 0.0)
        if ratio.sum() <= 1.0 + problem.radius:
            return np.asarray(mixed)
    return problem.p
