"""Mix in a little of the constant law until the exact level leaves a margin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.layout import Layout
from sfumato.solve.watch import FREE, Watch
from sfumato.solve.worst_atoms import worst_of_atoms
from sfumato.solve.worst_rows import MARGIN


def mixed(layout: Layout, share: float) -> Layout:
    """(1 − η)·Q + η·(constant law with the same output lengths): column sums stay 1, every ratio moves towards 1."""
    flat = share / layout.total
    return Layout(layout.total, layout.lengths, tuple((1.0 - share) * h + flat for h in layout.heights))


def worst(layout: Layout, p: Floats, b: float) -> float:
    """The worst log-ratio of a layout over F."""
    return worst_of_atoms(list(layout.heights), layout.cells()[1], p, b)


def with_margin(
    layout: Layout, p: Floats, b: float, epsilon: float, margin: float = MARGIN, found: float | None = None
) -> Layout:
    """The layout, mixed just enough that its worst ratio over F is at most ε − margin.

    (M + ηc)/(m + ηc) ≤ E' needs ηc ≥ (M − E'm)/(E' − 1); M ≤ E'm + excess·m with m at most the greatest height.
    Checked, doubled if short.
    """
    goal = epsilon - margin
    found = worst(layout, p, b) if found is None else found
    if found <= goal:
        return layout
    E = float(np.exp(goal))
    tall = max(float((h @ p[s]).max() / p[s].sum()) for s, h in enumerate(layout.heights)) * layout.total
    share = 1.02 * (float(np.exp(found)) - E) / (E - 1.0) * tall + 1e-12
    for _ in range(40):
        share = min(share, 1.0)
        candidate = mixed(layout, share)
        if worst(candidate, p, b) <= goal or share == 1.0:
            break
        share *= 2.0
    return candidate


def boosted(
    design: Callable[[float], tuple[Layout, float]], p: Floats, b: float, epsilon: float, *, turns: int = 3,
    watch: Watch = FREE,
) -> tuple[Layout, float]:
    """Design at a nominal ε above the one asked for, as far as the exact level over F allows; layout and bound
    at that nominal ε.

    A design for a larger set (product set, single profile) often stops short of ε on F itself; the rest is free (ours).
    """
    nominal, best = epsilon, None
    for _ in range(turns):
        raw, bound = design(nominal)
        level = worst(raw, p, b)
        room = epsilon - MARGIN - level
        layout = with_margin(raw, p, b, epsilon, found=level)
        value = layout.value(p)
        watch.tell("over F", value, bound)
        watch.keep(layout, value)
        if best is None or value > best[0].value(p):
            best = (layout, bound)
        if abs(room) < 1e-5 * epsilon or watch.over:
            break
        nominal += room
    assert best is not None
    return best
