"""Designs where one secret dominates: its point fixes the group, the others are decoupled within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.coupled import Points, Product
from sfumato.solve.decoupled import Decoupled
from sfumato.solve.grouped import Found, Grouped, concatenated
from sfumato.solve.pricing import Family, Priced
from sfumato.solve.watch import FREE, Watch


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A family of one point."""

    q: Floats
    point: Floats
    value: float

    def start(self) -> Floats:
        return self.point[None]

    def points(self) -> Floats:
        return self.point[None]

    def gain(self, columns: Floats) -> Floats:
        return np.full(len(columns), self.value)

    def price(self, y: Floats, y0: float, tolerance: float) -> Priced:
        return Priced(np.zeros((0, len(self.q))), np.zeros(0))

    def ceiling(self, y: Floats, y0: float) -> float:
        return self.value - float(self.point @ y) - y0


def dominate(
    points: list[Points],
    families: Sequence[Family],
    p: Floats,
    seed: Decoupled,
    *,
    gap: float = 1e-4,
    batch: int = 6,
    watch: Watch = FREE,
) -> Found:
    """Groups by the point of the secret whose height varies most; new groups enter by their price (ours)."""
    product = Product(points, most=1)
    head = int(product.sequence[0])
    shares = p.sum(axis=1)
    grouped = Grouped(p)
    taken: set[int] = set()

    def open_group(i: int) -> None:
        taken.add(i)
        fixed = Fixed(p[head] / shares[head], points[head].heights[i], float(points[head].gain[i] / shares[head]))
        blocks: list[Family] = list(families)
        blocks[head] = fixed
        k = grouped.add_group(blocks)
        for s in range(len(p)):
            if s != head:
                columns = seed.layout.heights[s]
                grouped.add(s, k, columns, families[s].gain(columns))

    for row in seed.layout.heights[head]:
        open_group(int(np.abs(points[head].heights - row).sum(axis=1).argmin()))
    bound = seed.bound
    while True:
        grouped.run(gap=gap / 10, tolerance=gap / 10, watch=watch)
        choice, _, upper = product.price(grouped.duals(), batch)
        bound = min(bound, float(grouped.duals().sum()) + max(upper, 0.0))
        watch.tell("grouped", grouped.true_objective(), bound)
        fresh = [i for i in dict.fromkeys(choice[:, head].tolist()) if i not in taken]
        if bound - grouped.true_objective() <= gap * abs(grouped.objective) or not fresh or watch.over:
            break
        for i in fresh:
            open_group(i)
    parts = grouped.layouts()
    return Found(concatenated(parts, p), grouped.true_objective(), bound, grouped.duals(), grouped.totals(), parts)
