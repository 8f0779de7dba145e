"""Utility: what is left for the analyst."""

from sfumato.utility.ceiling import ceiling
from sfumato.utility.information import Information, information, mutual_information, nmi
from sfumato.utility.recovery import Recovery, recovery
from sfumato.utility.worst_case import LeastInformation, least_information

__all__ = [
    "Information", "LeastInformation", "Recovery", "ceiling", "information", "least_information", "mutual_information",
    "nmi", "recovery",
]
