"""The pictures of a comparison: what is kept, and how well one can estimate, against ε."""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.comparing.chart import Axes, Line, chart
from sfumato.comparing.comparison import Comparison
from sfumato.comparing.field import ENTRANTS, PLAIN
from sfumato.comparing.points import Point

FLOORS = ("srr", "ir")  # closed forms that anyone can do: the floor
SHOWN = 14  # curves at most, the best ones


def kept_picture(found: Comparison) -> str:
    """NMI against ε for every method, with the ceiling of every mechanism and the best bound of a family."""
    names = _best(found, lambda p: 1.0 - (p.nmi if p.nmi is not None else 0.0))
    lines = [Line("ceiling", _ceiling(found), True), Line("best bound", _bounds(found), True)]
    for name in names:
        label = f"{name} (floor)" if name in FLOORS else name
        points = tuple((p.epsilon, p.nmi) for p in found.of(name) if p.nmi is not None)
        lines.append(Line(label, points, not ENTRANTS[name].comparable))
    axes = Axes("What is kept of a record, by method and level", "ε about the secret, in nats", "kept of a record",
                percent=True)
    return chart(axes, lines, _told(found, lambda p: p.nmi, "{:.0%} of a record kept", largest=True))


def error_picture(found: Comparison, of: str = "useful") -> str:
    """Standard error against ε, on a log axis, for every method from which `of` can be estimated."""
    names = [n for n in _best(found, lambda p: p.error(of)) if any(math.isfinite(p.error(of)) for p in found.of(n))]
    lines = [
        Line(n, tuple((p.epsilon, p.error(of)) for p in found.of(n)), not ENTRANTS[n].comparable or n in PLAIN)
        for n in names
    ]
    what = {"useful": "the useful marginal", "secret": "the secret marginal", "joint": "the whole table"}[of]
    if found.n is not None:
        p = {"useful": found.joint.p_useful, "secret": found.joint.p_secret, "joint": found.joint.p}[of]
        free = math.sqrt(float((p * (1 - p)).mean()) / found.n)
        lines.insert(0, Line("no privacy", tuple((e, free) for e in found.epsilons), True))
    axes = Axes(f"Standard error of {what}, by method and level", "ε about the secret, in nats",
                f"standard error of {what}", log_y=True)
    return chart(axes, lines, _told(found, lambda p: p.error(of), "standard error {:.2g}", largest=False))


def _best(found: Comparison, loss: Callable[[Point], float]) -> list[str]:
    """The methods worth drawing, best first by their middle point; a twin of an earlier one is left out."""
    ranked = sorted(found.methods, key=lambda n: sorted(loss(p) for p in found.of(n))[len(found.of(n)) // 2])
    seen: dict[tuple[float, ...], str] = {}
    for name in ranked:
        seen.setdefault(tuple(round(loss(p), 4) for p in found.of(name)), name)
    return list(seen.values())[:SHOWN]


def _ceiling(found: Comparison) -> tuple[tuple[float, float], ...]:
    from sfumato.utility.ceiling import ceiling

    whole = found.joint.entropy
    return tuple((e, ceiling(found.joint, e) / whole) for e in found.epsilons) if whole > 0 else ()


def _bounds(found: Comparison) -> tuple[tuple[float, float], ...]:
    """At each ε the greatest proved bound of a family with the full promise."""
    whole, out = found.joint.entropy, []
    for e in found.epsilons:
        known = [p.bound for p in found.at(e) if p.bound is not None and p.method in ("ballopt", "polyopt")]
        if known and whole > 0:
            out.append((e, max(known) / whole))
    return tuple(out)


def _told(found: Comparison, figure: Callable[[Point], float | None], text: str, *, largest: bool) -> str:
    """The picture in words: the best comparable method at the ends of the grid."""
    parts = []
    for e in dict.fromkeys((found.epsilons[0], found.epsilons[-1])):
        known = [
            (value, p.method) for p in found.at(e)
            if ENTRANTS[p.method].comparable and (value := figure(p)) is not None and math.isfinite(value)
        ]
        if known:
            value, name = max(known) if largest else min(known)
            parts.append(f"at ε = {e:g} {name} is best with {text.format(value)}")
    return "; ".join(parts) + "." if parts else "No method has a design."
