"""Which mechanism to take, and why, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.comparing.results import Point
from sfumato.comparing.running import ENTRANTS, PLAIN
from sfumato.decimals import BITS, at_least, at_most, percent

BIT = math.log(2)
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


def recommended(points: Sequence[Point], most: int = 3) -> tuple[str, ...]:
    """The methods of the advice, each once, and the next most informative ones up to three."""
    named = [a.method for a in advice(points)]
    rest = sorted(comparable(points), key=lambda p: -(p.kept or 0.0))
    return tuple(dict.fromkeys([*named, *(p.method for p in rest)]))[:most]


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
