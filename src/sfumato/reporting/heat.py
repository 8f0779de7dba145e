"""Pictures' numbers: a mechanism as a few cells to look at, and the (α, β) map [004, Fig. 1] with its values."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError
from sfumato.mechanism import Mechanism, Unary
from sfumato.mechanism.law import scale
from sfumato.mechanism.mechanism import mean_law
from sfumato.privacy.overview import LeakageMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 24  # rows and columns of the picture
SHADES = 10  # steps of colour


@dataclass(frozen=True)
class Heat:
    """values[output][input] with labels; `inputs` and `outputs` say how many there are in truth."""

    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    inputs: int
    outputs: int | None  # None: too many to count in figures
    what: str
    rest: bool = False  # the last row adds up the outputs that are not shown
    shares: tuple[float, ...] = ()  # p(x) of the inputs under the design distribution, when there is one
    seen: tuple[float, ...] = ()  # P(y) of the outputs under it

    @property
    def most(self) -> float:
        """The greatest value among the outputs that are shown."""
        rows = self.values[:-1] if self.rest else self.values
        return max(max(row) for row in rows)

    @cached_property
    def shades(self) -> tuple[tuple[int, ...], ...]:
        """Steps of colour, even in probability: the last is the greatest value shown."""
        top = self.most or 1.0
        return tuple(tuple(min(SHADES - 1, round((SHADES - 1) * x / top)) for x in row) for row in self.values)

    @property
    def sampled(self) -> bool:
        return self.inputs > len(self.column_labels)


def heat_of(mechanism: Mechanism) -> Heat:
    """Q(y|x) for the likeliest inputs and outputs, with what is left of each column in a row of its own."""
    columns = _likeliest_inputs(mechanism)
    names = tuple(_input_text(mechanism, int(x)) for x in columns)
    shares = () if mechanism.joint is None else tuple(mechanism.input_law(mechanism.joint)[columns].tolist())
    law = mechanism.law
    if isinstance(law, Unary):
        on, off = float(law.on) / scale(law.bits), float(law.off) / scale(law.bits)
        values = np.where(np.eye(len(columns), dtype=bool), on, off)
        seen = tuple(off + (on - off) * x for x in shares)
        what = "the probability that the bit of a value (rows) is 1 for each input (columns)"
        return Heat(names, names, _nested(values), mechanism.inputs, None, what, False, shares, seen)
    rows, mean = _shown_outputs(mechanism, columns)
    values = np.stack([np.asarray(law.row(int(y)), float).ravel()[columns] for y in rows]) / scale(law.bits)
    if law.meaning == "symbol":
        order = np.lexsort((-values.max(1), values.argmax(1)))  # symbols have no order of their own: near a diagonal
        rows, values = rows[order], values[order]
    labels = _output_texts(mechanism, rows)
    seen = () if mean is None else tuple(mean[rows].tolist())
    if len(rows) < mechanism.outputs:
        values = np.vstack([values, np.maximum(0.0, 1 - values.sum(0))])
        labels.append(f"the other {mechanism.outputs - len(rows):,}")
        seen = (*seen, max(0.0, 1 - sum(seen))) if seen else ()
    return Heat(
        tuple(labels), names, _nested(values), mechanism.inputs, mechanism.outputs,
        "the probability of each output (rows) for each input (columns)", len(rows) < mechanism.outputs, shares, seen,
    )


def _nested(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in values)


def _likeliest_inputs(mechanism: Mechanism) -> Ints:
    if mechanism.inputs <= MOST:
        return np.arange(mechanism.inputs)
    if mechanism.joint is None:
        return np.arange(MOST)
    p = mechanism.input_law(mechanism.joint)
    return np.sort(np.argsort(-p, kind="stable")[:MOST])


def _shown_outputs(mechanism: Mechanism, columns: Ints) -> tuple[Ints, Floats | None]:
    """The outputs of the picture, and P(y) of all of them."""
    mean = None if mechanism.joint is None else mean_law(mechanism, mechanism.joint)
    if mechanism.outputs <= MOST:
        return np.arange(mechanism.outputs), mean
    if mechanism.law.meaning in ("cell", "useful") and mechanism.outputs == mechanism.inputs:
        return columns, mean
    return np.arange(MOST) if mean is None else np.sort(np.argsort(-mean, kind="stable")[:MOST]), mean


def _input_text(mechanism: Mechanism, x: int) -> str:
    s, u = divmod(x, mechanism.useful.size)
    useful = mechanism.useful.text(u)
    return f"{mechanism.secret.text(s)} · {useful}" if mechanism.reads == "both" else useful


def _output_texts(mechanism: Mechanism, rows: Ints) -> list[str]:
    """Outputs by what they stand for: a cell, a value, or the input that a symbol most often comes from."""
    if mechanism.law.meaning == "useful":
        return [mechanism.useful.text(int(y)) for y in rows]
    if mechanism.law.meaning != "symbol":
        return [_input_text(mechanism, int(y)) for y in rows]
    names = [str(mechanism.symbols.labels[int(y)]) for y in rows]
    if mechanism.joint is None or not all(name == f"y{y}" for name, y in zip(names, rows, strict=True)):
        return names  # nothing is known of where they come from, or they have names of their own
    p = mechanism.input_law(mechanism.joint)
    return [f"{stands_for(mechanism, np.asarray(mechanism.law.row(int(y)), float).ravel() * p)} ({name})"
            for y, name in zip(rows, names, strict=True)]


def stands_for(mechanism: Mechanism, weights: Floats) -> str:
    """The input that an output most often comes from, with how often, by the weights Q(y|x) p(x)."""
    best = int(weights.argmax())
    return f"{_input_text(mechanism, best)} {100 * weights[best] / weights.sum():.0f} %"


# --- the (α, β) map as a picture: [004, Fig. 1] with the values of a mechanism on it ----------------------------------


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


def _surface(figure: Figure, axes: Axes, found: LeakageMap) -> None:
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
