"""[003, Fig. 5]: the least ε for a Hamming budget, for sources of the three classes with M = 10."""

from __future__ import annotations

from pathlib import Path

from sfumato.reproduce.hamming_sets import TEN, leakage_curves


def run(out: Path, *, full: bool = False) -> str:
    """Data and picture in 003-fig5.csv and .svg."""
    return leakage_curves("003-fig5", TEN, out, 199 if full else 49)
