"""Two-level blocks lo + d·1_H of one secret, the heights that a profile of the shared budget allows, and which one."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from sfumato.libraries import scipy
from sfumato.optimise.arrays import DUST, REPAIRED, Floats, Ints, xlogx
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.tolerances import LEAST

NODES = 65  # shares of the budget at which a block must keep its corridor
BEAM = 8  # sets that exchanges begin from, and blocks that a price brings in at most
MASSES = 513  # masses w = P̂(H|s) at which heights are tabled; between them they are interpolated, and mended later
TOGETHER = 400_000  # numbers in memory for the heights of several secrets
SEARCHED = 10_000  # passes for the masses of a ball whose order has no closed form
LISTED_SETS = 8  # useful values up to which all sets are listed instead of searched


class BlockBall(Protocol):
    """A set whose secrets share a budget."""

    @property
    def budget(self) -> float:
        """What they share, in the units of `masses`."""

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H), P̂(H|s) = w, for a secret of this share that takes `spent` of the budget."""


class OwnBlocks(Protocol):
    """A set whose secrets share nothing: each has masses of its own, and its extreme blocks are known."""

    def masses_of(self, s: int, w: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of measure w."""

    def measure(self, s: int) -> Floats:
        """That of sets of values, on which the heights of their blocks depend."""

    def extreme(self, s: int, E: float) -> Floats:
        """The extreme blocks between 1 and E, for few values."""


BlockSet = BlockBall | OwnBlocks


@dataclass(frozen=True, slots=True)
class Profile:
    """f(b') = 1 + drop·(1 − (b'/b)^power) on [0, b]: decreasing with f(b) = 1; drop = 0 is the product set (ours).

    Asking m_s(v; b') ≥ f(b') and M_s(v; b') ≤ E·f(b − b') for every b' makes any pair private, because budgets add
    [002, Thm 3]. Under a cap of κ for any distribution heights lie between `floor` and e^κ·floor = `roof` as well.
    """

    drop: float = 0.0
    power: float = 0.5
    floor: float = 0.0
    roof: float = float("inf")

    def __call__(self, part: Floats) -> Floats:
        """f at part = b'/b."""
        return np.asarray(1.0 + self.drop * (1.0 - np.clip(part, 0.0, 1.0) ** self.power))


def bend(nodes: int) -> Floats:
    """Shares from 0 to 1, dense at both ends, where extremes move like roots."""
    return np.asarray(np.sin(np.linspace(0.0, np.pi / 2, nodes)) ** 2)


@dataclass(eq=False)
class Heights:
    """For each mass w the heights (lo, hi) of two kinds: the steepest step, and zero off H with the least height on H.

    need(d) = max(0, floor − d·r₋) is convex and room(d) = min(roof − d·r₊) concave in the step d, so Newton's method
    from the right stops at the root of need − room after finitely many pieces.
    """

    ball: BlockSet
    s: int
    share: float | Floats  # of the secret; [mass, 1] for the masses of several at once, see `several`
    E: float
    profile: Profile
    nodes: int = NODES
    w: Floats = field(default_factory=lambda: bend(MASSES))
    lo: Floats = field(init=False)  # [kind, mass]
    hi: Floats = field(init=False)

    def __post_init__(self) -> None:
        part = bend(self.nodes) if self.profile.drop > 0 else np.ones(1)
        floor, roof = self.profile(part), self.E * self.profile(1.0 - part)
        if hasattr(self.ball, "masses_of"):
            low, high = self.ball.masses_of(self.s, self.w[:, None])
        else:
            low, high = self.ball.masses(self.w[:, None], self.share, self.ball.budget * part[None, :])
        if self.profile.floor > 0:  # lo ≥ floor and lo + d ≤ roof, as two more nodes
            low, high = np.broadcast_to(low, (len(self.w), len(part))), np.broadcast_to(high, (len(self.w), len(part)))
            floor, roof = np.append(floor, self.profile.floor), np.append(roof, self.profile.roof)
            low, high = np.pad(low, ((0, 0), (0, 1))), np.pad(high, ((0, 0), (0, 1)), constant_values=1.0)
        self.least, self.most = float(floor.max()), float(roof.min())  # constants
        spend(60 if getattr(self.ball, "closed", True) else SEARCHED, low.size)
        d, at = (roof / np.maximum(high, DUST)).min(axis=1), np.arange(len(self.w))
        for _ in range(60):
            need, room = floor - d[:, None] * low, roof - d[:, None] * high
            i, j = need.argmax(axis=1), room.argmin(axis=1)
            positive = need[at, i] > 0.0
            excess = np.where(positive, need[at, i], 0.0) - room[at, j]
            slope = high[at, j] - np.where(positive, low[at, i], 0.0)
            move = np.where((excess > 1e-14) & (slope > 0.0), excess / np.maximum(slope, LEAST), 0.0)
            if not np.any(move > 1e-14 * d):
                break
            d = d - move
        lo, d = np.maximum((floor - d[:, None] * low).max(axis=1), 0.0), np.maximum(d, 0.0)
        with np.errstate(divide="ignore", over="ignore"):  # beyond all floats it carries nothing
            carried = np.where(low > 0.0, floor / np.where(low > 0, low, 1.0), np.inf).max(axis=1)
        zero = (carried < d * (1.0 - DUST)) & (lo <= 0.0)
        self.lo, self.hi = np.stack([lo, lo]), np.stack([lo + d, np.where(zero, carried, lo + d)])

    @staticmethod
    def several(
        ball: BlockSet, secrets: Ints, shares: Floats, E: float, profile: Profile, nodes: int, masses: list[Floats],
        budget: Budget = FREE,
    ) -> list[Heights]:
        """One for each secret, many secrets in one pass where they differ by their share alone."""
        out: list[Heights] = []
        step = 1 if hasattr(ball, "masses_of") else max(1, TOGETHER // (nodes * max(map(len, masses), default=1)))
        for i in range(0, len(masses), step):
            budget.go_on()
            sizes = [len(w) for w in masses[i : i + step]]
            share = np.repeat(shares[i : i + step], sizes)[:, None]
            both = Heights(ball, int(secrets[i]), share, E, profile, nodes, np.concatenate(masses[i : i + step]))
            for k, end in enumerate(np.cumsum(sizes).tolist()):
                mine, at = copy(both), slice(end - sizes[k], end)
                mine.s, mine.share = int(secrets[i + k]), float(shares[i + k])
                mine.w, mine.lo, mine.hi = both.w[at], both.lo[:, at], both.hi[:, at]
                out.append(mine)
        return out

    def scaled(self) -> Heights:
        """The same blocks with the mean 1."""
        mine, mean = copy(self), (1.0 - self.w) * self.lo + self.w * self.hi
        mine.lo, mine.hi, mine.least, mine.most = self.lo / mean, self.hi / mean, 1.0, 1.0
        return mine

    def at(self, w: Floats) -> tuple[Floats, Floats]:
        """(lo, hi) at any masses, [kind, …]."""
        return tuple(np.stack([np.interp(w, self.w, row) for row in x]) for x in (self.lo, self.hi))  # type: ignore[return-value]


def subsets(count: int) -> Floats:
    """All sets of values but the empty one and the full one [set, u]."""
    return (np.arange(1, (1 << count) - 1)[:, None] >> np.arange(count) & 1).astype(float)


def possible(q: Floats, measure: Floats, grid: int = MASSES) -> Floats:
    """The masses at which heights are needed: those of all sets of few values, a grid for more."""
    if len(q) > LISTED_SETS:
        return bend(grid)
    return np.unique(np.concatenate([[0.0, 1.0], np.clip(subsets(len(q)) @ measure, 0.0, 1.0)]))


class TwoLevel:
    """The two-level blocks of one secret as columns that are found by price.

    For a given mass the best set minimises y(H), a knapsack whose relaxation is a prefix of the order y_u/q_u;
    exchanges of one or two values mend it. What is found is a start: nothing rests on its being complete. Few values
    have all their sets listed, and a set that knows the extreme blocks of its cone has those.
    """

    def __init__(self, q: Floats, heights: Heights, sets: Callable[[], Floats] | None = None) -> None:
        ball, s = heights.ball, heights.s
        self.q, self.heights = q, heights
        self.measure = ball.measure(s) if hasattr(ball, "measure") else q  # of sets, on which their heights depend
        few, self._some = len(q) <= LISTED_SETS, sets
        self.every: Floats | None = None
        if few:
            self.every = ball.extreme(s, heights.E) if hasattr(ball, "extreme") else self.start()
            self.worth = self.gain(self.every)

    @cached_property
    def sets(self) -> Floats:
        """Sets of values to begin with: made when they are first asked for, which not every secret lives to see."""
        if len(self.q) <= LISTED_SETS:
            return subsets(len(self.q))
        return np.zeros((0, len(self.q))) if self._some is None else self._some()

    @property
    def ends(self) -> Floats:
        """The two constants [h, u]."""
        return np.array([[self.heights.least], [self.heights.most]]) * np.ones(len(self.q))

    def start(self) -> Floats:
        """The two constants, and blocks on the given sets."""
        w = np.clip(self.sets @ self.measure, 0.0, 1.0)
        lo, hi = self.heights.at(w)
        kind, at = np.nonzero(np.stack([np.ones(len(w), bool), np.abs(hi[1] - hi[0]) > REPAIRED]))
        return np.concatenate([self.ends, lo[kind, at][:, None] + (hi - lo)[kind, at][:, None] * self.sets[at]])

    def gain(self, blocks: Floats) -> Floats:
        return np.asarray(xlogx(blocks) @ self.q)

    def best(self, y: Floats, count: int = BEAM, above: float = -np.inf) -> Floats:
        """The blocks with the greatest gain less y·h, as many as asked for; a constant is among those compared."""
        blocks, reduced = self._reckoned(y)
        best = np.argsort(-reduced)[:count]
        return np.asarray(blocks[best[reduced[best] > above]])

    def best_of_means(self, y: Floats, slopes: Floats, count: int) -> Floats:
        """So many blocks for each of some slopes, which are prices of the mean beside y."""
        return np.unique(np.concatenate([self.best(y + c * self.q, count) for c in slopes]), axis=0)

    def _reckoned(self, y: Floats) -> tuple[Floats, Floats]:
        if self.every is not None:
            return self.every, self.worth - self.every @ y
        blocks = np.concatenate([self._found(y), self.ends])
        return blocks, self.gain(blocks) - blocks @ y

    def _found(self, y: Floats) -> Floats:
        k = len(self.q)
        key = np.where(self.q > 0, y / np.maximum(self.q, LEAST), np.where(y < 0, -np.inf, np.inf))
        prefixes = np.tri(k + 1, k, -1)[:, np.argsort(np.argsort(key, kind="stable"))]
        begin, top = np.concatenate([prefixes, self.sets]), -np.inf
        spend(60, begin.size)
        order = np.argsort(-self._priced(begin @ self.q, begin @ self.measure, begin @ y, y)[0].max(0))
        chosen, best = [begin[order[: max(BEAM, k)]]], begin[order[:BEAM]]
        while True:
            best, reached = self._exchanged(best, y)
            chosen.append(best)
            best = best[:BEAM]
            if reached <= top:
                return self._blocks(np.unique(np.concatenate(chosen), axis=0), y)
            top = reached

    def _priced(self, w: Floats, measure: Floats, inside: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
        """The reduced gain of sets of mass w with y(H) = inside, and their heights, [kind, …]."""
        lo, hi = self.heights.at(np.clip(measure, 0.0, 1.0))
        return (1.0 - w) * xlogx(lo) + w * xlogx(hi) - lo * y.sum() - (hi - lo) * inside, lo, hi

    def _blocks(self, sets: Floats, y: Floats) -> Floats:
        value, lo, hi = self._priced(sets @ self.q, sets @ self.measure, sets @ y, y)
        kind, at = value.argmax(axis=0), np.arange(len(sets))
        return np.asarray(lo[kind, at][:, None] + (hi - lo)[kind, at][:, None] * sets)

    def _exchanged(self, sets: Floats, y: Floats) -> tuple[Floats, float]:
        """The best sets that exchanges of one or two values reach, and the best reduced gain among them."""
        k = len(self.q)
        sign = 1.0 - 2.0 * sets  # +1: enters, −1: leaves
        spend(80, sets.size * k)
        i, after = np.arange(k), []
        for weight in (self.q, self.measure, y):
            change = sign * weight
            sums = (sets @ weight)[:, None, None] + change[:, :, None] + change[:, None, :]
            sums[:, i, i] -= change
            after.append(sums.reshape(len(sets), -1))
        value = self._priced(after[0], after[1], after[2], y)[0].max(0)
        few = min(k, 16)
        at = np.argpartition(-value, few - 1, axis=1)[:, :few]
        out, row = np.repeat(sets, few, axis=0), np.arange(len(sets) * few)
        a, c = np.divmod(at.ravel(), k)
        out[row, a] = 1.0 - out[row, a]
        twice = a != c
        out[row[twice], c[twice]] = 1.0 - out[row[twice], c[twice]]
        reached = np.take_along_axis(value, at, axis=1).ravel()
        first = np.unique(np.packbits(out.astype(bool), axis=1), axis=0, return_index=True)[1]
        return out[first[np.argsort(-reached[first])[: 2 * k]]], float(reached.max())


# --- which profile, which T, which sets: a relaxation that costs no linear programme ----------------------------------
# A two-level block of mass w has gain g(w) and mean z(w) under q whatever its set, so with the column sums asked for
# on average only, the best mixture of total T has the value T·env(1/T), env the upper concave envelope of the points
# (z, g). That bounds G_s(T) and is nearly attained where many sets have the mass it asks for.


SAMPLE = 24  # secrets, spread over the range of shares, on which profiles are compared
COARSE = 65  # masses in the relaxation, where there are too many sets to list
DROPS = (0.0, 0.05, 0.12, 0.25, 0.45, 0.7, 0.9)  # of E − 1: the first profiles tried
STRIDE, TRIES = 0.5, 30  # of the simplex method: first step in logits, profiles at most
ROUGH = 17  # shares of the budget at which corridors are kept in the relaxation


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


def relaxed(
    heights: list[Heights], shares: Floats, low: float, high: float, budget: Budget = FREE
) -> tuple[list[Envelope], float, float]:
    """Envelopes, the T that maximises log T + Σ P̂_s T·env_s(1/T), and the maximum."""
    envelopes, total = list[Envelope](), np.geomspace(low, high, 400)
    for h in heights:
        budget.go_on()
        envelopes.append(Envelope.of(h))
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
    ball: BlockSet, p: Floats, epsilon: float, at_most: float | None = None, budget: Budget = FREE
) -> tuple[Profile, float]:
    """The profile with the greatest relaxation found, and that relaxation: about what the best two-level rows keep."""
    relaxation, plain = _relaxation(ball, p, epsilon, at_most), capped(epsilon, at_most)

    @cache
    def score(profile: Profile) -> float:
        return relaxation(profile) if profile == plain or not budget.over else -np.inf

    first = max((replace(plain, drop=part * (math.exp(epsilon) - 1.0)) for part in DROPS), key=score)
    return climbed(score, first, epsilon, at_most, TRIES)


def _relaxation(ball: BlockSet, p: Floats, epsilon: float, at_most: float | None) -> Callable[[Profile], float]:
    """What a profile keeps in the relaxation, on some secrets; −∞ where it leaves no room."""
    E, shares = math.exp(epsilon), p.sum(1)
    least = 0.0 if at_most is None else math.exp(epsilon - at_most) * (1 - REPAIRED)
    spread = np.unique(np.linspace(0, len(shares) - 1, min(SAMPLE, len(shares))).round().astype(int))
    chosen = np.argsort(shares)[spread]
    some = shares[chosen]
    grids = [possible(q, q, COARSE) for q in p[chosen] / some[:, None]]

    def kept(x: Profile) -> float:
        if x.drop >= 0.99 * (E - 1) or not least <= x.floor <= 1 + REPAIRED:
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
        share = scipy.special.expit(np.clip(x, -6.0, 6.0)).tolist()
        under = capped(epsilon, at_most, *share[2:])
        profile = replace(under, drop=rise * share[0], power=-math.log2(1.0 - share[1]))
        if profile not in seen:
            seen[profile] = score(profile)
        return -seen[profile]

    corners = scipy.special.logit(np.clip(places, 0.02, 0.98)) + STRIDE * np.eye(len(places) + 1, len(places), -1)
    options = {"maxfev": tries, "initial_simplex": corners}
    scipy.optimize.minimize(cost, corners[0], method="Nelder-Mead", options=options)
    best = max(seen, key=lambda x: seen[x])
    return best, seen[best]
