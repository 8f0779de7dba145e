"""Rows to start from, and by price: coarser tables, two-level blocks, the simplices of polyopt, the optimum at P̂."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from sfumato.joint import Joint, entropy
from sfumato.optimise.arrays import DUST, Bools, Floats, Ints, xlogx
from sfumato.optimise.budget import NUMBER, Budget, spend
from sfumato.optimise.cone import Cap, Coordinates
from sfumato.optimise.linear import LP_PASSES, best_cover
from sfumato.optimise.product.blocks import Arrangement, Families
from sfumato.optimise.product.two_level import BEAM, subsets
from sfumato.optimise.search import InformationAim, improve
from sfumato.tolerances import ALIKE, LEAST, SUBSETS, UNIT
from sfumato.uncertainty import ChiSquareBall, RenyiBall
from sfumato.uncertainty.sets import Pairs, quotient

# --- the commonest cells alone, the rest of every secret together -----------------------------------------------------
# Rows of the coarse table, spread over the fine one, are private there: by Cauchy–Schwarz (Hölder for other orders)
# merging cells does not take a distribution out of a ball of the same radius. So a fine design is never worse than a
# coarse one.


def merged(joint: Joint, alone: int) -> tuple[Joint, Ints]:
    """The `alone` commonest cells, others of a secret in one: a coarse table, and the cell there of each fine one."""
    p = joint.p
    keep = np.zeros(p.size, bool)
    keep[np.argsort(-p.ravel(), kind="stable")[:alone]] = True
    keep = (keep & (p.ravel() > 0)).reshape(p.shape)  # type: ignore[assignment]
    group = np.where(keep, np.cumsum(keep, axis=1) - 1, keep.sum(1, keepdims=True))
    width = max(2, int(group.max()) + 1)
    cell = (np.arange(len(p))[:, None] * width + group).ravel()
    table = np.bincount(cell, p.ravel(), len(p) * width).reshape(len(p), width)
    return Joint.from_probabilities(table, n=joint.n), cell


# --- cones whose extreme rows are known: those of any distribution, by price, and those of simplices, listed (ours) ---
# Any distribution: all numbers are 1 or K, or one secret's are 1/K or K and all others 1 (docs/robust.md, section 12).
#
# Simplices that enclose the conditionals of each secret, secrets compared with themselves too [000, Def. 3]: extreme
# rows are products of the extreme points of every secret (docs/robust.md, sections 1 and 2).


PRODUCTS = 100_000  # extreme rows that are listed at most: less than a second


class FreeRows:
    """New rows by price. What a row gains depends on its set through two sums, the mass and the price, so for each
    mass the best sets begin the order of price by mass, up to a number."""

    def __init__(self, cap: Cap, p: Floats) -> None:
        self.K, self.p, every = cap.K, p, np.ones(len(p), bool)
        owned = [] if len(cap.numbers) < 2 or cap.numbers[0] is cap.numbers[1] else cap.numbers
        self.kinds = [(every, 1.0, self.K)]  # where the two levels are, and what they are; 1 elsewhere
        self.kinds += [(np.isin(np.arange(len(p)), own), 1 / self.K, self.K) for own in owned]

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows of mass 1, the best for the prices first, as many as there are numbers."""
        found, worth = [], []
        for at, low, high in self.kinds:
            if budget.over:
                break
            sets = self._prefixes(prices, at)
            gain = self._worth(sets, at, low, high, prices)
            best = sets[np.argsort(-gain)[:BEAM]]  # all that differ from these in one number are tried too
            flipped = (best[:, None, :] ^ np.eye(len(self.p), dtype=bool)[at][None]).reshape(-1, len(self.p))
            sets = np.unique(np.concatenate([sets, flipped]), axis=0)
            found.append(np.where(at, np.where(sets, high, low), 1.0))
            worth.append(self._worth(sets, at, low, high, prices))
        if not found:
            return np.zeros((0, len(self.p)))
        order = np.argsort(-np.concatenate(worth), kind="stable")[: len(self.p)]
        rows = np.concatenate(found)[order]
        return np.asarray(rows / (rows @ self.p)[:, None])

    def _prefixes(self, prices: Floats, at: Bools) -> Bools:
        key = np.where(at, prices / np.maximum(self.p, LEAST), np.inf)
        rank = np.argsort(np.argsort(key, kind="stable"))
        return np.asarray((rank < np.arange(1, at.sum())[:, None]) & at)

    def _worth(self, sets: Bools, at: Bools, low: float, high: float, prices: Floats) -> Floats:
        """(Σ pφ(v) − φ(z) − λ·v)/z of each row: what it gains for the mass that it takes."""
        w, own, rest = sets @ self.p, float(self.p[at].sum()), float(prices.sum() - prices[at].sum())
        z = low * (own - w) + high * w + self.p.sum() - own
        inside = sets @ prices
        cost = rest + low * (prices[at].sum() - inside) + high * inside
        return np.asarray((xlogx(low) * (own - w) + xlogx(high) * w - xlogx(z) - cost) / z)


# --- rows of two-level blocks by price: the secrets of a row are tied by its mean alone, through a tangent of φ -------
# The blocks that are best for a slope 1 + log τ are found secret by secret (docs/robust.md, section 4); exchanging one
# secret's block at a time among all that were found then raises the reduced gain Σ_s a_s − φ(Σ_s z_s) itself.


SLOPES = 12  # tangents of φ between the least and the greatest mean of a row
NEXT = 3  # blocks of a secret for each slope
PASSES = 3  # over the secrets
STRANGERS = 48  # rows of any blocks that are exchanged too: tangents do not reach rows between two corners


class ProductMover:
    """The rows of product form under one profile."""

    def __init__(self, families: Families) -> None:
        self.p, self.shares, self.families = families.p, families.shares, families.blocks
        self.rng = np.random.default_rng(1)
        self.slopes = 1.0 + np.log(np.geomspace(1.0 / families.high, 1.0 / families.low, SLOPES))

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows over all cells for prices λ[s, u]; none once the time is over."""
        blocks, a, z = [], [], []
        for s in range(len(self.p)):
            if budget.over:
                return np.zeros((0, self.p.size))
            family = self.families[s]
            spend(12, 0 if family.every is None else family.every.size)  # others count their own search
            h = family.best_of_means(prices[s] / self.shares[s], self.slopes, NEXT)
            blocks.append(h)
            a.append(xlogx(h) @ self.p[s] - h @ prices[s])
            z.append(h @ self.p[s])
        first = self._chosen(a, z)
        random = np.stack([self.rng.integers(0, len(gain), STRANGERS) for gain in a], axis=1)
        better = self._exchanged(np.concatenate([first, random]), a, z)
        both = np.unique(np.concatenate([first, better]), axis=0)
        return np.concatenate([h[both[:, s]] for s, h in enumerate(blocks)], axis=1)

    def _chosen(self, a: list[Floats], z: list[Floats]) -> Ints:
        """A row for each slope and rank: every secret's block of that rank for that slope [row, s]."""
        ranks = []
        for gain, mean in zip(a, z, strict=True):
            order = np.argsort(self.slopes[:, None] * mean - gain, axis=1)
            ranks.append(order[:, np.minimum(np.arange(NEXT), order.shape[1] - 1)].ravel())
        return np.stack(ranks, axis=1)

    def _exchanged(self, choice: Ints, a: list[Floats], z: list[Floats]) -> Ints:
        total = np.sum([mean[choice[:, s]] for s, mean in enumerate(z)], axis=0)
        for s in (*range(len(a)),) * PASSES:
            spend(8, len(choice) * len(a[s]))
            rest = total - z[s][choice[:, s]]
            choice[:, s] = (a[s] - xlogx(rest[:, None] + z[s])).argmax(1)
            total = rest + z[s][choice[:, s]]
        return choice


# --- PolyOpt's set: the product of the simplices {R ≥ L} that enclose the conditional balls [000, Thm 3] --------------


@dataclass(frozen=True, eq=False)
class Simplices:
    """For each secret the laws R ≥ L, L the least P(u|s) over a set; secrets do not share anything.

    The corners are L + ρe_u, ρ = 1 − ΣL, so the least and greatest means are L·v + ρ·min v and L·v + ρ·max v.
    """

    around_set: ChiSquareBall | RenyiBall  # that is enclosed
    same_secret: bool = True  # Definition 3 of 000 also compares a secret with itself, which privacy does not need
    budget: float = 0.0

    @property
    def joint(self) -> Joint:
        return self.around_set.joint

    @cached_property
    def least(self) -> Floats:
        """L [s, u]."""
        return np.asarray(self.around_set.spikes()[0])

    def around(self, joint: Joint) -> Simplices:
        return Simplices(self.around_set.around(joint), self.same_secret)

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = 0.0) -> Pairs:
        one, L = np.eye(first.shape[-1]), self.least
        rest = 1 - L.sum(1)
        r1 = L[s1] + rest[s1][:, None] * one[first.argmax(-1)]
        r2 = L[s2] + rest[s2][:, None] * one[second.argmin(-1)]
        return Pairs(quotient((r1 * first).sum(-1), (r2 * second).sum(-1)), r1, r2)

    def means(self, values: Floats, s: Ints, spent: Floats, close: float = 0.0) -> Floats:
        """The greatest R·v given s; there is no budget to spend."""
        L = self.least[s]
        return np.asarray((L * values).sum(-1) + (1 - L.sum(-1)) * values.max(-1) + 0.0 * spent)

    def measure(self, s: int) -> Floats:
        """L as a law: the heights of a two-level block depend on the L-mass of its set."""
        total = float(self.least[s].sum())
        return self.least[s] / total if total > 0 else np.full(self.least.shape[1], 1 / self.least.shape[1])

    def masses_of(self, s: int, w: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets of measure w; the empty and the full set are certain."""
        total = float(self.least[s].sum())
        low, high = total * w, np.minimum(total * w + 1 - total, 1.0)
        return np.where(w >= 1, 1.0, low), np.where(w <= 0, 0.0, high)

    def extreme(self, s: int, E: float) -> Floats:
        """The extreme points of {v ≥ 0 : L·v + ρ·min v ≥ 1, L·v + ρ·max v ≤ E} for few u: docs/robust.md, section 2."""
        L, k = self.least[s], self.least.shape[1]
        rest, sets = max(1.0 - float(L.sum()), 0.0), np.vstack([np.zeros(k), subsets(k), np.ones(k)])
        ends = np.array([[1.0], [E]]) * np.ones(k)
        if rest < DUST:
            on = np.flatnonzero(L > 0)
            return np.concatenate([ends, *(h * np.eye(k)[on] / L[on, None] for h in (1.0, E))])
        w, top = sets @ L, (E - 1.0) / rest
        lo = np.maximum(1.0 - w * top, 0.0)
        hi = np.where(lo > 0, lo + top, E / (rest + w))
        two = lo[:, None] + (hi - lo)[:, None] * sets
        between = []
        for f in np.flatnonzero(L > DUST):
            height = (1.0 - w * top) / L[f]
            ok = (sets[:, f] == 0) & (height > DUST) & (height < top)
            block = top * sets[ok]
            block[:, f] = height[ok]
            between.append(block)
        return np.concatenate([ends, two, *between])


def best_over_simplices(within: Simplices, E: float) -> tuple[Floats, float] | None:
    """The rows Q[y, cell] that are private over simplices and keep most of I(X;Y), and what no others exceed; None
    where extreme rows are too many to list, or are no products."""
    (S, U), p = within.joint.shape, within.joint.p.ravel()
    if not within.same_secret or (p <= 0).any() or S << U > PRODUCTS:
        return None
    parts = [np.unique(within.extreme(s, E), axis=0) for s in range(S)]
    if prod(map(len, parts)) > PRODUCTS:
        return None
    each = np.stack(np.meshgrid(*(np.arange(len(x)) for x in parts), indexing="ij"), -1).reshape(-1, S)
    rows = p * np.concatenate([x[i] for x, i in zip(parts, each.T, strict=True)], axis=1)
    points = np.concatenate([rows / rows.sum(1, keepdims=True), p[None]])
    cover = best_cover(p, points, xlogx(points).sum(1))
    q = cover.weights[:, None] * cover.points / p
    return q / q.sum(0), cover.bound + entropy(p)


# --- the optimum at P̂ itself: H(U|S) + max I(S;Y), by the best channel from S and pieces of it for every useful value -


GRID = 4 * UNIT  # of places on [0, 1]: floats add its multiples without rounding


class Known:
    """A set without slack: masses are what they are."""

    budget = 0.0

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        return w, w


def best_channel(shares: Floats, epsilon: float, budget: Budget) -> Floats:
    """Rows θ_y v^y of the ε-LDP channel from S that tells most about it: entries {1, E} [Kairouz et al.]."""
    joint = Joint.from_probabilities(shares[:, None] / shares.sum())
    coordinates, S = Coordinates.of(joint), len(shares)
    master, E = InformationAim(coordinates, budget), float(np.exp(epsilon))
    if S <= SUBSETS:
        master.add(1.0 + (E - 1.0) * subsets(S))
        budget.tell("rows", master.solve())
    elif budget.firm.fits(LP_PASSES * NUMBER * 4 * S**2):
        free = FreeRows(Cap(E, (np.arange(S),)), coordinates.p)
        order = np.argsort(-shares)
        one = np.tri(S, S)[:, np.argsort(order)]  # the commonest 1, 2, … of them
        listed = np.concatenate([np.eye(S), 1 - np.eye(S), one, 1 - one[:-1]])
        master.add(1.0 + (E - 1.0) * listed)
        improve(master, [lambda _, budget: free.rows(master.prices, budget)], budget, calm=20, gain=1e-6)
    halves, kept = _halved(coordinates.p, E)
    if master.value < kept * (1 - ALIKE):
        return halves
    rows, theta = master.used()
    return np.asarray(theta[:, None] * rows)


def _halved(p: Floats, E: float) -> tuple[Floats, float]:
    """The two rows of the channel that best tells whether a secret is among the commonest, and what that keeps: a bit,
    whatever time there is."""
    order = np.argsort(-p)
    mass = 1.0 + (E - 1.0) * np.cumsum(p[order])[:-1]  # of the row that is E on the first 1, 2, …
    kept = (xlogx(E) - xlogx(mass) - xlogx(1.0 + E - mass)) / (1.0 + E)
    first = np.where(np.argsort(order) <= np.argmax(kept), E, 1.0) / (1.0 + E)
    return np.stack([first, 1.0 - first]), float(kept.max())


def best_at_a_point(p: Floats, epsilon: float, budget: Budget) -> Arrangement:
    """The best mechanism that is ε-private at P̂ alone (docs/robust.md, section 7)."""
    return told_in_full(best_channel(p.sum(1), epsilon, budget), p)


def told_in_full(rows: Floats, p: Floats) -> Arrangement:
    """A mechanism that tells of S what a channel θ_y v^y [y, s] from S does, and U once S is known.

    The channel is laid on [0, 1], and each secret's unit of mass there cut into pieces of mass P̂(u|s), one useful value
    for each: ratios and I(S;Y) stay, and U is a function of S and Y. A secret that never occurs is told nothing of U.
    """
    shares = p.sum(1)
    length = rows @ shares
    ends = np.concatenate([[0.0], np.cumsum(length)])
    ends = _on_grid(ends / ends[-1])
    each = zip((rows / length[:, None]).T, p / np.maximum(shares, LEAST)[:, None], strict=True)
    cut = [_cut(ends, density, q) for density, q in each]
    return Arrangement(1.0, tuple(x for x, _ in cut), tuple(h for _, h in cut))


def _on_grid(x: Floats) -> Floats:
    """Places whose differences and sums are exact, so that no sliver lies between the same end in two secrets."""
    return np.asarray(np.round(x / GRID) * GRID)


def _cut(ends: Floats, density: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Pieces of the interval on which one u has density/q_u and the rest 0, by common refinement in mass."""
    mass = np.concatenate([[0.0], np.cumsum(np.diff(ends) * density)])
    inner = _on_grid(np.interp(np.cumsum(q)[:-1], mass / mass[-1], ends))
    cuts = np.unique(np.concatenate([ends, inner]))
    middle, step = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    here, u = density[np.searchsorted(ends, middle) - 1], np.searchsorted(inner, middle)
    height = np.zeros((len(u), len(q)))
    height[np.arange(len(u)), u] = here
    height[:, (q == 0) | ~height.any(0)] = here[:, None]  # (next to) never occurs: its column must still sum to 1
    return step, height / (step @ height)
