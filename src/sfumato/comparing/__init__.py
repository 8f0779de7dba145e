"""Comparing: every mechanism over a grid of ε, what it keeps and how well one can estimate from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.comparing.results import Comparison, Missing, Point, Precision, Realised, Spread
    from sfumato.comparing.running import compare, curve

__all__ = ["Comparison", "Missing", "Point", "Precision", "Realised", "Spread", "compare", "curve"]

on_demand(__name__, {
    "Comparison": ".results", "Missing": ".results", "Point": ".results", "Precision": ".results",
    "Realised": ".results", "Spread": ".results", "compare": ".running", "curve": ".running",
})
