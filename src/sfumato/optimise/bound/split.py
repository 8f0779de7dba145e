"""The split bound: every pair of secrets shares the slack in one way, and rows are a product over secrets again."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.bound.dual import Items
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.bound.strand import SETTLED, BoundStrand, Corridor, Prices
from sfumato.optimise.budget import FREE, PASS, Budget, spend
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.tolerances import SLIP

LEAN = 0.42  # of the slack for M, the rest for m: M grows faster with its part
EDGES = np.array([0.0, 0.04, 0.12, 0.25, 0.45, 0.7, 1.0])  # of log t in units of ε: families of a distinguished secret
PRICES = 24  # steps of prices at most
REFINED = 4  # rounds of branch and bound at a time
ASIDE = 0.02  # from the best shift, where the families are seen that hold it


class Split:
    """Secrets with about half of the slack each, less for M than for m: any M and m have all of it together.

    Rows with a distinguished secret s0 and t in [t₁, t₂] are a family: roof E/t₁ for the others, floor 1/t₂ for s0. A
    table made for a higher roof or a lower floor serves for the tighter family too.
    """

    def __init__(self, p: Floats, slack: Slack, epsilon: float, budget: Budget) -> None:
        self.shares, self.E, self.epsilon = p.sum(axis=1), float(np.exp(epsilon)), epsilon
        self.largest, self.t = int(self.shares.argmax()), np.exp(epsilon * EDGES)
        self.strands = [
            BoundStrand(row[row > 0] / x, slack.kappa, slack.given(x, LEAN), slack.given(x, 1.0 - LEAN))
            for row, x in zip(p, self.shares.tolist(), strict=True)
        ]
        count, S = len(EDGES) - 1, len(p)
        self.ends = [(1.0, self.E / float(t)) for t in self.t[:-1]]  # of the others, then of s0: [kind · interval]
        self.ends += [(1.0 / float(t), self.E) for t in self.t[1:]]
        corridors = [[Corridor(s.block, *ends) for ends in self.ends] for s in self.strands]
        families = np.tile(np.arange(count), (S, S, 1)) + count * np.eye(S, dtype=np.int64)[:, :, None]  # [s0, s, k]
        self.prices = Prices(
            self.shares, corridors, np.moveaxis(families, 1, 2).reshape(-1, S), float(np.exp(-0.5 * epsilon)),
            1.0 / self.E, budget.part(),
        )
        self.prices.fit(PRICES, budget)
        self.promised = np.inf
        if (height := self.prices.height(self.prices.y)) < 0.0:
            self.promised = float(self.prices.weight @ self.prices.y) - 1.0 - float(np.log(-height))
        self.tables: list[list[Floats]] = []  # [s][kind · interval]
        self.trees: list[list[Items | None]] = [[None] * len(self.ends) for _ in self.strands]

    def proved(self, budget: Budget) -> float:
        """Tables of the widest corridors for all, then of all corridors; then better ones in the worst families, where
        they are farthest from what is attained, while time is left."""
        count, S = len(self.t) - 1, len(self.strands)
        widest = [0] * count + [2 * count - 1] * count
        self.tables = [[self._table(s, k, 0, FREE) for k in (0, 2 * count - 1)] for s in range(S)]
        self.tables = [[own[k > 0] for k in widest] for own in self.tables]
        for k in range(2 * count):
            for s in range(S) if k != widest[k] else ():
                self._tighten(s, k, 0, budget)
        while True:
            value, places = self.assembled()
            gaps = {(s, k + count * (s == s0)): 0.0 for s0, k in places for s in range(S)}
            gaps = {(s, k): self.shares[s] * (_top(self.tables[s][k]) - self.attained[s][k]) for s, k in gaps}
            most = max(gaps.values())
            if budget.over or most < SETTLED / S:
                return value
            for s, k in gaps:
                if gaps[s, k] > 0.5 * most:
                    self._tighten(s, k, REFINED, budget)

    @cached_property
    def attained(self) -> list[list[float]]:
        """What blocks are worth in each corridor, as far as they are known."""
        each = zip(self.prices.corridors, self.prices.of(self.prices.y), strict=True)
        return [[float(x.worth(y).max()) for x in own] for own, y in each]

    def _table(self, s: int, k: int, rounds: int, budget: Budget) -> Floats:
        """Of secret s in a corridor; it need not be better than what is attained there."""
        y, least = self.prices.of(self.prices.y)[s], self.attained[s][k]
        table, self.trees[s][k] = self.strands[s].table(y, *self.ends[k], least, rounds, budget, self.trees[s][k])
        return table

    def _tighten(self, s: int, k: int, rounds: int, budget: Budget) -> None:
        """A table that may serve for the tighter families too."""
        if budget.over:
            return
        known, table, count = self.tables[s], self._table(s, k, rounds, budget), len(self.t) - 1
        for i in range(k, count) if k < count else range(count, k + 1):
            if _top(table) < _top(known[i]):  # both hold; a hasty one may be the looser
                known[i] = table

    def assembled(self) -> tuple[float, set[tuple[int, int]]]:
        """Σλ + max(0, price/z) over all families, at the best common shift of the prices, and the families that keep
        the shift from going either way: it is convex in the shift."""
        constant = float(self.prices.weight @ self.prices.y)

        def at(shift: float) -> tuple[float, tuple[int, int]]:
            worst, where = self._price(shift)
            return constant - 1.0 + float(np.log(self.prices.T)) - shift + worst, where

        from scipy.optimize import minimize_scalar

        widest = (-self.epsilon, self.epsilon)  # as far apart as means of rows may lie
        found = minimize_scalar(lambda x: at(x)[0], bounds=widest, method="bounded", options={"maxiter": 12})
        return at(float(found.x))[0], {at(float(found.x) + side)[1] for side in (-ASIDE, ASIDE)}

    def _price(self, shift: float) -> tuple[float, tuple[int, int]]:
        """The greatest price/z of a family, z at least the largest secret's mean and the floors of the others."""
        d, shares = self.largest, self.shares
        taus = np.exp(np.linspace(-self.epsilon, self.epsilon, 61))
        tilts = np.log(taus * self.prices.T) - shift
        worst, where = 0.0, (0, 0)

        def heights(table: Floats) -> Floats:
            tilted = tilts[:, None, None] * table[None, :, :2]  # [τ, block, end]
            return np.asarray(table[:, 2] - tilted.min(2))

        count = len(self.t) - 1
        for k in range(count):
            rest = [heights(own[k]) for own in self.tables]
            tops = np.array([x * r.max(1) for x, r in zip(shares, rest, strict=True)])
            for s0 in range(len(shares)):
                own = self.tables[s0][count + k]
                mine = heights(own)
                total = taus + tops.sum(0) - tops[d]
                if s0 != d:
                    total = total + shares[s0] * mine.max(1) - tops[s0]
                blocks, table = (mine, own) if s0 == d else (rest[d], self.tables[d][k])
                price = (total[:, None] + shares[d] * blocks).min(0)
                floor = np.ones(len(shares))
                floor[s0] = 1.0 / float(self.t[k + 1])
                at = price / (shares[d] * (table[:, 0] - floor[d]) + float(shares @ floor))
                if not at.max() < np.inf:  # what is no number proves nothing
                    return np.inf, (s0, k)
                if at.max() > worst:
                    worst, where = float(at.max()), (s0, k)
        return worst, where


def _top(table: Floats) -> float:
    """What a block of a table is worth at most."""
    return float(table[:, 2].max())


# --- two useful values: all extreme rows are listed, and prices fitted to all families at once ------------------------


INTERVALS = 12  # of t, narrow ones first
STRIPS = 8  # of the mean of a secret that holds everything, each with its own tangent of φ(z); others have their share
SECRETS = 60  # at most: the programme has about 100 rows for each secret and interval where one dominates
EACH = 1e-3  # seconds of the programme, for each secret, interval and strip


def extreme(q: Floats, low: Floats, high: Floats, floor: float, roof: float) -> Floats:
    """The extreme blocks of {m ≥ floor, M ≤ roof} for two values, of which any block is a two-level one.

    lo + d·1_u, d ≥ 0, needs lo ≥ 0, lo + d·r₋ ≥ floor, lo + d·r₊ ≤ roof: a polygon whose corners are the two constants
    and either the steepest, or 0 off u with d = roof/r₊ and d = floor/r₋ (docs/robust.md, section 5).
    """
    rows = [np.full(len(q), floor), np.full(len(q), roof)]
    for u in range(len(q) if len(q) > 1 else 0):
        d = (roof - floor) / (high[u] - low[u])
        start = floor - d * low[u]
        one = np.eye(len(q))[u]
        rows += [start + d * one] if start >= 0.0 else [roof / high[u] * one, floor / low[u] * one]
    return np.array(rows)


def stripped(blocks: Floats, q: Floats, low: float, high: float) -> Floats:
    """The corners of a polygon where its mean is in [low, high]: its own there, and mixtures of two at the ends."""
    mean, parts, (i, j) = blocks @ q, [], np.triu_indices(len(blocks), 1)
    rise = np.where(mean[j] == mean[i], np.inf, mean[j] - mean[i])
    for end in (low, high):
        share = (end - mean[i]) / rise
        on = (share > 0.0) & (share < 1.0)
        parts.append(blocks[i[on]] + share[on, None] * (blocks[j[on]] - blocks[i[on]]))
    inside = (mean >= low * (1.0 - SLIP)) & (mean <= high * (1.0 + SLIP))
    return np.concatenate([blocks[inside], *parts])


class Listed:
    """All families of a distinguished secret s0 and t in [t₁, t₂], each secret with its part of the slack.

    The total of a row is compared with the tangent of φ at a τ of its own for each interval of t and each strip of the
    largest secret's mean: about what the total is there, the other secrets being half way between their floor and roof.
    """

    def __init__(self, p: Floats, slack: Slack, epsilon: float, strips: int) -> None:
        self.shares, E, count = p.sum(axis=1), float(np.exp(epsilon)), INTERVALS
        d, share = int(self.shares.argmax()), float(self.shares.max())
        t = np.exp(epsilon * np.linspace(0.0, 1.0, count + 1) ** 1.5)
        cuts = np.geomspace(1.0 / t[1:], E, strips + 1, axis=1)  # of the largest secret's mean [k, end]
        self.tau = share * np.sqrt(cuts[:, 1:] * cuts[:, :-1]) + (1.0 - share) * np.sqrt(E / t[:-1, None])  # [k, strip]
        self.shape, self.least = (len(p), 2, *self.tau.shape), 1.0 / E  # of r: secret, whether s0, interval, strip
        self.q, self.rows = [], []  # rows: of each secret, those of every r of it
        for s, own in enumerate(self.shares.tolist()):
            q = p[s][p[s] > 0] / own
            low = reach(q, slack.given(own, 1.0 - LEAN), slack.kappa)[0]
            high = reach(q, slack.given(own, LEAN), slack.kappa)[1]
            rest = [extreme(q, low, high, 1.0, E / a) for a in t[:-1]]
            blocks = [h for h in rest + [extreme(q, low, high, 1.0 / a, E) for a in t[1:]] for _ in range(strips)]
            if s == d:
                ends = [x for k in [*range(count)] * 2 for x in zip(cuts[k, :-1], cuts[k, 1:], strict=True)]
                blocks = [stripped(h, q, *x) for h, x in zip(blocks, ends, strict=True)]
            self.q.append(q)
            self.rows.append(blocks)

    def _worth(self, s: int) -> list[Floats]:
        """Σ q(φ(h) − log τ·h) of the rows of every r of a secret."""
        logs, q = np.tile(np.log(self.tau).ravel(), 2), self.q[s]
        return [xlogx(h) @ q - log * (h @ q) for h, log in zip(self.rows[s], logs, strict=True)]

    def prices(self) -> list[Floats]:
        """min Σ P̂ q·y over prices y and the greatest worth r of each secret in each family and strip.

        r ≥ Σ q(φ(h) − (y + log τ)·h) for its rows, and τ + Σ P̂_s r_s ≤ 0 where one r is s0's own. The interior method
        ends sooner than the simplex method, and any prices prove a bound.
        """
        secrets, _, count, strips = self.shape
        spend(EACH / PASS * secrets * count * strips)
        each = sparse.block_diag([np.concatenate(rows) * q for q, rows in zip(self.q, self.rows, strict=True)])
        sizes = [len(h) for rows in self.rows for h in rows]
        at = np.repeat(np.arange(len(sizes)), sizes)
        which = sparse.csr_matrix((np.ones(len(at)), at, np.arange(len(at) + 1)))
        k, i, s0, s = (x.ravel() for x in np.indices((count, strips, secrets, secrets)))
        place = each.shape[1] + np.ravel_multi_index((s, (s == s0).astype(int), k, i), self.shape)
        total = sparse.csr_matrix((-self.shares[s], place, np.arange(0, len(s) + 1, secrets)))
        cost = np.concatenate([*(x * q for x, q in zip(self.shares, self.q, strict=True)), np.zeros(len(sizes))])
        free = np.full(len(cost), INFINITY)
        lp = LinearProgramme(cost, -free, free)
        lp.option("solver", "ipm")
        lp.option("run_crossover", "off")
        lp.at_least(sparse.hstack([each, which]), np.concatenate([x for s in range(secrets) for x in self._worth(s)]))
        lp.at_least(total, np.repeat(self.tau.ravel(), secrets))
        found = lp.solve()
        y = found.x[: each.shape[1]] if found.optimal else np.zeros(each.shape[1])
        return np.split(y, np.cumsum([len(q) for q in self.q])[:-1])

    def bound(self) -> float:
        """Σλ + max(0, price)/z at the best prices, λ = P̂(y − 1) and z ≥ 1/E: weak duality, as any y are valid."""
        y = self.prices()
        worth = np.reshape([
            x * float((own - h @ (q * prices)).max(initial=-np.inf))
            for s, (x, q, prices) in enumerate(zip(self.shares, self.q, y, strict=True))
            for h, own in zip(self.rows[s], self._worth(s), strict=True)
        ], self.shape)
        rest, own = worth[:, 0], worth[:, 1]
        families = np.stack([np.delete(rest, s, axis=0).sum(0) + own[s] for s in range(len(own))])
        top = float((self.tau + families).max())
        constant = sum(x * float(q @ prices) for x, q, prices in zip(self.shares, self.q, y, strict=True))
        return constant - 1.0 + max(top, 0.0) / self.least if np.isfinite(top + constant) else np.inf


def two_values(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The bound where no secret has more than two values; ∞ where it does not apply."""
    if (p > 0).sum(axis=1).max() > 2 or len(p) > SECRETS:
        return np.inf
    strips = 1 + int(STRIPS * p.sum(axis=1).max())
    return Listed(p, slack, epsilon, strips if EACH * len(p) * INTERVALS * strips < budget.left else 1).bound()
