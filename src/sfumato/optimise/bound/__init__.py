"""Bounds on I(X;Y) over every mechanism that is private over a set of distributions, whatever its rows.

`point` asks privacy at P̂ alone, `chain` looks at one secret at a time, `split` and `two values` let every pair of
secrets share the slack in one way. Each is proved for all rows (docs/robust.md, section 14) by weak duality: whatever
prices and multipliers a search ends at, the bound that they give holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sfumato.optimise.arrays import Floats, canonical
from sfumato.optimise.bound.point import HIGH, LOW, ChainRule, point
from sfumato.optimise.bound.slack import Slack
from sfumato.optimise.bound.split import Split, two_values
from sfumato.optimise.bound.strand import STRAND
from sfumato.optimise.budget import FREE, Budget

__all__ = ["Bound", "bound"]

ALLOWANCE = 1e-8  # nats added to every bound, and relative to it: sums of floats, multiplied by no more than 1e7


@dataclass(frozen=True, slots=True)
class Bound:
    """No mechanism with the promise keeps more than `value` nats; which route proved it, and all routes."""

    value: float
    route: str
    routes: dict[str, float]


FITTED, FIRST = 0.25, 0.8  # of the time left: for the prices of a route, and for the proof that promises most


class Route(Protocol):
    """A way to a bound: prices first, which say what it may come down to, then a proof."""

    promised: float

    def proved(self, budget: Budget) -> float:
        """What is proved at these prices."""


def bound(
    p: Floats, within: Any, epsilon: float, *, value: float = -np.inf, gap: float = 0.0, budget: Budget = FREE
) -> Bound:
    """The least of what the routes prove for ε-privacy over a set that contains P̂ = p[s, u].

    `within` is an uncertainty set, or the slack b of a χ² ball. Routes stop as soon as the bound is within `gap` of
    `value`. Secrets and cells that never occur are left out: I(X;Y) at P̂ does not see them, and F without the
    distributions that put mass there is a smaller set, whose private mechanisms include those of F.
    """
    live = p[p.sum(axis=1) > 0]
    live = live[:, live.sum(axis=0) > 0] / live.sum()
    live = live[np.ix_(*canonical(live))]
    found = {"point": _outward(point(live, epsilon))}
    slack, epsilon = Slack.of(within), max(epsilon, LOW)
    if slack is None or slack.total <= 0.0 or len(live) < 2 or epsilon >= HIGH:
        return _best(found)

    def go_on(name: str) -> bool:
        least = min(found.values())
        budget.tell(f"bound: {name}", value, least)
        return not (budget.over or (np.isfinite(value) and least - value <= gap * abs(value)))

    def keep(name: str, proved: float) -> None:
        found.update({name: _outward(proved)} if np.isfinite(proved) else {})

    if go_on("two values"):
        keep("two values", two_values(live, slack, epsilon, budget))
    begun: dict[str, Route] = {}
    if go_on("chain"):
        begun["chain"] = ChainRule(live, slack, epsilon, budget.part(FITTED))
    if live.shape[1] > 2 and budget.left > STRAND * np.count_nonzero(live) and go_on("split"):
        begun["split"] = Split(live, slack, epsilon, budget.part(FITTED))
    for name in sorted(begun, key=lambda x: begun[x].promised):
        if begun[name].promised < min(found.values()) and go_on(name):
            keep(name, begun[name].proved(budget.part(FIRST if len(found) < 2 else 1.0)))
    return _best(found)


def _best(found: dict[str, float]) -> Bound:
    best = min(found, key=lambda name: found[name])
    return Bound(found[best], best, found)


def _outward(value: float) -> float:
    return float(value + ALLOWANCE * (1.0 + abs(value)))
