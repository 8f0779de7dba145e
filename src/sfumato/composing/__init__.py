"""Composing: several releases of the same rows as one mechanism, and the level of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.composing.composition import Composition, Level, compose
    from sfumato.composing.joining import joined
    from sfumato.composing.repeating import Waves, waves
    from sfumato.composing.totals import Total, total_levels

__all__ = ["Composition", "Level", "Total", "Waves", "compose", "joined", "total_levels", "waves"]

on_demand(__name__, {
    "Composition": ".composition", "Level": ".composition", "Total": ".totals", "Waves": ".repeating",
    "compose": ".composition", "joined": ".joining", "total_levels": ".totals", "waves": ".repeating",
})
