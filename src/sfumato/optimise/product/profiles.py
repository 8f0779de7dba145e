"""Which profile, which T, which sets, and in which order: a relaxation that costs no linear programme (ours)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sfumato.optimise.arrays import Floats, Ints, xlogx
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.product.layout import Arrangement
from sfumato.optimise.product.two_level import BlockBall, Heights, Profile, bend

# --- order the atoms of every secret so that the total height Σ_s z_s is as level as possible -------------------------


MANY = 200  # above this many secrets one pass is level enough


class _Profile:
    """A piecewise constant function on [0, T], kept as knots and its running integral."""

    def __init__(self, knots: Floats, height: Floats) -> None:
        self.knots = knots
        self.integral = np.concatenate([[0.0], np.cumsum(height * np.diff(knots))])

    def over(self, ends: Floats) -> Floats:
        """Integral over consecutive intervals that end at `ends` [trial, atom]."""
        at = np.interp(ends, self.knots, self.integral)
        at[:, 1:] -= at[:, :-1].copy()
        return np.asarray(at)


def level(layout: Arrangement, p: Floats, *, passes: int = 4, trials: int = 400, seed: int = 0) -> Arrangement:
    """Reorder atoms to raise −∫φ(Σ_s z_s), by coordinate descent on ∫(Σ_s z_s)².

    With the others fixed, ∫(rest + z_s)² depends on the order of s only through Σ_i z_i ∫_{interval i} rest, because
    ∫ z_s² does not; so many orders are scored at once from the running integral of the rest (ours).
    Keeps the pass with the best true value.
    """
    rng = np.random.default_rng(seed)
    z = [h @ p[s] for s, h in enumerate(layout.heights)]
    if len(z) > MANY:
        return _level_many(layout, z, rng)
    spread = [float(w @ (x - w @ x / layout.total) ** 2) for w, x in zip(layout.lengths, z, strict=True)]
    sequence = [int(s) for s in np.argsort(-np.array(spread)) if len(z[s]) > 1]
    orders: list[Ints] = [np.argsort(x) for x in z]
    placed: set[int] = set(range(len(z))) - set(sequence)
    best, best_value = layout, layout.value(p)
    for turn in range(passes):
        for s in sequence:
            rest = _rest(layout, orders, z, s, placed if turn == 0 else set(range(len(z))))
            orders[s] = _best_order(layout.lengths[s], z[s], orders[s], rest, trials, rng)
            placed.add(s)
        candidate = layout.reordered(orders)
        value = candidate.value(p)
        if value > best_value + 1e-12:
            best, best_value = candidate, value
        elif turn:
            break
    return best


def _level_many(
    layout: Arrangement, z: list[Floats], rng: np.random.Generator, cells: int = 4096, trials: int = 32
) -> Arrangement:
    """One pass for many secrets: the total is kept on a fixed grid, so a secret costs its own atoms only."""
    knots = np.linspace(0.0, layout.total, cells + 1)
    middle = (knots[1:] + knots[:-1]) / 2
    height = np.zeros(cells)
    orders: list[Ints] = [np.arange(len(x)) for x in z]
    for s in np.argsort([-float(x.max() - x.min()) for x in z]):
        w = layout.lengths[s]
        tries = np.argsort(rng.random((trials, len(w))), axis=1)
        best = tries[int(np.argmin(_score(tries, w, z[s], _Profile(knots, height))))]
        orders[s] = best
        height += z[s][best][np.minimum(np.searchsorted(np.cumsum(w[best]), middle), len(w) - 1)]
    return layout.reordered(orders)


def _rest(layout: Arrangement, orders: list[Ints], z: list[Floats], s: int, placed: set[int]) -> _Profile:
    """Σ of z over the placed secrets other than s, as jumps at their interval ends."""
    places: list[Floats] = [np.zeros(1)]
    jumps: list[Floats] = [np.zeros(1)]
    for r in placed - {s}:
        ends = np.cumsum(layout.lengths[r][orders[r]])
        heights = z[r][orders[r]]
        places.append(np.concatenate([[0.0], ends[:-1]]))
        jumps.append(heights - np.append(0.0, heights[:-1]))
    place, jump = np.concatenate(places), np.concatenate(jumps)
    order = np.argsort(place, kind="stable")
    height = np.cumsum(jump[order])
    return _Profile(np.append(place[order], layout.total), height)


def _best_order(w: Floats, z: Floats, old: Ints, rest: _Profile, trials: int, rng: np.random.Generator) -> Ints:
    k = len(w)
    tries = np.argsort(rng.random((trials, k)), axis=1)
    tries = np.vstack([old, np.argsort(z), np.argsort(-z), tries])
    best = tries[int(np.argmin(_score(tries, w, z, rest)))]
    for _ in range(2 * k if k <= 24 else 6):
        near = _neighbours(best)
        if len(near) > 300:
            near = near[rng.choice(len(near), 300, replace=False)]
        score = _score(np.vstack([best, near]), w, z, rest)
        j = int(np.argmin(score))
        if j == 0 or score[j] > score[0] - 1e-15:
            break
        best = near[j - 1]
    return np.asarray(best)


def _score(tries: Ints, w: Floats, z: Floats, rest: _Profile) -> Floats:
    spend(10, tries.size)
    return np.asarray((z[tries] * rest.over(np.cumsum(w[tries], axis=1))).sum(axis=1))


def _neighbours(order: Ints) -> Ints:
    """All exchanges of two places."""
    k = len(order)
    i, j = np.triu_indices(k, 1)
    near = np.repeat(order[None], len(i), axis=0)
    rows = np.arange(len(i))
    near[rows, i], near[rows, j] = order[j], order[i]
    return near


# --- which profile, which T, which sets: a relaxation that costs no linear programme (ours) ---------------------------
# A two-level block of mass w has gain g(w) and mean z(w) under q whatever its set, so with the column sums asked for
# on average only, the best mixture of total T has the value T·env(1/T), env the upper concave envelope of the points
# (z, g). That bounds G_s(T) and is nearly attained where many sets have the mass it asks for.


SAMPLE = 24  # secrets, spread over the range of shares, on which profiles are compared
COARSE = 65  # masses in the relaxation
DROPS = (0.0, 0.05, 0.12, 0.25, 0.45, 0.7, 0.9)  # of E − 1: the first profiles tried
STRIDE, TRIES, FINE = 0.5, 30, 1e-5  # of the simplex method: first step in logits, profiles at most, nats
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


def liked(
    ball: BlockBall, p: Floats, epsilon: float, at_most: float | None = None, budget: Budget = FREE
) -> tuple[Profile, float]:
    """The profile with the greatest relaxation found, and that relaxation: about what the best two-level rows keep."""
    E, relaxation = math.exp(epsilon), _Relaxation(ball, p, epsilon, at_most)
    plain = capped(epsilon, at_most)

    def score(profile: Profile) -> float:
        if budget.over:
            raise OutOfTime
        return relaxation(profile)

    tried = {plain: relaxation(plain)}
    with contextlib.suppress(OutOfTime):
        for part in DROPS[1:]:
            tried[replace(plain, drop=part * (E - 1.0))] = score(replace(plain, drop=part * (E - 1.0)))
    first = max(tried, key=lambda x: tried[x])
    return (first, tried[first]) if budget.over else climbed(score, first, epsilon, at_most, TRIES)


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
    start = [_logit(first.drop / rise), _logit(1.0 - 0.5**first.power)]
    if room > 0.0:
        start.append(_logit(-math.log(first.floor) / room))

    def cost(x: Floats) -> float:
        under = capped(epsilon, at_most, _share(x[2])) if room > 0.0 else capped(epsilon, at_most)
        profile = replace(under, drop=rise * _share(x[0]), power=-math.log2(1.0 - _share(x[1])))
        if profile not in seen:
            seen[profile] = score(profile)
        return -seen[profile]

    from scipy.optimize import minimize

    corners = np.array(start) + STRIDE * np.vstack([np.zeros(len(start)), np.eye(len(start))])
    settings = {"maxfev": tries, "initial_simplex": corners, "fatol": FINE}
    with contextlib.suppress(OutOfTime):
        minimize(cost, corners[0], method="Nelder-Mead", options=settings)
    best = max(seen, key=lambda x: seen[x])
    return best, seen[best]


class OutOfTime(Exception):
    """Raised by a score that has no time left: the best so far is taken."""


def _logit(share: float) -> float:
    share = min(max(share, 0.02), 0.98)
    return math.log(share / (1.0 - share))


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(logit, -6.0), 6.0)))


class _Relaxation:
    """The relaxation of profiles on some secrets."""
    def __init__(self, ball: BlockBall, p: Floats, epsilon: float, at_most: float | None) -> None:
        self.ball, self.E, shares = ball, math.exp(epsilon), p.sum(1)
        self.least = 0.0 if at_most is None else math.exp(epsilon - at_most) * (1 - 1e-9)
        order = np.argsort(shares)
        self.chosen = order[np.unique(np.linspace(0, len(shares) - 1, min(SAMPLE, len(shares))).round().astype(int))]
        self.some, self.grids = shares[self.chosen], [possible(p[s] / shares[s]) for s in self.chosen]

    def __call__(self, x: Profile) -> float:
        if x.drop >= 0.99 * (self.E - 1) or not self.least <= x.floor <= 1 + 1e-9:
            return -np.inf
        heights = Heights.several(self.ball, self.chosen, self.some, self.E, x, ROUGH, self.grids)
        return relaxed(heights, self.some / self.some.sum(), 1 / self.E, 1 / (1 + x.drop))[2]


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
