"""What the figures of paper 001 share: a CSV of what was computed, and a picture where matplotlib is installed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Series = dict[str, tuple[Sequence[float], Sequence[float]]]  # label → (x, y)
NO_PICTURE = " (no picture: install sfumato[figures] for matplotlib)"


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def picture(path: Path, panels: Sequence[tuple[str, str, str, Series]], *, dots: bool = False) -> str:
    """Panels (title, x label, y label, series) side by side; returns a remark when there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return NO_PICTURE
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * lines), layout="constrained")
    for i, (title, x_label, y_label, series) in enumerate(panels):
        axes = figure.add_subplot(lines, columns, i + 1)
        for label, (x, y) in series.items():
            axes.plot(x, y, "o" if dots else "o-", markersize=3, label=label)
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        axes.grid(alpha=0.3)
        if len(series) > 1:
            axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)
    return ""


def verdict(name: str, holds: bool, text: str, remark: str = "") -> str:
    return f"{name}: {'reproduced' if holds else 'NOT reproduced'}. {text}{remark}"
