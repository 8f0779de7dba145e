"""Comparing: every mechanism over a grid of ε, what it keeps and how well one can estimate from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.comparing.comparison import Comparison
    from sfumato.comparing.entry import compare, curve
    from sfumato.comparing.points import Missing, Point, Precision, Realised, Spread

__all__ = ["Comparison", "Missing", "Point", "Precision", "Realised", "Spread", "compare", "curve"]

on_demand(__name__, {
    "Comparison": ".comparison", "Missing": ".points", "Point": ".points", "Precision": ".points",
    "Realised": ".points", "Spread": ".points", "compare": ".entry", "curve": ".entry",
})
