"""General rows over the exact set F: all rows of a mechanism moved at once, under cuts at their worst pairs (ours).

I(X;Y) = Σ_y μ(v^y) is convex in the rows and the private rows are a convex cone. A convex function lies above its
tangents, so maximising the tangent at the rows at hand, a linear programme, cannot lower the value: no step length, no
line search. The cone is known through cuts at the worst pairs of the rows met so far.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.growing import INFINITY, GrowingLP
from sfumato.solve.watch import FREE, Watch
from sfumato.solve.worst_rows import MARGIN, Compared, Settled, compared, levelled, settled, value_of

STEPS = 8
FLOOR = 1e-5  # the slope at an entry of 0 is that of an entry this large, so that zeros are not final
NEAR = 0.2  # log-ratios this far below ε are cut at from the start
TIGHT = 1e-6  # nats above ε at which a pair counts as violated
STILL = 1e-5  # relative rise of the value below which the rows stay
USED = 1e-9  # mass below which an output is not used


class Moving:
    """The linear programme over all rows v[y, x] ≥ 0 with Σ_y v = 1 and the cuts so far."""

    def __init__(self, count: int, p: Floats, b: float, epsilon: float) -> None:
        self.p, self.b, self.epsilon, self.count = p, b, epsilon, count
        self.E = float(np.exp(epsilon - MARGIN))
        size = count * p.size
        self.lp = GrowingLP(np.zeros(size), np.zeros(size), np.full(size, INFINITY))
        self.lp.option("presolve", "off")
        one = np.ones(p.size)
        self.lp.add(sparse.csr_matrix(np.tile(np.eye(p.size), (1, count))), one, one)
        empty = np.argwhere(p <= 0)
        if len(empty):  # cells that never occur follow the others (`levelled`)
            tie = np.zeros((len(empty), *p.shape))
            for row, (s, u) in zip(tie, empty, strict=True):
                row[s] = -p[s] / p[s].sum()
                row[s, u] = 1.0
            nothing = np.zeros(count * len(empty))
            self.lp.add(sparse.kron(sparse.eye(count), tie.reshape(len(empty), -1)).tocsr(), nothing, nothing)

    def learn(self, rows: Floats, room: float) -> tuple[Compared, Ints]:
        """Cut at the pairs whose log-ratio exceeds ε less MARGIN by more than `room`; each row is cut at its own."""
        used = np.flatnonzero(rows @ self.p.ravel() > USED)
        known = compared(rows[used], self.p, self.b, 1e-2)
        bad = np.flatnonzero(known.ratio > self.E * np.exp(room))
        if len(bad):
            at = used[known.y[bad]][:, None] * self.p.size + np.arange(self.p.size)
            inside = known.cuts(self.E, bad)
            row, column = np.nonzero(inside)
            cut = sparse.csr_matrix(
                (inside[row, column], (row, at[row, column])), shape=(len(bad), self.count * self.p.size)
            )
            self.lp.add(cut, np.full(len(bad), -INFINITY), np.zeros(len(bad)))
        return known, used

    def moved(self, rows: Floats) -> Floats | None:
        """The rows that maximise the tangent of the value at `rows`: slopes P̂_x log(v_x/z)."""
        flat = self.p.ravel()
        z = np.maximum(rows @ flat, 1e-300)[:, None]
        slope = flat * np.log(np.maximum(rows / z, FLOOR))
        self.lp.cost(-slope.ravel())
        found = self.lp.solve()
        return np.maximum(found.x.reshape(rows.shape), 0.0) if found.optimal else None


def refined(rows: Floats, p: Floats, b: float, epsilon: float, *, steps: int = STEPS, watch: Watch = FREE) -> Settled:
    """Private rows at least as good as those given, which must be private: a local maximum over all rows.

    Rows between two cuts may be a little too steep; what is returned was mixed until it is private.
    """
    rows = levelled(rows, p)
    moving = Moving(len(rows), p, b, epsilon)
    known, _ = moving.learn(rows, -NEAR)
    best, at, first = rows, rows, value_of(rows, p)
    value = first
    for _ in range(steps):
        after = moving.moved(at)
        if after is None or watch.over:
            break
        found, used = moving.learn(after, TIGHT)
        # What is left of the value after mixing in as much of the constant law as the rows need.
        short = max(float(found.excess(moving.E).max()), 0.0) / (moving.E - 1.0)
        reached = value_of(after[used], p) / (1.0 + short)
        small = reached <= value * (1 + STILL)
        if reached > value:
            best, known, value = after[used], found, reached
            watch.tell("rows", value)
        if found.log_ratio <= epsilon + 10 * TIGHT:  # else it was cut off: the same tangent again
            at = after
            if small:
                break
    out = settled(best / best.sum(axis=0), p, b, epsilon, known)
    # Mixing can cost more than its share, because it fills zeros.
    return out if out.value >= first else settled(rows, p, b, epsilon)
