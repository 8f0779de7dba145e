"""One linear programme for each secret, max Σ θ_h g(h) with Σ θ_h h = 1 and Σ θ_h = T, tied by the common T alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import DUAL, INFINITY, PRIMAL, LinearProgramme
from sfumato.optimise.product.layout import Arrangement

KEPT = 12  # columns kept for each row of a programme
USED = 1e-10  # area below which an atom is dropped
CLOSE, GRID = 1e-4, 4001  # of T: steps smaller than this end the search for it; places it is looked for at


class Family(Protocol):
    """The blocks of one secret: some to start from, and more by price."""

    @property
    def ends(self) -> Floats:
        """Two constants [h, u] that keep every T feasible."""

    def start(self) -> Floats:
        """Blocks [h, u], the ends first."""

    def gain(self, blocks: Floats) -> Floats:
        """g(h) = Σ_u q_u φ(h_u)."""

    def price(self, y: Floats, y0: float, tolerance: float) -> Floats:
        """Blocks with g(h) − y·h − y₀ above the tolerance; none where none is found."""


class Strand:
    """One secret's programme: its columns so far and its last solution; before the first, a mixture of constants."""

    lp: LinearProgramme | None = None

    def __init__(self, family: Family, total: float) -> None:
        self.family, self.blocks = family, family.ends
        low, high = self.blocks[:, 0]
        share = float(np.clip((1.0 - total * low) / max(high - low, 1e-300), 0.0, total))
        self.theta, self.gains = np.array([total - share, share]), family.gain(self.blocks)
        self.dual, self.value = np.zeros(self.blocks.shape[1] + 1), float(self.gains @ self.theta)

    def _begin(self, total: float) -> None:
        first, k = self.family.start(), self.blocks.shape[1]
        self.lp = LinearProgramme(np.zeros(0), np.zeros(0), np.zeros(0), maximise=True, warm=True)
        self.lp.add(sparse.csr_matrix((k + 1, 0)), np.append(np.ones(k), total), np.append(np.ones(k), total))
        self.blocks, self.gains, self.theta = np.zeros((0, k)), np.zeros(0), np.zeros(0)
        self._add(first)
        self._strategy = DUAL

    def _add(self, blocks: Floats) -> None:
        assert self.lp is not None
        gains, count = self.family.gain(blocks), len(blocks)
        full = np.concatenate([blocks, np.ones((count, 1))], axis=1)
        self.lp.add_columns(gains, np.zeros(count), np.full(count, INFINITY), full.T)
        self.blocks, self.gains = np.concatenate([self.blocks, blocks]), np.append(self.gains, gains)
        self.theta = np.append(self.theta, np.zeros(count))
        self._strategy = PRIMAL

    def at(self, total: float) -> None:
        """Another T, or the first one."""
        if self.lp is None:
            self._begin(total)
        else:
            self.lp.h.changeRowBounds(self.blocks.shape[1], total, total)
            self._strategy = DUAL

    def solve(self) -> None:
        assert self.lp is not None
        found = self.lp.solve(self._strategy)
        if found.optimal:
            self.theta, self.dual, self.value = found.x, found.row_dual, float(self.gains @ found.x)

    def advance(self, tolerance: float, rounds: int, budget: Budget) -> None:
        """Solve, and then price until no column is worth the tolerance or another turn would not fit into the time."""
        for turn in range(rounds):
            started = budget.clock()
            self.solve()
            if turn == rounds - 1 or budget.left <= budget.clock() - started:
                return
            blocks = self.family.price(self.dual[:-1], float(self.dual[-1]), tolerance)
            if not len(blocks):
                return
            self._forget()
            self._add(blocks)

    def _forget(self) -> None:
        most, count = KEPT * len(self.dual), len(self.gains)
        if count <= most:
            return
        worth = self.gains - self.blocks @ self.dual[:-1]
        worth[self.theta > 0] = np.inf
        worth[:2] = np.inf
        drop = np.sort(np.argsort(worth)[: count - most])
        assert self.lp is not None
        self.lp.drop_columns(drop)
        stay = np.setdiff1d(np.arange(count), drop)
        self.blocks, self.gains, self.theta = self.blocks[stay], self.gains[stay], self.theta[stay]


def decoupled(
    families: Sequence[Family], shares: Floats, total: float, low: float, high: float, budget: Budget, *,
    tolerance: float = 1e-5, rounds: int = 30, steps: int = 8, each: float = 0.0,
) -> Arrangement:
    """max over T of log T + Σ_s P̂_s G_s(T): each solution is a line over ΣG, the next T maximises log T under them.

    All are solved once before any is priced, common secrets first, each with an equal part of the time that is left;
    those that it does not reach keep their constants, and a step of T for which it does not suffice is not begun.
    `each` are the seconds that every secret with more than constants costs later: they are kept.
    """
    strands, order = [Strand(family, total) for family in families], np.argsort(-shares, kind="stable")
    best, layout, grid = -np.inf, None, np.geomspace(low, high, GRID)
    roof, took, done = np.full(GRID, np.inf), 0.0, 0
    for step in range(steps + 1):
        started, turns = budget.clock(), 1 if step == 0 else rounds if step == 1 else max(rounds // 3, 2)
        for i, s in enumerate(order):
            left = budget.less(each * (i + 1 if not step else done))
            if not step and left.left <= took / max(i, 1):
                break
            strands[s].at(total)
            part = left.part(1.0 / (len(order) - i))
            strands[s].advance(tolerance, turns, part)
            took, done = budget.clock() - started, max(done, i + 1)
        value = float(np.log(total) + shares @ [s.value for s in strands])
        if layout is None or value > best:
            best, layout = value, laid(strands, total)
        budget.tell("product", best)
        if step == 0 and done == len(order) and budget.left > each * done:
            continue
        duals = shares @ np.array([[s.dual[:-1].sum(), s.dual[-1]] for s in strands])
        roof = np.minimum(roof, duals[0] + duals[1] * grid)
        after = float(grid[int(np.argmax(np.log(grid) + roof))])
        if abs(after - total) < CLOSE * total or done < len(order) or budget.left - each * done <= took:
            break
        total = after
    assert layout is not None
    return layout


def laid(strands: list[Strand], total: float) -> Arrangement:
    """The atoms in use, side by side on [0, T]."""
    lengths, heights = [], []
    for s in strands:
        on = s.theta * s.blocks.max(1) > USED  # a short atom may be a tall one
        lengths.append(s.theta[on] * (total / s.theta[on].sum()))
        heights.append(s.blocks[on] / (lengths[-1] @ s.blocks[on]))
    return Arrangement(total, tuple(lengths), tuple(heights))
