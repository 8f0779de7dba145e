"""[003, Fig. 7]: DP and mutual-information leakage of the Class II set of Table II."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.reproduce.hamming_against_information import both_leakages
from sfumato.reproduce.hamming_sets import TEN


def run(out: Path, *, full: bool = False) -> str:
    """Data and picture in 003-fig7.csv and .svg."""
    points = 45 if full else 15
    return both_leakages("003-fig7", TEN, np.linspace(0.02, 0.72, points), "Class II, M = 10", out)
