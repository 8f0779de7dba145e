"""Composing: several releases of the same rows as one mechanism, and the level of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.composing.composition import Composition, Level, compose
    from sfumato.composing.joining import Total, joined, total_levels
    from sfumato.composing.repeating import Waves, waves

__all__ = on_demand(__name__, {
    ".composition": "Composition Level compose",
    ".joining": "Total joined total_levels",
    ".repeating": "Waves waves",
})
