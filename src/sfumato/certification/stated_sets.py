"""Levels over sets that are stated: by their vertices, or by ranges that somebody has proved."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.outward import down, down_any, rows_range, up, up_any
from sfumato.certification.rationals import Attained
from sfumato.errors import InputError
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.mechanism.subset_laws import subsets_of
from sfumato.privacy.ldp import subset_bound
from sfumato.tolerances import SLIP, SUBSETS
from sfumato.uncertainty.polytope import Polytope, segment_ends, stationary
from sfumato.uncertainty.sets import Custom, best_pairs, worst_first

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Ints
    from sfumato.mechanism.law import Weight, Weights
    from sfumato.uncertainty.polytope import Ends


def over_ranges(mechanism: Mechanism, within: Custom) -> Attained:
    """The product of the ranges that a trusted set gives for its secrets."""
    if not within.trusted:
        raise InputError(
            f"the set {within.name!r} states its ranges but not that they are proved, so nothing can be released "
            "under it",
            next="If they are, say so with trusted=True; the certificate will say that the bounds are given by the "
            "set.",
        )
    best = Attained(1.0, {})
    s, u = within.joint.shape
    if s < 2:
        return best
    for contrast in mechanism.law.contrasts():
        match contrast:
            case Rows():
                best = best.or_worse(_worst(within, contrast.floats, contrast.floats))
            case Spikes() as c:
                best = best.or_worse(_worst(within, _peaks(c.base_first, c.peak_first, s, u),
                                            _peaks(c.base_second, c.peak_second, s, u)))
            case Atoms() as c:
                low, high = within.ranges_of(np.asarray(c.heights, float), c.secret)
                top, bottom = np.zeros((s, 1)), np.full((s, 1), np.inf)
                np.maximum.at(top[:, 0], c.secret, high)
                np.minimum.at(bottom[:, 0], c.secret, low)
                best = best.or_worse(Attained(float(best_pairs(top, bottom).max()) * (1 + SLIP), {}))
            case Subsets() as c if u <= SUBSETS:
                rows = np.where(subsets_of(u), float(c.high), float(c.low))[:, None, :]
                best = best.or_worse(_worst(within, rows, rows))
            case Subsets() as c:
                best = best.or_worse(Attained(subset_bound(within, float(c.low), float(c.high)) * (1 + SLIP), {}))
    return best


def _peaks(base: Weight, peak: Weight, s: int, u: int) -> Weights:
    """The rows of a spike at each u₀, [u₀, s, u]."""
    spread = [np.broadcast_to(np.asarray(x, object), (s, u)).T[:, :, None] for x in (base, peak)]
    return np.where(np.eye(u, dtype=bool)[:, None, :], spread[1], spread[0])


def _worst(within: Custom, first: Weights, second: Weights) -> Attained:
    high, low = within.ranges(np.asarray(first, float))[1], within.ranges(np.asarray(second, float))[0]
    return Attained(float(best_pairs(high.T, low.T).max()) * (1 + SLIP), {})


# --- proved levels over the mixtures of listed distributions ----------------------------------------------------------
# The worst P(y|s₁)/P(y|s₂) over a polytope lies on a segment between two of its vertices (see `uncertainty.polytope`).
# With N = Σ_u P(s,u)v_u and D = P(s) at both ends, N₁D₂ ≤ λD₁N₂ holds along the segment iff the quadratic λD₁N₂ − N₁D₂
# is not negative on [0, 1]: its Bernstein coefficients satisfy b₀, b₂ ≥ 0 and b₁ ≥ −√(b₀b₂). They are computed with
# outward rounding. Vertices count as the rationals their floats are; that they sum to 1 only nearly changes nothing,
# since ratios of conditionals do not depend on the scale of a vertex.


SEGMENT_STEPS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5)


def over_vertices(mechanism: Mechanism, within: Polytope) -> Attained:
    """A proved upper bound of the worst ratio over the polytope."""
    if within.vertices is None:
        raise InputError("levels over a polytope given by inequalities cannot be proved yet", next="List its vertices.")
    secrets, best = within.possible, Attained(1.0, {})
    if len(secrets) < 2:
        return best
    s, u = within.joint.shape
    for contrast in mechanism.law.contrasts():
        match contrast:
            case Rows():
                values = np.broadcast_to(contrast.values, (len(contrast.values), s, u))
                best = best.or_worse(_compared(values, values, secrets, within, best, "output"))
            case Spikes():
                first = _peaks(contrast.base_first, contrast.peak_first, s, u)
                second = _peaks(contrast.base_second, contrast.peak_second, s, u)
                best = best.or_worse(_compared(first, second, secrets, within, best, "useful"))
            case Atoms():
                best = best.or_worse(_atoms(contrast, secrets, within))
            case Subsets():
                best = best.or_worse(_subsets(contrast, secrets, within, best))
    return best


def _sums(values: Weights, vertices: Floats) -> tuple[Floats, Floats]:
    """N[i, s, v] = Σ_u P_v(s,u)·values[i, s, u], below and above; zeros are exact."""
    low, high = rows_range(values)
    zero = np.asarray(values == 0, bool)
    low, high = np.where(zero, 0.0, low), np.where(zero, 0.0, high)
    below = np.zeros((*values.shape[:2], len(vertices)))
    above = below.copy()
    for k in range(values.shape[2]):
        p = vertices[:, :, k].T[None]  # [1, s, v]
        below = down(below + down(low[:, :, k, None] * p))
        above = _up0(above + _up0(high[:, :, k, None] * p))
    return below, above


def _up0(x: Floats) -> Floats:
    """Rounded up, but for exact zeros."""
    return np.where(x == 0, 0.0, up(x))


def _masses(vertices: Floats) -> tuple[Floats, Floats]:
    ones = np.ones((1, *vertices.shape[1:]), dtype=object)
    below, above = _sums(ones, vertices)
    return below[0], above[0]  # [s, v]


def _means(sums: tuple[Floats, Floats], mass: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The least and greatest P(y|s) over vertices where s occurs, from outside: [i, s]."""
    seen = mass[1] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(seen, down(sums[0] / mass[1]), np.inf).min(-1)
        high = np.where(seen, _up0(sums[1] / mass[0]), 0.0).max(-1)
    return low, high


def _compared(first: Floats, second: Floats, secrets: Ints, within: Polytope, best: Attained, what: str) -> Attained:
    """Every listed row and every pair of secrets, in the order of what one secret alone allows."""
    assert within.vertices is not None
    mass = _masses(within.vertices)
    tops, bottoms = _sums(first, within.vertices), _sums(second, within.vertices)
    high, low = _means(tops, mass)[1], _means(bottoms, mass)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.nan_to_num(up(high[:, :, None] / low[:, None, :]), nan=1.0, posinf=np.inf)
    allowed = np.zeros(bounds.shape[1:], bool)
    allowed[np.ix_(secrets, secrets)] = ~np.eye(len(secrets), dtype=bool)
    flat = np.where(allowed, bounds, 0.0).ravel()

    def enough() -> float:
        return float(best.ratio)

    for part in worst_first(flat, enough):
        i, s1, s2 = np.unravel_index(part, bounds.shape)
        proved = np.minimum(flat[part], segment_bound(
            (tops[0][i, s1], tops[1][i, s1]), (mass[0][s1], mass[1][s1]),
            (bottoms[0][i, s2], bottoms[1][i, s2]), (mass[0][s2], mass[1][s2]),
        ))
        k = int(np.argmax(proved))
        best = best.or_worse(Attained(float(proved[k]), {what: int(i[k]), "first": int(s1[k]), "second": int(s2[k])}))
    return best


def segment_bound(n1: Ends, d1: Ends, n2: Ends, d2: Ends) -> Floats:
    """Proved bounds of max n₁d₂/(d₁n₂) over all segments; each argument is (below, above) with shape [pair, vertex]."""
    i, j = np.triu_indices(n1[0].shape[1])
    below, above = (
        [e for n, d in ((n1, d1), (n2, d2)) for e in segment_ends(n[side], d[side], d[1] > 0, i, j)] for side in (0, 1)
    )
    ratio = np.zeros(len(n1[0]))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for t in (0.0, 1.0, *stationary(*above)):
            a, b, c, d = ((1 - t) * x + t * y for x, y in above)
            here = np.nan_to_num(np.where((b > 0) & (d > 0), a * d / (b * c), 0.0), nan=0.0, posinf=np.inf)
            ratio = np.maximum(ratio, here.max(1))
        proved = np.full(ratio.shape, np.inf)
        for step in SEGMENT_STEPS:
            z = ratio * (1 + step)
            holds = np.isfinite(z) & _not_negative(below, above, z[:, None]).all(1)
            proved = np.where(holds & np.isinf(proved), up_any(z), proved)
            if holds.all():
                break
    return proved


def _not_negative(below: list[Ends], above: list[Ends], z: Floats) -> Bools:
    """Whether z·D₁N₂ − N₁D₂ ≥ 0 along each segment, by Bernstein coefficients rounded down."""
    d1, n2, n1, d2 = below[1], below[2], above[0], above[3]

    def least(x: int, y: int) -> Floats:
        return down(z * down(d1[x] * n2[y]))

    def most(x: int, y: int) -> Floats:
        return _up0(n1[x] * d2[y])

    def gap(big: Floats, small: Floats) -> Floats:
        return np.where(big == small, 0.0, down_any(big - small))

    b0, b2 = gap(least(0, 0), most(0, 0)), gap(least(1, 1), most(1, 1))
    b1 = gap(down(least(0, 1) + least(1, 0)), _up0(most(0, 1) + most(1, 0))) / 2
    return (b0 >= 0) & (b2 >= 0) & (b1 >= -down(np.sqrt(down(np.maximum(b0, 0) * np.maximum(b2, 0)))))


def _atoms(c: Atoms, secrets: Ints, within: Polytope) -> Attained:
    """Any two atoms of different secrets, by what one secret alone allows."""
    assert within.vertices is not None
    mass = _masses(within.vertices)
    high, low = np.zeros(len(mass[0])), np.full(len(mass[0]), np.inf)
    for s in secrets:
        rows = c.heights[c.secret == s][:, None, :]
        if len(rows):
            own = _sums(rows, within.vertices[:, [s]])
            least, most = _means(own, (mass[0][[s]], mass[1][[s]]))
            high[s], low[s] = most.max(), least.min()
    best = Attained(1.0, {})
    for s, t in itertools.permutations(secrets, 2):
        ratio = math.inf if low[t] == 0 < high[s] else float(up(high[s] / low[t])) if low[t] else 1.0
        best = best.or_worse(Attained(ratio, {"first": int(s), "second": int(t)}))
    return best


def _subsets(c: Subsets, secrets: Ints, within: Polytope, best: Attained) -> Attained:
    """Two-level rows over every subset: listed, or with many useful values bounded by high/low."""
    k = within.joint.useful.size
    if k > SUBSETS:
        return Attained(float(up_any(float(c.high) / float(c.low))) if c.low else math.inf, {})
    values = np.where(subsets_of(k), np.array(int(c.high), object), np.array(int(c.low), object))[:, None, :]
    rows = np.broadcast_to(values, (len(values), *within.joint.shape))
    found = _compared(rows, rows, secrets, within, best, "output")
    return Attained(found.ratio, {k: v for k, v in found.where.items() if k != "output"})
