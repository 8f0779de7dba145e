"""The optimum at P̂ itself: H(U|S) + max I(S;Y), by the best channel from S and pieces of it for every useful value."""

from __future__ import annotations

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import Coordinates
from sfumato.optimise.master import Information
from sfumato.optimise.product.designs import Families
from sfumato.optimise.product.layout import Layout
from sfumato.optimise.product.levelling import level
from sfumato.optimise.product.moves import ProductMover
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.search import improve

PIECES = 3  # of a secret's two levels, so that they can be laid apart
LISTED = 10  # secrets up to which every row of {1, E}^S is listed


class Known:
    """A set without slack: masses are what they are."""

    budget = 0.0

    def masses(self, w: Floats, share: float, spent: Floats) -> tuple[Floats, Floats]:
        return w, w


def best_channel(shares: Floats, epsilon: float, budget: Budget) -> Floats:
    """Rows θ_y v^y of the ε-LDP channel from S that tells most about it: entries {1, E} [Kairouz et al.]."""
    joint = Joint.from_probabilities(shares[:, None] / shares.sum())
    coordinates, S = Coordinates.of(joint), len(shares)
    master, E = Information(coordinates), float(np.exp(epsilon))
    if S <= LISTED:
        sets = np.asarray((np.arange(1, 1 << S)[:, None] >> np.arange(S)) & 1, float)
        master.add(1.0 + (E - 1.0) * sets)
        budget.tell("rows", master.solve())
    else:
        product = ProductMover(Families(Known(), joint.p, epsilon, Profile(0.0)))
        order = np.argsort(-shares)
        one = np.tri(S, S)[:, np.argsort(order)]  # the commonest 1, 2, … of them
        listed = np.concatenate([np.eye(S), 1 - np.eye(S), one, 1 - one[:-1]])
        master.add(1.0 + (E - 1.0) * listed)
        kappa = epsilon / -np.expm1(-epsilon)
        for total in (1 / kappa, *np.linspace(1 / E, 1, 6)[1:-1]):  # 1/κ is best for secrets that are all rare
            master.add(coordinates.taken(_levelled(shares / shares.sum(), E, float(total)).rows()))
        improve(master, [lambda _, budget: product.rows(master.prices[:, None], budget)], budget, calm=20, gain=1e-6)
    rows, theta = master.used()
    return np.asarray(theta[:, None] * rows)


def _levelled(shares: Floats, E: float, total: float) -> Layout:
    """Every secret at E on (1 − T)/(E − 1) of [0, T] and at 1 on the rest, in pieces that make the total level."""
    high = (1.0 - total) / (E - 1.0)
    length = np.concatenate([np.full(PIECES, high / PIECES), np.full(PIECES, (total - high) / PIECES)])
    height = np.repeat([[E], [1.0]], PIECES, axis=0)
    layout = Layout(total, (length,) * len(shares), (height,) * len(shares))
    return level(layout, shares[:, None])


def best_at_a_point(p: Floats, epsilon: float, budget: Budget) -> Layout:
    """The best mechanism that is ε-private at P̂ alone (docs/robust.md, section 7).

    Lay the best channel for S on [0, 1] and cut each secret's unit of mass there into pieces of mass P̂(u|s), one useful
    value for each: ratios and I(S;Y) stay, and U is a function of S and Y.
    """
    shares = p.sum(1)
    rows = best_channel(shares, epsilon, budget)
    length = rows @ shares
    density = rows / length[:, None]
    cut = [_cut(length, density[:, s] / (length @ density[:, s]), p[s] / shares[s]) for s in range(len(p))]
    return Layout(float(length.sum()), tuple(x for x, _ in cut), tuple(h for _, h in cut))


def _cut(length: Floats, density: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Pieces of the interval on which one u has density/q_u and the rest 0, by common refinement in mass."""
    mass = np.cumsum(length * density)
    mass /= mass[-1]
    ends = np.cumsum(q)
    ends /= ends[-1]
    cuts = np.unique(np.concatenate([[0.0], mass, ends]))
    middle, step = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    cell = np.minimum(np.searchsorted(mass, middle), len(mass) - 1)
    u = np.minimum(np.searchsorted(ends, middle), len(q) - 1)
    keep = (step > 0) & (q[u] > 0)  # a sliver that lands on an empty cell by rounding carries no mass
    cell, u, step = cell[keep], u[keep], step[keep]
    height = np.zeros((len(u), len(q)))
    height[np.arange(len(u)), u] = density[cell] / q[u]
    height[:, q == 0] = density[cell][:, None]  # never occurs: its column must still sum to 1
    return step / density[cell], height
