"""Columns of numbers as a CSV file and as a picture with lines."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import InputError


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """A CSV file with a column for each name."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def figure_with(panels: int) -> tuple[Any, Any]:
    """An empty figure and its panels; it needs matplotlib (pip install 'sfumato[figures]')."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib: pip install 'sfumato[figures]'.") from None
    figure = Figure(figsize=(6.4 * min(panels, 2), 4.4 * ((panels + 1) // 2)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots((panels + 1) // 2, min(panels, 2), squeeze=False)
    return figure, axes.ravel()


def save(figure: Any, path: Path) -> Path:
    """The figure as a PNG file without a date in it."""
    figure.savefig(path, dpi=150, metadata={"Software": None})
    return path


def lines(
    path: Path, x: Sequence[float], curves: Mapping[str, Sequence[float]], labels: tuple[str, str], title: str
) -> Path:
    """One panel with a line for each curve."""
    figure, (axes,) = figure_with(1)
    for style, (name, y) in zip(_styles(), curves.items(), strict=False):
        axes.plot(x, y, style, label=name, linewidth=1.6)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return save(figure, path)


def _styles() -> list[str]:
    return ["-", "--", "-.", ":", "-", "--", "-.", ":"]
