"""What a comparison shows: which mechanism to take and why, two pictures, and a page in one file without network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sfumato import privacy
from sfumato.decimals import BIT, BITS, at_least, at_most, near, percent
from sfumato.designers.choose import METHODS
from sfumato.estimation.estimates import spread_untouched
from sfumato.frames import digest, embedded, environment, part_of
from sfumato.reporting.comparing import ENTRANTS, PLAIN
from sfumato.reporting.comparison import Comparison, Point
from sfumato.tolerances import ALIKE

# Told apart by most eyes, on light and on dark paper; the ninth curve and on have hollow marks, what is aside is grey.
COLOURS = (
    ("#0060a0", "#6db9f2"), ("#b34700", "#f49a5c"), ("#00735a", "#4fd0ab"), ("#a0306f", "#ef93c4"),
    ("#5b4a00", "#e3cf5a"), ("#444c56", "#b4bcc8"), ("#5a3fb0", "#b7a3ff"), ("#8a1f1f", "#ff9a92"),
)

# --- which mechanism to take, and why, in plain words -----------------------------------------------------------------


CLOSE = 0.02  # figures that differ by less than this share of each other are as good as equal


@dataclass(frozen=True, slots=True)
class Advice:
    """For one aim at one ε: the method, and the reason."""

    aim: str
    method: str
    epsilon: float
    reason: str


def comparable(points: Sequence[Point]) -> list[Point]:
    """Those that promise ε about the secret over the whole set, by our own mechanisms."""
    return [p for p in points if ENTRANTS[p.method].comparable and p.method not in PLAIN]


def advice(points: Sequence[Point]) -> tuple[Advice, ...]:
    """What to take at one ε for the most information, for the useful marginal and for the whole table.

    Only mechanisms with the same promise are weighed against each other: others are shown, never recommended.
    """
    fair = comparable(points)
    plain = [p for p in points if p.method in PLAIN]
    told = [_informative(fair)] if any(p.kept for p in fair) else []
    for of, aim in (("useful", "Best estimates of the useful columns"), ("joint", "Best estimates of the whole table")):
        known = [p for p in fair if p.error(of) < float("inf")]
        if known:
            told.append(_precise(known, plain, of, aim))
    return tuple(told)


def recommended(points: Sequence[Point]) -> tuple[str, ...]:
    """The methods of the advice, each once, and the next most informative ones up to three."""
    named = [a.method for a in advice(points)]
    rest = sorted(comparable(points), key=lambda p: -(p.kept or 0.0))
    return tuple(dict.fromkeys([*named, *(p.method for p in rest)]))[:3]


def _informative(fair: Sequence[Point]) -> Advice:
    (kept, best), *rest = sorted(((p.kept, p) for p in fair if p.kept is not None), key=lambda x: -x[0])
    share = f" ({percent(best.nmi, 1)})" if best.nmi is not None else ""
    reason = f"it keeps {at_least(kept / BIT, BITS)} bits of a record{share}"
    if best.bound is not None:
        near = best.bound - kept <= 1e-3 * best.bound
        reason += ", which is proved to be the most of its kind" if near else (
            f", and none of its kind keeps more than {at_most(best.bound / BIT, BITS)}"
        )
    for second, other in rest[:1]:
        how = "as good within 2 %" if second >= (1 - CLOSE) * kept else "next"
        reason += f"; {other.method} is {how} with {at_least(second / BIT, BITS)}"
    return Advice("Most bits", best.method, best.epsilon, reason)


def _precise(known: Sequence[Point], plain: Sequence[Point], of: str, aim: str) -> Advice:
    least = min(p.error(of) for p in known)
    best = max((p for p in known if p.error(of) <= (1 + CLOSE) * least), key=lambda p: p.kept or 0.0)  # of equals
    reason = f"its standard errors are {100 * best.error(of):.2g} points on average"
    usual = [p for p in plain if p.error(of) < float("inf")]
    if usual:
        other = min(usual, key=lambda p: p.error(of))
        name = other.method.removeprefix("plain-").upper()
        reason += f" where {name} with ε-LDP of the record has {100 * other.error(of):.2g}"
    return Advice(aim, best.method, best.epsilon, reason)


# --- bits that are kept, and errors of estimates, against ε -----------------------------------------------------------
# The recommended methods have one colour each, the same in every picture; all others are grey and stand back.


SHOWN = 11  # grey curves at most, the best ones
X = "ε about the secret, in nats"
WHAT = {"useful": "the useful columns", "secret": "the secret", "joint": "the whole table"}

Figure = Callable[[Point], float | None]


def kept_picture(found: Comparison, at: float) -> str:
    """Bits kept of a record against ε, with the ceiling of every mechanism."""
    limit = tuple((e, privacy.ceiling(found.joint, e) / BIT) for e in found.epsilons)
    lines = [ChartLine("limit of all", limit, True), *_curves(found, at, _kept_bits, largest=True)]
    axes = Axes("Bits kept of a record, by method and level", X, "bits kept of a record")
    return chart(axes, lines, _told(found, _kept_bits, "{:.2f} bits of a record kept", largest=True))


def error_picture(found: Comparison, at: float, of: str = "useful") -> str:
    """Standard error of a share against ε, in points and on a scale of ratios, with that of the untouched table."""
    def points(p: Point) -> float | None:
        return 100 * p.error(of) if math.isfinite(p.error(of)) else None

    lines = _curves(found, at, points, largest=False)
    if found.n is not None:
        p = {"useful": found.joint.p_useful, "secret": found.joint.p_secret, "joint": found.joint.p}[of]
        free = 100 * spread_untouched(p, found.n)
        lines.insert(0, ChartLine("no privacy", tuple((e, free) for e in found.epsilons), True))
    axes = Axes(f"Standard error of {WHAT[of]}, by method and level", X, f"error of {WHAT[of]}, in points", log_y=True)
    return chart(axes, lines, _told(found, points, "a standard error of {:.2g} points", largest=False))


def _kept_bits(p: Point) -> float | None:
    return None if p.kept is None else p.kept / BIT


def _curves(found: Comparison, at: float, figure: Figure, *, largest: bool) -> list[ChartLine]:
    """Grey curves first, so that the coloured ones lie on top of them."""
    chosen = recommended(found.at(at))
    drawn = {n: tuple((p.epsilon, y) for p in found.of(n) if (y := figure(p)) is not None) for n in found.methods}
    middle = {n: sorted(y for _, y in x)[len(x) // 2] for n, x in drawn.items() if x}
    others = sorted((n for n in middle if n not in chosen), key=lambda n: -middle[n] if largest else middle[n])
    grey = [ChartLine(n if ENTRANTS[n].comparable else f"{n} *", drawn[n], other=True) for n in others[:SHOWN]]
    return [*grey, *(ChartLine(n, drawn[n], colour=i) for i, n in enumerate(chosen) if n in middle)]


def _told(found: Comparison, figure: Figure, text: str, *, largest: bool) -> str:
    """The picture in words: the best comparable method at the ends of the grid."""
    parts = []
    for e in dict.fromkeys((found.epsilons[0], found.epsilons[-1])):
        known = [(y, p.method) for p in found.at(e) if ENTRANTS[p.method].comparable and (y := figure(p)) is not None]
        if known:
            value, name = max(known) if largest else min(known)
            parts.append(f"at ε = {e:g} {name} is best with {text.format(value)}")
    return "; ".join(parts) + "." if parts else "No method has a design."


# --- the page: methods recommended, two panels, and a table -----------------------------------------------------------


SCALES = {
    "plain-grr": "Randomised response of the whole record, as it is used elsewhere: it promises more, and keeps less.",
    "plain-oue": "Unary encoding of the whole record, as it is used elsewhere: it promises more, and keeps less.",
    "plain-olh": "Local hashing of the whole record, as it is used elsewhere; a formula, nothing is released with it.",
    "precise-useful": "A table of probabilities from which the useful columns can be estimated as well as possible.",
}


def comparison_page(found: Comparison, at: float) -> str:
    """The page, with the advice and the table at one ε."""
    chosen = recommended(found.at(at))
    script = part_of(__package__, "compare.js")
    missing = {m.method: m.why for m in reversed(found.missing)}
    kept = kept_picture(found, at).replace("chart-", "chart-kept-")  # ids of its own for a further picture on the page
    return str(environment(__package__).get_template("compare.html").render(
        joint=found.joint, n=found.n, at=at, colours=COLOURS, script=script, script_hash=digest(script),
        methods=[(name, _advised(found, at, name), sentence(name)) for name in chosen], data=_data(found, chosen),
        errors=error_picture(found, at), kept=kept, rows=_rows(found.at(at), chosen),
        missing=missing.items(), levels=len(found.epsilons),
        chosen=found.epsilons.index(at) if at in found.epsilons else 0,
    ))


def sentence(name: str) -> str:
    """What a method does, in one sentence."""
    return SCALES.get(name) or METHODS.get(name, "")


def _advised(found: Comparison, at: float, name: str) -> str:
    """What a method is recommended for, with the reason."""
    told = [f"{a.aim}: {a.reason}" for a in advice(found.at(at)) if a.method == name]
    return (". ".join(told) or "Also with this promise, and next in what it keeps") + "."


def _data(found: Comparison, chosen: tuple[str, ...]) -> str:
    """What the script says at each level, for the recommended methods."""

    def told(name: str, epsilon: float) -> list[str]:
        p = next((p for p in found.of(name) if p.epsilon == epsilon), None)
        return ["–", "–"] if p is None else [_bits(p), _points(p, "useful")]

    return embedded({
        "epsilons": list(found.epsilons), "methods": list(chosen), "left": SHEET.left, "right": SHEET.right,
        "width": SHEET.width, "bottom": SHEET.bottom,
        "told": [[told(name, e) for name in chosen] for e in found.epsilons],
    })


def _rows(points: tuple[Point, ...], chosen: tuple[str, ...]) -> list[dict[str, object]]:
    """The table: recommended ones first, then the others by what they keep, then other promises."""

    def rank(p: Point) -> tuple[bool, int, bool, float]:
        place = chosen.index(p.method) if p.method in chosen else len(chosen)
        return not ENTRANTS[p.method].comparable, place, p.method in PLAIN, -(p.kept or 0.0)

    return [
        {
            "name": p.method, "what": sentence(p.method), "kept": _bits(p), "useful": _points(p, "useful"),
            "joint": _points(p, "joint"), "promise": p.promise,
            "colour": chosen.index(p.method) if p.method in chosen else None,
        } for p in sorted(points, key=rank)
    ]


def _bits(p: Point) -> str:
    return "–" if p.kept is None else f"{p.kept / BIT:.2f}"


def _points(p: Point, of: str) -> str:
    error = p.error(of)
    return "not fixed" if math.isinf(error) else f"± {near(100 * error, 2)}"


# --- a line chart as SVG, light and dark, readable without colour, described in words ---------------------------------


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
    (x, y), looks = _scales(axes, shown), _looks(shown)
    drawn = (_drawn(line, look, x, y) for line, look in zip(shown, looks, strict=True))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SHEET.width} {SHEET.height}" role="img" '
        f'aria-labelledby="chart-title chart-text" font-family="system-ui, sans-serif" font-size="13">'
        f'<title id="chart-title">{escape(axes.title)}</title><desc id="chart-text">{escape(described)}</desc>'
    )
    body = ''.join((*_grid(axes, x, y), *drawn, *_names(shown, looks, y)))
    paper = f'<rect class="paper" width="{SHEET.width}" height="{SHEET.height}"/>'
    return f"{head}<style>{_style()}</style>{paper}{body}</svg>\n"


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
    a, b, most = f(low), f(high), high * (1 + ALIKE)
    return (lambda v: start + (f(v) - a) / (b - a) * (end - start)), [t for t in ticks if low <= t <= most]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = (1, 2, 5) if last - first <= 3 else (1,)
    return [m * 10.0**k for k in range(first, last + 1) for m in marks if low * 0.999 <= m * 10.0**k <= high * 2.5]


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(step * m for m in (1, 2, 2.5, 5, 10) if (high - low) / (step * m) <= 6)
    return [low + i * step for i in range(math.ceil((high - low) / step - ALIKE) + 1)]


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
    last = [[y[0](b) for _, b in line.points if math.isfinite(b)] for line in lines]
    ends = sorted(((v[-1], look, x) for v, look, x in zip(last, looks, lines, strict=True) if v), key=lambda e: e[0])
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
