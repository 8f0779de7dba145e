"""The proved level of a mechanism over a set of distributions: every output, every pair of secrets.

What one secret alone allows bounds every pair. Pairs are taken in the order of that bound, and as long as it exceeds
the level proved so far they get a bound of their own. Sets that are stated have theirs here: by their vertices, or by
ranges that somebody has proved."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification.outward import dot_down, dot_up, down, down_any, float_range, raised, rows_range, up, up_any
from sfumato.certification.rationals import Attained
from sfumato.errors import InputError
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.mechanism.subset_laws import subset_ratio, subset_rows
from sfumato.tolerances import LISTED, SLIP, SUBSETS
from sfumato.uncertainty.polytope import Polytope, segment_ends, stationary
from sfumato.uncertainty.sets import Custom, best_pairs, worst_first

if TYPE_CHECKING:
    from sfumato.alphabet import Bools
    from sfumato.mechanism.law import Weight, Weights
    from sfumato.uncertainty.polytope import Ends

Range = tuple[Floats, Floats]  # below and above
S = TypeVar("S")
LOOKED_AT = 20_000  # pairs looked at for the sake of a close level when the claim is proved without them
FURTHEST = 64  # secrets with the greatest and with the least bounds, which are compared first
ATOMS_AT_ONCE = 512  # whose values are spread out together


def part(x: Range, at: Ints | slice | tuple[Ints, Ints]) -> Range:
    """The same of some places."""
    return x[0][at], x[1][at]


class SetBounds(ABC, Generic[S]):
    """What must be proved over a set of distributions; the rest follows from it. S is a side of pairs: rows of values,
    each with the secret under whose conditional it is seen."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """How many secrets and useful values there are."""

    @abstractmethod
    def side(self, s: Ints, v: Range) -> S:
        """Rows v[i, u], each for the secret s[i]."""

    def spike(self, s: Ints, u: Ints, peak: Range, base: Range) -> S:
        """Rows that are peak[i] on u[i] and base[i] off it."""
        on = np.arange(self.shape[1]) == u[:, None]
        low, high = (np.where(on, p[:, None], b[:, None]) for p, b in zip(peak, base, strict=True))
        return self.side(s, (low, high))

    @abstractmethod
    def alone(self, side: S, *, greatest: bool) -> Floats:
        """Bounds of the greatest (or least) mean of each row of a side, over the set."""

    @abstractmethod
    def pairs(self, first: S, second: S, enough: float = 1.0) -> Floats:
        """Bounds of the worst ratio of each pair of rows, over the set; they need not be close below the worst of all,
        or below what is `enough`."""

    def masses(self) -> Range:
        """Bounds of the least and the greatest P(u|s), as means of a row that is 1 on u and 0 elsewhere."""
        s, u = (x.ravel() for x in np.indices(self.shape))
        one, zero = np.ones(len(s)), np.zeros(len(s))
        side = self.spike(s, u, (one, one), (zero, zero))
        low, high = (np.clip(self.alone(side, greatest=g), 0, 1).reshape(self.shape) for g in (False, True))
        return low, high

    def atoms(self, c: Atoms, found: float) -> Attained:
        """A bound of the worst ratio between any two atoms of different secrets, close to it if it exceeds `found`;
        here from what each secret alone allows."""
        top, low = np.zeros((self.shape[0], 1)), np.full((self.shape[0], 1), np.inf)
        for i in np.array_split(np.arange(len(c.secret)), len(c.secret) // ATOMS_AT_ONCE + 1):
            side = self.side(c.secret[i], float_range(c.heights[i]))
            np.maximum.at(top[:, 0], c.secret[i], self.alone(side, greatest=True))
            np.minimum.at(low[:, 0], c.secret[i], self.alone(side, greatest=False))
        where = {"first": int(np.argmax(top)), "second": int(np.argmin(low))}
        return Attained(max(found, float(up(best_pairs(top, low))[0])), where)


def over_bounds(mechanism: Mechanism, within: SetBounds[S], target: float = math.inf) -> Attained:
    """A proved upper bound of max P(y|s₁) / P(y|s₂) over outputs, pairs of secrets and a set that has bounds.

    It is close to the maximum unless there are more than LOOKED_AT pairs to look at and what one secret alone allows
    already proves the target ratio.
    """
    best = Attained(1.0, {})
    if within.shape[0] < 2:
        return best
    for contrast in mechanism.law.contrasts():
        known = within, float(best.ratio), target
        match contrast:
            case Rows():
                best = best.or_worse(_rows(contrast.values, *known))
            case Spikes():
                best = best.or_worse(_spikes(contrast, *known))
            case Atoms():
                best = best.or_worse(within.atoms(contrast, float(best.ratio)))
            case Subsets() if within.shape[1] <= SUBSETS:
                found = _rows(subset_rows(contrast, within.shape[1]), *known)
                best = best.or_worse(Attained(found.ratio, {k: v for k, v in found.where.items() if k != "output"}))
            case Subsets():
                best = best.or_worse(_subsets(contrast, *within.masses()))
    return best


def _rows(values: Weights, within: SetBounds[S], found: float, target: float) -> Attained:
    """Rows listed one by one."""
    y, (s, k) = len(values), within.shape
    low, high = (np.broadcast_to(x, (y, s, k)) for x in rows_range(values))
    everyone = within.side(np.tile(np.arange(s), y), (low.reshape(-1, k), high.reshape(-1, k)))
    top, bottom = (within.alone(everyone, greatest=g).reshape(y, s) for g in (True, False))

    def sides(i: Ints, s1: Ints, s2: Ints) -> tuple[S, S]:
        return within.side(s1, (low[i, s1], high[i, s1])), within.side(s2, (low[i, s2], high[i, s2]))

    return _pairs(top, bottom, sides, within, found, target, "output")


def _spikes(c: Spikes, within: SetBounds[S], found: float, target: float) -> Attained:
    """Rows that are constant but for one useful value u₀: two cells, u₀ and the rest, tell everything."""
    least, most = within.masses()

    def spread(x: Weight) -> Range:
        low, high = (np.broadcast_to(e, within.shape) for e in float_range(np.asarray(x, object)))
        return low, high

    b1, p1, b2, p2 = map(spread, (c.base_first, c.peak_first, c.base_second, c.peak_second))
    top = np.maximum(_mix_up(b1[1], p1[1], most), _mix_up(b1[1], p1[1], least)).T
    bottom = np.minimum(_mix_down(b2[0], p2[0], most), _mix_down(b2[0], p2[0], least)).T

    def sides(u: Ints, s1: Ints, s2: Ints) -> tuple[S, S]:
        first, second = (s1, u), (s2, u)
        return (within.spike(s1, u, part(p1, first), part(b1, first)),
                within.spike(s2, u, part(p2, second), part(b2, second)))

    return _pairs(top, bottom, sides, within, found, target, "useful")


def _mix_up(base: Floats, peak: Floats, r: Floats) -> Floats:
    """An upper bound of base + (peak − base)·r for 0 ≤ r ≤ 1."""
    return np.minimum(up(up(base * up(np.maximum(1 - r, 0))) + up(peak * r)), np.maximum(base, peak))


def _mix_down(base: Floats, peak: Floats, r: Floats) -> Floats:
    return np.maximum(down(down(base * down(np.maximum(1 - r, 0))) + down(peak * r)), np.minimum(base, peak))


def _subsets(c: Subsets, least: Floats, most: Floats) -> Attained:
    """Two-level rows over every subset of many useful values, from bounds of P(u|s)."""
    best, cap = Attained(1.0, {}), float(up_any(float(c.high) / float(c.low))) if c.low else math.inf
    for s1, s2 in itertools.permutations(range(len(least)), 2):
        enough = float(outer_quotient(most[s1], least[s2]).max())  # from this λ on no value gains anything
        proved = subset_ratio(most[s1], least[s2], float(c.low), float(c.high), min(cap, enough))
        best = best.or_worse(Attained(proved, {"first": s1, "second": s2}))
    return best


def outer_quotient(top: Floats, low: Floats) -> Floats:
    """top / low rounded up, with 0/0 = 1 and x/0 = ∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = up(top / low)
    return np.where(np.isnan(out), 1.0, out)


def _pairs(
    top: Floats, bottom: Floats, sides: Callable[[Ints, Ints, Ints], tuple[S, S]], within: SetBounds[S], found: float,
    target: float, what: str,
) -> Attained:
    """The proved maximum over i and s₁ ≠ s₂, given bounds top[i, s] and bottom[i, s] of one secret alone.

    Where secrets are many, those with the greatest and the least bounds are compared first: mostly no others are worse.
    """
    n, s = top.shape
    if n * s * s > LISTED:
        return _alone(top, bottom, what)
    best, done, rest = Attained(found, {}), 0, 0.0  # a bound of the pairs that are not listed

    def ratio() -> float:
        return max(float(best.ratio), math.nextafter(rest, 0.0))  # many are alike: one of them may do for all

    for k in dict.fromkeys((min(FURTHEST, s), s)):
        (first, high), (second, low) = _furthest(-top, k), _furthest(bottom, k)
        bounds = outer_quotient(-high[:, :k, None], low[:, None, :k])
        bounds[first[:, :, None] == second[:, None, :]] = 0.0
        flat = bounds.ravel()
        rest = 0.0 if k == s else float(np.maximum(outer_quotient(-high[:, k], low.min(1)),
                                                   outer_quotient(-high.min(1), low[:, k])).max())
        for some in worst_first(flat, ratio):
            if done >= LOOKED_AT and flat[some[0]] <= target:
                return best.or_worse(Attained(float(flat[some[0]]), best.where))
            i, a, b = np.unravel_index(some, bounds.shape)
            at = i, first[i, a], second[i, b]
            proved = np.minimum(flat[some], within.pairs(*sides(*at), float(best.ratio)))
            j = int(np.argmax(proved))
            where = {what: int(at[0][j]), "first": int(at[1][j]), "second": int(at[2][j])}
            best, done = best.or_worse(Attained(float(proved[j]), where)), done + len(some)
        if best.ratio >= rest:
            break
    return best


def _furthest(x: Floats, k: int) -> tuple[Ints, Floats]:
    """The places of the k least numbers of each row, in order of place, and these numbers with the next one, if any."""
    at = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    at = at if k == x.shape[1] else np.argpartition(x, (k - 1, k), axis=1)[:, : k + 1]
    at = np.concatenate([np.sort(at[:, :k], 1), at[:, k:]], 1)
    return at[:, :k], np.take_along_axis(x, at, 1)


def _alone(top: Floats, bottom: Floats, what: str) -> Attained:
    """The bound from what one secret alone allows, for tables with too many pairs to look at each."""
    ratio = up(best_pairs(top.T, bottom.T))
    y = int(np.argmax(ratio))
    return Attained(float(ratio[y]), {what: y})


@dataclass(frozen=True, slots=True, eq=False)
class RangeBounds(SetBounds[tuple[Ints, Range]]):
    """The product of the ranges that a trusted set gives for its secrets."""

    within: Custom

    def __post_init__(self) -> None:
        if not self.within.trusted:
            raise InputError(
                f"the set {self.within.name!r} states its ranges but not that they are proved, so nothing can be "
                "released under it",
                next="If they are, say so with trusted=True; the certificate will say that the bounds are given by "
                "the set.",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.within.joint.shape

    def side(self, s: Ints, v: Range) -> tuple[Ints, Range]:
        return s, v

    def alone(self, side: tuple[Ints, Range], *, greatest: bool) -> Floats:
        s, v = side
        ends = self.within.ranges_of(v[1 if greatest else 0], s)
        return ends[1] * (1 + SLIP) if greatest else ends[0] * (1 - SLIP)

    def pairs(self, first: tuple[Ints, Range], second: tuple[Ints, Range], enough: float = 1.0) -> Floats:
        """Nothing is known of pairs."""
        return np.full(len(first[0]), np.inf)


# --- mixtures of listed distributions ---------------------------------------------------------------------------------
# The worst P(y|s₁)/P(y|s₂) over a polytope lies on a segment between two of its vertices (see `uncertainty.polytope`).
# With N = Σ_u P(s,u)v_u and D = P(s) at both ends, N₁D₂ ≤ λD₁N₂ holds along the segment iff the quadratic λD₁N₂ − N₁D₂
# is not negative on [0, 1]: its Bernstein coefficients satisfy b₀, b₂ ≥ 0 and b₁ ≥ −√(b₀b₂). They are computed with
# outward rounding. Vertices count as the rationals their floats are; that they sum to 1 only nearly changes nothing,
# since ratios of conditionals do not depend on the scale of a vertex.


@dataclass(frozen=True, slots=True, eq=False)
class VertexBounds(SetBounds[tuple[Range, Range]]):
    """Vertices as [s, v, u]; a side is N and D of each row at every vertex, [i, v]."""

    vertices: Floats

    @classmethod
    def around(cls, within: Polytope) -> VertexBounds:
        if within.vertices is None:
            raise InputError(
                "levels over a polytope given by inequalities cannot be proved yet", next="List its vertices."
            )
        return cls(within.vertices.swapaxes(0, 1))

    @property
    def shape(self) -> tuple[int, int]:
        return self.vertices.shape[0], self.vertices.shape[2]

    def side(self, s: Ints, v: Range) -> tuple[Range, Range]:
        p, one = self.vertices[s], np.ones((1, 1, self.shape[1]))
        low, high = (x[:, None, :] for x in v)
        return (dot_down(p, low), dot_up(p, high)), (dot_down(p, one), dot_up(p, one))

    def spike(self, s: Ints, u: Ints, peak: Range, base: Range) -> tuple[Range, Range]:
        """From P(s, u) and what is left of P(s) at every vertex: the other values are all alike."""
        mass, one = self.vertices[s, :, u], np.ones((1, 1, self.shape[1]))
        low, high = dot_down(self.vertices, one)[s], dot_up(self.vertices, one)[s]
        (p, over), (b, above) = ([x[:, None] for x in y] for y in (peak, base))
        below = down(down(b * down(np.maximum(low - mass, 0))) + down(p * mass))
        return (below, _up0(_up0(above * _up0(np.maximum(high - mass, 0))) + _up0(over * mass))), (low, high)

    def alone(self, side: tuple[Range, Range], *, greatest: bool) -> Floats:
        """Over vertices where the secret occurs; one that never does tells nothing."""
        n, d = side
        with np.errstate(divide="ignore", invalid="ignore"):
            if greatest:
                return np.asarray(np.where(d[1] > 0, _up0(n[1] / d[0]), 0.0).max(-1))
            return np.asarray(np.where(d[1] > 0, down(n[0] / d[1]), np.inf).min(-1))

    def pairs(self, first: tuple[Range, Range], second: tuple[Range, Range], enough: float = 1.0) -> Floats:
        return segment_bound(*first, *second)


def _up0(x: Floats) -> Floats:
    """Rounded up, but for exact zeros."""
    return np.where(x == 0, 0.0, up(x))


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
    return raised(ratio, lambda z: (np.asarray(_not_negative(below, above, z[:, None]).all(1)), z))


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
