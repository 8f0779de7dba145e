"""Estimation: from released rows back to distributions, with intervals that hold for all cells at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.estimates import Identifiable, estimate
    from sfumato.estimation.inversion import on_simplex
    from sfumato.estimation.numbers import Figure, Numbers, numbers
    from sfumato.estimation.result import Estimate, Marginal, synthesise, tidy, tidy_csv
    from sfumato.estimation.tables import TableEstimate

__all__ = [
    "BundleEstimate", "Estimate", "Figure", "Identifiable", "Marginal", "Numbers", "TableEstimate", "estimate",
    "numbers", "on_simplex", "synthesise", "tidy", "tidy_csv",
]

on_demand(__name__, {
    "BundleEstimate": ".bundle_tables", "Estimate": ".result", "Figure": ".numbers", "Identifiable": ".estimates",
    "Marginal": ".result", "Numbers": ".numbers", "TableEstimate": ".tables", "estimate": ".estimates",
    "numbers": ".numbers", "on_simplex": ".inversion", "synthesise": ".result", "tidy": ".result",
    "tidy_csv": ".result",
})
