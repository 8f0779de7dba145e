"""[003, Fig. 6]: DP and mutual-information leakage of a Class I set with M = 10 (the uniform law is the worst)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.reproduce.hamming_against_information import both_leakages


def run(out: Path, *, full: bool = False) -> str:
    """Data and picture in 003-fig6.csv and .svg."""
    points = 45 if full else 15
    return both_leakages("003-fig6", np.full((1, 10), 0.1), np.linspace(0.02, 0.92, points), "Class I, M = 10", out)
