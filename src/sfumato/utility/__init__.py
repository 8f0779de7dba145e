"""Utility: what is left for the analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.utility.expected_loss import expected_distortion
    from sfumato.utility.information import Information, information, mutual_information, nmi
    from sfumato.utility.limits import LeastInformation, ceiling, least_information
    from sfumato.utility.recovery import Recovery, recovery

__all__ = [
    "Information", "LeastInformation", "Recovery", "ceiling", "expected_distortion", "information",
    "least_information", "mutual_information", "nmi", "recovery",
]

on_demand(__name__, {
    "Information": ".information", "LeastInformation": ".limits", "Recovery": ".recovery", "ceiling": ".limits",
    "expected_distortion": ".expected_loss", "information": ".information", "least_information": ".limits",
    "mutual_information": ".information", "nmi": ".information", "recovery": ".recovery",
})
