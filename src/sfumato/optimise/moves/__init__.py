"""Moves: new private rows from any start, by maximising tangents of the aim over the cone (docs/robust.md, section 6).

What a row adds to the aim is convex and homogeneous, so a row that maximises its tangent at a row at hand cannot be
worse than that row: no step length is chosen, and any start will do.
"""

from __future__ import annotations

from typing import Protocol

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import Cone, RatioCone
from sfumato.optimise.moves.barrier import BallMover, Slopes, smooth
from sfumato.optimise.moves.cuts import CutMover


class Mover(Protocol):
    """Rows of mass 1, private or nearly so, that maximise the tangents of the aim at given rows."""

    def rows(self, slopes: Slopes, starts: Floats, budget: Budget) -> Floats:
        """One row for each start, fewer where the time is over or a programme fails."""


def mover(cone: Cone) -> Mover:
    """By Newton's method where the boundary of the cone is smooth and known in closed form, else by cuts."""
    return BallMover(cone) if isinstance(cone, RatioCone) and smooth(cone) else CutMover(cone)
