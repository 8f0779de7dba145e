"""Utility: what is left for the analyst."""

from sfumato.utility.ceiling import ceiling
from sfumato.utility.information import Information, information, mutual_information, nmi

__all__ = ["Information", "ceiling", "information", "mutual_information", "nmi"]
