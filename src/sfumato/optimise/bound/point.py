"""Bounds at P̂ alone, and of the chain: max I(S;Y) and what each secret alone lets Y tell of U."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.optimise.arrays import REPAIRED, Floats, entropy, xlogx
from sfumato.optimise.bound.dual import Queries
from sfumato.optimise.bound.slack import Slack
from sfumato.optimise.bound.strand import STRAND, BoundStrand, Corridor, Prices
from sfumato.optimise.budget import FREE, Budget, spend
from sfumato.optimise.linear import DUAL, INFINITY, LinearProgramme
from sfumato.optimise.product.blocks import Strand
from sfumato.optimise.product.two_level import TwoLevel, subsets

# --- the bound at P̂ alone: H(U|S) + max I(S;Y), which no mechanism that is ε-private at P̂ exceeds -------------------


LISTED = 10  # secrets whose 2^10 subsets are listed; the others are small, and are taken as one divisible mass
TURNS = 60
LOW, HIGH = 1e-3, 30.0  # levels with safe floats: outside them the closed forms are exact to 1e-7


def point(p: Floats, epsilon: float) -> float:
    """H(U|S) + max I(S;Y) over ε-LDP channels from S (docs/robust.md, section 7).

    F contains P̂, so this bounds every mechanism that is private over F.
    """
    shares = p.sum(axis=1)
    return entropy(p.ravel()) - entropy(shares) + about_secret(shares[shares > 0], epsilon)


def about_secret(shares: Floats, epsilon: float) -> float:
    """A bound on max I(S;Y) over ε-LDP channels: rows in {1, E}^S [Kairouz et al. 2016], by weak duality.

    I ≤ Σλ + max(0, max over rows of the price) for any prices λ, because rows weigh at most 1 in all (z ≥ 1). Secrets
    beyond the commonest have λ_s = ℓ·P̂_s; then a row enters through the mass x that they hold at E, and x may as well
    be any number in [0, rest]: a relaxation, and the price is concave in x.
    """
    limit = min(entropy(shares), _ceiling(epsilon))
    if len(shares) < 2 or epsilon <= 0.0:
        return 0.0
    if not LOW < epsilon < HIGH:
        return limit
    order = np.argsort(-shares, kind="stable")
    few, rest = shares[order[:LISTED]], float(shares[order[LISTED:]].sum())
    search = _Prices(np.append(few, rest), float(np.exp(epsilon)))
    return min(limit, search.run())


def _ceiling(epsilon: float) -> float:
    """κ − 1 − log κ, κ = ε/(1 − e^{−ε}): the greatest I(S;Y) whatever the law of S."""
    kappa = epsilon / -np.expm1(-epsilon) if epsilon > 0.0 else 1.0
    return float(kappa - 1.0 - np.log(kappa))


class _Prices:
    """Cutting planes over the prices per unit of mass of the listed secrets and of the rest."""
    def __init__(self, mass: Floats, E: float) -> None:
        self.mass, self.E = mass, E
        few = len(mass) - 1
        self.sets = np.vstack([np.zeros(few), subsets(few), np.ones(few)])
        self.held = self.sets @ mass[:-1]

    def run(self) -> float:
        """The least Σλ + max(0, price) met; each is a bound."""
        count, far = len(self.mass), np.full(len(self.mass), 4.0 * self.E * (1.0 + np.log(self.E)))
        lp = LinearProgramme(np.append(self.mass, 1.0), np.append(-far, 0.0), np.append(far, INFINITY), warm=True)
        price, best = np.zeros(count), np.inf
        for _ in range(TURNS):
            gain, rows = self.best(price)
            top = max(float(gain.max()), 0.0)
            best = min(best, float(price @ self.mass) + top)
            new = np.argsort(-gain)[: 4 * count]
            worth = gain[new] + rows[new] @ (self.mass * price)
            lp.add(np.column_stack([rows[new] * self.mass, np.ones(len(new))]), worth, np.full(len(new), INFINITY))
            found = lp.solve(DUAL)
            if not found.optimal or best - found.value <= REPAIRED:
                break
            price = found.x[:-1]
        return best

    def best(self, price: Floats) -> tuple[Floats, Floats]:
        """For every subset of the listed the best price over x, and the row with the rest's mean height."""
        E, rest = self.E, float(self.mass[-1])
        spend(20, self.sets.size)
        fixed = self.held * E * np.log(E) - self.sets @ (self.mass[:-1] * price[:-1]) * (E - 1.0)
        slope = float(E * np.log(E) - (E - 1.0) * price[-1])  # of the gain in x, before φ(z)
        level = np.exp(min(slope / (E - 1.0) - 1.0, 700.0))  # z at which φ rises as fast
        x = np.clip((level - 1.0 - (E - 1.0) * self.held) / (E - 1.0), 0.0, rest)
        gain = fixed + slope * x - xlogx(1.0 + (E - 1.0) * (self.held + x)) - float(price @ self.mass)
        rows = 1.0 + (E - 1.0) * np.column_stack([self.sets, x / rest if rest > 0 else x])
        return gain, rows


# --- max I(S;Y) + Σ_s P̂_s D_s, where D_s bounds what one secret alone lets Y tell of U -------------------------------


PRICES, LAST = 10, 60  # steps of prices at most, rounds of branch and bound at the prices that are kept


class Detail(BoundStrand):
    """I(U;Y|s) over rows with M(v; k) ≤ ρ·m(v; k), ρ = E²: one secret, any number of values.

    A row has, up to scale, m ≥ 1 and M ≤ ρ. Scaled to w = v/c, c = q·v, I(U;Y|s) ≤ q·y + sup Σ q(φ(w) − y·w) for any
    prices y, and c·Σ q(φ(w) − y·w) = Σ q(φ(v) − y·v) − φ(c), where φ(c) ≥ (1 + log c*)c − c* for every c*.
    """

    MEANS = 32  # a block of c loses by the tangent of φ and by dividing by c, in proportion to its width

    def queries(self, floor: float, roof: float) -> Queries:
        asked = super().queries(floor, roof)
        return replace(asked, tilt=1.0 + np.log(asked.mean.mean(1)))

    def _enough(self, asked: Queries, least: float) -> Floats:
        return np.asarray((least * asked.mean).min(1) - asked.mean.mean(1))

    def _listed(self, asked: Queries, value: Floats) -> Floats:
        """Rows (1, 1, B): blocks scaled to q·w = 1 are worth at most B."""
        worth = (value + asked.mean.mean(1))[:, None] / asked.mean
        return np.column_stack([np.ones((len(worth), 2)), worth.max(1)])

    def __init__(self, q: Floats, order: float, slack: float, ratio: float, budget: Budget) -> None:
        """Prices of a proximal bundle; two values have all their rows listed."""
        super().__init__(q, order, slack, slack)
        self.ratio, corridor = ratio, Corridor(self.block, 1.0, ratio, scaled=True)
        if len(q) == 2:
            self.promised = _of_two(corridor.family)
            return
        prices = Prices(np.ones(1), [[corridor]], np.zeros((1, 1), dtype=np.int64), 1.0, 1.0, budget.part())
        prices.fit(PRICES, budget)
        self.y, self.least = prices.y, prices.height(prices.y)
        self.promised = float(q @ self.y) + self.least

    def proved(self, budget: Budget) -> float:
        """What branch and bound proves at these prices."""
        if len(self.q) == 2:
            return self.promised
        first, tree = self.table(self.y, 1.0, self.ratio, self.least, 0, FREE)  # needed whatever time is left
        table, _ = self.table(self.y, 1.0, self.ratio, self.least, LAST, budget, tree)
        return float(self.q @ self.y) + min(float(x[:, 2].max()) for x in (first, table))


def _of_two(family: TwoLevel) -> float:
    """Two values: every row is two-level, so the listed ones are all extreme rows, and any prices prove a bound."""
    programme = Strand(family, 1.0)
    programme.at(1.0)
    programme.solve()
    y, every = programme.dual[:-1], family.start()
    return float(y.sum() + (family.gain(every) - every @ y).max())


class ChainRule:
    """I(X;Y) = I(S;Y) + I(U;Y|S) ≤ max I(S;Y) + Σ_s P̂_s D_s, and D_s ≤ H(U|s).

    Budgets (b, 0) and (0, b) occur in F, so M_s(b) ≤ E·c_{s'} ≤ E²·m_s(b) for any other secret s', c its mean under P̂.
    """

    def __init__(self, p: Floats, slack: Slack, epsilon: float, budget: Budget) -> None:
        self.shares, ratio = p.sum(axis=1), float(np.exp(2.0 * epsilon))
        self.about = about_secret(self.shares, epsilon)
        self.known = np.array([entropy(row / share) for row, share in zip(p, self.shares, strict=True)])
        self.weight, self.details = self.shares * self.known, {}
        for s in np.argsort(-self.weight).tolist():
            q, mine = p[s][p[s] > 0] / self.shares[s], self._part(s, budget)
            if len(q) > 1 and mine.left > (STRAND * len(q) if len(q) > 2 else 0.0):
                given = slack.given(float(self.shares[s]))
                self.details[s] = Detail(q, slack.kappa, given, ratio, mine)
        told = [min(x, self.details[s].promised) if s in self.details else x for s, x in enumerate(self.known)]
        self.promised = self.about + float(self.shares @ told)

    def _part(self, s: int, budget: Budget) -> Budget:
        """Of the time, by what a secret weighs among those that are left."""
        return budget.part(float(self.weight[s] / max(self.weight[self.weight <= self.weight[s]].sum(), 1e-300)))

    def proved(self, budget: Budget) -> float:
        for s, detail in self.details.items():
            if not budget.over:
                self.known[s] = min(self.known[s], detail.proved(self._part(s, budget)))
        return self.about + float(self.shares @ self.known)
