"""Estimation: from released rows back to distributions, with intervals that hold for all cells at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.estimation.bundle_tables import BundleEstimate, estimate_bundle, from_answers, prospects
    from sfumato.estimation.estimates import Identifiable, estimate, read_release
    from sfumato.estimation.inversion import on_simplex
    from sfumato.estimation.models import model_of
    from sfumato.estimation.numbers import Figure, Numbers, logistic, numbers
    from sfumato.estimation.result import (
        NOTE,
        Estimate,
        Marginal,
        cells,
        cells_csv,
        marked,
        synthesise,
        tidy,
        tidy_csv,
        whole_number,
    )
    from sfumato.estimation.tables import TableEstimate

__all__ = on_demand(__name__)
