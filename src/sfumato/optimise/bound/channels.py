"""max I(S;Y) over ε-LDP channels from S, from above."""

from __future__ import annotations

import numpy as np

from sfumato.joint import entropy
from sfumato.optimise.arrays import Floats, most_told
from sfumato.optimise.budget import spend
from sfumato.optimise.linear import best_cover

LISTED_SECRETS = 10  # secrets whose 2^10 subsets are listed; the others are small, and are taken as one divisible mass
MASS_PARTS = 9  # of the divisible mass for which prices are sought
LOW, HIGH = 1e-3, 30.0  # levels with safe floats: outside them the closed forms are exact to 1e-7


def about_secret(shares: Floats, epsilon: float) -> float:
    """A bound on max I(S;Y): rows in {1, E}^S [Kairouz et al. 2016] by weak duality, and no more than `most_told`."""
    if len(shares) < 2 or epsilon <= 0.0:
        return 0.0
    limit = min(entropy(shares), most_told(epsilon))
    return min(limit, _priced(-np.sort(-shares), float(np.exp(epsilon)))) if LOW < epsilon < HIGH else limit


def _priced(shares: Floats, E: float) -> float:
    """I ≤ λ·P̂ + max(0, max over rows of (gain − λ·P̂v)/z) for any prices λ, because rows have Σθz = 1.

    Secrets beyond the commonest are one mass of which any part x is at E (docs/robust.md, section 14). At given prices
    what a row is worth, α/z + β − log z, is greatest at z = −α. The prices are those of the best mixture with a few x.
    """
    few, rest, rise = shares[:LISTED_SECRETS], float(shares[LISTED_SECRETS:].sum()), E * float(np.log(E))
    sets = (np.arange(1 << len(few))[:, None] >> np.arange(len(few)) & 1).astype(float)
    part = np.linspace(0.0, 1.0, MASS_PARTS if rest > 0.0 else 1)
    mass, held = np.append(few, rest)[: len(few) + (rest > 0.0)], sets @ few
    heights = np.ones((len(sets), len(part), len(mass)))
    heights[:, :, : len(few)] += (E - 1.0) * sets[:, None, :]
    heights[:, :, len(few) :] += (E - 1.0) * part[:, None]
    spend(60, heights.size)
    z = heights @ mass
    worth = rise * (held[:, None] + rest * part) / z - np.log(z)
    prices = best_cover(mass, (heights * mass / z[:, :, None]).reshape(-1, len(mass)), worth.ravel()).prices
    beta = rise / (E - 1.0) - float(prices[-1])  # of the divisible mass, for each unit of z
    alpha = rise * held - heights[:, 0] @ (mass * prices) - beta * z[:, 0]
    z = np.clip(-alpha, z[:, 0], z[:, 0] + (E - 1.0) * rest)
    return float(prices @ mass) + max(0.0, float((alpha / z + beta - np.log(z)).max()))
