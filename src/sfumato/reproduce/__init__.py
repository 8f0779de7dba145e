"""Figures and tables of the papers, reproduced by name, each by a function of (out, *, full).

It writes its data and, where matplotlib is installed (the extra `figures`), a picture into the folder `out`, and
returns one verdict line against the printed numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from sfumato.errors import unknown

FIGURES: dict[str, str] = {
    "000-ex1": "robust_examples:ex1",
    "000-ex2": "robust_examples:ex2",
    "000-ex3": "robust_examples:ex3",
    "000-ex4": "robust_examples:ex4",
    "000-ex5": "robust_examples:ex5",
    "000-fig2": "robust_figures:fig2",
    "000-fig3": "robust_figures:fig3",
    "000-fig4": "robust_figures:fig4",
    "000-fig5": "robust_figures:fig5",
    "000-tab2": "robust_examples:tab2",
    "001-fig3": "funnel_figures:fig3",
    "001-fig4": "funnel_figures:fig4",
    "001-fig5": "funnel_figures:fig5",
    "001-fig6": "funnel_figures:fig6",
    "001-fig7": "funnel_figures:fig7",
    "001-fig8": "funnel_figures:fig8",
    "002-fig2": "hamming_figures:fig2",
    "003-fig4": "hamming_figures:fig4",
    "003-fig5": "hamming_figures:fig5",
    "003-fig6": "hamming_figures:fig6",
    "003-fig7": "hamming_figures:fig7",
    "004-fig1": "funnel_figures:fig1",
}


def figure(name: str) -> Callable[..., str]:
    """The function that makes a figure; the first line of its docstring is the caption."""
    if name not in FIGURES:
        raise unknown("a figure", name, FIGURES)
    module, _, function = FIGURES[name].partition(":")
    made: Callable[..., str] = getattr(importlib.import_module(f"sfumato.reproduce.{module}"), function)
    return made


def reproduce(name: str, out: Path, *, full: bool = False) -> str:
    """Run one figure and return its verdict line."""
    made = figure(name)
    out.mkdir(parents=True, exist_ok=True)
    return made(out, full=full)
