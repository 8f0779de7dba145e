"""[003, Fig. 4]: the least ε for a Hamming budget, for sources of the three classes with M = 6."""

from __future__ import annotations

from pathlib import Path

from sfumato.reproduce.hamming_sets import SIX, leakage_curves


def make(folder: Path) -> list[Path]:
    """003-fig4.csv, 003-fig4.png and what was found in 003-fig4.txt."""
    return leakage_curves("003-fig4", SIX, folder)
