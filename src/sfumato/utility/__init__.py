"""Utility: what is left for the analyst."""

from sfumato.utility.ceiling import ceiling
from sfumato.utility.information import Information, information, mutual_information, nmi
from sfumato.utility.loss import expected_distortion

__all__ = ["Information", "ceiling", "expected_distortion", "information", "mutual_information", "nmi"]
