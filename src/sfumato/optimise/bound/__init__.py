"""Bounds on I(X;Y) over every mechanism that is private over a set of distributions, whatever its rows.

`point` asks privacy at P̂ alone, `chain` looks at one secret at a time, `split` and `two values` let every pair of
secrets share the slack in one way. Each is proved for all rows by weak duality (docs/robust.md, section 14).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sfumato.joint import entropy
from sfumato.optimise.arrays import Floats, canonical
from sfumato.optimise.bound.prices import STRAND
from sfumato.optimise.bound.routes import ChainRule, Split, two_values
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.linear import best_cover
from sfumato.uncertainty.balls import SharedRadius
from sfumato.uncertainty.sets import WorstPairs

__all__ = ["Bound", "about_secret", "bound"]

ALLOWANCE = 1e-8  # nats added to every bound, and relative to it: sums of floats, multiplied by no more than 1e7
FITTED, MOST_PROMISING = 0.25, 0.8  # of the time left: for the prices of a route, and for the proof that promises most


@dataclass(frozen=True, slots=True)
class Bound:
    """No mechanism with the promise keeps more than `value` nats; which route proved it, and all routes."""

    value: float
    route: str
    routes: dict[str, float]


class Route(Protocol):
    """A way to a bound: prices first, which say what it may come down to, then a proof."""

    promised: float

    def proved(self, budget: Budget) -> float:
        """What is proved at these prices."""


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
    with suppress(KeyboardInterrupt):  # what is proved so far is proved
        if isinstance(within, SharedRadius) and within.budget > 0.0 and min(live.shape) > 1 and epsilon < HIGH:
            _over_ball(live, within, max(epsilon, LOW), about, found)
    best = min(found.routes, key=lambda name: found.routes[name])
    return Bound(found.routes[best], best, found.routes)


@dataclass(slots=True, eq=False)
class _Proved:
    """What the routes have proved so far, and whether another one is worth its time."""

    value: float
    gap: float
    budget: Budget
    routes: dict[str, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        return min(self.routes.values())

    def keep(self, name: str, proved: float) -> None:
        if np.isfinite(proved):
            self.routes[name] = float(proved + ALLOWANCE * (1.0 + abs(proved)))

    def go_on(self, name: str) -> bool:
        self.budget.tell(f"bound: {name}", self.value, self.least)
        near = np.isfinite(self.value) and self.least - self.value <= self.gap * abs(self.value)
        return not (self.budget.over or near)


def _over_ball(live: Floats, ball: SharedRadius, epsilon: float, about: float, found: _Proved) -> None:
    """The routes that are for balls: prices of each first, then the proof that promises most."""
    budget, begun = found.budget, dict[str, Route]()
    if found.go_on("two values"):
        found.keep("two values", two_values(live, ball, epsilon, budget))
    if found.go_on("chain"):
        begun["chain"] = ChainRule(live, ball, epsilon, about, budget.part(FITTED))
    if live.shape[1] > 2 and budget.fits(STRAND * np.count_nonzero(live)) and found.go_on("split"):
        begun["split"] = Split(live, ball, epsilon, budget.part(FITTED))
    for name, route in sorted(begun.items(), key=lambda x: x[1].promised):
        if route.promised < found.least and found.go_on(name):
            found.keep(name, route.proved(budget.part(MOST_PROMISING if len(found.routes) < 2 else 1.0)))


# --- max I(S;Y) over ε-LDP channels from S ----------------------------------------------------------------------------


LISTED_SECRETS = 10  # secrets whose 2^10 subsets are listed; the others are small, and are taken as one divisible mass
MASS_PARTS = 9  # of the divisible mass for which prices are sought
LOW, HIGH = 1e-3, 30.0  # levels with safe floats: outside them the closed forms are exact to 1e-7


def about_secret(shares: Floats, epsilon: float) -> float:
    """A bound on max I(S;Y): rows in {1, E}^S [Kairouz et al. 2016] by weak duality, and no more than κ − 1 − log κ,
    κ = ε/(1 − e^{−ε}), whatever the law of S."""
    if len(shares) < 2 or epsilon <= 0.0:
        return 0.0
    kappa = epsilon / -np.expm1(-epsilon)
    limit = min(entropy(shares), float(kappa - 1.0 - np.log(kappa)))
    return min(limit, _priced(-np.sort(-shares), float(np.exp(epsilon)))) if LOW < epsilon < HIGH else limit


def _priced(shares: Floats, E: float) -> float:
    """I ≤ λ·P̂ + max(0, max over rows of (gain − λ·P̂v)/z) for any prices λ, because rows have Σθz = 1.

    Secrets beyond the commonest are one mass of which any part x is at E (docs/robust.md, section 14). At given prices
    what a row is worth, α/z + β − log z, is greatest at z = −α. The prices are those of the best mixture with a few x.
    """
    few, rest, rise = shares[:LISTED_SECRETS], float(shares[LISTED_SECRETS:].sum()), E * float(np.log(E))
    sets = (np.arange(1 << len(few))[:, None] >> np.arange(len(few)) & 1).astype(float)
    part = np.linspace(0.0, 1.0, MASS_PARTS if rest > 0.0 else 1)
    mass, held = np.append(few, rest)[: len(few) + (rest > 0.0)], sets @ few
    heights = np.ones((len(sets), len(part), len(mass)))
    heights[:, :, : len(few)] += (E - 1.0) * sets[:, None, :]
    heights[:, :, len(few) :] += (E - 1.0) * part[:, None]
    spend(60, heights.size)
    z = heights @ mass
    worth = rise * (held[:, None] + rest * part) / z - np.log(z)
    prices = best_cover(mass, (heights * mass / z[:, :, None]).reshape(-1, len(mass)), worth.ravel()).prices
    beta = rise / (E - 1.0) - float(prices[-1])  # of the divisible mass, for each unit of z
    alpha = rise * held - heights[:, 0] @ (mass * prices) - beta * z[:, 0]
    z = np.clip(-alpha, z[:, 0], z[:, 0] + (E - 1.0) * rest)
    return float(prices @ mass) + max(0.0, float((alpha / z + beta - np.log(z)).max()))
