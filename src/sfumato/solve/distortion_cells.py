"""The bricks of the cone program of `distortion_cones`: linear rows, products, and the cells of one conditional."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Bools, Floats, Ints
from sfumato.solve.conic import ConicProgram
from sfumato.solve.distortion_problem import Problem

Terms = list[tuple[Ints, Floats]]  # variables with their factors: a linear expression for every entry


@dataclass(frozen=True, slots=True)
class Cells:
    """Which row holds x of cell [k, u], how k enters it, and whether it is a cone: enough to read the price of x."""

    row: Ints
    scale: Floats
    curved: Bools

    def prices(self, z: Floats) -> Floats:
        """Multipliers of x: k enters the first row of a cone with +scale and the second with −scale."""
        second = np.where(self.curved, z[np.minimum(self.row + 1, len(z) - 1)], 0.0)
        return np.asarray(np.maximum(self.scale * (z[self.row] - second), 0.0))


@dataclass(slots=True)
class Builder:
    """Numbers of variables and rows while the program grows."""

    problem: Problem
    program: ConicProgram

    def fresh(self, count: int) -> Ints:
        start = self.program.variables
        self.program.variables += count
        return np.arange(start, start + count)

    def rows(self, terms: Terms, *, equal: bool = False) -> Ints:
        """One row Σ values·variables ≥ 0 (or = 0) per entry of the terms."""
        count = len(terms[0][0])
        at = np.tile(np.arange(count), len(terms))
        put = self.program.equal if equal else self.program.nonnegative
        return put(count, at, *_joined(terms), np.zeros(count))

    def products(self, first: Terms, second: Terms, middle: Terms) -> Ints:
        """middle² ≤ first·second for linear expressions: (a + b, a − b, 2m) in the Lorentz cone; the first rows."""
        count = len(middle[0][0])
        i = np.arange(count)
        against = [(column, -value) for column, value in second]
        double = [(column, 2.0 * value) for column, value in middle]
        terms = [*first, *second, *first, *against, *double]
        wide = len(first) + len(second)
        at = np.concatenate([np.tile(3 * i, wide), np.tile(3 * i + 1, wide), np.tile(3 * i + 2, len(middle))])
        return self.program.product(count, at, *_joined(terms))[::3]

    def cells(self, p: Floats, r: Floats, nu: Ints, length: Ints, columns: Ints, values: Floats) -> Cells:
        """l ≤ r·(Σ_u p √x)², x = l/r + ν + Σ values·Q ≥ 0; p[k, u], columns and values [k, u, terms]."""
        curved = p > 0.0
        row, scale = np.zeros(p.shape, dtype=np.int64), np.zeros(p.shape)
        pair, cell = np.nonzero(~curved)
        if len(pair):
            kept = [(columns[pair, cell, i], r[pair] * values[pair, cell, i]) for i in range(columns.shape[2])]
            row[pair, cell] = self.rows([(length[pair], np.ones(len(pair))), (nu[pair], r[pair]), *kept])
            scale[pair, cell] = r[pair]
        pair, cell = np.nonzero(curved)
        if len(pair):
            h, share = self.fresh(len(pair)), 1.0 / np.sqrt(r[pair])
            kept = [(columns[pair, cell, i], share * values[pair, cell, i]) for i in range(columns.shape[2])]
            row[pair, cell] = self.products(
                [(length[pair], share)], [(nu[pair], share), *kept, (h, -2.0 * share)], [(h, np.ones(len(pair)))]
            )
            scale[pair, cell] = share
            heads, line = np.unique(pair, return_inverse=True)
            self.program.nonnegative(len(heads), line, h, p[pair, cell], np.zeros(len(heads)))
        return Cells(row, scale, curved)

    def side(self, y: Ints, s: Ints, factor: float, r: Floats) -> tuple[Ints, Ints, Cells]:
        """ν, l and cells of factor·Q(y|s,·) for every entry."""
        problem, count = self.problem, len(y)
        nu, length, us = self.fresh(count), self.fresh(count), problem.p.shape[1]
        start = y * problem.inputs + (s * us if problem.reads_both else 0)
        columns = (start[:, None] + np.arange(us))[:, :, None]
        p = problem.ball.conditional[s]
        return nu, length, self.cells(p, r, nu, length, columns, np.full((count, us, 1), factor))


def _joined(terms: Terms) -> tuple[Ints, Floats]:
    return np.concatenate([column for column, _ in terms]), np.concatenate([value for _, value in terms])
