"""From families of columns per secret to a design: decouple first, couple where the total cannot be level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.coupled import Points, couple
from sfumato.solve.decoupled import Decoupled, decouple
from sfumato.solve.dominated import dominate
from sfumato.solve.layout import Layout, layout_of_rows
from sfumato.solve.levelling import level
from sfumato.solve.pricing import Family
from sfumato.solve.watch import FREE, Watch

TINY = 16  # cells up to which decoupling is not worth its time
SMALL = 3_000_000  # products of point counts up to this are priced jointly


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A design in floats: layout, I(X;Y) in nats, the proved bound of its family, and which route found it."""

    layout: Layout
    value: float
    bound: float
    route: str

    @property
    def gap(self) -> float:
        return abs(self.bound - self.value) / max(abs(self.value), 1e-12)


def optimise(
    families: Sequence[Family],
    p: Floats,
    low: float,
    high: float,
    *,
    gap: float = 1e-7,
    points: list[Floats] | None = None,
    watch: Watch = FREE,
) -> Outcome:
    """The best mixture of rows in the product of the families, T between low and high."""
    shares = p.sum(axis=1)
    if p.size <= TINY and points is None and not watch.over:
        found = _direct(families, p, gap, watch)
        if found is not None:
            return found
    loose = max(gap, 1e-6) if len(p) * p.shape[1] > 40 else gap
    seed = decouple(families, shares, low, high, gap=loose, tolerance=loose, watch=watch)
    layout = level(seed.layout, p)
    best = Outcome(layout, layout.value(p), seed.bound, "decoupled")
    watch.tell("levelled", best.value, best.bound)
    watch.keep(layout, best.value, best.bound)
    if best.gap <= max(gap, loose) or watch.over:
        return best
    listed = points if points is not None else [f.points() for f in families] if p.shape[1] <= 8 else None
    if listed is None:
        return best
    return _better(best, _couple(listed, families, p, seed, best, gap, watch))


def _direct(families: Sequence[Family], p: Floats, gap: float, watch: Watch) -> Outcome | None:
    """Tiny tables: column generation from the constant row alone, which is over before decoupling would be.

    None if it does not close the gap.
    """
    points = [Points.of(f.points(), p[s]) for s, f in enumerate(families)]
    if float(np.prod([float(len(x.z)) for x in points])) > SMALL:
        return None
    found = couple(points, p, np.ones((1, p.size)), gap=gap, watch=watch)
    if found.status != "optimal":
        return None
    layout = layout_of_rows(found.rows, p)
    watch.keep(layout, found.value, found.bound)
    return Outcome(layout, found.value, found.bound, "coupled")


def _couple(
    listed: list[Floats],
    families: Sequence[Family],
    p: Floats,
    seed: Decoupled,
    best: Outcome,
    gap: float,
    watch: Watch,
) -> Outcome:
    points = [Points.of(h, p[s]) for s, h in enumerate(listed)]
    size = float(np.prod([float(len(x.z)) for x in points]))
    if size <= SMALL:
        start = np.concatenate([best.layout.rows(), np.ones((1, p.size))])
        duals = seed.duals - (1.0 - np.log(seed.layout.total)) * p
        found = couple(points, p, start, duals=duals, gap=gap, watch=watch)
        return Outcome(layout_of_rows(found.rows, p), found.value, found.bound, "coupled")
    grouped = dominate(points, families, p, seed, gap=max(gap, 1e-4), watch=watch)
    return Outcome(grouped.layout, grouped.layout.value(p), grouped.bound, "grouped")


def _better(a: Outcome, c: Outcome) -> Outcome:
    """The better design with the smaller bound: both bounds hold for the same family."""
    chosen = a if a.value >= c.value else c
    return Outcome(chosen.layout, chosen.value, min(a.bound, c.bound), chosen.route)
