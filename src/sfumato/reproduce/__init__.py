"""Figures and tables of the papers, reproduced by name, each by a function of (out, *, full).

It writes its data and, where matplotlib is installed (the extra `figures`), a picture into the folder `out`, and
returns one verdict line against the printed numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from sfumato.errors import unknown

FIGURES: dict[str, str] = {  # each with its module and function
    **{f"000-ex{i}": f"robust_examples:ex{i}" for i in range(1, 6)},
    **{f"000-fig{i}": f"robust_figures:fig{i}" for i in range(2, 6)}, "000-tab2": "robust_examples:tab2",
    **{f"001-fig{i}": f"funnel_figures:fig{i}" for i in range(3, 9)}, "002-fig2": "hamming_figures:fig2",
    **{f"003-fig{i}": f"hamming_figures:fig{i}" for i in range(4, 8)}, "004-fig1": "funnel_figures:fig1",
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
