"""The chain bound: max I(S;Y) + Σ_s P̂_s D_s, where D_s bounds what one secret alone lets Y tell of U."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.bound.point import about_secret
from sfumato.optimise.bound.pricing import Queries
from sfumato.optimise.bound.slack import Slack
from sfumato.optimise.bound.strand import STRAND, Strand, height
from sfumato.optimise.budget import FREE, Budget

TURNS = 60  # of two-level blocks, for the start
PRICES, ROUNDS, LAST = 10, 3, 8  # steps of prices; rounds of branch and bound at first, and at the prices that are kept


class Detail(Strand):
    """I(U;Y|s) over rows with M(v; k) ≤ ρ·m(v; k), ρ = E²: one secret, any number of values.

    A row has, up to scale, m ≥ 1 and M ≤ ρ. Scaled to w = v/c, c = q·v, I(U;Y|s) ≤ q·y + sup Σ q(φ(w) − y·w) for any
    prices y, and c·Σ q(φ(w) − y·w) = Σ q(φ(v) − y·v) − φ(c), where φ(c) ≥ (1 + log c*)c − c* for every c*.
    """

    MEANS = 8

    def _gained(self, blocks: Floats, gain: Floats) -> tuple[Floats, Floats]:
        c = blocks @ self.q
        return blocks / c[:, None], gain / c - np.log(c)

    def _weighed(self, mean: Floats, gain: Floats, priced: Floats) -> Floats:
        return (gain - priced) / mean - np.log(mean)

    def queries(self, floor: float, roof: float) -> Queries:
        asked = super().queries(floor, roof)
        return replace(asked, tilt=1.0 + np.log(asked.mean.mean(1)))

    def _enough(self, asked: Queries, least: float) -> Floats:
        return np.asarray((least * asked.mean).min(1) - asked.mean.mean(1))

    def _listed(self, asked: Queries, value: Floats) -> Floats:
        """Rows (1, 1, B): blocks scaled to q·w = 1 are worth at most B."""
        worth = (value + asked.mean.mean(1))[:, None] / asked.mean
        return np.column_stack([np.ones((len(worth), 2)), worth.max(1)])

    def of_two(self) -> float:
        """Two values: every row is two-level, so the two steepest and the constant are all extreme rows.

        w = 1 + d(e_u − q_u) has M = 1 + d·r₊ and m = 1 − d·r₋, r the rates of the law of u: d = (ρ − 1)/(ρr₋ + r₊), or
        0 off u.
        """
        assert self.block is not None
        up, down = (rate * (1.0 - self.q) for rate in self.block.rates[0])
        d = np.minimum((self.E - 1.0) / (self.E * down + up), 1.0 / self.q)
        rows = np.vstack([np.maximum(1.0 + d[:, None] * (np.eye(2) - self.q[:, None]), 0.0), np.ones(2)])
        self._add(rows)
        self.solve(1.0)
        y = self.vertex
        return float(self.q @ y) + float((xlogx(rows) @ self.q - rows @ (self.q * y)).max())

    def bound(self, budget: Budget = FREE) -> float:
        """The least bound met at prices of a proximal bundle; branch and bound goes on at the best of them."""
        if len(self.q) == 2:
            return self.of_two()
        self.solve(1.0, TURNS, budget.part(0.3))
        table = self.improve(1.0, PRICES, ROUNDS, budget.part(0.7))
        best = float(height(table).max())
        if not budget.over:
            table = self.table(self.y, 1.0, self.E, self.attained, LAST, budget, self.tree)
            best = min(best, float(height(table).max()))
        return float(self.q @ self.y) + best


def chain(p: Floats, slack: Slack, epsilon: float, budget: Budget = FREE) -> float:
    """I(X;Y) = I(S;Y) + I(U;Y|S) ≤ max I(S;Y) + Σ_s P̂_s D_s, and D_s ≤ H(U|s).

    Budgets (b, 0) and (0, b) occur in F, so M_s(b) ≤ E·c_{s'} ≤ E²·m_s(b) for any other secret s', c its mean under P̂.
    """
    shares = p.sum(axis=1)
    total, ratio = about_secret(shares, epsilon), float(np.exp(2.0 * epsilon))
    known = np.array([entropy(row / share) for row, share in zip(p, shares, strict=True)])
    weight = shares * known
    for s in np.argsort(-weight):
        q = p[s][p[s] > 0] / shares[s]
        mine = budget.part(float(weight[s] / max(weight[weight <= weight[s]].sum(), 1e-300)))
        if len(q) > 1 and len(shares) > 1 and mine.left > (STRAND * len(q) if len(q) > 2 else 0.0):
            given = slack.given(float(shares[s]))
            known[s] = min(known[s], Detail(q, slack.kappa, given, given, ratio).bound(mine))
    return total + float(shares @ known)
