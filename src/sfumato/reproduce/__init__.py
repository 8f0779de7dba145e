"""Figures and tables of the papers, reproduced by name: one module per figure, each with `run(out, *, full)`.

`run` writes its data and, where matplotlib is installed (the extra `figures`), a picture into the folder `out`, and
returns one verdict line against the printed numbers.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from sfumato.errors import unknown

FIGURES: dict[str, str] = {
    "000-ex1": "sfumato.reproduce.robust_ex1",
    "000-ex2": "sfumato.reproduce.robust_ex2",
    "000-ex3": "sfumato.reproduce.robust_ex3",
    "000-ex4": "sfumato.reproduce.robust_ex4",
    "000-ex5": "sfumato.reproduce.robust_ex5",
    "000-fig2": "sfumato.reproduce.robust_fig2",
    "000-fig3": "sfumato.reproduce.robust_fig3",
    "000-fig4": "sfumato.reproduce.robust_fig4",
    "000-fig5": "sfumato.reproduce.robust_fig5",
    "000-tab2": "sfumato.reproduce.robust_tab2",
    "001-fig3": "sfumato.reproduce.funnel_fig3",
    "001-fig4": "sfumato.reproduce.funnel_fig4",
    "001-fig5": "sfumato.reproduce.funnel_fig5",
    "001-fig6": "sfumato.reproduce.funnel_fig6",
    "001-fig7": "sfumato.reproduce.funnel_fig7",
    "001-fig8": "sfumato.reproduce.funnel_fig8",
    "002-fig2": "sfumato.reproduce.distortion_fig2",
    "003-fig4": "sfumato.reproduce.hamming_fig4",
    "003-fig5": "sfumato.reproduce.hamming_fig5",
    "003-fig6": "sfumato.reproduce.hamming_fig6",
    "003-fig7": "sfumato.reproduce.hamming_fig7",
    "004-fig1": "sfumato.reproduce.leakage_figure",
}


def reproduce(name: str, out: Path, *, full: bool = False) -> str:
    """Run one figure and return its verdict line."""
    if name not in FIGURES:
        raise unknown("a figure", name, FIGURES)
    out.mkdir(parents=True, exist_ok=True)
    verdict: str = importlib.import_module(FIGURES[name]).run(out, full=full)
    return verdict
