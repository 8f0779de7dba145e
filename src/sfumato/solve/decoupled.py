"""The decoupled design: one small LP per secret, tied by the common length T alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.layout import Layout
from sfumato.solve.mixture import Mixture
from sfumato.solve.pricing import Family
from sfumato.solve.watch import FREE, Watch

UNLEVELLED = 1e6  # what a layout counts less while its total is not level: any levelled one is better


@dataclass(frozen=True, slots=True)
class Cut:
    """A proved line over Σ_s G_s: for all T, Σ_s G_s(T) ≤ intercept + slope·T (weak duality with the pricing
    residual in the slope)."""

    intercept: float
    slope: float

    def bound(self, low: float, high: float) -> float:
        """max over T in [low, high] of log T + intercept + slope·T."""
        T = min(max(-1.0 / self.slope, low), high) if self.slope < 0 else high
        return float(np.log(T) + self.intercept + self.slope * T)


@dataclass(eq=False)
class Strand:
    """One secret's LP: its columns so far and the duals of its last solution."""

    family: Family
    share: float
    lp: Mixture
    rounds: int = 0

    def advance(self, tolerance: float, rounds: int, watch: Watch) -> None:
        """Solve and price until no column beats the tolerance."""
        for turn in range(rounds):
            if not self.lp.solve():
                return
            self.rounds += 1
            priced = self.family.price(self.lp.dual[:-1], float(self.lp.dual[-1]), tolerance)
            if len(priced.gains) == 0 or turn == rounds - 1 or watch.over:
                return
            self.lp.forget(12 * len(self.lp.dual))
            self.lp.add(priced.columns, priced.gains)

    def proved(self, y: Floats) -> Cut:
        """G_s(T) ≤ Σ_u y_u + (y₀ + residual)·T, times P̂_s, for any duals y: the residual is proved by the family."""
        residual = max(self.family.ceiling(y[:-1], float(y[-1])), 0.0)
        return Cut(self.share * float(y[:-1].sum()), self.share * (float(y[-1]) + residual))


@dataclass(frozen=True, slots=True, eq=False)
class Decoupled:
    """Atoms per secret on [0, T], the decoupled objective log T + Σ G_s(T), a proved bound on it, and the duals y[s,
    u]."""

    layout: Layout
    objective: float
    bound: float
    duals: Floats
    strands: list[Strand] = field(repr=False)


def proved(strands: list[Strand], duals: list[Floats]) -> Cut:
    """The sum of the strands' proved lines."""
    cuts = [strand.proved(y) for strand, y in zip(strands, duals, strict=True)]
    return Cut(sum(c.intercept for c in cuts), sum(c.slope for c in cuts))


def combined(a: Cut, c: Cut, low: float, high: float) -> float:
    """The best bound from convex combinations of two cuts: all of them are valid lines."""
    weights = np.linspace(0.0, 1.0, 33)
    for _ in range(6):
        bounds = [
            Cut(*(t * np.array([a.intercept, a.slope]) + (1 - t) * np.array([c.intercept, c.slope]))).bound(low, high)
            for t in weights
        ]
        j = int(np.argmin(bounds))
        weights = np.linspace(weights[max(j - 1, 0)], weights[min(j + 1, 32)], 33)
    return min(bounds)


def decouple(
    families: Sequence[Family],
    shares: Floats,
    low: float,
    high: float,
    *,
    tolerance: float = 1e-7,
    gap: float = 1e-7,
    steps: int = 30,
    first: float | None = None,
    watch: Watch = FREE,
    prove: bool = True,
    rounds: tuple[int, int] = (200, 200),
) -> Decoupled:
    """max over T in [low, high] of log T + Σ_s G_s(T) by cutting planes in T (ours; docs/robust.md, section 3).

    Every LP solution gives a line over Σ G_s; the next T maximises log T under the lines. `rounds` limits column
    generation per secret at
    the first T and at later ones: large tables get most of their value in a few rounds, and the bound holds whatever
    the duals.
    """
    dimension = families[0].start().shape[1]
    T = first if first is not None else 0.5 * (low + high)
    strands = []
    for family, share in zip(families, shares, strict=True):
        strand = Strand(family, float(share), Mixture(dimension, T))
        columns = family.start()
        strand.lp.add(columns, family.gain(columns))
        strand.lp.anchor(2)
        strands.append(strand)
    left: tuple[Cut, list[Floats]] | None = None
    right: tuple[Cut, list[Floats]] | None = None
    best_value, best = -np.inf, None
    for step in range(steps):
        if step:
            for strand in strands:
                strand.lp.set_total(T)
        for strand in strands:
            strand.advance(tolerance, rounds[min(step, 1)], watch)
        cut = _total(strands)
        value = float(np.log(T)) + sum(s.share * s.lp.value for s in strands)
        if value > best_value:
            best_value = value
            best = _snapshot(strands, T)
        duals = [strand.lp.dual for strand in strands]
        if 1.0 / T + cut.slope > 0:
            left = (cut, duals)
        else:
            right = (cut, duals)
        believed = min(x[0].bound(low, high) for x in (left, right) if x)
        if left and right:
            believed = min(believed, combined(left[0], right[0], low, high))
        watch.tell("decoupled", best_value, believed)
        assert best is not None
        watch.keep(best[0], best_value - UNLEVELLED)
        if believed - best_value <= gap * max(abs(best_value), 1e-9) or watch.over:
            break
        T_next = _next(left and left[0], right and right[0], low, high)
        if abs(T_next - T) < 1e-13:
            break
        T = T_next
    assert best is not None
    sides = [proved(strands, x[1]) if prove else x[0] for x in (left, right) if x]
    bound = min(x.bound(low, high) for x in sides)
    layout, at_best = best
    if len(sides) == 2:
        bound = min(bound, combined(sides[0], sides[1], low, high))
        at_best = _blend(left, right, layout.total, shares)
    return Decoupled(layout, best_value, bound, at_best, strands)


def _blend(
    left: tuple[Cut, list[Floats]] | None, right: tuple[Cut, list[Floats]] | None, T: float, shares: Floats
) -> Floats:
    """Duals between the two sides of a kink whose slope in T is −1/T, as the optimum asks."""
    assert left and right
    across = left[0].slope - right[0].slope
    t = float(np.clip((-1.0 / T - right[0].slope) / across, 0.0, 1.0)) if across > 0 else 0.5
    return np.array([p * (t * a + (1 - t) * c)[:-1] for p, a, c in zip(shares, left[1], right[1], strict=True)])


def _total(strands: list[Strand]) -> Cut:
    """The line the LPs believe in: pricing is taken to be complete. For steering only."""
    return Cut(
        sum(s.share * float(s.lp.dual[:-1].sum()) for s in strands),
        sum(s.share * float(s.lp.dual[-1]) for s in strands),
    )


def _snapshot(strands: list[Strand], T: float) -> tuple[Layout, Floats]:
    lengths, heights = [], []
    for s in strands:
        on = s.lp.theta > 1e-13
        lengths.append(s.lp.theta[on])
        heights.append(s.lp.columns[on])
    duals = np.array([s.share * s.lp.dual[:-1] for s in strands])
    return Layout(T, tuple(lengths), tuple(heights)), duals


def _next(left: Cut | None, right: Cut | None, low: float, high: float) -> float:
    """The maximiser of log T under the lines known so far."""
    if left is None or right is None:
        only = left or right
        assert only is not None
        T = -1.0 / only.slope if only.slope < 0 else high
        return min(max(T, low), high)
    cross = (left.intercept - right.intercept) / (right.slope - left.slope) if left.slope != right.slope else low
    if left.slope < 0 and -1.0 / left.slope < cross:
        cross = -1.0 / left.slope
    if right.slope < 0 and -1.0 / right.slope > cross:
        cross = -1.0 / right.slope
    return min(max(cross, low), high)
