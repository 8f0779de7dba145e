"""Arrangements of atoms on a common interval, levelled; and which profile, T and sets they are made under (ours)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import expit, logit

from sfumato.optimise.arrays import DUST, Floats, Ints, xlogx
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.product.two_level import BlockBall, Heights, Profile, possible


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """A mechanism as intervals: output y is a cell of the common refinement of |S| partitions of [0, T].

    Q(dt | s, u) = heights[s][i, u] dt for t in the i-th interval of secret s, so Σ_i lengths[s][i]·heights[s][i, u] is
    1. Numbers kept: about |S||U|² instead of |Y||S||U| (ours).
    """

    total: float
    lengths: tuple[Floats, ...]  # per secret [i]
    heights: tuple[Floats, ...]  # per secret [i, u]

    def cells(self) -> tuple[Floats, Ints]:
        """Lengths of the common refinement and, per cell and secret, the index of the atom there."""
        ends = [np.cumsum(w) for w in self.lengths]
        ends = [e * (self.total / e[-1]) for e in ends]
        cuts = np.unique(np.concatenate([[0.0, self.total], *ends]))
        apart = np.concatenate([[True], np.diff(cuts) > DUST * self.total])  # LP lengths carry as much noise
        cuts = cuts[apart]
        cuts[-1] = self.total
        middle = (cuts[1:] + cuts[:-1]) / 2
        index = np.stack([np.minimum(np.searchsorted(e, middle), len(e) - 1) for e in ends], axis=1)
        return np.diff(cuts), index

    def rows(self) -> Floats:
        """Q[y, s·|U| + u]; at most Σ_s (atoms of s − 1) + 1 rows."""
        length, index = self.cells()
        blocks = [h[index[:, s]] for s, h in enumerate(self.heights)]
        rows = length[:, None] * np.concatenate(blocks, axis=1)
        lost = rows.sum(axis=0) <= 0  # atoms too short to be told apart carried all of a column
        rows[:, lost] = length[:, None]
        return np.asarray(rows / rows.sum(axis=0))

    def _gain(self, p: Floats) -> float:
        atoms = zip(self.lengths, self.heights, p, strict=True)
        return sum(float(w @ (xlogx(h) @ row)) for w, h, row in atoms)

    def if_level(self, p: Floats) -> float:
        """What I(X;Y) would be if the atoms could be ordered so that the total height is level."""
        return self._gain(p) + float(np.log(self.total))

    def value(self, p: Floats) -> float:
        """I(X;Y) in nats without building the rows."""
        length, index = self.cells()
        z = np.zeros(len(length))
        for s, h in enumerate(self.heights):
            z += (h @ p[s])[index[:, s]]
        return self._gain(p) - float(length @ xlogx(z))


# --- order the atoms of every secret so that the total height Σ_s z_s is as level as possible -------------------------


CELLS = 4096  # of [0, T], on which the total is kept: a secret costs its own atoms only


def level(layout: Arrangement, p: Floats, *, passes: int = 4, trials: int = 400) -> Arrangement:
    """Reorder atoms to raise −∫φ(Σ_s z_s), by coordinate descent on ∫(Σ_s z_s)².

    With the others fixed, ∫(rest + z_s)² depends on the order of s only through Σ_i z_i ∫_{interval i} rest, because
    ∫ z_s² does not; so many orders are scored at once from the running integral of the rest (ours).
    Keeps the pass with the best true value.
    """
    rng, z = np.random.default_rng(0), [h @ p[s] for s, h in enumerate(layout.heights)]
    knots = np.linspace(0.0, layout.total, CELLS + 1)
    spread = [float(w @ (x - w @ x / layout.total) ** 2) for w, x in zip(layout.lengths, z, strict=True)]
    orders: list[Ints] = [np.argsort(x) for x in z]

    def shown(s: int) -> Floats:
        ends, middle = np.cumsum(layout.lengths[s][orders[s]]), (knots[1:] + knots[:-1]) / 2
        return np.asarray(z[s][orders[s]][np.minimum(np.searchsorted(ends, middle), len(ends) - 1)])

    best, total = layout, np.full(CELLS, sum(float(x[0]) for x in z if len(x) == 1))
    for turn in range(passes):
        for s in (int(s) for s in np.argsort(-np.array(spread)) if len(z[s]) > 1):
            total = total - shown(s) if turn else total
            rest = np.append(0.0, np.cumsum(total)) * (layout.total / CELLS)
            orders[s] = _best_order(layout.lengths[s], z[s], orders[s], knots, rest, trials, rng)
            total = total + shown(s)
        candidate = Arrangement(
            layout.total,
            tuple(w[o] for w, o in zip(layout.lengths, orders, strict=True)),
            tuple(h[o] for h, o in zip(layout.heights, orders, strict=True)),
        )
        if candidate.value(p) > best.value(p) + 1e-12:
            best = candidate
        elif turn:
            break
    return best


def _best_order(
    w: Floats, z: Floats, old: Ints, knots: Floats, rest: Floats, trials: int, rng: np.random.Generator
) -> Ints:
    """The order with the least Σ_i z_i ∫_{interval i} rest: the old one, those by height, and random ones."""
    tries = np.argsort(rng.random((trials, len(z))), axis=1)
    tries = np.vstack([old, np.argsort(z), np.argsort(-z), tries])
    spend(10, tries.size)
    below = np.interp(np.cumsum(w[tries], axis=1), knots, rest)
    score = (z[tries] * np.diff(below, axis=1, prepend=0.0)).sum(axis=1)
    return np.asarray(tries[int(np.argmin(score))])


# --- which profile, which T, which sets: a relaxation that costs no linear programme ----------------------------------
# A two-level block of mass w has gain g(w) and mean z(w) under q whatever its set, so with the column sums asked for
# on average only, the best mixture of total T has the value T·env(1/T), env the upper concave envelope of the points
# (z, g). That bounds G_s(T) and is nearly attained where many sets have the mass it asks for.


SAMPLE = 24  # secrets, spread over the range of shares, on which profiles are compared
COARSE = 65  # masses in the relaxation, where there are too many sets to list
DROPS = (0.0, 0.05, 0.12, 0.25, 0.45, 0.7, 0.9)  # of E − 1: the first profiles tried
STRIDE, TRIES = 0.5, 30  # of the simplex method: first step in logits, profiles at most
ROUGH = 17  # shares of the budget at which corridors are kept in the relaxation
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
        spend(30 + len(z) / 4)
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
    spend(15, len(heights) * len(total))
    value = np.log(total) + sum(x * env.value(total) for x, env in zip(shares, envelopes, strict=True))
    return envelopes, float(total[int(np.argmax(value))]), float(np.max(value))


def capped(epsilon: float, at_most: float | None, lift: float = 0.5) -> Profile:
    """The profile without drop; under a cap the floor lies between e^{ε−κ} (lift 1) and 1 (lift 0)."""
    if at_most is None:
        return Profile()
    room = max(at_most - epsilon, 0.0) * lift
    return Profile(0.0, 0.5, math.exp(-room), math.exp(at_most - room))


def liked(
    ball: BlockBall, p: Floats, epsilon: float, at_most: float | None = None, budget: Budget = FREE
) -> tuple[Profile, float]:
    """The profile with the greatest relaxation found, and that relaxation: about what the best two-level rows keep."""
    relaxation, plain = _relaxation(ball, p, epsilon, at_most), capped(epsilon, at_most)

    @cache
    def score(profile: Profile) -> float:
        return relaxation(profile) if profile == plain or not budget.over else -np.inf

    first = max((replace(plain, drop=part * (math.exp(epsilon) - 1.0)) for part in DROPS), key=score)
    return climbed(score, first, epsilon, at_most, TRIES)


def _relaxation(ball: BlockBall, p: Floats, epsilon: float, at_most: float | None) -> Callable[[Profile], float]:
    """What a profile keeps in the relaxation, on some secrets; −∞ where it leaves no room."""
    E, shares = math.exp(epsilon), p.sum(1)
    least = 0.0 if at_most is None else math.exp(epsilon - at_most) * (1 - 1e-9)
    spread = np.unique(np.linspace(0, len(shares) - 1, min(SAMPLE, len(shares))).round().astype(int))
    chosen = np.argsort(shares)[spread]
    some = shares[chosen]
    grids = [possible(q, q, COARSE) for q in p[chosen] / some[:, None]]

    def kept(x: Profile) -> float:
        if x.drop >= 0.99 * (E - 1) or not least <= x.floor <= 1 + 1e-9:
            return -np.inf
        heights = Heights.several(ball, chosen, some, E, x, ROUGH, grids)
        return relaxed(heights, some / some.sum(), 1 / E, 1 / (1 + x.drop))[2]

    return kept


def climbed(
    score: Callable[[Profile], float], first: Profile, epsilon: float, at_most: float | None, tries: int
) -> tuple[Profile, float]:
    """The best profile that the simplex method meets from the first one, and its score.

    Profiles that are alike at b' = b/2, where both secrets of a pair take half, form a ridge on which drop and power
    trade against each other; so it moves in the logits of f(0) and of f(b/2) relative to f(0), and of the floor's place
    under a cap.
    """
    rise, seen = math.exp(epsilon) - 1.0, {first: score(first)}
    room = 0.0 if at_most is None else at_most - epsilon
    places = [first.drop / rise, 1.0 - 0.5**first.power]
    if room > 0.0:
        places.append(-math.log(first.floor) / room)

    def cost(x: Floats) -> float:
        share = expit(np.clip(x, -6.0, 6.0)).tolist()
        under = capped(epsilon, at_most, *share[2:])
        profile = replace(under, drop=rise * share[0], power=-math.log2(1.0 - share[1]))
        if profile not in seen:
            seen[profile] = score(profile)
        return -seen[profile]

    from scipy.optimize import minimize

    corners = logit(np.clip(places, 0.02, 0.98)) + STRIDE * np.eye(len(places) + 1, len(places), -1)
    with contextlib.suppress(OutOfTime):
        minimize(cost, corners[0], method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": corners})
    best = max(seen, key=lambda x: seen[x])
    return best, seen[best]


class OutOfTime(Exception):
    """Raised by a score that has no time left: the best so far is taken."""


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
