"""What a comparison shows: which mechanism to take and why, two pictures, and a page in one file without network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.decimals import BITS, at_least, at_most, near, percent
from sfumato.designers.choose import METHODS
from sfumato.frames import digest, embedded, environment, part_of
from sfumato.reporting.comparing import ENTRANTS, PLAIN
from sfumato.reporting.comparison import Comparison, Point
from sfumato.reporting.pictures import COLOURS, SHEET, Axes, ChartLine, chart

BIT = math.log(2)

# --- which mechanism to take, and why, in plain words -----------------------------------------------------------------


CLOSE = 0.02  # figures that differ by less than this share of each other are as good as equal


@dataclass(frozen=True, slots=True)
class Advice:
    """For one aim at one ε: the method, and the reason."""

    aim: str
    method: str
    epsilon: float
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.aim}: {self.method}, {self.reason}."


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
    best = max(fair, key=lambda p: p.kept or 0.0)
    rest = [p for p in fair if p.method != best.method and p.kept is not None]
    share = f" ({percent(best.nmi, 1)})" if best.nmi is not None else ""
    reason = f"it keeps {at_least((best.kept or 0) / BIT, BITS)} bits of a record{share}"
    if best.bound is not None and best.kept:
        near = best.bound - best.kept <= 1e-3 * best.bound
        reason += ", which is proved to be the most of its kind" if near else (
            f", and none of its kind keeps more than {at_most(best.bound / BIT, BITS)}"
        )
    if rest:
        second = max(rest, key=lambda p: p.kept or 0.0)
        near = (second.kept or 0.0) >= (1 - CLOSE) * (best.kept or 0.0)
        how = "as good within 2 %" if near else "next"
        reason += f"; {second.method} is {how} with {at_least((second.kept or 0) / BIT, BITS)}"
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
    lines = [ChartLine("limit of all", _ceiling(found), True), *_curves(found, at, _kept_bits, largest=True)]
    axes = Axes("Bits kept of a record, by method and level", X, "bits kept of a record")
    return chart(axes, lines, _told(found, _kept_bits, "{:.2f} bits of a record kept", largest=True))


def error_picture(found: Comparison, at: float, of: str = "useful") -> str:
    """Standard error of a share against ε, in points and on a scale of ratios, with that of the untouched table."""
    def points(p: Point) -> float | None:
        return 100 * p.error(of) if math.isfinite(p.error(of)) else None

    lines = _curves(found, at, points, largest=False)
    if found.n is not None:
        p = {"useful": found.joint.p_useful, "secret": found.joint.p_secret, "joint": found.joint.p}[of]
        free = 100 * math.sqrt(float((p * (1 - p)).mean()) / found.n)
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


def _ceiling(found: Comparison) -> tuple[tuple[float, float], ...]:
    from sfumato.privacy.ceilings import ceiling

    return tuple((e, ceiling(found.joint, e) / BIT) for e in found.epsilons)


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
    return str(environment(__package__).get_template("compare.html").render(
        joint=found.joint, n=found.n, at=at, colours=COLOURS, script=script, script_hash=digest(script),
        methods=[(name, _advised(found, at, name), sentence(name)) for name in chosen], data=_data(found, chosen),
        errors=error_picture(found, at), kept=_own(kept_picture(found, at)), rows=_rows(found.at(at), chosen),
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


def _own(svg: str) -> str:
    """Ids of their own for a further picture on the page."""
    return svg.replace("chart-", "chart-kept-")


def _rows(points: tuple[Point, ...], chosen: tuple[str, ...]) -> list[dict[str, Any]]:
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
