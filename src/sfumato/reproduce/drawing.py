"""What the figures share: a CSV of what was computed, pictures where matplotlib is installed, and the verdict line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Line = tuple[Sequence[float], Sequence[float]]  # x, y
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]  # x, lower, upper
Series = Mapping[str, Line]  # by label
Panel = tuple[str, str, str, Series]  # title, x label, y label, lines
Paint = Callable[[Sequence[Any]], None]
NO_PICTURE = " (no picture: install sfumato[figures] for matplotlib)"
COLOURS = {
    "srr": "tab:blue", "ir": "tab:orange", "ir (tight)": "tab:red", "grr": "tab:gray", "polyopt": "tab:green",
    "ballopt": "tab:purple", "nr": "black", "ε": "limegreen",
}


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def draw(path: Path, panels: int, paint: Paint, *, across: int = 2) -> str:
    """A picture of as many panels, filled by `paint`; returns a remark instead where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return NO_PICTURE
    across = min(across, panels)
    down = -(-panels // across)
    figure = Figure(figsize=(4.6 * across, 3.6 * down), layout="constrained")
    axes = [figure.add_subplot(down, across, i + 1) for i in range(panels)]
    paint(axes)
    for ax in axes:
        ax.grid(alpha=0.3)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    return ""


def lines(
    path: Path, panels: Sequence[Panel], *, bands: Mapping[str, Mapping[str, Band]] | None = None, style: str = "o-",
    across: int = 2,
) -> str:
    """Lines by label in every panel, with bands by title and label behind them."""

    def paint(axes: Sequence[Any]) -> None:
        for ax, (title, x_label, y_label, series) in zip(axes, panels, strict=True):
            for name, (x, low, high) in (bands or {}).get(title, {}).items():
                ax.fill_between(x, low, high, alpha=0.25, color=COLOURS.get(name))
            for name, (x, y) in series.items():
                ax.plot(x, y, "--" if name == "ε" else style, markersize=3, label=name, color=COLOURS.get(name))
            ax.set(title=title, xlabel=x_label, ylabel=y_label)
            if len(series) > 1:
                ax.legend(fontsize=7)

    return draw(path, len(panels), paint, across=across)


def boxes(path: Path, panels: Mapping[str, Mapping[str, Sequence[float]]], y_label: str) -> str:
    """Boxes from the first to the third quartile, whiskers at the extremes."""

    def paint(axes: Sequence[Any]) -> None:
        for ax, (title, series) in zip(axes, panels.items(), strict=True):
            ax.boxplot([list(values) for values in series.values()], whis=(0, 100))
            ax.set_xticks(range(1, len(series) + 1), list(series), fontsize=7)
            ax.set(title=title, ylabel=y_label)

    return draw(path, len(panels), paint)


def verdict(
    name: str, claims: Mapping[str, bool], text: str, remark: str = "", *, ours: Mapping[str, bool] | None = None,
    corrected: bool = False,
) -> str:
    """One line: whether every claim of the print (as errata correct it) holds, whether ours do, and the numbers."""
    failed = [claim for claim, holds in claims.items() if not holds]
    head = "reproduced as corrected" if corrected else "reproduced"
    if failed:
        head = f"NOT reproduced ({'; '.join(failed)})"
    lost = [claim for claim, holds in (ours or {}).items() if not holds]
    own = f"What we add does NOT hold: {'; '.join(lost)}. " if lost else ""
    return f"{name}: {head}. {own}{text}{remark}"


def apart(found: Mapping[str, float], printed: Mapping[str, float], digits: int = 4) -> list[str]:
    """The names whose number, rounded as printed, is not the printed one."""
    return [k for k, x in printed.items() if abs(found[k] - x) > 0.5001 * 10.0**-digits]
