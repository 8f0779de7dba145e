"""NR: the optimum when F is the single point P̂, and the ceiling over every ε-private mechanism."""

from __future__ import annotations

import numpy as np

from sfumato.solve.arrays import Floats, entropy, xlogx
from sfumato.solve.layout import Layout
from sfumato.solve.mixture import Mixture
from sfumato.solve.pricing import Listed, Union, indicator
from sfumato.solve.product import Outcome, optimise
from sfumato.solve.watch import FREE, Watch

FEW = 8  # secrets up to which every row of {1, E}^S is listed


def ceiling(p: Floats, epsilon: float) -> float:
    """H(U|S) + min{H(S), κ − 1 − log κ}, κ = ε/(1 − e^{−ε}): no mechanism that is ε-private at P̂ has more
    (docs/robust.md, section 7)."""
    shares = p.sum(axis=1)
    given = entropy(p.ravel()) - entropy(shares)
    if epsilon <= 0.0:
        return given
    kappa = epsilon / -np.expm1(-epsilon)
    return given + min(entropy(shares), float(kappa - 1.0 - np.log(kappa)))


def secret_only(shares: Floats, epsilon: float, *, gap: float = 1e-7, watch: Watch = FREE) -> Outcome:
    """max I(S;Y) over ε-LDP mechanisms that read S alone: rows with entries {1, E} [Kairouz et al.]."""
    E = float(np.exp(epsilon))
    one = np.ones(1)
    families = [
        Union(one, [Listed(one, np.array([1]), np.zeros(1), np.array([E]))], np.array([[1.0], [E]])) for _ in shares
    ]
    points = [np.array([[1.0], [E]]) for _ in shares]
    return optimise(families, shares[:, None], 1.0 / E, 1.0, gap=gap, points=points, watch=watch)


def known_limit(p: Floats, epsilon: float, *, watch: Watch = FREE) -> float:
    """H(U|S) + max I(S;Y) over ε-LDP responses to S: no mechanism that is ε-private at P̂ has more (ours)."""
    shares = p.sum(axis=1)
    if len(shares) > FEW:
        about = secret_only(shares, epsilon, gap=1e-4, watch=Watch(watch.deadline)).bound
    else:
        rows = 1.0 + (np.exp(epsilon) - 1.0) * indicator(np.arange(1 << len(shares)), len(shares))
        unit = rows / (rows @ shares)[:, None]
        gains = xlogx(unit) @ shares
        lp = Mixture(len(shares), None)
        lp.add(unit, gains)
        lp.solve()
        duals = lp.dual[:-1]
        about = float(duals.sum()) + max(float((gains - unit @ duals).max()), 0.0)
    return min(entropy(p.ravel()) - entropy(shares) + about, ceiling(p, epsilon))


def nr(p: Floats, epsilon: float, *, gap: float = 1e-7, watch: Watch = FREE) -> Outcome:
    """The best mechanism that is ε-private at P̂ itself; exact value H(U|S) + max I(S;Y) (ours).

    I(X;Y) = I(S;Y) + I(U;Y|S) and Y may reveal U given S in full: lay the best mechanism for S on [0, T] and cut
    each secret's
    unit of mass there into pieces of mass P̂(u|s), one useful value per piece.
    """
    shares = p.sum(axis=1)
    base = secret_only(shares, epsilon, gap=gap, watch=watch)
    lengths, heights = [], []
    for s, share in enumerate(shares):
        length, height = _cut(base.layout.lengths[s], base.layout.heights[s][:, 0], p[s] / share)
        lengths.append(length)
        heights.append(height)
    given = entropy(p.ravel()) - entropy(shares)
    layout = Layout(base.layout.total, tuple(lengths), tuple(heights))
    return Outcome(layout, layout.value(p), min(given + base.bound, ceiling(p, epsilon)), base.route)


def _cut(length: Floats, density: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Pieces of [0, T] on which one u has density/q_u and the rest 0, by common refinement in mass."""
    mass = np.cumsum(length * density)
    mass /= mass[-1]
    ends = np.cumsum(q)
    ends /= ends[-1]
    cuts = np.unique(np.concatenate([[0.0], mass, ends]))
    middle, step = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    cell = np.minimum(np.searchsorted(mass, middle), len(mass) - 1)
    u = np.minimum(np.searchsorted(ends, middle), len(q) - 1)
    # A sliver that lands on an empty cell by rounding carries no mass.
    keep = (step > 0) & (q[u] > 0)
    cell, u, step = cell[keep], u[keep], step[keep]
    height = np.zeros((len(u), len(q)))
    height[np.arange(len(u)), u] = density[cell] / q[u]
    # u with q = 0 never occurs under P̂; give it the secret's own density so that its column sums to 1.
    height[:, q == 0] = density[cell][:, None]
    return step / density[cell], height
