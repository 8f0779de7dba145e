"""Blocks of one secret that are worth much at given prices: what prices learn from. They prove nothing."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import EMPTY, Floats, Ints, xlogx
from sfumato.optimise.budget import spend
from sfumato.optimise.conic import ConicProgramme, Terms, exponential, power

GAINED = 1e-4  # nats that a step must gain: a climb ends after two or three
ACCURATE = 1e-6  # digits asked of the solver: a block that is a little outside misleads nobody


class Climb:
    """Blocks with m ≥ a and M ≤ E·a, where a = 1, or where the mean is 1.

    The worth Σ q(φ(w) − y·w) is convex, so the block that is best for its tangent is worth at least as much: a cone
    programme a step, M ≤ L being Σ q (t + L − w)^κ t^{1−κ} ≥ (1 + κk)t for some t = 1/ϰ ≥ 0 (docs/robust.md, 14).
    """

    def __init__(self, q: Floats, order: float, k: Floats, E: float, mean: bool) -> None:
        n = len(q)
        self.q, programme = q, ConicProgramme()
        w, a, one, zero = programme.fresh(n), programme.fresh(1), np.ones(n), np.zeros(n, dtype=np.int64)
        programme.equal(zero if mean else zero[:1], w if mean else a, q if mean else one[:1], -one[:1])
        programme.nonnegative(np.arange(n), w, one, np.zeros(n))
        for sign, level, slack in zip((1.0, -1.0), (E, 1.0), k.tolist(), strict=True):
            t, under = programme.fresh(1), programme.fresh(n)
            all_t: Terms = [(np.repeat(t, n), one)]
            _root(programme, order, [*all_t, (np.repeat(a, n), sign * level * one), (w, -sign * one)], all_t, under)
            way, share = (-1.0, 1.0 + order * slack) if order < 0 else (1.0, 1.0 + order * slack if order else slack)
            programme.nonnegative(
                np.zeros(n + 1, dtype=np.int64), np.append(under, t), way * np.append(q, -share), np.zeros(1)
            )
        self.cost = np.zeros(programme.variables)
        self.solver = programme.solver(self.cost, tolerance=ACCURATE)

    def best(self, slope: Floats) -> Floats:
        """The block that is best for a linear aim; NaN where the solver fails."""
        spend(100 + 10 * len(self.q))
        self.cost[: len(self.q)] = -slope
        self.solver.inner.update(q=self.cost)
        found = self.solver.solve()
        return np.maximum(found.x[: len(self.q)], 0.0) if "Solved" in found.status else np.full(len(self.q), np.nan)

    def climbed(self, y: Floats, w: Floats) -> Floats:
        """From one block to a better one, until there is none for the tangent."""
        worth = float(self.q @ (xlogx(w) - y * w))
        while True:
            other = self.best(self.q * (np.log(np.maximum(w, EMPTY)) + 1.0 - y))
            more = float(self.q @ (xlogx(other) - y * other))
            if not more > worth + GAINED:
                return w
            w, worth = other, more


def _root(programme: ConicProgramme, order: float, x: Terms, t: Terms, under: Ints) -> None:
    """under ≤ x^κ t^{1−κ}, ≥ for κ < 0, and t log(x/t) for κ = 0."""
    g: Terms = [(under, np.ones(len(under)))]
    if order == 0.5:
        programme.products(x, t, g)
    elif order > 0.0:
        programme.each(power(order, 1.0 - order), x, t, g)
    elif order < 0.0:
        programme.each(power(1.0 / (1.0 - order), -order / (1.0 - order)), g, x, t)
    else:
        programme.each(exponential, g, t, x)
