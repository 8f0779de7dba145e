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

__all__ = on_demand(__name__, {
    ".ceilings": "LeastInformation Recovery ceiling expected_distortion least_information recovery",
    ".information": "Information information mutual_information nmi",
})
