"""[003, Fig. 4]: the least ε for a Hamming budget, for sources of the three classes with M = 6."""

from __future__ import annotations

from pathlib import Path

from sfumato.reproduce.hamming_sets import SIX, leakage_curves


def run(out: Path, *, full: bool = False) -> str:
    """Data and picture in 003-fig4.csv and .svg."""
    return leakage_curves("003-fig4", SIX, out, 199 if full else 49)
