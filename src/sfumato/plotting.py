"""Pictures of results with matplotlib, which is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST = 60  # bars or labels in one picture


def axes_of(axes: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib", next="Run pip install 'sfumato[figures]'.") from None
    return Figure(figsize=(7, 4), layout="constrained").subplots() if axes is None else axes


def plot_shares(
    labels: list[str], p: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, title: str, axes: Axes | None = None
) -> Axes:
    """Estimates as points with their intervals, one line each. Returns the axes; axes.figure can be saved."""
    axes = axes_of(axes)
    order = np.argsort(np.asarray(p), kind="stable")[-MOST:]
    p, low, high = (100 * np.asarray(x)[order] for x in (p, low, high))
    y = np.arange(len(order))
    axes.errorbar(p, y, xerr=[p - low, high - p], fmt="o", capsize=3)
    axes.set_yticks(y, [labels[i] for i in order])
    axes.set_xlabel("share in %")
    axes.set_xlim(left=0)
    axes.set_title(title)
    return axes


def plot_mechanism(mechanism: Any, axes: Axes | None = None) -> Axes:
    """Q(y|x) as a picture: a column for each input, a row for each output."""
    q = mechanism.matrix
    if q is None:
        raise InputError(f"the mechanism has too many outputs to draw ({mechanism.outputs:,}).")
    axes = axes_of(axes)
    picture = axes.imshow(q, aspect="auto", interpolation="nearest", vmin=0.0)
    axes.figure.colorbar(picture, ax=axes, label="Q(y | x)")
    if mechanism.inputs <= MOST:
        inputs = range(mechanism.inputs)
        axes.set_xticks(inputs, [mechanism.input_text(x) for x in inputs], rotation=90)
    axes.set_xlabel("input")
    axes.set_ylabel("output")
    axes.set_title(f"{mechanism.method}: {mechanism.outputs:,} outputs")
    return axes


FIGURES: dict[str, tuple[str, Callable[[Any], float]]] = {
    "error": ("standard error of the useful columns in points", lambda p: 100 * p.error("useful")),
    "error_secret": ("standard error of the secret in points", lambda p: 100 * p.error("secret")),
    "error_joint": ("standard error of the whole table in points", lambda p: 100 * p.error("joint")),
    "kept": ("kept, as a share of all there is", lambda p: float("nan") if p.nmi is None else p.nmi),
}


def plot_tradeoff(comparison: Any, of: str = "error", axes: Axes | None = None) -> Axes:
    """What each method reaches over ε: errors of estimates, or what is kept of a record."""
    if of not in FIGURES:
        raise unknown("a figure to plot", of, FIGURES)
    axes, (label, figure) = axes_of(axes), FIGURES[of]
    for method in comparison.methods:
        points = [(p.epsilon, figure(p)) for p in comparison.of(method)]
        shown = [(e, v) for e, v in points if np.isfinite(v)]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker=".", label=method)
    axes.set_xscale("log")
    if of != "kept":
        axes.set_yscale("log")
    axes.set_xlabel("ε in nats")
    axes.set_ylabel(label)
    axes.legend(fontsize="small", ncols=2)
    return axes
