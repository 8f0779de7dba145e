"""Programmes of laws and boxes under linear rows and sums of homogeneous power and entropy terms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.alphabet import Floats, Ints

ROUNDING = 2.0**-51  # of a power, a product or a sum in floats, with room to spare


@dataclass(frozen=True, slots=True, eq=False)
class PowerSum:
    """Σ_j (κ u_j)^a v_j^{−b} w_j^{−d} ≤ 1; d = 0 leaves w out. Indices into x."""

    scale: float
    b: float
    d: float
    u: Ints
    v: Ints
    w: Ints

    @property
    def a(self) -> float:
        return 1 + self.b + self.d


@dataclass(frozen=True, slots=True, eq=False)
class EntropySum:
    """Σ_j u_j log(u_j / v_j) ≤ limit."""

    limit: float
    u: Ints
    v: Ints


def limit(part: PowerSum | EntropySum) -> float:
    """The right-hand side of a sum."""
    return part.limit if isinstance(part, EntropySum) else 1.0


@dataclass(slots=True, eq=False)
class Programme:
    """Built up by the caller; `size` counts the variables so far."""

    cost: list[Floats] = field(default_factory=list)
    groups: list[Ints] = field(default_factory=list)
    boxes: list[Ints] = field(default_factory=list)
    rows: list[tuple[Ints, Floats, float]] = field(default_factory=list)
    sums: list[PowerSum | EntropySum] = field(default_factory=list)
    size: int = 0

    def law(self, cost: Floats) -> Ints:
        """A new group of variables that is a law, with its costs."""
        names = self._new(cost)
        self.groups.append(names)
        return names

    def box(self, count: int) -> Ints:
        """New variables in [0, 1] without cost."""
        names = self._new(np.zeros(count))
        self.boxes.append(names)
        return names

    def at_most(self, names: Ints, weights: Floats, limit: float) -> None:
        """Σ weights·x[names] ≤ limit."""
        self.rows.append((names, weights, limit))

    def _new(self, cost: Floats) -> Ints:
        names = np.arange(self.size, self.size + cost.size)
        self.size += cost.size
        self.cost.append(cost)
        return names


class Lagrangian:
    """Reduced costs at multipliers ≥ 0, and the least value they allow, less what rounding may have added."""

    def __init__(self, cost: Floats) -> None:
        self.reduced, self.sizes = cost.copy(), np.abs(cost)
        self.constant, self.largest, self.parts = 0.0, 0.0, 16

    def add(self, names: Ints, weights: Floats) -> None:
        np.add.at(self.reduced, names, weights)
        np.add.at(self.sizes, names, np.abs(weights))
        self.parts += 1

    def less(self, amount: float) -> None:
        self.constant -= amount
        self.largest += abs(amount)

    def least(self, programme: Programme) -> float:
        """The minimum over laws and boxes. Each sum of k floats is off by at most k units of its absolute sum."""
        value = self.constant + sum(float(self.reduced[group].min()) for group in programme.groups)
        value += sum(float(np.minimum(self.reduced[box], 0).sum()) for box in programme.boxes)
        worst = sum(float(self.sizes[group].max()) for group in programme.groups)
        worst += sum(float(self.sizes[box].sum()) for box in programme.boxes) + self.largest
        return value - ROUNDING * (self.parts + len(programme.groups) + len(programme.boxes)) * worst
