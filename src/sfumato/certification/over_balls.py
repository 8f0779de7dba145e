"""The proved level of a mechanism over a ball: every output, every pair of secrets.

What one secret alone allows bounds every pair. Pairs are taken in the order of that bound, and as long as it exceeds
the level proved so far they get a bound of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification.ball import Dual, ProvedBall, Range, Side, joined
from sfumato.certification.outward import down, float_range, rows_range, up, up_any
from sfumato.certification.rationals import Attained
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.mechanism.subset_laws import subsets_of
from sfumato.tolerances import HALVINGS, LISTED, SUBSETS, UNIT
from sfumato.uncertainty.sets import MANY_PAIRS, worst_first

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight, Weights


@dataclass(frozen=True, slots=True)
class PairsLooked:
    """Pairs of secrets that are looked at."""

    patience: int = 20_000  # pairs looked at for the sake of a close level when the claim is proved without them
    # whose dual points give every pair a bound before any is looked at itself
    shares: tuple[float, ...] = (0.5, 0.15, 0.85)
    crossed: int = 500_000  # pairs that get such a bound at once


LOOKED = PairsLooked()


Sides = Callable[[Ints, Ints, Ints], tuple[Side, Side]]  # (output, s1, s2) arrays → both sides of the pairs
Duals = list[tuple[Dual, Dual]]  # per share of the slack: dual points above and below for every (output, secret)


class PairBounds(Protocol):
    """What a ball must prove; the rest follows from it. Numbers come from below and from above."""

    @property
    def p(self) -> Range: ...  # P̂(s, u)
    @property
    def ps(self) -> Range: ...  # P̂(s)
    @property
    def rest(self) -> Range: ...  # P̂(s) − P̂(s, u)

    def alone(self, side: Side, *, greatest: bool) -> Floats:
        """Bounds of the greatest (or least) mean of each row of a side, over the ball."""

    def pairs(self, first: Side, second: Side) -> Floats:
        """Bounds of the worst ratio of each pair of rows, over the ball."""

    def masses(self) -> Range:
        """Bounds of the least and the greatest P(u|s)."""

    def atoms(self, c: Atoms) -> Attained:
        """A bound of the worst ratio between any two atoms of different secrets."""


def over_bounds(mechanism: Mechanism, ball: PairBounds, target: float = math.inf) -> Attained:
    """A proved upper bound of max P(y|s₁) / P(y|s₂) over outputs, pairs of secrets and a ball that has bounds.

    It is close to the maximum unless there are more than LOOKED.patience pairs to look at and what one secret alone
    allows already proves the target ratio.
    """
    best = Attained(1.0, {})
    if len(ball.ps[0]) < 2:
        return best
    masses: Range | None = None
    for contrast in mechanism.law.contrasts():
        match contrast:
            case Rows():
                best = best.or_worse(_rows(contrast.values, ball, float(best.ratio), target))
            case Spikes():
                masses = masses or ball.masses()
                best = best.or_worse(_spikes(contrast, ball, masses, float(best.ratio), target))
            case Atoms():
                best = best.or_worse(ball.atoms(contrast))
            case Subsets():
                best = best.or_worse(_subsets(contrast, ball, float(best.ratio), target))
    return best


def _rows(values: Weights, ball: PairBounds, found: float, target: float) -> Attained:
    """Rows listed one by one."""
    low, high = rows_range(values)
    y, (s, k) = len(values), ball.p[0].shape
    v = tuple(np.broadcast_to(x, (y, s, k)) for x in (low, high))
    flat = tuple(x.reshape(-1, k) for x in v)
    p = tuple(np.broadcast_to(x, (y, s, k)).reshape(-1, k) for x in ball.p)
    ps = tuple(np.broadcast_to(x, (y, s)).ravel() for x in ball.ps)
    side = Side((p[0], p[1]), (ps[0], ps[1]), (flat[0], flat[1]))
    top = ball.alone(side, greatest=True).reshape(y, s)
    bottom = ball.alone(side, greatest=False).reshape(y, s)

    def sides(i: Ints, s1: Ints, s2: Ints) -> tuple[Side, Side]:
        def part(at: Ints) -> Side:
            return Side(*(
                (x[0], x[1]) for x in ((ball.p[0][at], ball.p[1][at]), (ball.ps[0][at], ball.ps[1][at]),
                                       (v[0][i, at], v[1][i, at]))
            ))

        return part(s1), part(s2)

    def duals() -> Duals:
        assert isinstance(ball, ProvedBall)
        return [
            (Dual.suggested(side, share * ball.slack[1], greatest=True),
             Dual.suggested(side, (1 - share) * ball.slack[1], greatest=False))
            for share in LOOKED.shares
        ]

    return _pairs(top, bottom, sides, ball, found, target, "output", duals if isinstance(ball, ProvedBall) else None)


def _spikes(c: Spikes, ball: PairBounds, masses: Range, found: float, target: float) -> Attained:
    """Rows that are constant but for one useful value u₀: two cells, u₀ and the rest, tell everything."""
    shape = ball.p[0].shape
    least, most = masses

    def ends(base: Weight, peak: Weight) -> tuple[Range, Range]:
        spread = [float_range(np.asarray(x, object)) for x in (base, peak)]
        return tuple(tuple(np.broadcast_to(e, shape) for e in x) for x in spread)  # type: ignore[return-value]

    (b1, p1), (b2, p2) = ends(c.base_first, c.peak_first), ends(c.base_second, c.peak_second)
    top = np.maximum(_mix_up(b1[1], p1[1], most), _mix_up(b1[1], p1[1], least)).T
    bottom = np.minimum(_mix_down(b2[0], p2[0], most), _mix_down(b2[0], p2[0], least)).T

    def sides(u: Ints, s1: Ints, s2: Ints) -> tuple[Side, Side]:
        def part(at: Ints, base: Weight, peak: Weight) -> Side:
            p_low, p_high = ((ball.p[e][at, u], ball.rest[e][at, u]) for e in (0, 1))
            v = [np.column_stack([peak[e][at, u], base[e][at, u]]) for e in (0, 1)]
            cells = np.column_stack(p_low), np.column_stack(p_high)
            return Side(cells, (ball.ps[0][at], ball.ps[1][at]), (v[0], v[1]))

        return part(s1, b1, p1), part(s2, b2, p2)

    return _pairs(top, bottom, sides, ball, found, target, "useful")


def _mix_up(base: Floats, peak: Floats, r: Floats) -> Floats:
    """An upper bound of base + (peak − base)·r for 0 ≤ r ≤ 1."""
    return np.minimum(up(up(base * up(np.maximum(1 - r, 0))) + up(peak * r)), np.maximum(base, peak))


def _mix_down(base: Floats, peak: Floats, r: Floats) -> Floats:
    return np.maximum(down(down(base * down(np.maximum(1 - r, 0))) + down(peak * r)), np.minimum(base, peak))


def _subsets(c: Subsets, ball: PairBounds, found: float, target: float) -> Attained:
    """Two-level rows over every subset of the useful values."""
    k = ball.p[0].shape[1]
    if k <= SUBSETS:
        values = np.where(subsets_of(k), np.array(int(c.high), object), np.array(int(c.low), object))[:, None, :]
        return _rows(values, ball, found, target)
    least, most = ball.masses()
    low, cap = Attained(1.0, {}), float(up_any(float(c.high) / float(c.low))) if c.low else math.inf
    for s1 in range(len(least)):
        for s2 in range(len(least)):
            if s1 != s2:
                with np.errstate(divide="ignore", invalid="ignore"):  # from this λ on no value gains anything
                    enough = float(np.nan_to_num(up(most[s1] / least[s2]), nan=1.0, posinf=np.inf).max())
                proved = _subset_pair(most[s1], least[s2], float(c.low), float(c.high), min(cap, enough))
                low = low.or_worse(Attained(proved, {"first": s1, "second": s2}))
    return low


def _subset_pair(most: Floats, least: Floats, low: float, high: float, cap: float) -> float:
    """A λ with (high − low)·min{1, Σ(max R₁ − λ min R₂)₊} ≤ (λ − 1)·low, checked with room to spare."""
    small, large = 1.0, cap
    spare = 1 + (len(most) + 8) * 4 * UNIT
    for _ in range(HALVINGS):
        mid = (small + large) / 2
        total = min(1.0, float(np.maximum(most - mid * least, 0).sum()) * spare + 1e-15)
        holds = (high - low) * total * spare <= (mid - 1) * low * (2 - spare)
        small, large = (small, mid) if holds else (mid, large)
    return large


def _pairs(
    top: Floats, bottom: Floats, sides: Sides, ball: PairBounds, found: float, target: float, what: str,
    duals: Callable[[], Duals] | None = None,
) -> Attained:
    """The proved maximum over i and s₁ ≠ s₂, given bounds top[i, s] and bottom[i, s] of one secret alone."""
    n, s = top.shape
    if n * s * s > LISTED:
        return _alone(top, bottom, what)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.nan_to_num(up(top[:, :, None] / bottom[:, None, :]), nan=1.0, posinf=np.inf)
    bounds[:, np.arange(s), np.arange(s)] = 0.0
    flat, best, done = bounds.ravel(), Attained(found, {}), 0

    def ratio() -> float:
        return float(best.ratio)

    for turn in (0, 1):  # before and after pairs have got a bound from common dual points
        for part in worst_first(flat, ratio):
            if done >= LOOKED.patience and flat[part[0]] <= target:
                return best.or_worse(Attained(float(flat[part[0]]), best.where))
            at = np.unravel_index(part, bounds.shape)
            flat[part] = np.minimum(flat[part], ball.pairs(*sides(*at)))
            i = int(np.argmax(flat[part]))
            where = {what: int(at[0][i]), "first": int(at[1][i]), "second": int(at[2][i])}
            best, done = best.or_worse(Attained(float(flat[part[i]]), where)), done + len(part)
            left = np.flatnonzero(flat > ratio()) if duals and not turn else part[:0]
            if duals and isinstance(ball, ProvedBall) and len(left) > MANY_PAIRS:
                _cross(flat, left, s, duals(), ball, ratio())
                break
    return best


def _cross(bounds: Floats, order: Ints, secrets: int, duals: Duals, ball: ProvedBall, enough: float) -> None:
    """Lower the bounds of the pairs in `order` to what common dual points prove: one computation per pair."""
    for start in range(0, len(order), LOOKED.crossed):
        part = order[start : start + LOOKED.crossed]
        for above, below in duals:
            part = part[bounds[part] > enough]
            row = part // (secrets * secrets) * secrets
            i, j = row + part // secrets % secrets, row + part % secrets
            near = np.minimum(bounds[part], 1e9)
            bounds[part] = np.minimum(bounds[part], joined(above.at(i), below.at(j), near, ball.slack))


def _alone(top: Floats, bottom: Floats, what: str) -> Attained:
    """The bound from what one secret alone allows, for tables with too many pairs to look at each."""
    i, j = np.argsort(-top, 1)[:, :2], np.argsort(bottom, 1)[:, :2]
    best = Attained(1.0, {})
    rows = np.arange(len(top))
    for a in (0, 1):
        for b in (0, 1):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = up(top[rows, i[:, a]] / bottom[rows, j[:, b]])
            ratio = np.where(i[:, a] == j[:, b], 0.0, np.nan_to_num(ratio, nan=1.0, posinf=np.inf))
            r = int(np.argmax(ratio))
            best = best.or_worse(Attained(float(ratio[r]), {what: r, "first": int(i[r, a]), "second": int(j[r, b])}))
    return best
