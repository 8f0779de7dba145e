"""Extreme rays of a polyhedral cone {v ≥ 0 : A v ≤ 0, E v = 0}, by double description."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.solve.paired_rays import PairedCone
from sfumato.solve.simple_rays import Degenerate, SimpleCone, TooManyRays

__all__ = ["Degenerate", "Rays", "TooManyRays", "extreme_rays"]


SLACKS = (2.0**-34, 2.0**-30, 2.0**-26)
"""Relaxations tried in turn when a cone is degenerate and large: well above rounding, far below any price of ε."""


@dataclass(frozen=True, slots=True, eq=False)
class Rays:
    """Extreme rays as rows that sum to 1, of the cone itself or of one that contains it."""

    vectors: Floats
    slack: float
    """The rows were relaxed to A_i v ≤ 2·slack·Σv at most (rows scaled to largest entry 1); 0 if exact."""
    proved: bool
    """Every edge has both its ends in the list. The graph of a polytope is connected, so none is missing."""


def extreme_rays(
    rows: Floats,
    equalities: Floats | None = None,
    *,
    dimension: int,
    limit: int = 1_500_000,
    deadline: float = math.inf,
) -> Rays:
    """All extreme rays of {v ≥ 0 : A v ≤ 0, E v = 0}, or of a slightly larger cone if it is degenerate and large.

    Raises TooManyRays when an intermediate cone exceeds `limit`, or at `deadline` (of time.monotonic).
    """
    cuts, flat = _scaled(rows, dimension), _scaled(equalities, dimension)
    flat = flat[_independent(flat)]
    try:
        return Rays(_described(SimpleCone, cuts, flat, dimension, limit, deadline), 0.0, True)
    except Degenerate:
        pass
    try:
        return Rays(_described(PairedCone, cuts, flat, dimension, limit, deadline), 0.0, False)
    except Degenerate:
        pass
    for slack in SLACKS:
        shift = slack * (1.0 + np.random.default_rng(7).random(len(cuts)))
        try:
            return Rays(
                _described(SimpleCone, cuts - shift[:, None], flat, dimension, limit, deadline), slack, True
            )
        except Degenerate:
            continue
    raise Degenerate(f"no relaxation up to {SLACKS[-1]:g} makes the cone simple")


def _described(
    kind: type[SimpleCone] | type[PairedCone],
    cuts: Floats,
    flat: Floats,
    dimension: int,
    limit: int,
    deadline: float,
) -> Floats:
    cone = kind(dimension, dimension + len(cuts), limit)
    for row in flat:
        cone.cut(row, None)
    pending = list(range(len(cuts)))
    while pending and len(cone.vectors):
        lost = np.count_nonzero(cone.vectors @ cuts[pending].T > 0.0, axis=0)
        best = int(lost.argmax())  # cutting off most rays first keeps the intermediate cones small
        if lost[best] == 0:
            break
        if time.monotonic() > deadline:
            raise TooManyRays(f"{len(cone.vectors)} rays and counting when time was up")
        index = pending.pop(best)
        cone.cut(cuts[index], dimension + index)
    return cone.vectors


def _scaled(rows: Floats | None, dimension: int) -> Floats:
    if rows is None or len(rows) == 0:
        return np.zeros((0, dimension))
    size = np.abs(rows).max(axis=1)
    kept = size > 0.0
    return np.asarray(rows[kept] / size[kept, None], dtype=np.float64)


def _independent(rows: Floats) -> list[int]:
    """Indices of a maximal independent set of rows, by pivoted orthogonalisation."""
    chosen: list[int] = []
    rest = rows.copy()
    while len(rest):
        norms = np.linalg.norm(rest, axis=1)
        best = int(norms.argmax())
        if norms[best] < 1e-10:
            break
        chosen.append(best)
        unit = rest[best] / norms[best]
        rest = rest - np.outer(rest @ unit, unit)
    return chosen
