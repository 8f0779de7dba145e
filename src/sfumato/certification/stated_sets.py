"""Bounds over sets that are stated: by their vertices, or by ranges that somebody has proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.outward import dot_down, dot_up, down, down_any, raised, up
from sfumato.certification.over_balls import Range, SetBounds
from sfumato.errors import InputError
from sfumato.tolerances import SLIP
from sfumato.uncertainty.polytope import Polytope, segment_ends, stationary
from sfumato.uncertainty.sets import Custom

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Ints
    from sfumato.uncertainty.polytope import Ends


@dataclass(frozen=True, slots=True, eq=False)
class RangeBounds(SetBounds[tuple["Ints", Range]]):
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

    def pairs(self, first: tuple[Ints, Range], second: tuple[Ints, Range]) -> Floats:
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

    def alone(self, side: tuple[Range, Range], *, greatest: bool) -> Floats:
        """Over vertices where the secret occurs; one that never does tells nothing."""
        n, d = side
        with np.errstate(divide="ignore", invalid="ignore"):
            if greatest:
                return np.asarray(np.where(d[1] > 0, _up0(n[1] / d[0]), 0.0).max(-1))
            return np.asarray(np.where(d[1] > 0, down(n[0] / d[1]), np.inf).min(-1))

    def pairs(self, first: tuple[Range, Range], second: tuple[Range, Range]) -> Floats:
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
