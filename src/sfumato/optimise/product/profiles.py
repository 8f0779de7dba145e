"""Which profile, which T, which sets: a relaxation that costs no linear programme (ours).

A two-level block of mass w has gain g(w) and mean z(w) under q whatever its set, so with the column sums asked for on
average only, the best mixture of total T has the value T·env(1/T), env the upper concave envelope of the points (z, g).
That bounds G_s(T) and is nearly attained where many sets have the mass it asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.product.two_level import Ball, Heights, Profile, bend

SAMPLE = 24  # secrets, spread over the range of shares, on which profiles are compared
COARSE = 65  # masses in the relaxation
DROPS = (0.0, 0.05, 0.12, 0.25, 0.45, 0.7, 0.9)  # of E − 1: the first profiles tried
FINER = (0.5, 0.25, 0.12)  # relative steps around the best one
WINDOWS = 250  # sets of each mass that start a programme: runs of a few circular orders of U


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """The upper concave envelope of (z, g) of one secret, with the mass at every corner."""

    z: Floats
    g: Floats
    w: Floats

    @classmethod
    def of(cls, heights: Heights) -> Envelope:
        w, lo, hi = heights.w, heights.lo, heights.hi
        ends = np.array([heights.least, heights.most])
        z = np.concatenate([((1 - w) * lo + w * hi).ravel(), ends])
        g = np.concatenate([((1 - w) * xlogx(lo) + w * xlogx(hi)).ravel(), xlogx(ends)])
        mass = np.concatenate([np.tile(w, len(lo)), [0.0, 1.0]])
        hull: list[int] = []
        for i in np.lexsort((-g, z.round(11))).tolist():
            if hull and z[i] - z[hull[-1]] < 1e-10:
                continue
            while len(hull) > 1 and (g[hull[-1]] - g[hull[-2]]) * (z[i] - z[hull[-2]]) <= (g[i] - g[hull[-2]]) * (
                z[hull[-1]] - z[hull[-2]]
            ):
                hull.pop()
            hull.append(i)
        return cls(z[hull], g[hull], mass[hull])

    def value(self, total: Floats) -> Floats:
        """T·env(1/T)."""
        return np.asarray(total * np.interp(1 / total, self.z, self.g))

    def support(self, total: float) -> Floats:
        """The masses that carry 1/T."""
        j = int(np.clip(np.searchsorted(self.z, 1 / total), 1, max(len(self.z) - 1, 1)))
        return self.w[j - 1 : j + 1]


def relaxed(heights: list[Heights], shares: Floats, low: float, high: float) -> tuple[list[Envelope], float, float]:
    """Envelopes, the T that maximises log T + Σ P̂_s T·env_s(1/T), and the maximum."""
    envelopes, total = [Envelope.of(h) for h in heights], np.geomspace(low, high, 400)
    value = np.log(total) + sum(x * env.value(total) for x, env in zip(shares, envelopes, strict=True))
    return envelopes, float(total[int(np.argmax(value))]), float(np.max(value))


def possible(q: Floats) -> Floats:
    """The masses that sets of values can have, or a grid where they are many."""
    if len(q) > math.log2(COARSE):
        return bend(COARSE)
    return np.unique(((np.arange(1 << len(q))[:, None] >> np.arange(len(q)) & 1) @ q).clip(0.0, 1.0).round(12))


def capped(epsilon: float, at_most: float | None, lift: float = 0.5) -> Profile:
    """The profile without drop; under a cap the floor lies between e^{ε−κ} (lift 1) and 1 (lift 0)."""
    if at_most is None:
        return Profile()
    room = max(at_most - epsilon, 0.0) * lift
    return Profile(0.0, 0.5, math.exp(-room), math.exp(at_most - room))


def ranked(ball: Ball, p: Floats, epsilon: float, at_most: float | None = None) -> list[Profile]:
    """Profiles, the greatest relaxation first."""
    found = _scored(ball, p, epsilon, at_most)
    return sorted(found, key=lambda x: -found[x])


def relaxed_value(ball: Ball, p: Floats, epsilon: float, at_most: float | None = None) -> float:
    """About what the best two-level rows keep of a table, in nats."""
    return max(_scored(ball, p, epsilon, at_most).values())


def _scored(ball: Ball, p: Floats, epsilon: float, at_most: float | None) -> dict[Profile, float]:
    E, shares, plain = math.exp(epsilon), p.sum(1), capped(epsilon, at_most)
    least = 0.0 if at_most is None else math.exp(epsilon - at_most) * (1 - 1e-9)
    order = np.argsort(shares)
    chosen = order[np.unique(np.linspace(0, len(shares) - 1, min(SAMPLE, len(shares))).round().astype(int))]
    some, grids = shares[chosen], [possible(p[s] / shares[s]) for s in chosen]
    seen: dict[Profile, float] = {}

    def score(x: Profile) -> None:
        if x not in seen and x.drop < 0.99 * (E - 1) and least <= x.floor <= 1 + 1e-9:
            each = zip(chosen, some, grids, strict=True)
            heights = [Heights(ball, int(i), float(s), E, x, 17, w) for i, s, w in each]
            seen[x] = relaxed(heights, some / some.sum(), 1 / E, 1 / (1 + x.drop))[2]

    for part in DROPS:
        score(replace(plain, drop=part * (E - 1.0)))
    for step in FINER:
        for name in ("power", "drop") if at_most is None else ("power", "drop", "lift"):
            here = max(seen, key=lambda x: seen[x])
            for factor in (1 + step, 1 / (1 + step)):
                score(here.beside(**{name: factor}))
    return seen


def windows(q: Floats, masses: Floats, rng: np.random.Generator) -> Floats:
    """Sets as runs of consecutive values in several circular orders, each of a mass near one that is asked for; and
    single values, their complements."""
    k = len(q)
    out = [np.eye(k), 1.0 - np.eye(k)]
    for turn in range(max(2, WINDOWS // k)):
        order = rng.permutation(k) if turn else np.argsort(-q)
        ends = np.concatenate([[0.0], np.cumsum(np.tile(q[order], 2))])
        start, place = np.arange(k), np.argsort(order)
        for w in np.unique(masses):
            if not 0 < w < 1:
                continue
            goal = ends[start] + w
            stop = np.minimum(np.searchsorted(ends, goal), 2 * k)
            stop -= (goal - ends[stop - 1] < ends[stop] - goal) & (stop - 1 > start)
            size = np.clip(stop - start, 1, max(k - 1, 1))
            out.append(((place[None, :] - start[:, None]) % k < size[:, None]).astype(float))
    sets = np.unique(np.concatenate(out), axis=0)
    return np.asarray(sets[sets.any(1) & (sets < 1).any(1)])
