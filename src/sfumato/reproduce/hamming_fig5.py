"""[003, Fig. 5]: the least ε for a Hamming budget, for sources of the three classes with M = 10."""

from __future__ import annotations

from pathlib import Path

from sfumato.reproduce.hamming_sets import TEN, leakage_curves


def make(folder: Path) -> list[Path]:
    """003-fig5.csv, 003-fig5.png and what was found in 003-fig5.txt."""
    return leakage_curves("003-fig5", TEN, folder)
