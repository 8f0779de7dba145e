"""[003, Fig. 7]: DP and mutual-information leakage of the Class II set of Table II."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.reproduce.hamming_against_information import both_leakages
from sfumato.reproduce.hamming_sets import TEN


def make(folder: Path, points: int = 15) -> list[Path]:
    """003-fig7.csv, 003-fig7.png and what was found in 003-fig7.txt."""
    return both_leakages("003-fig7", TEN, np.linspace(0.02, 0.72, points), "Class II, M = 10", folder)
