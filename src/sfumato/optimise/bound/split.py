"""The split bound: every pair of secrets shares the slack in one way, and rows are a product over secrets again."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.bound.dual import Items
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.bound.strand import SETTLED, STRAND, BoundStrand, Corridor, Prices
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import INFINITY, LinearProgramme

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
            1.0 / self.E, budget,
        )
        self.tables: list[list[Floats]] = []  # [s][kind · interval]
        self.trees: list[list[Items | None]] = [[None] * len(self.ends) for _ in self.strands]

    def families(self, budget: Budget) -> float:
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


def split(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The bound with about half of the slack for every secret; ∞ where it says nothing or time does not suffice."""
    if p.shape[1] < 3 or budget.left < STRAND * np.count_nonzero(p):  # `two_values` says more, or there is no time
        return np.inf
    half = Split(p, slack, epsilon, budget.part(0.2))
    if budget.over:
        return np.inf
    half.prices.fit(PRICES, budget.part(0.5))
    return min(half.families(budget), entropy(p.ravel()))


# --- two useful values: all extreme rows are listed, and prices fitted to all families at once ------------------------


TWO_EDGES = np.array([0.0, 0.02, 0.05, 0.1, 0.16, 0.24, 0.34, 0.46, 0.6, 0.78, 1.0])  # of log t in units of ε
PARTS = (0.5, 0.35, 0.65, 0.8, 0.9)  # of the slack for the largest secret, the others having the rest
DOMINANT = 0.3  # share from which a secret may be worth more or less than half of the slack
LEANS = (0.0, 0.16)  # of the smaller part: what m has more and M less
TRIES = 7  # of τ
SECRETS = 60  # at most: the programme has about 20 rows for each secret and family


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


class Listed:
    """All families of a distinguished secret s0 and t in [t₁, t₂], each secret with its part of the slack."""

    def __init__(self, p: Floats, slack: Slack, epsilon: float, part: float, lean: float) -> None:
        self.shares, self.t = p.sum(axis=1), np.exp(epsilon * TWO_EDGES)
        parts = np.full(len(p), min(1.0 - part, 0.5))
        parts[int(self.shares.argmax())] = part
        off, E = lean * float(parts.min()), float(np.exp(epsilon))
        self.q, self.rows = [], []  # rows: per secret, the families of the others' floors, then those of s0's roofs
        for row, share, x in zip(p, self.shares.tolist(), parts.tolist(), strict=True):
            q = row[row > 0] / share
            low = reach(q, slack.given(share, x + off), slack.kappa)[0]
            high = reach(q, slack.given(share, x - off), slack.kappa)[1]
            self.q.append(q)
            self.rows.append(
                [extreme(q, low, high, float(t), E) for t in self.t[:-1]]
                + [extreme(q, low, high, 1.0, E * float(t)) for t in self.t[1:]]
            )

    def programme(self) -> LinearProgramme:
        """min Σ P̂ q·y over prices y and the greatest worth r of each secret in each family.

        r ≥ φ − y·h for its rows, and ρ ≥ Σ P̂_s r_s where one r is s0's own, ρ being the last variable (see `bound`).
        """
        families, secrets = len(self.t) - 1, len(self.q)
        rows = [np.concatenate(groups) * q for q, groups in zip(self.q, self.rows, strict=True)]
        group = [np.repeat(np.eye(2 * families), [len(x) for x in groups], axis=0) for groups in self.rows]
        least = [xlogx(np.concatenate(groups)) @ q for q, groups in zip(self.q, self.rows, strict=True)]
        each = sparse.hstack([sparse.block_diag(rows), sparse.block_diag(group)])
        k, s0, s = (x.ravel() for x in np.indices((families, secrets, secrets)))
        size, width = sum(map(len, self.q)), each.shape[1]
        place = size + 2 * families * s + k + families * (s == s0)
        others = sparse.csr_matrix((-self.shares[s], (k * secrets + s0, place)), (families * secrets, width))
        cost = np.zeros(width + 1)
        cost[:size] = np.concatenate([x * q for x, q in zip(self.shares, self.q, strict=True)])
        free = np.full(len(cost), INFINITY)
        lp = LinearProgramme(cost, -free, free)
        lp.at_least(sparse.hstack([each, np.zeros((each.shape[0], 1))]), np.concatenate(least))
        lp.at_least(sparse.hstack([others, np.ones((families * secrets, 1))]))
        return lp

    def proved(self, y: list[Floats]) -> float:
        """min over τ of Σλ + max(0, price)/1 at any prices y: weak duality, z ≥ 1 in every family.

        The total z enters through φ(z) ≥ (1 + log τ)z − τ. With λ = P̂(y − 1 − log τ) the price is τ + Σ P̂_s r_s.
        """
        families = len(self.t) - 1
        worth = np.array([
            [x * float((xlogx(rows) @ q - rows @ (q * prices)).max()) for rows in groups]
            for x, q, groups, prices in zip(self.shares, self.q, self.rows, y, strict=True)
        ])
        rest, own = worth[:, :families], worth[:, families:]
        top = float((rest.sum(0) - rest + own).max())
        constant = float(sum(x * float(q @ prices) for x, q, prices in zip(self.shares, self.q, y, strict=True)))
        tau = max(-top, 1.0)  # where the price is 0, if it can be
        return constant - 1.0 - float(np.log(tau)) + max(tau + top, 0.0)

    def bound(self) -> float:
        """The best prices: for a fixed τ they are a linear programme with ρ + τ ≤ 0."""
        from scipy.optimize import minimize_scalar

        lp, at = self.programme(), np.cumsum([len(q) for q in self.q])
        last = lp.h.getNumCol() - 1

        def at_tau(log_tau: float) -> float:
            lp.h.changeColBounds(last, -INFINITY, -float(np.exp(log_tau)))
            found = lp.solve()
            return self.proved(np.split(found.x[: at[-1]], at[:-1])) if found.optimal else np.inf

        widest = (0.0, float(np.log(self.t[-1])))
        return float(minimize_scalar(at_tau, bounds=widest, method="bounded", options={"maxiter": TRIES}).fun)


def two_values(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The least bound over some parts of the slack for the largest secret; ∞ where it does not apply."""
    if (p > 0).sum(axis=1).max() > 2 or len(p) > SECRETS:
        return np.inf
    best = np.inf
    for part in PARTS if p.sum(axis=1).max() > DOMINANT else PARTS[:1]:
        for lean in LEANS:
            if budget.over:
                return best
            best = min(best, Listed(p, slack, epsilon, part, lean).bound())
    return best
