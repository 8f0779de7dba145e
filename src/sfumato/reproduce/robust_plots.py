"""What the figures of paper 000 write: CSV, pictures where matplotlib is installed, and the verdict line."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = tuple[Sequence[float], Sequence[float]]  # x, y
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]  # x, lower, upper
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


def _panels(path: Path, titles: Sequence[str], x_label: str, y_label: str) -> tuple[Any, list[Any]] | None:
    """A figure with one pair of axes per title, or None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    columns = min(2, len(titles))
    lines = -(-len(titles) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * lines), layout="constrained")
    axes = [figure.add_subplot(lines, columns, i + 1) for i in range(len(titles))]
    for ax, title in zip(axes, titles, strict=True):
        ax.set(title=title, xlabel=x_label, ylabel=y_label)
        ax.grid(alpha=0.3)
    return figure, axes


def lines(
    path: Path, panels: Mapping[str, Mapping[str, Line]], x_label: str, y_label: str,
    bands: Mapping[str, Mapping[str, Band]] | None = None,
) -> str:
    """Panels by title, each with lines (and bands) by method; returns a remark when there is no matplotlib."""
    made = _panels(path, list(panels), x_label, y_label)
    if made is None:
        return NO_PICTURE
    figure, axes = made
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        for name, (x, low, high) in (bands or {}).get(title, {}).items():
            ax.fill_between(x, low, high, alpha=0.25, color=COLOURS.get(name))
        for name, (x, y) in series.items():
            ax.plot(x, y, "--" if name == "ε" else "o-", markersize=3, label=name, color=COLOURS.get(name))
        ax.legend(fontsize=7)
    figure.savefig(path, dpi=120)
    return ""


def boxes(path: Path, panels: Mapping[str, Mapping[str, Sequence[float]]], y_label: str) -> str:
    """Boxes from the first to the third quartile, whiskers at the extremes."""
    made = _panels(path, list(panels), "", y_label)
    if made is None:
        return NO_PICTURE
    figure, axes = made
    for ax, series in zip(axes, panels.values(), strict=True):
        ax.boxplot([list(values) for values in series.values()], whis=(0, 100))
        ax.set_xticks(range(1, len(series) + 1), list(series), fontsize=7)
    figure.savefig(path, dpi=120)
    return ""


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
