"""Bounds on I(X;Y) over every mechanism that is private over a set of distributions, whatever its rows.

`point` asks privacy at P̂ alone, `chain` looks at a few secrets at a time, `split` and `two values` let every pair of
secrets share the slack in one way. Each is proved for all rows by weak duality (docs/robust.md, section 14).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from sfumato.joint import entropy
from sfumato.optimise.arrays import Floats, canonical
from sfumato.optimise.bound.channels import HIGH, LOW, about_secret
from sfumato.optimise.bound.prices import STRAND
from sfumato.optimise.bound.routes import ChainRule, Split, two_values
from sfumato.optimise.budget import FREE, Budget
from sfumato.uncertainty.balls import SharedRadius
from sfumato.uncertainty.sets import WorstPairs

__all__ = ["Bound", "bound"]

ALLOWANCE = 1e-8  # nats added to every bound, and relative to it: sums of floats, multiplied by no more than 1e7
FITTED, MOST_PROMISING = 0.25, 0.8  # of the time left: for the prices of a route, and for the proof that promises most


@dataclass(frozen=True, slots=True)
class Bound:
    """No mechanism with the promise keeps more than `value` nats; which route proved it, and all routes."""

    value: float
    route: str
    routes: dict[str, float]


def bound(
    p: Floats, within: WorstPairs, epsilon: float, *, value: float = -np.inf, gap: float = 0.0, budget: Budget = FREE
) -> Bound:
    """The least of what the routes prove for ε-privacy over an uncertainty set that contains P̂ = p[s, u].

    Routes stop as soon as the bound is within `gap` of `value`. What never occurs may be left out, and `point` is
    H(U|S) + max I(S;Y) over channels that are ε-private at P̂, which is in F (docs/robust.md, sections 14 and 7).
    """
    live = p[p.sum(axis=1) > 0]
    live = live[:, live.sum(axis=0) > 0] / live.sum()
    live = live[np.ix_(*canonical(live))]
    about, found = about_secret(live.sum(axis=1), epsilon), _Proved(value, gap, budget)
    found.keep("point", entropy(live.ravel()) - entropy(live.sum(axis=1)) + about)
    try:
        if isinstance(within, SharedRadius) and within.budget > 0.0 and min(live.shape) > 1 and epsilon < HIGH:
            _over_ball(live, within, max(epsilon, LOW), found)
    except KeyboardInterrupt:  # what is proved so far is proved
        budget.halt()
    best = min(found.routes, key=lambda name: found.routes[name])
    return Bound(found.routes[best], best, found.routes)


@dataclass(slots=True, eq=False)
class _Proved:
    """What the routes have proved so far, and whether another one is worth its time."""

    value: float
    gap: float
    budget: Budget
    routes: dict[str, float] = field(default_factory=dict)
    least: float = np.inf

    def keep(self, name: str, proved: float) -> None:
        if np.isfinite(proved):
            self.routes[name] = float(proved + ALLOWANCE * (1.0 + abs(proved)))
            self.least = min(self.least, self.routes[name])

    def go_on(self, name: str) -> bool:
        self.budget.tell(f"bound: {name}", self.value, self.least)
        near = np.isfinite(self.value) and self.least - self.value <= self.gap * abs(self.value)
        return not (self.budget.over or near)


def _over_ball(live: Floats, ball: SharedRadius, epsilon: float, found: _Proved) -> None:
    """The routes that are for balls: prices of each first, which say what it may come down to, then proofs."""
    budget, begun = found.budget, dict[str, ChainRule | Split]()
    if found.go_on("two values"):
        found.keep("two values", two_values(live, ball, epsilon, budget))
    if found.go_on("chain"):
        begun["chain"] = ChainRule(live, ball, epsilon, budget.part(FITTED))
    if live.shape[1] > 2 and budget.fits(STRAND * np.count_nonzero(live)) and found.go_on("split"):
        begun["split"] = Split(live, ball, epsilon, budget.part(FITTED))
    for i, (name, route) in enumerate(sorted(begun.items(), key=lambda x: x[1].promised), 1):
        if route.promised < found.least and found.go_on(name):
            found.keep(name, route.proved(budget.part(MOST_PROMISING if i < len(begun) else 1.0)))
