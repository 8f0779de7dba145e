"""Figures and tables of the papers, reproduced by name, each by a function of (out, *, full).

It writes its data and, where matplotlib is installed (the extra `figures`), a picture into the folder `out`, and
returns one verdict line against the printed numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sfumato.errors import unknown
from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.reproduce.drawing import order_picture, write_page

FIGURES: dict[str, str] = {  # each with its module and function
    **{f"000-ex{i}": f"robust_examples:ex{i}" for i in range(1, 6)},
    **{f"000-fig{i}": f"robust_figures:fig{i}" for i in range(2, 6)}, "000-tab2": "robust_examples:tab2",
    **{f"001-fig{i}": f"funnel_figures:fig{i}" for i in range(3, 9)}, "002-fig2": "hamming_figures:fig2",
    **{f"003-fig{i}": f"hamming_figures:fig{i}" for i in range(4, 8)}, "004-fig1": "funnel_figures:fig1",
}


class Run(msgspec.Struct, frozen=True):
    """How much is computed of a figure."""

    epsilons: tuple[float, ...] = ()
    count: int = 1  # tables that are drawn, or points of a curve
    seconds: float | None = None  # for each search


class PaperFigure(msgspec.Struct, frozen=True):
    """What a paper says of a figure or table, against which verdicts are held, and how it is run."""

    claim: str
    printed: dict[str, float] = {}
    corrected: dict[str, float] = {}  # what should have been printed, to more digits
    matrix: tuple[tuple[float, ...], ...] = ()
    means: dict[str, dict[str, tuple[float, ...]]] = {}  # of a table: by shape and method
    runs: dict[str, Run] = {}

    def run(self, full: bool, *, large: bool = False) -> Run:
        """As in the paper if `full`; large tables may take another."""
        name = "full" if full else "quick"
        return self.runs.get(f"{name}, large" if large else name, self.runs[name])


@cache
def papers() -> dict[str, PaperFigure]:
    """What the papers say, by the name of the figure."""
    return msgspec.json.decode(files(__package__).joinpath("papers.json").read_bytes(), type=dict[str, PaperFigure])


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


on_demand(__name__)
