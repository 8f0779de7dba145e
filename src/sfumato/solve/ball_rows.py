"""Rows for the exact ball: product set (profile 1) and shared slack with a decreasing profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.decoupled import decouple
from sfumato.solve.layout import Layout
from sfumato.solve.levelling import level
from sfumato.solve.margin import boosted
from sfumato.solve.pricing import ENUMERATE
from sfumato.solve.product import Outcome, optimise
from sfumato.solve.subsetsearch import Searched
from sfumato.solve.twolevel import Corridor, split_grid
from sfumato.solve.watch import FREE, Watch
from sfumato.uncertainty.tilting import spread_of


@dataclass(frozen=True, slots=True)
class Profile:
    """f(b') = 1 + drop·(1 − (b'/b)^power) on [0, b]: decreasing with f(b) = 1; drop = 0 is the product set (ours).

    Asking m_s(v; b') ≥ f(b') and M_s(v; b') ≤ E·f(b − b') for every b' makes any pair private, because budgets add
    [002, Thm 3].
    """

    drop: float = 0.0
    power: float = 0.5

    def __call__(self, part: Floats) -> Floats:
        """f at part = b'/b."""
        return np.asarray(1.0 + self.drop * (1.0 - np.clip(part, 0.0, 1.0) ** self.power))


def corridor(share: float, b: float, E: float, profile: Callable[[Floats], Floats], nodes: int) -> Corridor:
    """The constraints of one secret on a grid of the slack."""
    part = split_grid(1.0, nodes) if nodes > 1 else np.ones(1)
    return Corridor(spread_of(b * part, share), profile(part), E * profile(1.0 - part))


def ball_families(
    p: Floats, b: float, E: float, profile: Profile, nodes: tuple[int, int, int] = (129, 33, 1025)
) -> list[Searched]:
    """The two-level columns of every secret."""
    slack_nodes = (1, 1) if profile.drop == 0.0 else nodes[:2] if p.shape[1] <= ENUMERATE else (65, 17)
    families = []
    for s, share in enumerate(p.sum(axis=1)):
        fine, coarse = (corridor(float(share), b, E, profile, k) for k in slack_nodes)
        families.append(Searched(p[s] / share, fine, coarse, nodes=nodes[2] if p.shape[1] <= ENUMERATE else 513))
    return families


@dataclass(eq=False)
class Tuner:
    """Scores profiles by the levelled value of a quick decoupled design; remembers T from one profile to the next."""

    p: Floats
    b: float
    E: float
    watch: Watch
    first: float | None = None

    def __post_init__(self) -> None:
        self.seen: dict[Profile, float] = {}

    def score(self, profile: Profile) -> float:
        if profile not in self.seen:
            self.seen[profile] = self._design(profile) if 1.0 + profile.drop < self.E else -np.inf
        return self.seen[profile]

    def _design(self, profile: Profile) -> float:
        low, high = 1.0 / self.E, 1.0 / (1.0 + profile.drop)
        first = None if self.first is None else min(max(self.first, low), high)
        families = ball_families(self.p, self.b, self.E, profile, (33, 17, 2))
        found = decouple(
            families,
            self.p.sum(axis=1),
            low,
            high,
            tolerance=2e-3,
            gap=2e-3,
            steps=6,
            first=first,
            watch=self.watch,
            prove=False,
        )
        self.first = found.layout.total
        return level(found.layout, self.p, passes=2, trials=60).value(self.p)

    def best(self) -> Profile:
        return max(self.seen, key=lambda x: self.seen[x])


def merged(p: Floats, most: int) -> Floats:
    """At most `most` useful values: similar total mass each, neighbours in size together."""
    if p.shape[1] <= most:
        return p
    order = np.argsort(-p.sum(axis=0))
    room = np.zeros(most)
    out = np.zeros((len(p), most))
    for u in order:
        j = int(room.argmin())
        out[:, j] += p[:, u]
        room[j] += p[:, u].sum()
    return out


def tuned(p: Floats, b: float, epsilon: float, watch: Watch) -> tuple[Profile, Tuner]:
    """A good profile by a coarse search of the drop, then of the power, then of both more finely.

    Large tables are judged on a few secrets spread over the range of shares, with useful values merged: only the
    profile is wanted.
    """
    E = float(np.exp(epsilon))
    some = merged(p, 8)
    if len(p) > 8:
        order = np.argsort(p.sum(axis=1))
        some = some[order[np.linspace(0, len(p) - 1, 8).round().astype(int)]]
    # Fewer secrets must still see the slack relative to their own shares, so scale it with them.
    scale = float(some.sum())
    tuner = Tuner(some / scale, b / scale, E, watch.until(np.inf))
    reach = 0.98 * (E - 1.0)
    for part in (0.0, 0.08, 0.2, 0.4, 0.65, 0.85):
        tuner.score(Profile(part * reach))
    for step in (0.5, 0.25, 0.12):
        here = tuner.best()
        for power in (here.power * (1 + step), here.power / (1 + step)):
            tuner.score(replace(here, power=power))
        here = tuner.best()
        for drop in (here.drop * (1 + step / 2), here.drop / (1 + step / 2)):
            tuner.score(replace(here, drop=drop))
        if watch.over:
            break
    return tuner.best(), tuner


def ballopt(
    p: Floats, b: float, epsilon: float, *, profile: Profile | None = None, gap: float = 1e-4, watch: Watch = FREE
) -> tuple[Outcome, Profile]:
    """The best two-level rows over the exact set F with one profile of the shared slack, mixed to leave a margin.

    The bound is for this family: two-level rows under the chosen profile.
    """
    chosen = profile if profile is not None else tuned(p, b, epsilon, watch)[0]
    route = ""

    def design(nominal: float) -> tuple[Layout, float]:
        nonlocal route
        E = float(np.exp(nominal))
        families = ball_families(p, b, E, chosen)
        found = optimise(families, p, 1.0 / E, 1.0 / (1.0 + chosen.drop), gap=gap, watch=watch)
        route = found.route
        return found.layout, found.bound

    layout, bound = boosted(design, p, b, epsilon, turns=3 if p.size <= 64 else 1, watch=watch)
    return Outcome(layout, layout.value(p), bound, route), chosen
