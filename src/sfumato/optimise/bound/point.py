"""The bound at P̂ alone: H(U|S) + max I(S;Y), which no mechanism that is ε-private at P̂ exceeds."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.linear import DUAL, INFINITY, LinearProgramme

LISTED = 10  # secrets whose 2^10 subsets are listed; the others are small, and are taken as one divisible mass
TURNS = 60
LOW, HIGH = 1e-4, 30.0  # outside these levels the closed forms are exact to 1e-9
CLOSE = 1e-9  # nats at which more prices are not worth their time


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
        self.sets = (np.arange(1 << few)[:, None] >> np.arange(few) & 1).astype(float)
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
            if not found.optimal or best - found.value <= CLOSE:
                break
            price = found.x[:-1]
        return best

    def best(self, price: Floats) -> tuple[Floats, Floats]:
        """For every subset of the listed the best price over x, and the row with the rest's mean height."""
        E, rest = self.E, float(self.mass[-1])
        fixed = self.held * E * np.log(E) - self.sets @ (self.mass[:-1] * price[:-1]) * (E - 1.0)
        slope = float(E * np.log(E) - (E - 1.0) * price[-1])  # of the gain in x, before φ(z)
        level = np.exp(min(slope / (E - 1.0) - 1.0, 700.0))  # z at which φ rises as fast
        x = np.clip((level - 1.0 - (E - 1.0) * self.held) / (E - 1.0), 0.0, rest)
        gain = fixed + slope * x - xlogx(1.0 + (E - 1.0) * (self.held + x)) - float(price @ self.mass)
        rows = 1.0 + (E - 1.0) * np.column_stack([self.sets, x / rest if rest > 0 else x])
        return gain, rows
