"""Utility: what is left for the analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.utility.ceiling import ceiling
    from sfumato.utility.information import Information, information, mutual_information, nmi
    from sfumato.utility.loss import expected_distortion
    from sfumato.utility.recovery import Recovery, recovery
    from sfumato.utility.worst_case import LeastInformation, least_information

__all__ = [
    "Information", "LeastInformation", "Recovery", "ceiling", "expected_distortion", "information",
    "least_information", "mutual_information", "nmi", "recovery",
]

on_demand(__name__, {
    "Information": ".information", "LeastInformation": ".worst_case", "Recovery": ".recovery", "ceiling": ".ceiling",
    "expected_distortion": ".loss", "information": ".information", "least_information": ".worst_case",
    "mutual_information": ".information", "nmi": ".information", "recovery": ".recovery",
})
