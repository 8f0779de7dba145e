"""PolyOpt's cone as a product over secrets: extreme points of K_s for the simplex {R ≥ L}."""

from __future__ import annotations

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.solve.distinguished import distinguish
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.pricing import Listed, Union, subset_sums
from sfumato.solve.product import Outcome, optimise
from sfumato.solve.watch import FREE, Watch
from sfumato.uncertainty.tilting import mass_range


def lower_bounds(q: Floats, C: float) -> Floats:
    """L_u = min R_u over {R : Σ q²/R ≤ C} [000, (31)]."""
    return mass_range(q, np.array(C))[0]


def simplex_family(q: Floats, L: Floats, E: float) -> Union:
    """All extreme points of {v ≥ 0 : ρ min v + L·v ≥ 1, ρ max v + L·v ≤ E}, ρ = 1 − ΣL, |U| small (docs/robust.md,
    section 2).

    Either two levels, or zeros, tops and one coordinate between.
    """
    k = len(q)
    rho = max(1.0 - float(L.sum()), 0.0)
    every = np.arange(1 << k)
    w = subset_sums(L)
    if rho < 1e-12:
        return _point_family(q, L, E)
    top = (E - 1.0) / rho
    gentle = w * (E - 1.0) <= rho
    lo = np.where(gentle, 1.0 - w * top, 0.0)
    hi = np.where(gentle, lo + top, E / (rho + w))
    parts = [Listed(q, every, np.maximum(lo, 0.0), hi)]
    subset, extra, rest = [], [], []
    for f in np.flatnonzero(L > 1e-13):
        height = (1.0 - w * top) / L[f]
        ok = np.flatnonzero((((every >> f) & 1) == 0) & (height > 1e-12) & (height < top))
        subset.append(ok)
        extra.append(np.full(len(ok), f))
        rest.append(height[ok])
    if subset:
        at = np.concatenate(subset)
        parts.append(
            Listed(q, at, np.zeros(len(at)), np.full(len(at), top), np.concatenate(extra), np.concatenate(rest))
        )
    return Union(q, parts, np.array([np.ones(k), np.full(k, E)]))


def _point_family(q: Floats, L: Floats, E: float) -> Union:
    """ρ = 0: the ball is a point; K_s = {1 ≤ L·v ≤ E} has the extreme points {1, E}/L_u on one coordinate."""
    k = len(q)
    on = np.flatnonzero(L > 0)
    one = 1 << np.repeat(on, 2)
    height = np.tile([1.0, E], len(on)) / np.repeat(L[on], 2)
    return Union(q, [Listed(q, one, np.zeros(len(one)), height)], np.array([np.ones(k), np.full(k, E)]))


def polyopt(p: Floats, b: float, epsilon: float, *, gap: float = 1e-7, watch: Watch = FREE) -> Outcome:
    """The best mechanism with rows in Definition 3's cone (s1 = s2 included) for a χ² ball with slack b = √(1+B) − 1
    [000, Thm 3].

    The cone is ∏_s K_s (docs/robust.md, section 1), so no vertex of the joint polytope is ever listed.
    """
    E = float(np.exp(epsilon))
    shares = p.sum(axis=1)
    families = []
    for s, share in enumerate(shares):
        q = p[s] / share
        families.append(simplex_family(q, lower_bounds(q, (1.0 + b / share) ** 2), E))
    return optimise(families, p, 1.0 / E, 1.0, gap=gap, watch=watch)


def polyopt_apart(p: Floats, b: float, epsilon: float, *, gap: float = 1e-6, watch: Watch = FREE) -> Outcome:
    """PolyOpt without the s1 = s2 inequalities: rows in the (s0, t) families over the simplices (few secrets, |U| ≤
    8)."""
    E = float(np.exp(epsilon))
    shares = p.sum(axis=1)
    q = p / shares[:, None]
    L = [lower_bounds(q[s], (1.0 + b / float(shares[s])) ** 2) for s in range(len(p))]

    def block(s: int, floor: float, roof: float) -> Floats:
        if roof <= floor * (1.0 + 1e-12):
            return np.full((1, p.shape[1]), floor)
        return floor * simplex_family(q[s], L[s], roof / floor).points()

    found = distinguish(block, p, E, gap=gap, watch=watch)
    return Outcome(layout_of_rows(found.rows, p), found.value, found.bound, "distinguished")
