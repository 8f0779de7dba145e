"""Bounds on I(X;Y) over every mechanism that is private over a set of distributions, whatever its rows.

`point` asks privacy at P̂ alone, `chain` looks at one secret at a time, `split` and `two values` let every pair of
secrets share the slack in one way. Each is proved for all rows (docs/robust.md, section 14) by weak duality: whatever
prices and multipliers a search ends at, the bound that they give holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.optimise.arrays import Floats, canonical
from sfumato.optimise.bound.point import HIGH, LOW, chain, point
from sfumato.optimise.bound.slack import Slack
from sfumato.optimise.bound.split import split, two_values
from sfumato.optimise.budget import FREE, Budget

__all__ = ["Bound", "bound"]

ALLOWANCE = 1e-8  # nats added to every bound, and relative to it: sums of floats, multiplied by no more than 1e7


@dataclass(frozen=True, slots=True)
class Bound:
    """No mechanism with the promise keeps more than `value` nats; which route proved it, and all routes."""

    value: float
    route: str
    routes: dict[str, float]


Route = Callable[[Floats, Slack, float, Budget], float]
ROUTES: dict[str, tuple[Route, float]] = {  # with the share of the time that is left to it
    "two values": (two_values, 0.7), "chain": (chain, 0.3), "split": (split, 1.0),
}


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
    slack = Slack.of(within)
    if slack is not None and slack.total > 0.0 and len(live) > 1 and epsilon < HIGH:
        for name, (route, share) in ROUTES.items():
            least = min(found.values())
            budget.tell(f"bound: {name}", value, least)
            if budget.over or (np.isfinite(value) and least - value <= gap * abs(value)):
                break
            proved = route(live, slack, max(epsilon, LOW), budget.part(share))
            if np.isfinite(proved):
                found[name] = _outward(proved)
    best = min(found, key=lambda name: found[name])
    return Bound(found[best], best, found)


def _outward(value: float) -> float:
    return float(value + ALLOWANCE * (1.0 + abs(value)))
