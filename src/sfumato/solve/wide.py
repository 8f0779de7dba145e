"""Large tables: one small LP per secret, started from windows of the mass that a relaxation asks for (ours).

A two-level column of mass w has gain g(w) and mean z(w) under q whatever its subset, so with the column sums asked for
on average only, Σ_u q_u, the best mixture of total T has the value T·env(1/T), env the upper concave envelope of the
points (z, g). That bounds G_s(T), is nearly attained where many subsets have the mass it asks for, and costs no LP: it
gives T, the profile, and the masses of the subsets worth starting from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, xlogx
from sfumato.solve.ball_rows import Profile, corridor
from sfumato.solve.decoupled import Strand, proved
from sfumato.solve.layout import Layout
from sfumato.solve.levelling import level
from sfumato.solve.mixture import Mixture
from sfumato.solve.product import Outcome
from sfumato.solve.subsetsearch import Searched
from sfumato.solve.twolevel import Corridor, split_grid
from sfumato.solve.watch import FREE, Watch
from sfumato.uncertainty.tilting import mass_range, spread_of

NODES = 33  # shares of the slack at which a column must keep its corridor
MASSES = 129  # masses in the relaxation
MANY = 200  # secrets beyond which it is proved on fewer cells
SAMPLE = 24  # secrets on which profiles are compared
WINDOWS = 250  # of each mass that start an LP: a few circular orders of U
STEPS = 512  # shares of the slack at which the finished design is checked
BOUNDED = 2_000  # secrets up to which the family's own bound is proved
MARGIN = 3e-6  # nats left for the proof and the rounding


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """The upper concave envelope of (z, g) of one secret, with the mass at every corner."""

    z: Floats
    g: Floats
    w: Floats

    @classmethod
    def of(cls, inside: Corridor, masses: Floats) -> Envelope:
        lo, hi = inside.heights(masses)
        low, high = inside.constants()
        z = np.concatenate([((1 - masses) * lo + masses * hi).ravel(), [low, high]])
        g = np.concatenate([((1 - masses) * xlogx(lo) + masses * xlogx(hi)).ravel(), xlogx(np.array([low, high]))])
        w = np.concatenate([np.tile(masses, len(lo)), [0.0, 1.0]])
        order = np.lexsort((-g, z.round(11)))
        hull: list[int] = []
        for i in order.tolist():
            if hull and z[i] - z[hull[-1]] < 1e-10:
                continue
            while len(hull) > 1 and (g[hull[-1]] - g[hull[-2]]) * (z[i] - z[hull[-2]]) <= (g[i] - g[hull[-2]]) * (
                z[hull[-1]] - z[hull[-2]]
            ):
                hull.pop()
            hull.append(i)
        return cls(z[hull], g[hull], w[hull])

    def value(self, T: Floats) -> Floats:
        """T·env(1/T)."""
        return np.asarray(T * np.interp(1 / T, self.z, self.g))

    def support(self, T: float) -> tuple[Floats, float, float]:
        """The masses that carry 1/T, and the line α·z + β over the points there."""
        j = int(np.clip(np.searchsorted(self.z, 1 / T), 1, len(self.z) - 1))
        slope = float((self.g[j] - self.g[j - 1]) / (self.z[j] - self.z[j - 1]))
        return self.w[j - 1 : j + 1], slope, float(self.g[j] - slope * self.z[j])


def best_total(envelopes: list[Envelope], shares: Floats, low: float, high: float) -> tuple[float, float]:
    """The T that maximises log T + Σ P̂_s T·env_s(1/T), and the maximum."""
    T = np.geomspace(low, high, 400)
    total = np.log(T) + sum(share * env.value(T) for share, env in zip(shares, envelopes, strict=True))
    return float(T[int(np.argmax(total))]), float(np.max(total))


def relaxed(p: Floats, b: float, E: float, profile: Profile, masses: Floats) -> tuple[list[Envelope], float, float]:
    shares = p.sum(axis=1)
    envelopes = [Envelope.of(corridor(float(x), b, E, profile, 17 if profile.drop else 1), masses) for x in shares]
    T, value = best_total(envelopes, shares / shares.sum(), 1 / E, 1 / (1 + profile.drop))
    return envelopes, T, value


def wide_profile(p: Floats, b: float, epsilon: float, watch: Watch = FREE) -> Profile:
    """The profile with the greatest relaxation over secrets spread over the range of shares."""
    E = float(np.exp(epsilon))
    order = np.argsort(p.sum(axis=1))
    some = p[order[np.unique(np.linspace(0, len(p) - 1, min(SAMPLE, len(p))).round().astype(int))]]
    masses = np.sin(np.linspace(0.0, np.pi / 2, 65)) ** 2
    seen: dict[Profile, float] = {}

    def score(x: Profile) -> None:
        if x not in seen and 1 + x.drop < 0.99 * E:
            seen[x] = relaxed(some, b, E, x, masses)[2]

    for part in (0.0, 0.1, 0.25, 0.45, 0.7, 0.9):
        score(Profile(part * (E - 1.0)))
    for step in (0.5, 0.25, 0.12):
        for name in ("power", "drop"):
            here = max(seen, key=lambda x: seen[x])
            for factor in (1 + step, 1 / (1 + step)):
                drop, power = here.drop, here.power
                score(Profile(drop, power * factor) if name == "power" else Profile(drop * factor, power))
        watch.tell("profile", max(seen.values()))
        if watch.over:
            break
    return max(seen, key=lambda x: seen[x])


def windows(q: Floats, masses: Floats, orders: int, rng: np.random.Generator) -> Floats:
    """Subsets as runs of consecutive values, in several circular orders, each of a mass near one that is asked for."""
    k = len(q)
    out = []
    for turn in range(orders):
        order = rng.permutation(k) if turn else np.argsort(-q)
        if turn == 0:  # large next to small
            order = np.stack([order[: k // 2], order[::-1][: k // 2]], 1).ravel()
            order = np.append(order, np.setdiff1d(np.arange(k), order))
        ends = np.concatenate([[0.0], np.cumsum(np.tile(q[order], 2))])
        start = np.arange(k)
        place = np.argsort(order)
        for w in np.unique(masses):
            if not 0 < w < 1:
                continue
            goal = ends[start] + w
            stop = np.searchsorted(ends, goal)
            stop -= (goal - ends[stop - 1] < ends[stop] - goal) & (stop - 1 > start)
            size = np.clip(stop - start, 1, k - 1)
            out.append(((place[None, :] - start[:, None]) % k < size[:, None]).astype(float))
    if not out:
        return np.eye(k)
    sets = np.concatenate(out)
    code = np.packbits(sets.astype(bool), axis=1)
    first = np.unique(code.view(f"V{code.shape[1]}").ravel(), return_index=True)[1]
    return np.asarray(sets[np.sort(first)])


def stepwise(layout: Layout, p: Floats, b: float) -> tuple[Floats, Floats]:
    """Per secret and step of the slack, the greatest mean at its right end and the least at its left end, of two-level
    atoms: what a proof that compares any two atoms on a grid will find, in floats."""
    grid = split_grid(b, STEPS + 1)
    top, low = np.zeros((len(p), STEPS)), np.zeros((len(p), STEPS))
    for s, h in enumerate(layout.heights):
        share = float(p[s].sum())
        lo = h.min(axis=1)
        d = h.max(axis=1) - lo
        w = np.clip((h > (lo + d / 2)[:, None]) @ (p[s] / share), 0.0, 1.0)[:, None]
        top[s] = (lo[:, None] + d[:, None] * mass_range(w, spread_of(grid[1:], share))[1]).max(axis=0)
        low[s] = (lo[:, None] + d[:, None] * mass_range(w, spread_of(b - grid[:-1], share))[0]).min(axis=0)
    return top, low


def worst_excess(top: Floats, low: Floats, E: float) -> tuple[float, float]:
    """The greatest M_{s₁} − E·m_{s₂} and the greatest ratio over s₁ ≠ s₂ and steps."""
    if len(top) < 2:
        return -1.0, 1.0
    first, second = np.argsort(-top, axis=0)[:2], np.argsort(low, axis=0)[:2]
    k = np.arange(top.shape[1])
    excess, ratio = -np.inf, 0.0
    for i in first:
        for j in second:
            apart = i != j
            if apart.any():
                M, m = top[i, k][apart], low[j, k][apart]
                excess = max(excess, float((M - E * m).max()))
                ratio = max(ratio, float((M / np.maximum(m, 1e-300)).max()))
    return excess, ratio


def safe(layout: Layout, p: Floats, b: float, epsilon: float) -> Layout:
    """The layout, mixed with the constant law so that any two of its atoms are ε-private on the grid of `stepwise`."""
    E = float(np.exp(epsilon - MARGIN))
    excess, _ = worst_excess(*stepwise(layout, p, b), E)
    if excess <= 0:
        return layout
    odds = 1.001 * excess * layout.total / (E - 1.0)
    share = odds / (1.0 + odds)
    return Layout(
        layout.total, layout.lengths, tuple((1.0 - share) * h + share / layout.total for h in layout.heights)
    )


def wide(
    p: Floats, b: float, epsilon: float, *, profile: Profile | None = None, rounds: int = 12, tolerance: float = 1e-3,
    watch: Watch = FREE,
) -> tuple[Outcome, Profile]:
    """A good design for a large table, two-level rows under one profile, until the rounds or the time are used up."""
    E, shares = float(np.exp(epsilon)), p.sum(axis=1)
    chosen = wide_profile(p, b, epsilon, watch) if profile is None else profile
    masses = np.sin(np.linspace(0.0, np.pi / 2, MASSES)) ** 2
    envelopes, T, limit = relaxed(p, b, E, chosen, masses)
    watch.tell("relaxed", limit)
    rng = np.random.default_rng(0)
    strands = []
    coarse, cells = (17, 512) if len(p) <= MANY else (9, 128)
    for s, (env, share) in enumerate(zip(envelopes, shares, strict=True)):
        fine = corridor(float(share), b, E, chosen, NODES if chosen.drop else 1)
        sets = windows(p[s] / share, env.support(T)[0], max(2, WINDOWS // p.shape[1]), rng)
        rough = corridor(float(share), b, E, chosen, coarse if chosen.drop else 1)
        family = Searched(p[s] / share, fine, rough, cells=cells, nodes=257, sets=sets)
        strand = Strand(family, float(share), Mixture(p.shape[1], T))
        columns = family.start()
        strand.lp.add(columns, family.gain(columns))
        strand.lp.anchor(2)
        strand.lp.solve()
        strands.append(strand)
    layout = _laid(strands, T)
    watch.keep(layout, -1e6)
    done, last = np.zeros(len(strands), bool), -np.inf
    for _ in range(rounds):
        for i, strand in enumerate(strands):
            if not done[i] and not watch.over:
                before = strand.lp.value
                strand.advance(tolerance, 2, watch)
                done[i] = strand.lp.value - before <= tolerance / 10
        now = float(np.log(T) + shares @ [x.lp.value for x in strands])
        watch.tell("columns", now)
        if done.all() or watch.over or now - last <= tolerance / 2 * abs(now):
            break
        last = now
    layout = level(_laid(strands, T), p, passes=2, trials=60)
    watch.keep(layout, layout.value(p))
    layout = safe(layout, p, b, epsilon)
    value = layout.value(p)
    watch.tell("levelled", value)
    watch.keep(layout, value + 1.0)
    bound = np.inf
    if len(p) <= BOUNDED and not watch.over:
        bound = _family_bound(strands, envelopes, p, T, 1 / E, 1 / (1 + chosen.drop))
    return Outcome(layout, value, bound, "wide"), chosen


def _family_bound(
    strands: list[Strand], envelopes: list[Envelope], p: Floats, T: float, low: float, high: float
) -> float:
    """The bound of two-level rows from the relaxation's own duals, α·q and β."""
    duals = []
    for strand, env in zip(strands, envelopes, strict=True):
        _, slope, offset = env.support(T)
        duals.append(np.append(slope * strand.family.q, offset))  # type: ignore[attr-defined]
    return proved(strands, duals).bound(low, high)


def _laid(strands: list[Strand], T: float) -> Layout:
    lengths, heights = [], []
    for s in strands:
        on = s.lp.theta > 1e-11
        length, height = s.lp.theta[on], s.lp.columns[on]
        lengths.append(length * (T / length.sum()))
        heights.append(height / (lengths[-1] @ height))
    return Layout(T, tuple(lengths), tuple(heights))
