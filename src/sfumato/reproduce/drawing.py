"""What the figures share: a CSV of what was computed, pictures where matplotlib is, verdicts, and the page of all."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sfumato.alphabet import Floats
from sfumato.decimals import capitalised
from sfumato.libraries import matplotlib
from sfumato.privacy.overview import LeakageMap
from sfumato.reproduce import figure, papers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[Sequence[float], Sequence[float]]  # x, y
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]  # x, lower, upper
Series = Mapping[str, Line]  # by label
Panel = tuple[str, str, str, Series]  # title, x label, y label, lines
Paint: TypeAlias = "Callable[[Sequence[Axes]], None]"
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


def curves(values: Mapping[tuple[str, str, float], float], x: str, y: str) -> list[Panel]:
    """Panels of values by (panel, line, x), in the order in which they come."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for (title, name, at), value in values.items():
        line = panels.setdefault(title, {}).setdefault(name, ([], []))
        line[0].append(at)
        line[1].append(value)
    return [(title, x, y, series) for title, series in panels.items()]


def draw(path: Path, panels: int, paint: Paint) -> str:
    """A picture of as many panels, filled by `paint`; returns a remark instead where matplotlib is missing."""
    try:
        layout = matplotlib.layout_engine.ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12)
    except ImportError:
        return NO_PICTURE
    across, down = min(2, panels), -(-panels // 2)
    with matplotlib.rc_context(LOOK):
        figure = matplotlib.figure.Figure(figsize=(5.4 * across, 3.5 * down), layout=layout)
        axes = [figure.add_subplot(down, across, i + 1) for i in range(panels)]
        for ax in axes:
            ax.grid(axis="y")
        paint(axes)
        figure.savefig(path, metadata={"Date": None})
    return ""


def written(
    out: Path, figure: str, header: Sequence[str], rows: Sequence[Sequence[object]], panels: Sequence[Panel],
    bands: Mapping[str, Mapping[str, Band]] | None = None, *, style: str = "o-", ends: bool = True,
) -> str:
    """The data of a figure and its picture, lines with their names at their ends (or, where the ends meet, in a list
    beside them) and bands behind them; returns a remark where there is none."""
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

    write_csv(out / f"{figure}.csv", header, rows)
    return draw(out / f"{figure}.svg", len(panels), paint)


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


# --- the (α, β) map as a picture: [004, Fig. 1] with the values of a mechanism on it ----------------------------------


TICKS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, np.inf)
CONTOURS = 24


def place(orders: Floats) -> Floats:
    """Where an order from 1 to ∞ lies on an axis from 0 to 1."""
    return np.asarray(1 - 1 / np.asarray(orders, float))


def order_picture(found: LeakageMap, title: str, kind: str = "png") -> bytes:
    """The picture as bytes; it needs matplotlib (pip install 'sfumato[figures]')."""
    figure = matplotlib.figure.Figure(figsize=(7.2, 6.0), layout="constrained")
    matplotlib.backends.backend_agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _surface(figure, axes, found)
    _landmarks(axes)
    axes.set_title(title, fontsize=11)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=150, metadata={"Software": None} if kind == "png" else None)
    return out.getvalue()


def _surface(figure: Figure, axes: Axes, found: LeakageMap) -> None:
    values = found.values.T
    finite = values[np.isfinite(values)]
    corner = float(found.values[-1, -1])
    top = 2 * corner if np.isfinite(corner) and corner > 0 else float(finite.max(initial=1e-9))
    low = float(max(finite.min(initial=top), 1e-12))
    levels = np.linspace(0 if low < 0.5 * top else low, max(top, low * 1.001), CONTOURS)
    shown = np.where(np.isfinite(values), np.minimum(values, levels[-1]), levels[-1])
    x, y = place(found.alphas), place(found.betas)
    norm = matplotlib.colors.Normalize(levels[0], levels[-1])
    drawn = axes.pcolormesh(x, y, shown, norm=norm, cmap="cividis_r", shading="gouraud", rasterized=True)
    inside = levels[1:-1:3]
    lines = axes.contour(x, y, shown, levels=inside, colors="white", linewidths=0.6)
    axes.clabel(lines, fontsize=7, fmt="%.3g")
    bar = figure.colorbar(drawn, ax=axes, extend="max", label="maximal (α, β)-leakage, nats")
    bar.ax.tick_params(labelsize=8)


def _landmarks(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color="black", linewidth=1.2)
    ticks = place(np.array(TICKS))
    names = ["∞" if np.isinf(t) else f"{t:g}" for t in TICKS]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("α")
    axes.set_ylabel("β")
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
    marks = (
        (0.28, 0.72, "β ≥ α: scaled local Rényi DP of order β", 0), (0.5, 0.455, "α = β: local Rényi DP", 42),
        (0.55, 0.03, "β = 1: maximal α-leakage", 0), (0.975, 0.45, "α = ∞: a variant of local Rényi DP", 90),
        (0.985, 0.97, "LDP", 0), (0.985, 0.03, "maximal\nleakage", 0), (0.015, 0.03, "capacity", 0),
    )
    for x, y, text, angle in marks:
        side = "right" if x > 0.9 else "left" if x < 0.1 else "center"
        axes.text(x, y, text, fontsize=8, ha=side, va="center", rotation=angle, bbox=box)


# --- what was reproduced, as a page: captions, verdicts and pictures --------------------------------------------------


PAPERS = {
    "000": "Robust local differential privacy (000)",
    "001": "The privacy funnel with worst-case guarantees (001)",
    "002": "Robust optimisation for distortion (002)",
    "003": "Hamming distortion over source sets (003)",
    "004": "The alphabet of leakage measures (004)",
}
_HEAD = """# The papers, reproduced

Made by `make reproduce` (quick versions; `sfumato reproduce NAME --full` takes the papers' counts). Every entry is one
command, which writes data, a picture and the verdict, computed in that run, beside what the paper claims. Where a
verdict names a correction, [corrections](corrections.md) says what is wrong in print and why. One method, one colour.
"""


def write_page(path: Path, verdicts: Mapping[str, str], folder: Path) -> None:
    """The page in Markdown, with links to the pictures that were made in the folder."""
    parts = [_HEAD]
    for paper, names in groupby(sorted(verdicts), lambda name: name[:3]):
        parts.append(f"## {PAPERS[paper]}\n")
        parts += [_entry(name, verdicts[name], folder, path.parent) for name in names]
    path.write_text("\n".join(parts), encoding="utf-8")


def _entry(name: str, verdict: str, folder: Path, here: Path) -> str:
    caption = (figure(name).__doc__ or "").strip().splitlines()[0]
    caption = re.sub(r"^\[?\d{3},? (Fig\. \d|Figure \d|Table \d|Example \d)\]?: ", "", caption)
    caption = caption if caption[0] in "αβ" else capitalised(caption)
    made = next((p for kind in ("svg", "png") if (p := folder / f"{name}.{kind}").exists()), None)
    picture = f"\n![{caption}]({Path(os.path.relpath(made, here)).as_posix()})\n" if made else ""
    told = verdict.removeprefix(name + ": ")
    return f"### {name}\n\n{caption}\n{picture}\n> **The paper:** {papers()[name].claim}\n>\n> **Here:** {told}\n"
