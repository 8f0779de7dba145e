"""Conditionals tilted by their multipliers, as far as a ball lets them, and what two of them share.

Given s, the conditional R of U in a χ² ball lies in {R : Σ q²/R ≤ C}, q = P̂(·|s); the one of greatest mean is
R ∝ q/√(τ − v). As a function of y = log x, x = (τ − max v)/width, it has all that Newton's method asks of it in closed
form: with d = (max v − v)/width, r = √(d + x), A = Σ q r, B = Σ q/r and D = Σ q/r³ it spends C = AB, its law is q/(rB),
and as A' = B/2, B' = −D/2 in x, C' = (B² − AD)/2 and mean' = width·C'/B². So where several conditionals share a budget
all multipliers are found at once (`newton`), in a handful of steps, instead of a search within a search. Everything
here is in floats and vectorised over many rows; the last axis is the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.tolerances import HALVINGS, LEAST, SLIP
from sfumato.uncertainty.sets import Pairs, quotient

if TYPE_CHECKING:
    from sfumato.alphabet import Bools


@dataclass(frozen=True, slots=True)
class Newton:
    """How far Newton's method goes; what has not settled is left to a slower search."""

    steps: int = 25  # of Newton's method; about six are needed, and what has not settled is left to a slower search
    close: float = 1e-7  # of a step, at least: the method is quadratic, so what is left is lost in rounding
    furthest: float = 2.0  # in y, of one step
    steepest: float = -2.2  # of log(C − 1) in y: it lies between −2 and 0, rounding aside
    flattest: float = -1e-3
    least_y: float = -60.0  # of y: beyond, the greatest value itself takes mass, which no multiplier says
    least_gap: float = -75.0  # log of the least τ − max v looked at, in units of the width


NEWTON = Newton()


@dataclass(frozen=True, slots=True)
class Leaning:
    """How the split of the slack between two secrets is followed, by the lean in its log-odds."""

    slope: float = -0.5  # of the lean in the log-odds: at first, and where it is too flat to be followed
    flat: float = 1e-3
    patience: int = 6  # every so many steps the bracket is halved
    end: float = 36.0  # log-odds of the split at which a share counts as nothing
    # a slope this small, and one more step of the secant: the ratio is flat there, exact to about 1e-12
    close: float = 1e-5


SPLIT = Leaning()


@dataclass(frozen=True, slots=True, eq=False)
class AtPrice:
    """Laws at their multipliers as pairs that share a budget see them; slopes are in y."""

    x: Floats
    law: Floats
    price: Floats  # what it spends of the budget, for each unit of the secret's mass
    dearer: Floats  # slope of the price
    lean: Floats  # log of d mean/d price, in units of the width, up to a constant
    turn: Floats  # slope of that
    moved: Floats  # slope of the mean, in units of the width


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """Laws at their multipliers."""

    depth: Floats
    part: Floats  # q/r
    x: Floats
    A: Floats
    B: Floats
    D: Floats
    excess: Floats  # C − 1, without cancellation

    @classmethod
    def at(cls, depth: Floats, q: Floats, y: Floats) -> Tilt:
        x, root_x = np.exp(y), np.exp(y / 2)
        square = depth + x[:, None]
        root = np.sqrt(square)
        rise, part = depth / (root + root_x[:, None]), q / root  # r − √x
        mean = np.einsum("iu,iu->i", q, rise)
        A = root_x + mean
        excess = np.maximum(np.einsum("iu,iu->i", part, (rise - mean[:, None]) ** 2) / A, LEAST)
        return cls(depth, part, x, A, part.sum(1), (part / square).sum(1), excess)

    @property
    def law(self) -> Floats:
        return self.part / self.B[:, None]

    @property
    def drop(self) -> Floats:
        """max v − mean, in units of the width."""
        return np.asarray(np.einsum("iu,iu->i", self.part, self.depth) / self.B)

    @property
    def steep(self) -> Floats:
        """Slope of log(C − 1) in y."""
        slope = self.x * (self.B * self.B - self.A * self.D) / (2 * self.excess)
        return np.clip(slope, NEWTON.steepest, NEWTON.flattest)

    @property
    def grown(self) -> Floats:
        """Slope of C in y."""
        return self.excess * self.steep

    @classmethod
    def priced(cls, depth: Floats, q: Floats, y: Floats) -> AtPrice:
        """The price is 2(√C − 1)."""
        t, root = (found := cls.at(depth, q, y)), np.sqrt(1 + found.excess)
        grown, lean = t.grown, np.log(np.sqrt(t.A / t.B) / t.B)
        turn = t.x * (0.25 * t.B / t.A + 0.75 * t.D / t.B)
        return AtPrice(t.x, t.law, 2 * t.excess / (root + 1), grown / root, lean, turn, grown / (t.B * t.B))


@dataclass(frozen=True, slots=True, eq=False)
class Depths:
    """Values of many conditionals below their greatest, in units of their width; and first multipliers for a price."""

    top: Floats
    width: Floats
    depth: Floats
    q: Floats
    mean: Floats  # of the depth under q, and its variance
    variance: Floats
    flat: Bools  # whether all values are the same: it spends nothing, whatever its multiplier is

    @classmethod
    def of(cls, v: Floats, q: Floats) -> Depths:
        top = v.max(1)
        depth = top[:, None] - v
        width = depth.max(1)
        flat = width <= 0
        width = np.where(flat, 1.0, width)
        depth = depth / width[:, None]
        mean = np.einsum("iu,iu->i", q, depth)
        return cls(top, width, depth, q, mean, np.einsum("iu,iu->i", q, (depth - mean[:, None]) ** 2), flat)

    @property
    def tilts(self) -> Bools:
        """Those that Newton's method can tilt: it knows nothing of mass that goes where q has none."""
        return np.asarray(self.flat | (self.variance > 0))

    def first(self, excess: Floats) -> Floats:
        """log x from C − 1 ≈ variance/4(x + mean)², which is exact for little slack."""
        far = np.sqrt(self.variance / (4 * np.maximum(excess, LEAST)))
        return np.asarray(np.log(np.maximum(np.maximum(far - self.mean, 0.1 * far), 1e-20)))

    def tilt(self, y: Floats, at: Ints | Bools | slice) -> Tilt:
        return Tilt.at(self.depth[at], self.q[at], y)


def newton(step: Callable[[Ints, Floats], Floats], y: Floats, live: Ints, close: float | Floats) -> Bools:
    """Newton's method for many systems at once, y[variable, system], in place; and where it has settled.

    A system is given up where its step is no number, or where a multiplier has run to where it says nothing.
    """
    settled = np.zeros(y.shape[1], dtype=np.bool_)
    for _ in range(NEWTON.steps):
        if not len(live):
            break
        moved = step(live, y[:, live])
        fits = np.asarray(np.isfinite(moved).all(0))
        moves = np.clip(np.where(fits, moved, 0.0), -NEWTON.furthest, NEWTON.furthest)
        y[:, live] = np.clip(y[:, live] + moves, NEWTON.least_y, -NEWTON.least_y)
        done = fits & (np.abs(moved) <= close).all(0)
        settled[live[done]] = True
        live = live[fits & ~done & (y[:, live] > NEWTON.least_y).all(0)]
    return settled


def by_newton(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, budget: float, close: float,
    priced: Callable[[Floats, Floats, Floats], AtPrice],
) -> tuple[Pairs, Bools]:
    """The greatest (R₁·v₁)/(R₂·v₂) of pairs that share a budget, Σ P̂_s·price ≤ b, and where it was found.

    Multipliers y of both sides that spend all of it, and have the same relative gain d log|mean|/db for a share of it.
    """
    n, mass, enough = len(ps1), np.concatenate([ps1, ps2]), max(NEWTON.close, close)
    side = Depths.of(values := np.concatenate([v1, -v2]), np.concatenate([q1, q2]))
    worth = mass * np.abs(side.top - side.width * side.mean) / side.width

    def step(live: Ints, y: Floats) -> Floats:
        """A system of two equations for each pair."""
        both = np.concatenate([live, live + n])
        t, width, own = priced(side.depth[both], side.q[both], y.ravel()), side.width[both], mass[both]
        value = inner(t.law, values[both])  # not from the top, where what is left would be rounding
        spent, more = ((own * x).reshape(2, -1) for x in (t.price, t.dearer))
        lean = (np.log(width / (own * np.abs(value))) + t.lean).reshape(2, -1)
        turn = (t.turn - width * t.moved / value).reshape(2, -1)
        total = spent.sum(0)
        off, apart = np.log(total / budget), lean[0] - lean[1]
        (a, b), c, d = more / total, turn[0], -turn[1]
        return np.asarray(np.stack([b * apart - d * off, c * off - a * apart]) / (a * d - b * c))

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        pull = mass * side.variance / worth**2  # what each side takes of a little
        part = budget * np.minimum(pull / (pull + np.roll(pull, n)), 1.0) / mass
        y = side.first(part + part * part / 4)  # C − 1 at order 2
        other = np.roll(y, n) + np.log(worth / np.roll(worth, n))  # where a constant has as much to gain
        y, flat = np.where(side.flat, other, y), side.flat[:n] & side.flat[n:]
        usual = np.isfinite(y) & side.tilts & (budget > 0)
        settled = newton(step, y.reshape(2, n), np.flatnonzero(usual[:n] & usual[n:] & ~flat), enough)
        end = priced(side.depth, side.q, np.where(np.tile(flat, 2), NEWTON.least_y, np.where(usual, y, 0.0)))
        spent = (mass * end.price).reshape(2, n).sum(0)
        settled = (settled & (np.abs(spent - budget) <= enough * budget)) | (flat & (worth > 0).reshape(2, n).all(0))
        # Prices are convex in R and nothing at q: mixed with q by 1 − t, a law spends at most t of what it did.
        t = np.tile(np.clip(budget * (1 + SLIP) / np.maximum(spent, LEAST), 0.0, 1.0), 2)
    tau, law = side.top + side.width * end.x, side.q + t[:, None] * (end.law - side.q)
    value = inner(law, values)
    return Pairs(quotient(value[:n], -value[n:]), law[:n], law[n:], tau[:n], -tau[n:]), settled


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """max R·v with a maximiser R, the multiplier τ that proves it, and how fast it grows with the divergence."""

    value: Floats
    r: Floats
    tau: Floats
    slope: Floats

    def at(self, some: slice) -> Mean:
        """The same of some of them."""
        return Mean(self.value[some], self.r[some], self.tau[some], self.slope[some])


def inner(a: Floats, b: Floats) -> Floats:
    """Σ a·b over the last axis."""
    return np.asarray(np.einsum("...k,...k->...", a, b))


Sides = Callable[[Floats, Ints], tuple[Mean, Mean, Floats]]


def best_split(
    sides: Sides, count: int, extra: Iterable[float] = (), corners: Iterable[Floats] = (), close: float = SPLIT.close
) -> Pairs:
    """The best split of a budget between two sides; sides(w, at) gives both at log-odds w and which way to lean.

    `at` says which pairs are asked about. The splits in `extra` are tried too, and both ends and the corners of each
    pair whose search did not surely end inside.
    """
    w, clean = _settled(sides, count, close)

    def pairs(w: Floats, at: Ints) -> Pairs:
        top, bottom, _ = sides(w, at)
        return Pairs(quotient(top.value, -bottom.value), top.r, bottom.r, top.tau, -bottom.tau)

    everyone, unsure = np.arange(count), np.flatnonzero(~clean)
    best, ends = pairs(w, everyone), (np.full(count, -SPLIT.end), np.full(count, SPLIT.end), *corners)
    for x, at in (*((x, unsure) for x in ends), *((np.full(count, x), everyone) for x in extra)):
        if at.size:
            other = pairs(x[at], at)
            better = other.ratio > best.ratio[at]
            for mine, theirs in zip(best.arrays, other.arrays, strict=True):
                mine[at[better]] = theirs[better]
    return best


def _settled(sides: Sides, count: int, close: float) -> tuple[Floats, Bools]:
    """Log-odds where neither side is leant to, by a secant kept inside a bracket; and where that is sure.

    Each side grows as the root of its share while the slack is small, so the first slope is −1/2. An exact zero may
    stand for a lean that is no number, and a search that ran to an end has not met a zero: there nothing is sure.
    Pairs that have settled are not asked about again.
    """
    out, clean, live = np.zeros(count), np.zeros(count, dtype=np.bool_), np.arange(count)
    low, high = np.full(count, -SPLIT.end), np.full(count, SPLIT.end)
    w, before, lean, slope = np.zeros(count), np.zeros(count), np.zeros(count), np.full(count, SPLIT.slope)
    for turn in range(HALVINGS if count else 0):
        last, lean = lean, sides(w, live)[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = (lean - last) / (w - before)  # no number at the first turn
        slope = np.where(np.isfinite(steep) & (steep < -SPLIT.flat), steep, slope)
        low, high = np.where(lean >= 0, w, low), np.where(lean <= 0, w, high)
        before, ahead = w, np.clip(w - lean / slope, -SPLIT.end, SPLIT.end)
        inside = (ahead >= low) & (ahead <= high) & (turn % SPLIT.patience < SPLIT.patience - 1)
        clean[live] = (np.abs(lean) <= close) & (lean != 0) & (np.abs(w) < SPLIT.end)
        done = (np.abs(lean) <= close) | (high - low <= close)
        w = np.where(inside | done, np.clip(ahead, low, high), (low + high) / 2)
        out[live] = w
        if done.all():
            break
        live, keep = live[~done], np.flatnonzero(~done)
        low, high, w, before, lean, slope = (x[keep] for x in (low, high, w, before, lean, slope))
    return out, clean
