"""Comparing: every mechanism over a grid of ε, what it keeps and how well one can estimate from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.comparing.page import advice, error_picture, kept_picture, page
    from sfumato.comparing.results import Comparison, Missing, Point, Precision, Realised, Spread
    from sfumato.comparing.running import ENTRANTS, PLAIN, compare, curve, entrants, levels

__all__ = on_demand(__name__, {
    ".page": "advice error_picture kept_picture page",
    ".results": "Comparison Missing Point Precision Realised Spread",
    ".running": "ENTRANTS PLAIN compare curve entrants levels",
})
