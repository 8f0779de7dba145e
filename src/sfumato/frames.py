"""Framed: records as frames of whichever library the reader has, as a table in a notebook, and as pictures; and pages
of one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from sfumato.decimals import near
from sfumato.errors import InputError, Named, unknown
from sfumato.libraries import jinja2, matplotlib
from sfumato.libraries import numpy as np
from sfumato.libraries import pyarrow as pa
from sfumato.tolerances import DRAWN

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes


@runtime_checkable
class Arrayed(Protocol):
    """An array, or a scalar of one."""

    def tolist(self) -> Datum: ...


Datum: TypeAlias = "bool | int | float | str | Named | Arrayed | Sequence[Datum] | Mapping[str, Datum] | None"
Record: TypeAlias = "dict[str, Datum]"  # a row of a table, or a document that programs read
INFINITIES = {math.inf: "inf", -math.inf: "-inf"}  # as JSON has them, which knows none


def as_json(value: Datum, infinities: Mapping[float, str] = INFINITIES) -> Datum:
    """Values as JSON has them: NaN is null, and infinity where it has no name; paths are text, and arrays lists."""
    if isinstance(value, dict):
        return {str(k): as_json(v, infinities) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(v, infinities) for v in value]
    if hasattr(value, "with_name"):  # a path, of this machine or of a store
        return str(value)
    if isinstance(value, Arrayed):
        return as_json(value.tolist(), infinities)
    return value if not isinstance(value, float) or math.isfinite(value) else infinities.get(value)


class Framed:
    """What has records() can be a data frame."""

    __slots__ = ()

    def records(self) -> Iterable[Record]:
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """The records as an Arrow table."""
        rows = list(self.records())
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: [_cell(row.get(name)) for row in rows] for name in names})

    def to_pandas(self) -> pd.DataFrame:
        """The records as a pandas frame."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The records as a Polars frame."""
        made: pl.DataFrame = _needed("polars").from_arrow(self.to_arrow())
        return made

    def _repr_html_(self) -> str:
        return titled(repr(self).splitlines()[0], tabled(self.records()))


def _needed(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError("is not installed", next=f"Run pip install {name}, or use .to_arrow().", where=name) from None


def _cell(value: Datum) -> Datum:
    if isinstance(value, (list, tuple, dict)):
        return str(value)
    return float("inf") if value == "inf" else value


def titled(title: str, *parts: str) -> str:
    """A heading with what stands below it."""
    return f"<div><p><b>{html.escape(title.strip('<>'))}</b></p>{''.join(parts)}</div>"


def tabled(records: Iterable[Mapping[str, Datum]]) -> str:
    """Records as a table of HTML, the first of many."""
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    cells = (["<td>" + html.escape(_shown(row.get(name))) + "</td>" for name in names] for row in rows[:DRAWN])
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    more = f"<p>… and {len(rows) - DRAWN:,} more</p>" if len(rows) > DRAWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Datum) -> str:
    return "" if value is None else near(value) if isinstance(value, float) else str(value)


# --- pictures of results with matplotlib, which is loaded when one is asked for ---------------------------------------


def axes_of(axes: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    return matplotlib.figure.Figure(figsize=(7, 4), layout="constrained").subplots() if axes is None else axes


def plot_shares(
    labels: list[str], p: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, title: str, axes: Axes | None = None
) -> Axes:
    """Estimates as points with their intervals, one line each. Returns the axes; axes.figure can be saved."""
    axes = axes_of(axes)
    order = np.argsort(np.asarray(p), kind="stable")[-DRAWN:]
    p, low, high = (100 * np.asarray(x)[order] for x in (p, low, high))
    y = np.arange(len(order))
    axes.errorbar(p, y, xerr=[p - low, high - p], fmt="o", capsize=3)
    axes.set_yticks(y, [labels[i] for i in order])
    axes.set(xlabel="share in %", title=title)
    axes.set_xlim(left=0)
    return axes


class HasErrors(Protocol):
    """What a method reaches at one ε."""

    @property
    def epsilon(self) -> float: ...
    @property
    def nmi(self) -> float | None: ...
    def error(self, of: str) -> float: ...


class HasMethods(Protocol):
    """Methods that were compared."""

    @property
    def methods(self) -> Sequence[str]: ...

    def of(self, method: str) -> Sequence[HasErrors]: ...


FIGURES: dict[str, tuple[str, Callable[[HasErrors], float]]] = {
    "error": ("standard error of the useful columns in points", lambda p: 100 * p.error("useful")),
    "error_secret": ("standard error of the secret in points", lambda p: 100 * p.error("secret")),
    "error_joint": ("standard error of the whole table in points", lambda p: 100 * p.error("joint")),
    "kept": ("kept, as a share of all there is", lambda p: float("nan") if p.nmi is None else p.nmi),
}


def plot_tradeoff(comparison: HasMethods, of: str = "error", axes: Axes | None = None) -> Axes:
    """What each method reaches over ε: errors of estimates, or what is kept of a record."""
    if of not in FIGURES:
        raise unknown("a figure to plot", of, FIGURES)
    axes, (label, figure) = axes_of(axes), FIGURES[of]
    for method in comparison.methods:
        points = [(p.epsilon, figure(p)) for p in comparison.of(method)]
        shown = [(e, v) for e, v in points if math.isfinite(v)]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker=".", label=method)
    axes.set(xscale="log", yscale="linear" if of == "kept" else "log", xlabel="ε in nats", ylabel=label)
    axes.legend(fontsize="small", ncols=2)
    return axes


@cache
def part_of(package: str, name: str) -> str:
    """A file of a page, which lies in the package that makes it."""
    return files(package).joinpath(name).read_text("utf-8")


@cache
def environment(package: str) -> jinja2.Environment:
    """What fills the templates of a package."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: part_of(package, name)), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )


def digest(text: str) -> str:
    """A script or a style as a Content-Security-Policy names it: nothing else may run beside it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(content: Datum) -> str:
    """What a script works from, as JSON that can neither end its element nor hide an address."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text.replace("//", "/\\u002f")
