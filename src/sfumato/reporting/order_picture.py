"""The (α, β) map as a picture: [004, Fig. 1] with the values of a mechanism on it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.privacy.overview import LeakageMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, np.inf)
STEPS = 24


def place(orders: Floats) -> Floats:
    """Where an order from 1 to ∞ lies on an axis from 0 to 1."""
    return np.asarray(1 - 1 / np.asarray(orders, float))


def order_picture(found: LeakageMap, title: str, kind: str = "png") -> bytes:
    """The picture as bytes; it needs matplotlib (pip install 'sfumato[figures]')."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib", next="Run pip install 'sfumato[figures]'.") from None
    figure = Figure(figsize=(7.2, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _surface(figure, axes, found)
    _landmarks(axes)
    axes.set_title(title, fontsize=11)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=150, metadata={"Software": None} if kind == "png" else None)
    return out.getvalue()


def _surface(figure: Any, axes: Axes, found: LeakageMap) -> None:
    from matplotlib.colors import Normalize

    values = found.values.T
    finite = values[np.isfinite(values)]
    corner = float(found.values[-1, -1])
    top = 2 * corner if np.isfinite(corner) and corner > 0 else float(finite.max(initial=1e-9))
    low = float(max(finite.min(initial=top), 1e-12))
    levels = np.linspace(0 if low < 0.5 * top else low, max(top, low * 1.001), STEPS)
    shown = np.where(np.isfinite(values), np.minimum(values, levels[-1]), levels[-1])
    x, y = place(found.alphas), place(found.betas)
    norm = Normalize(levels[0], levels[-1])
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
