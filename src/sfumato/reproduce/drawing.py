"""What the figures share: a CSV of what was computed, pictures where matplotlib is installed, and the verdict line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = tuple[Sequence[float], Sequence[float]]  # x, y
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]  # x, lower, upper
Series = Mapping[str, Line]  # by label
Panel = tuple[str, str, str, Series]  # title, x label, y label, lines
Paint = Callable[[Sequence[Any]], None]
NO_PICTURE = " (no picture: install sfumato[figures] for matplotlib)"
INK, SOFT = "#1d2430", "#545e6e"
# One colour for one method in every picture; others take theirs from the end, in order.
COLOURS = {
    "ballopt": "#0060a0", "polyopt": "#00735a", "nr": INK, "srr": "#b34700", "ir": "#a0306f", "ir (tight)": "#5a3fb0",
    "grr": "#7b8493", "ε": "#7b8493", "lip": "#0060a0", "ldp": "#00735a", "ldp/2": "#5a3fb0", "cr": "#b34700",
    "oue": "#a0306f", "srlip": "#00735a", "srlip-paper": "#b34700", "Class I": INK, "Class II": "#0060a0",
    "Class II as printed": "#b34700",
}
OTHERS = ("#0060a0", "#b34700", "#00735a", "#a0306f", "#5a3fb0", "#7b8493")
LOOK: Any = {
    "svg.hashsalt": "sfumato", "font.size": 10.0, "axes.titlesize": 11.0, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.edgecolor": SOFT, "axes.labelcolor": SOFT, "axes.titlecolor": INK,
    "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "grid.color": "#d9d6cd", "lines.linewidth": 1.8,
}
APART = 0.075  # of a panel's height between the names of two lines, so that they never touch


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def draw(path: Path, panels: int, paint: Paint, *, across: int = 2) -> str:
    """A picture of as many panels, filled by `paint`; returns a remark instead where matplotlib is missing."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        return NO_PICTURE
    across = min(across, panels)
    down = -(-panels // across)
    with rc_context(LOOK):
        figure = Figure(figsize=(5.4 * across, 3.5 * down), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12))
        axes = [figure.add_subplot(down, across, i + 1) for i in range(panels)]
        for ax in axes:
            ax.grid(axis="y")
        paint(axes)
        figure.savefig(path, metadata={"Date": None})
    return ""


def lines(
    path: Path, panels: Sequence[Panel], *, bands: Mapping[str, Mapping[str, Band]] | None = None, style: str = "o-",
    ends: bool = True,
) -> str:
    """Lines with their names at their ends (or, where the ends meet, in a list beside them); bands lie behind them."""

    def paint(axes: Sequence[Axes]) -> None:
        for ax, (title, x_label, y_label, series) in zip(axes, panels, strict=True):
            colours = {name: COLOURS.get(name, OTHERS[i % len(OTHERS)]) for i, name in enumerate(series)}
            for name, (x, low, high) in (bands or {}).get(title, {}).items():
                ax.fill_between(x, low, high, alpha=0.2, color=colours[name], linewidth=0)
            for name, (x, y) in series.items():
                ax.plot(x, y, "--" if name == "ε" else style, markersize=4, color=colours[name], label=name)
            ax.set(title=title, xlabel=x_label, ylabel=y_label)
            if len(series) > 1 and ends:
                _named(ax, series, colours)
            elif len(series) > 1:
                ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, labelcolor="linecolor")

    return draw(path, len(panels), paint)


def _named(ax: Axes, series: Series, colours: Mapping[str, str]) -> None:
    """The names at the right, in the order in which the lines end, pushed apart where they would touch."""
    last = {name: (x[-1], y[-1]) for name, (x, y) in series.items() if len(x)}
    ax.get_ylim()  # settles the scale, on which places depend
    place = (ax.transData + ax.transAxes.inverted()).transform(list(last.values()))[:, 1]
    order = sorted(range(len(place)), key=lambda i: place[i])
    at = dict.fromkeys(order, 0.0)
    floor, ceiling = -1.0, 1.0
    for i in order:
        at[i] = max(float(place[i]), floor)
        floor = at[i] + APART
    for i in reversed(order):  # what was pushed above the panel comes down again
        at[i] = min(at[i], ceiling)
        ceiling = at[i] - APART
    for i, (name, end) in enumerate(last.items()):
        ax.annotate(
            name, end, (1.04, at[i]), textcoords="axes fraction", va="center", color=colours[name],
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colours[name], "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3},
        )


def boxes(path: Path, panels: Mapping[str, Mapping[str, Sequence[float]]], x_label: str) -> str:
    """Lying boxes from the first to the third quartile, whiskers at the extremes, names at the left."""

    def paint(axes: Sequence[Axes]) -> None:
        for ax, (title, series) in zip(axes, panels.items(), strict=True):
            drawn = ax.boxplot([list(v) for v in series.values()], whis=(0, 100), orientation="horizontal",
                               patch_artist=True, medianprops={"color": INK})
            for box, name in zip(drawn["boxes"], series, strict=True):
                box.set(facecolor=COLOURS.get(name, SOFT), alpha=0.55, edgecolor=INK)
            ax.set_yticks(range(1, len(series) + 1), list(series))
            ax.invert_yaxis()
            ax.axvline(0, color=SOFT, linewidth=0.8)
            ax.grid(axis="x")
            ax.set(title=title, xlabel=x_label)

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
