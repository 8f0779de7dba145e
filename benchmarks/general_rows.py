"""What general rows would add to two-level ones on the two large Adult tables, secret by secret under the profile.

    python benchmarks/general_rows.py

Each secret's atoms are moved as `solve/general_rows.py` moves the rows of a small table: the gain Σ θ Σ_u q φ(a/θ) is
convex in (a, θ), so the linear programme of its tangent cannot lower it, and the profile's constraints enter as cuts.
The figure is an optimistic one: total heights are taken to stay level, and rows may exceed the profile by TIGHT.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse

import sfumato as sf
from sfumato.alphabet import Floats
from sfumato.solve.arrays import xlogx
from sfumato.solve.ball_rows import ballopt, corridor
from sfumato.solve.growing import INFINITY, GrowingLP
from sfumato.solve.layout import Layout
from sfumato.solve.twolevel import Corridor
from sfumato.uncertainty.tilting import greatest_mean

PAIRS = (("native-country", "relationship"), ("occupation", "education"))
NODES, STEPS, FLOOR, TIGHT = 33, 80, 1e-5, 2e-3


@dataclass(eq=False)
class Atoms:
    """One secret's atoms as a linear programme in a = θ·h and θ, with cuts of its corridor."""

    q: Floats
    limits: Corridor
    theta: Floats
    a: Floats  # [i, u]
    total: float

    def __post_init__(self) -> None:
        n, k = self.a.shape
        self.lp = GrowingLP(np.zeros(n * (k + 1)), np.zeros(n * (k + 1)), np.full(n * (k + 1), INFINITY))
        sums = np.hstack([np.tile(np.eye(k), (1, n)), np.zeros((k, n))])
        length = np.append(np.zeros(n * k), np.ones(n))[None]
        self.lp.add(sparse.csr_matrix(sums), np.ones(k), np.ones(k))
        self.lp.add(sparse.csr_matrix(length), np.array([self.total]), np.array([self.total]))

    def gain(self, a: Floats, theta: Floats) -> float:
        on = theta > 1e-12
        return float(theta[on] @ (xlogx(a[on] / theta[on, None]) @ self.q))

    def cut(self, h: Floats, over: float) -> float:
        """Cuts where an atom leaves the corridor by more than `over`, at its worst node; the greatest excess."""
        n, k = h.shape
        shape = (n, len(self.limits.C))
        v, q = np.broadcast_to(h[:, None], (*shape, k)), np.broadcast_to(self.q, (*shape, k))
        C, worst = np.broadcast_to(self.limits.C, shape), -np.inf
        for sign, limit in ((1.0, self.limits.roof), (-1.0, self.limits.floor)):
            found = greatest_mean(sign * v, q, C)
            excess = found.value - sign * limit
            worst = max(worst, float(excess.max()))
            at = excess.argmax(axis=1)
            rows = []
            for i in np.flatnonzero(excess[np.arange(n), at] > over):
                row = np.zeros(n * (k + 1))
                row[i * k : (i + 1) * k] = sign * found.r[i, at[i]]
                row[n * k + i] = -sign * limit[at[i]]
                rows.append(row)
            if rows:
                self.lp.add(sparse.csr_matrix(np.array(rows)), np.full(len(rows), -INFINITY), np.zeros(len(rows)))
        return worst

    def risen(self) -> float:
        """How much the gain rises."""
        n, k = self.a.shape
        first = best = self.gain(self.a, self.theta)
        self.cut(self.a / self.theta[:, None], -0.05)
        h = self.a / self.theta[:, None]
        for _ in range(STEPS):
            self.lp.cost(-np.append((self.q * (1 + np.log(np.maximum(h, FLOOR)))).ravel(), -(h @ self.q)))
            found = self.lp.solve()
            if not found.optimal:
                break
            a, theta = np.maximum(found.x[: n * k].reshape(n, k), 0), np.maximum(found.x[n * k :], 0)
            after = np.where(theta[:, None] > 1e-10, a / np.maximum(theta, 1e-300)[:, None], self.limits.floor.max())
            if self.cut(after, 1e-4) < TIGHT:
                now, h = self.gain(a, theta), after
                if now <= best * (1 + 1e-5):
                    return max(best, now) - first
                best = max(best, now)
        return best - first


def rise(layout: Layout, p: Floats, b: float, E: float, profile: object) -> float:
    """Σ_s P̂_s times the rise of each secret's gain, in nats."""
    total = 0.0
    for s, share in enumerate(p.sum(axis=1)):
        shapes, group = np.unique(layout.heights[s].round(9), axis=0, return_inverse=True)
        theta = np.bincount(group.ravel(), layout.lengths[s])
        limits = corridor(float(share), b, E, profile, NODES)  # type: ignore[arg-type]
        total += share * Atoms(p[s] / share, limits, theta, theta[:, None] * shapes, layout.total).risen()
    return total


def main() -> int:
    print("| case | ε | two-level (NMI) | rise by general rows | relative | CPU s |\n" + "|---" * 6 + "|")
    for pair in PAIRS:
        joint = sf.datasets.adult(*pair)
        slack = sf.ChiSquareBall(joint).slack
        for epsilon in (0.5, 1.5):
            outcome, profile = ballopt(joint.p, slack, epsilon)
            start = time.process_time()
            more = rise(outcome.layout, joint.p, slack, float(np.exp(epsilon)), profile)
            print(
                f"| {' × '.join(pair)} | {epsilon:g} | {outcome.value / joint.entropy:.6f} | "
                f"{more / joint.entropy:.6f} | {more / outcome.value:.1e} | {time.process_time() - start:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
