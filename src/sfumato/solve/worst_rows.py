"""Rows against every pair of secrets over the exact set F: worst ratios, the cuts they give, and mixing until private.

A row v is private over F if R₁·v_{s₁} ≤ E·R₂·v_{s₂} for all pairs of conditionals that occur together in F. Each pair
is one linear inequality, so the private rows are a convex cone and a worst pair of a row that is not private cuts it
off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.uncertainty.tilting import SPLIT_CLOSE, worst_pairs

MARGIN = 1e-7  # nats left for the sealing of weights into integers
MIXINGS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Rows of unit mass under P̂ and, for every row y and pair s₁ ≠ s₂, the worst conditionals and their ratio."""

    rows: Floats  # [y, s, u]
    y: Ints
    s1: Ints
    s2: Ints
    ratio: Floats
    first: Floats  # R₁ [i, u]
    second: Floats

    @property
    def log_ratio(self) -> float:
        return float(np.log(self.ratio.max(initial=1.0)))

    def excess(self, E: float) -> Floats:
        """Per row, the greatest R₁·v₁ − E·R₂·v₂ over the pairs found; positive where the row is not private."""
        top = (self.first * self.rows[self.y, self.s1]).sum(1)
        low = (self.second * self.rows[self.y, self.s2]).sum(1)
        return np.asarray((top - E * low).reshape(len(self.rows), -1).max(1))

    def cuts(self, E: float, which: Ints) -> Floats:
        """The inequalities a·v ≤ 0 of some of the pairs, a = R₁ on s₁ and −E·R₂ on s₂ [i, x]."""
        out = np.zeros((len(which), *self.rows.shape[1:]))
        at = np.arange(len(which))
        out[at, self.s1[which]] = self.first[which]
        out[at, self.s2[which]] = -E * self.second[which]
        return np.asarray(out.reshape(-1, self.rows.shape[1] * self.rows.shape[2]))


def compared(rows: Floats, p: Floats, b: float, close: float = SPLIT_CLOSE) -> Compared:
    """The worst pairs of every row; a looser `close` gives pairs that are feasible but not quite the worst."""
    S, U = p.shape
    shares = p.sum(axis=1)
    q = p / shares[:, None]
    unit = (rows / (rows @ p.ravel())[:, None]).reshape(-1, S, U)
    first, second = np.nonzero(~np.eye(S, dtype=bool))
    y = np.repeat(np.arange(len(rows)), len(first))
    s1, s2 = np.tile(first, len(rows)), np.tile(second, len(rows))
    found = worst_pairs(unit[y, s1], q[s1], shares[s1], unit[y, s2], q[s2], shares[s2], b, close)
    return Compared(unit, y, s1, s2, found.ratio, found.first, found.second)


def levelled(rows: Floats, p: Floats) -> Floats:
    """The rows with the mean of the secret's other cells wherever P̂ = 0.

    Nothing is lost: P̂ does not see these cells, columns still sum to 1, and a row that is private stays so, because
    moving the mass of a conditional from there to q brings it nearer to P̂ (docs/robust.md, section 6).
    """
    if (p > 0).all():
        return rows
    blocks = rows.reshape(-1, *p.shape)
    mean = (blocks * p).sum(2) / p.sum(1)
    return np.asarray(np.where(p > 0, blocks, mean[:, :, None]).reshape(rows.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Rows Q[y, x] with their value in nats and their worst log-ratio over F, in floats."""

    rows: Floats
    value: float
    log_ratio: float


def value_of(rows: Floats, p: Floats) -> float:
    """I(X;Y) of rows Q[y, x]."""
    flat = p.ravel()
    return float((xlogx(rows) @ flat).sum() - xlogx(rows @ flat).sum())


def settled(rows: Floats, p: Floats, b: float, epsilon: float, known: Compared | None = None) -> Settled:
    """The rows, mixed with the constant law just enough that their level is ε − MARGIN.

    A row of unit mass with R₁·v₁ − E·R₂·v₂ ≤ x stays within E after adding x/(E − 1) of the constant row. All rows are
    mixed alike, so columns still sum to 1.
    """
    E = float(np.exp(epsilon - MARGIN))
    for _ in range(MIXINGS):
        known = known or compared(rows, p, b)
        level = known.log_ratio
        if level <= epsilon - MARGIN:
            break
        odds = float(known.excess(E).max()) / (E - 1.0) * (1 + 1e-6) + 1e-10
        rows = (rows + odds * (rows @ p.ravel())[:, None]) / (1.0 + odds)
        known = None
    return Settled(rows, value_of(rows, p), level)


def inside(rows: Floats, known: Compared, p: Floats, b: float, epsilon: float) -> Floats:
    """Each row scaled to unit mass and mixed by itself until it is private."""
    E = float(np.exp(epsilon - MARGIN))
    unit = known.rows.reshape(len(rows), -1)
    for _ in range(MIXINGS):
        odds = known.excess(E) / (E - 1.0)
        if odds.max(initial=0.0) <= 0.0:
            break
        odds = np.where(odds > 0, odds * (1 + 1e-6) + 1e-10, 0.0)[:, None]
        unit = (unit + odds) / (1.0 + odds)
        known = compared(unit, p, b)
    return unit
