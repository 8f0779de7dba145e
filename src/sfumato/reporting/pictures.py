"""A line chart as SVG, light and dark, readable without colour, described in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# Told apart by most eyes, on light and on dark paper; the ninth curve and on have hollow marks, what is aside is grey.
COLOURS = (
    ("#0060a0", "#6db9f2"), ("#b34700", "#f49a5c"), ("#00735a", "#4fd0ab"), ("#a0306f", "#ef93c4"),
    ("#5b4a00", "#e3cf5a"), ("#444c56", "#b4bcc8"), ("#5a3fb0", "#b7a3ff"), ("#8a1f1f", "#ff9a92"),
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The paper of a chart, and the field on it that curves are drawn in, with room for names at its right."""

    width: int = 640
    height: int = 400
    left: int = 58
    right: int = 498
    top: int = 30
    bottom: int = 352
    space: float = 15.0  # between two names


SHEET = Sheet()


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A named curve; `aside` is drawn thin and dashed, for limits and scales; `other` is grey, for what stands back."""

    name: str
    points: tuple[tuple[float, float], ...]  # (x, y), by x
    aside: bool = False
    colour: int | None = None  # among COLOURS, for a curve that has the same in several charts
    other: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    """What is drawn against what; log axes need positive values."""

    title: str
    x: str
    y: str
    log_x: bool = True
    log_y: bool = False
    percent: bool = False


def chart(axes: Axes, lines: Sequence[ChartLine], described: str) -> str:
    """The chart as one SVG document with a title and a description."""
    shown = [line for line in lines if line.points]
    x, y = _scales(axes, shown)
    body = [*_grid(axes, x, y)]
    looks = _looks(shown)
    body += [_drawn(line, look, x, y) for line, look in zip(shown, looks, strict=True)]
    body += _names(shown, looks, y)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SHEET.width} {SHEET.height}" role="img" '
        f'aria-labelledby="chart-title chart-text" font-family="system-ui, sans-serif" font-size="13">'
        f'<title id="chart-title">{escape(axes.title)}</title><desc id="chart-text">{escape(described)}</desc>'
    )
    paper = f'<rect class="paper" width="{SHEET.width}" height="{SHEET.height}"/>'
    return f"{head}<style>{_style()}</style>{paper}{''.join(body)}</svg>\n"


def _looks(lines: Sequence[ChartLine]) -> list[str]:
    """The classes of each curve: a colour, hollow marks from the second time a colour is used, grey aside."""
    own = [line for line in lines if not line.aside and not line.other]
    place = {line.name: i if line.colour is None else line.colour for i, line in enumerate(own)}
    hollow = len(COLOURS)
    return [
        "gone" if line.aside else "other" if line.other
        else f"c{place[line.name] % hollow}{' hollow' if place[line.name] >= hollow else ''}" for line in lines
    ]


def _style() -> str:
    light = "".join(f".c{i}{{stroke:{c[0]};color:{c[0]}}}" for i, c in enumerate(COLOURS))
    dark = "".join(f".c{i}{{stroke:{c[1]};color:{c[1]}}}" for i, c in enumerate(COLOURS))
    return (
        ".paper{fill:#fff}text{fill:#1d2430}.soft{fill:#545e6e}.grid{stroke:#d9d6cd}.line{fill:none;stroke-width:2}"
        ".other{stroke:#b5b1a6;color:#6b7280}.line.other{stroke-width:1.2}"
        ".gone{stroke:#7b8493;color:#545e6e}.aside{stroke-width:1.2;stroke-dasharray:5 4}"
        "text.n{fill:currentColor;stroke:none}circle{fill:currentColor;"
        f"stroke:none}}circle.hollow{{fill:#fff;stroke:currentColor;stroke-width:1.6}}.lead{{stroke-width:.7;fill:none}}{light}"
        "@media(prefers-color-scheme:dark){.paper{fill:#1c2027}text{fill:#e7e9ee}.soft{fill:#a9b2c0}"
        f".gone{{stroke:#8d96a5;color:#a9b2c0}}.other{{stroke:#4b5361;color:#98a1b0}}circle.hollow{{fill:#1c2027}}.grid{{stroke:#363d49}}{dark}}}"
    )


Scale = tuple[Callable[[float], float], list[float]]  # where a value goes, and the ticks


def _scales(axes: Axes, lines: Sequence[ChartLine]) -> tuple[Scale, Scale]:
    xs = [a for line in lines for a, _ in line.points] or [1.0]
    ys = [b for line in lines for _, b in line.points if math.isfinite(b)] or [1.0]
    bottom = min(ys) if axes.log_y else 0.0
    return (
        _scale(min(xs), max(xs), axes.log_x, SHEET.left, SHEET.right, pad=False),
        _scale(bottom, max(ys), axes.log_y, SHEET.bottom, SHEET.top, pad=True),
    )


def _scale(low: float, high: float, log: bool, start: float, end: float, *, pad: bool) -> Scale:
    """Where a value goes between two pixels, and the ticks."""
    if log and low <= 0:
        log = False
    f: Callable[[float], float] = math.log if log else float
    if low == high:
        low, high = (low / 2, high * 2 or 1.0) if log else (0.0, high * 2 or 1.0)
    ticks = _log_ticks(low, high) if log else _ticks(low, high)
    if pad:
        high = max(high, ticks[-1])
        low = min(low, ticks[0])
    a, b = f(low), f(high)
    return (lambda v: start + (f(v) - a) / (b - a) * (end - start)), [t for t in ticks if low <= t <= high * (1 + 1e-9)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = (1, 2, 5) if last - first <= 3 else (1,)
    return [m * 10.0**k for k in range(first, last + 1) for m in marks if low * 0.999 <= m * 10.0**k <= high * 2.5]


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(step * m for m in (1, 2, 2.5, 5, 10) if (high - low) / (step * m) <= 6)
    return [low + i * step for i in range(math.ceil((high - low) / step - 1e-9) + 1)]


def _grid(axes: Axes, x: Scale, y: Scale) -> list[str]:
    right, bottom = SHEET.right, SHEET.bottom
    out = [f'<text x="{SHEET.left}" y="18" font-weight="600">{escape(axes.y)}</text>']
    for v in y[1]:
        at = y[0](v)
        text = f"{100 * v:.3g} %" if axes.percent else f"{v:.3g}"
        out.append(f'<line class="grid" x1="{SHEET.left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
                   f'<text class="soft" x="{SHEET.left - 8}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    for v in x[1]:
        at = x[0](v)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 5}"/>'
                   f'<text class="soft" x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">{v:g}</text>')
    middle = (SHEET.left + right) / 2
    out.append(f'<text class="soft" x="{middle}" y="{bottom + 38}" text-anchor="middle">{escape(axes.x)}</text>')
    return out


def _drawn(line: ChartLine, look: str, x: Scale, y: Scale) -> str:
    kind = f'class="{look} line{" aside" if line.aside else ""}"'
    parts, run = [], []
    for a, b in (*line.points, (math.nan, math.nan)):
        if math.isfinite(b):
            run.append((x[0](a), y[0](b)))
            continue
        if len(run) > 1:
            parts.append(f'<polyline {kind} points="{" ".join(f"{u:.1f},{v:.1f}" for u, v in run)}"/>')
        if not line.aside and not line.other:
            parts += [f'<circle class="{look}" cx="{u:.1f}" cy="{v:.1f}" r="2.6"/>' for u, v in run]
        run = []
    return f'<g class="{look}"><title>{escape(line.name)}</title>{"".join(parts)}</g>'


def _names(lines: Sequence[ChartLine], looks: Sequence[str], y: Scale) -> list[str]:
    """Names at the right ends, pushed apart where they would touch, with a thin line to their curve."""
    ends = []
    for look, line in zip(looks, lines, strict=True):
        last = [b for _, b in line.points if math.isfinite(b)]
        if last:
            ends.append((y[0](last[-1]), look, line))
    ends.sort(key=lambda e: e[0])
    at = [e[0] for e in ends]
    for _ in range(200):
        for k in range(1, len(at)):
            if (over := SHEET.space - (at[k] - at[k - 1])) > 1e-6:
                at[k - 1], at[k] = at[k - 1] - over / 2, at[k] + over / 2
        at = [min(max(v, SHEET.top), SHEET.height - 10) for v in at]
    out, right = [], SHEET.right
    for (v, colour, line), place in zip(ends, at, strict=True):
        out.append(f'<path class="lead {colour}" d="M{right + 3} {v:.1f}L{right + 14} {place:.1f}"/>'
                   f'<text class="{colour} n" x="{right + 18}" y="{place + 4:.1f}">{escape(line.name)}</text>')
    return out
