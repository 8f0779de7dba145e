"""The pictures of a comparison: bits that are kept, and errors of estimates, against ε.

The recommended methods have one colour each, the same in every picture; all others are grey and stand back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.comparing.chart import Axes, Line, chart
from sfumato.comparing.comparison import Comparison
from sfumato.comparing.field import ENTRANTS
from sfumato.comparing.points import Point
from sfumato.comparing.recommending import recommended

BIT = math.log(2)
SHOWN = 11  # grey curves at most, the best ones
X = "ε about the secret, in nats"
WHAT = {"useful": "the useful columns", "secret": "the secret", "joint": "the whole table"}

Figure = Callable[[Point], float | None]


def kept_picture(found: Comparison, at: float) -> str:
    """Bits kept of a record against ε, with the ceiling of every mechanism."""
    lines = [Line("no mechanism above", _ceiling(found), True), *_curves(found, at, _bits, largest=True)]
    axes = Axes("Bits kept of a record, by method and level", X, "bits kept of a record")
    return chart(axes, lines, _told(found, _bits, "{:.2f} bits of a record kept", largest=True))


def error_picture(found: Comparison, at: float, of: str = "useful") -> str:
    """Standard error of a share against ε, in points and on a scale of ratios, with that of the untouched table."""

    def points(p: Point) -> float | None:
        return 100 * p.error(of) if math.isfinite(p.error(of)) else None

    lines = _curves(found, at, points, largest=False)
    if found.n is not None:
        p = {"useful": found.joint.p_useful, "secret": found.joint.p_secret, "joint": found.joint.p}[of]
        free = 100 * math.sqrt(float((p * (1 - p)).mean()) / found.n)
        lines.insert(0, Line("no privacy", tuple((e, free) for e in found.epsilons), True))
    axes = Axes(f"Standard error of {WHAT[of]}, by method and level", X, f"error of {WHAT[of]}, in points", log_y=True)
    return chart(axes, lines, _told(found, points, "a standard error of {:.2g} points", largest=False))


def _bits(p: Point) -> float | None:
    return None if p.kept is None else p.kept / BIT


def _curves(found: Comparison, at: float, figure: Figure, *, largest: bool) -> list[Line]:
    """Grey curves first, so that the coloured ones lie on top of them."""
    chosen = recommended(found.at(at))
    drawn = {n: tuple((p.epsilon, y) for p in found.of(n) if (y := figure(p)) is not None) for n in found.methods}
    middle = {n: sorted(y for _, y in x)[len(x) // 2] for n, x in drawn.items() if x}
    others = sorted((n for n in middle if n not in chosen), key=lambda n: -middle[n] if largest else middle[n])
    grey = [Line(_marked(n), drawn[n], other=True) for n in others[:SHOWN]]
    return [*grey, *(Line(n, drawn[n], colour=i) for i, n in enumerate(chosen) if n in middle)]


def _marked(name: str) -> str:
    return name if ENTRANTS[name].comparable else f"{name} *"


def _ceiling(found: Comparison) -> tuple[tuple[float, float], ...]:
    from sfumato.utility.ceiling import ceiling

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
