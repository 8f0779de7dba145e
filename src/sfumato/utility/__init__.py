"""Utility: what is left for the analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.utility.ceilings import (
        LeastInformation,
        Recovery,
        ceiling,
        expected_distortion,
        least_information,
        recovery,
    )
    from sfumato.utility.information import Information, information, mutual_information, nmi

__all__ = [
    "Information", "LeastInformation", "Recovery", "ceiling", "expected_distortion", "information",
    "least_information", "mutual_information", "nmi", "recovery",
]

on_demand(__name__, {
    "Information": ".information", "LeastInformation": ".ceilings", "Recovery": ".ceilings",
    "ceiling": ".ceilings",
    "expected_distortion": ".ceilings", "information": ".information", "least_information": ".ceilings",
    "mutual_information": ".information", "nmi": ".information", "recovery": ".ceilings",
})
