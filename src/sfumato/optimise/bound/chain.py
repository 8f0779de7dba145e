"""The chain bound: max I(S;Y) + Σ_s P̂_s D_s, where D_s bounds what one secret alone lets Y tell of U."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.bound.point import about_secret
from sfumato.optimise.bound.pricing import Block, Queries
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.linear import DUAL, INFINITY, LinearProgramme

TOWARDS = np.array([0.0, 0.4, 0.65, 0.8, 0.88, 0.93, 0.96, 0.98, 0.99, 1.0])  # blocks of log c towards the balance
PAIRED = 24  # values up to which exchanges of two are tried
LISTED = 14  # values whose subsets are listed for the start
EXCHANGES, STARTS = 3, 8  # of sets of more values: rounds of exchanges, and sets they begin at
TURNS = 60  # of two-level rows, for the start
SETTLED = 1e-3  # nats: two-level rows that are worth less than this more are not looked for
RADIUS = 0.02  # of the first step of prices, times 1/√q
CUTS = (4, 20)  # rounds of branch and bound per turn, and at the best prices met
CLOSE = 2e-3  # relative distance of bound and believed optimum at which more prices are not worth their time


class Prices:
    """min q·y such that no block seen has a positive worth: the master over one secret's prices, per unit of q."""

    def __init__(self, q: Floats) -> None:
        self.q = q
        far = np.full(len(q), 2.0 / q.min() + 40.0)
        self.lp = LinearProgramme(q, -far, far, warm=True)
        self.blocks, self.gain = np.zeros((0, len(q))), np.zeros(0)
        self.add(np.ones((1, len(q))), np.zeros(1))

    def add(self, blocks: Floats, gain: Floats) -> None:
        self.blocks, self.gain = np.concatenate([self.blocks, blocks]), np.concatenate([self.gain, gain])
        self.lp.add(blocks * self.q, gain, np.full(len(gain), INFINITY))

    def solve(self) -> tuple[Floats, float]:
        found = self.lp.solve(DUAL)
        return found.x, found.value

    def near(self, y: Floats, radius: float) -> tuple[Floats, float]:
        """The same within a radius of y, in units of 1/√q: the bound is steep, so steps must be short."""
        index, far = np.arange(len(y), dtype=np.int32), radius / np.sqrt(self.q)
        self.lp.h.changeColsBounds(len(y), index, y - far, y + far)
        found = self.lp.solve(DUAL)
        return (found.x, found.value) if found.optimal else (y, np.inf)

    def worth(self, y: Floats) -> Floats:
        return np.asarray(self.gain - self.blocks @ (self.q * y))


class Detail:
    """I(U;Y|s) over rows with M(w; k) ≤ ρ·m(w; k), ρ = E²: one secret, any number of values.

    Rows are scaled to q·w = 1, so that I(U;Y|s) ≤ q·y + sup Σ q(φ(w) − y·w) for any prices y. A row has m ≥ 1/c and M
    ≤ ρ/c for some c in [1, ρ], and in a block [c₁, c₂] of c m ≥ 1/c₂ and M ≤ ρ/c₁.
    """

    def __init__(self, q: Floats, order: float, k: float, ratio: float) -> None:
        self.q, self.ratio = q, ratio
        self.block, self.master = Block(q, order, k, k), Prices(q)
        grid = np.sin(np.linspace(0.0, np.pi / 2, 257)) ** 2
        self.reach = grid, *reach(grid, k, order)
        self.c0 = float(np.sqrt(ratio))

    def of_two(self) -> float:
        """Two values: every row is two-level, so the two steepest and the constant are all extreme rows.

        w = 1 + d(e_u − q_u) has M = 1 + d·r₊ and m = 1 − d·r₋, r the rates of the law of u: d = (ρ − 1)/(ρr₋ + r₊), or
        0 off u.
        """
        one = 1.0 - self.q
        up, down = (rate * one for rate in self.block.rates[0])
        d = np.minimum((self.ratio - 1.0) / (self.ratio * down + up), 1.0 / self.q)
        rows = np.maximum(1.0 + d[:, None] * (np.eye(2) - self.q[:, None]), 0.0)
        self.master.add(rows, xlogx(rows) @ self.q)
        y, _ = self.master.solve()
        return float(self.q @ y) + max(float(self.master.worth(y).max()), 0.0)

    def _steep(self, mass: Floats) -> Floats:
        """d(H) of the steepest two-level row 1 + d(1_H − q(H)): both sides bind, or it is 0 off H."""
        low, high = (np.interp(mass, self.reach[0], x) for x in self.reach[1:])
        both = self.ratio * (mass - low) + (high - mass)
        return np.asarray(np.minimum((self.ratio - 1.0) / np.maximum(both, 1e-300), 1.0 / mass))

    def _sets(self, y: Floats) -> Floats:
        """Sets that may be worth most at y: all of few values, else prefixes by y and exchanges from the best."""
        count = len(self.q)
        if count <= LISTED:
            return (np.arange(1, (1 << count) - 1)[:, None] >> np.arange(count) & 1).astype(float)
        sets = (np.argsort(np.argsort(y))[None] < np.arange(1, count)[:, None]).astype(float)
        eye = np.eye(count)
        flips = np.abs(np.repeat(eye, count, 0) - np.tile(eye, (count, 1))) if count <= PAIRED else eye
        flips = np.concatenate([eye, flips])
        for _ in range(EXCHANGES):
            best = sets[np.argsort(-self._worth(sets, y))[:STARTS]]
            near = np.abs(best[:, None] - flips).reshape(-1, count)
            near = near[(near.sum(1) > 0) & (near.sum(1) < count)]
            sets = np.concatenate([best, near[np.argsort(-self._worth(near, y))[: 4 * count]]])
        return np.unique(sets, axis=0)

    def _worth(self, sets: Floats, y: Floats) -> Floats:
        """Σ q(φ(w) − y·w) of the two-level rows of sets, from masses and sums alone."""
        mass, priced = np.minimum(sets @ self.q, 1.0), sets @ (self.q * y)
        d = self._steep(mass)
        low = np.maximum(1.0 - d * mass, 0.0)
        return np.asarray(mass * xlogx(low + d) + (1 - mass) * xlogx(low) - low * float(self.q @ y) - d * priced)

    def two_level(self, budget: Budget) -> tuple[Floats, float]:
        """Prices from two-level rows: a start, nothing depends on it."""
        eye = np.eye(len(self.q))
        sets = np.concatenate([eye, 1.0 - eye])
        for _ in range(TURNS):
            mass = np.minimum(sets @ self.q, 1.0)
            rows = np.maximum(1.0 + self._steep(mass)[:, None] * (sets - mass[:, None]), 0.0)
            self.master.add(rows, xlogx(rows) @ self.q)
            y, value = self.master.solve()
            tried = self._sets(y)
            worth = self._worth(tried, y)
            if worth.max() < SETTLED or budget.over:
                break
            sets = tried[np.argsort(-worth)[: 4 + len(self.q) // 2]]
        return y, value

    def blocks(self, c0: float) -> Queries:
        """Blocks of c that grow away from c₀; below it m binds more, above it M."""
        span = np.log([c0, self.ratio / c0])
        left, right = np.exp(span[0] * TOWARDS), c0 * np.exp(span[1] * (1.0 - TOWARDS))
        above = np.concatenate([self.ratio / left[:-1], self.ratio / right[1:]])
        below = np.concatenate([1.0 / left[1:], 1.0 / right[:-1]])
        return Queries(np.column_stack([above, below]), np.repeat([1, 0], len(TOWARDS) - 1))

    def bound(self, turns: int, budget: Budget = FREE) -> float:
        """The least bound met; prices move to those of the master nearby, which learns the relaxed blocks met."""
        if len(self.q) == 2:
            return self.of_two()
        kept, low = self.two_level(budget.part(0.3))
        true, asked = len(self.master.gain), self.blocks(self.c0)
        best, y, radius = np.inf, kept, RADIUS
        for turn in range(turns):
            floor = np.full(len(asked.first), float(self.master.worth(y)[:true].max()) + SETTLED)
            found = self.block.price(y, asked, floor, CUTS[turn == turns - 1], budget)
            value = float(self.q @ y) + max(float(found.value.max()), float(floor[0]))
            radius *= 1.3 if value < best and turn else 0.7
            if value < best:
                best, kept = value, y
            if budget.over or best - low < CLOSE * abs(low):
                break
            for side in (0, 1):
                item = found.items.take(asked.first[found.items.query] == side)
                row = self.block.relaxed(y, asked, item.take(np.array([int(item.value.argmax())])))
                if row is not None:
                    self.master.add(row[0][None], np.array([row[1]]))
            y, low = self.master.near(kept, radius)
            y = kept if turn == turns - 2 else y
        return best


def chain(p: Floats, slack: Slack, epsilon: float, turns: int = 10, budget: Budget = FREE) -> float:
    """I(X;Y) = I(S;Y) + I(U;Y|S) ≤ max I(S;Y) + Σ_s P̂_s D_s, and D_s ≤ H(U|s).

    Budgets (b, 0) and (0, b) occur in F, so M_s(b) ≤ E·c_{s'} ≤ E²·m_s(b) for any other secret s', c its mean under P̂.
    """
    shares = p.sum(axis=1)
    total, ratio = about_secret(shares, epsilon), float(np.exp(2.0 * epsilon))
    known = np.array([entropy(row / share) for row, share in zip(p, shares, strict=True)])
    weight = shares * known
    for s in np.argsort(-weight):
        q = p[s][p[s] > 0] / shares[s]
        if len(q) > 1 and len(shares) > 1 and not budget.over:
            detail = Detail(q, slack.kappa, slack.given(float(shares[s])), ratio)
            mine = budget.part(float(weight[s] / max(weight[weight <= weight[s]].sum(), 1e-300)))
            known[s] = min(known[s], detail.bound(turns, mine))
    return total + float(shares @ known)
