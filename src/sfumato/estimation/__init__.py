"""Estimation: from released rows back to distributions, with intervals that hold for all cells at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.estimation.bundled import BundleEstimate
    from sfumato.estimation.entry import estimate
    from sfumato.estimation.identifiable import Identifiable
    from sfumato.estimation.numbers import Figure, Numbers, numbers
    from sfumato.estimation.result import Estimate, Marginal
    from sfumato.estimation.simplex import on_simplex
    from sfumato.estimation.synthesis import synthesise
    from sfumato.estimation.tables import TableEstimate
    from sfumato.estimation.tidy import tidy, tidy_csv

__all__ = [
    "BundleEstimate", "Estimate", "Figure", "Identifiable", "Marginal", "Numbers", "TableEstimate", "estimate",
    "numbers", "on_simplex", "synthesise", "tidy", "tidy_csv",
]

on_demand(__name__, {
    "BundleEstimate": ".bundled", "Estimate": ".result", "Figure": ".numbers", "Identifiable": ".identifiable",
    "Marginal": ".result", "Numbers": ".numbers", "TableEstimate": ".tables", "estimate": ".entry",
    "numbers": ".numbers", "on_simplex": ".simplex", "synthesise": ".synthesis", "tidy": ".tidy", "tidy_csv": ".tidy",
})
