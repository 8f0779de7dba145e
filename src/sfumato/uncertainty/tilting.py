"""Conditionals tilted as far as a χ² ball lets them, by their multipliers; and the split of what two of them share.

Given s, the conditional R of U lies in {R : Σ q²/R ≤ C}, q = P̂(·|s), and the one of greatest mean is R ∝ q/√(τ − v)
(`greatest_mean`). As a function of y = log x, x = (τ − max v)/width, everything that Newton's method asks of it has a
closed form: with d = (max v − v)/width, r = √(d + x), A = Σ q r, B = Σ q/r and D = Σ q/r³ it spends C = AB, its law is
q/(rB), and as A' = B/2, B' = −D/2 in x, C' = (B² − AD)/2 and mean' = width·C'/B². So where several conditionals share a
budget, all multipliers are found at once (`newton`), in a handful of steps, instead of a search within a search.
Everything here is in floats and vectorised over many rows; the last axis is the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.uncertainty.sets import Pairs, quotient

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Real

STEPS = 25  # of Newton's method; about six are needed, and what has not settled is left to a slower search
CLOSE = 1e-7  # of a step, at least: the method is quadratic, so what is left is lost in rounding
FURTHEST = 2.0  # in y, of one step
STEEPEST, FLATTEST = -2.2, -1e-3  # of log(C − 1) in y: it lies between −2 and 0, rounding aside
LEAST = -60.0  # of y: beyond, the greatest value itself takes mass, which no multiplier says
GAP_STEPS = 40  # for one multiplier; Newton needs about six, the bisection behind it more
GAP_CLOSE = 1e-8  # of a step: Newton is quadratic, so the next one would be lost in rounding
LEAST_GAP = -75.0  # log of the least τ − max v looked at, in units of the width
SPLIT_STEPS = 60  # for the split of the slack; the secant needs about five
SPLIT_SLOPE, SPLIT_FLAT = -0.5, 1e-3  # of the lean in the log-odds: at first, and where it is too flat to be followed
SPLIT_PATIENCE = 6  # every so many steps the bracket is halved
SPLIT_END = 36.0  # log-odds of the split at which a share counts as nothing
SPLIT_CLOSE = 1e-5  # a slope this small, and one more step of the secant: the ratio is flat there, exact to about 1e-12


def spread_of(slack: Real, mass: Real) -> Floats:
    """C = (1 + slack/P̂_s)² for a share of the slack; ∞ for an empty secret as soon as there is any slack."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(slack > 0, (1 + slack / mass) ** 2, 1.0))


def mass_range(q: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Least and greatest R(H) over {R : Σ q²/R ≤ C} for a set H with q(H) = q [000, Lemma 1, corrected].

    L = 2q²/(X + √·), X = C + 2q − 1, √· = √((C − 1)(C − (2q − 1)²)): no cancellation, and right for q = 0.
    """
    q, spread = np.broadcast_arrays(np.asarray(q, float), np.asarray(spread, float))
    wide = ~np.isfinite(spread)
    c = np.where(wide, 2.0, spread)

    def least(mass: Floats) -> Floats:
        x = c + 2 * mass - 1
        return np.asarray(2 * mass**2 / np.maximum(x + np.sqrt((c - 1) * (c - (2 * mass - 1) ** 2)), 1e-300))

    low, high = least(q), 1 - least(1 - q)
    exact = c == 1
    return np.where(wide, 0.0, np.where(exact, q, low)), np.where(wide, 1.0, np.where(exact, q, high))


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
        excess = np.maximum(np.einsum("iu,iu->i", part, (rise - mean[:, None]) ** 2) / A, 1e-300)
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
        return np.clip(self.x * (self.B * self.B - self.A * self.D) / (2 * self.excess), STEEPEST, FLATTEST)

    @property
    def grown(self) -> Floats:
        """Slope of C in y."""
        return self.excess * self.steep


@dataclass(frozen=True, slots=True, eq=False)
class Depths:
    """Values of many conditionals below their greatest, in units of their width; and a first multiplier for a C − 1."""

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
        far = np.sqrt(self.variance / (4 * np.maximum(excess, 1e-300)))
        return np.asarray(np.log(np.maximum(np.maximum(far - self.mean, 0.1 * far), 1e-20)))

    def tilt(self, y: Floats, at: Ints | Bools | slice) -> Tilt:
        return Tilt.at(self.depth[at], self.q[at], y)


def newton(step: Callable[[Ints, Floats], Floats], y: Floats, live: Ints, close: float | Floats) -> Bools:
    """Newton's method for many systems at once, y[variable, system], in place; and where it has settled.

    A system is given up where its step is no number, or where a multiplier has run to where it says nothing.
    """
    settled = np.zeros(y.shape[1], dtype=np.bool_)
    for _ in range(STEPS):
        if not len(live):
            break
        moved = step(live, y[:, live])
        fits = np.asarray(np.isfinite(moved).all(0))
        y[:, live] = np.clip(y[:, live] + np.clip(np.where(fits, moved, 0.0), -FURTHEST, FURTHEST), LEAST, -LEAST)
        done = fits & (np.abs(moved) <= close).all(0)
        settled[live[done]] = True
        live = live[fits & ~done & (y[:, live] > LEAST).all(0)]
    return settled


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """max R·v with a maximiser R, the multiplier τ that proves it, and how fast the maximum grows with C."""

    value: Floats
    r: Floats
    tau: Floats
    slope: Floats
    # log of τ − max v in units of the width: where to start for a spread near this one
    gap: Floats = field(default_factory=lambda: np.zeros(0))

    def at(self, some: slice) -> Mean:
        """The same of some of them."""
        return Mean(self.value[some], self.r[some], self.tau[some], self.slope[some], self.gap[some])


def greatest_mean(
    v: Floats, q: Floats, spread: Floats, start: Floats | None = None, close: float = GAP_CLOSE
) -> Mean:
    """max R·v over {R in the simplex : Σ q²/R ≤ C}, for many at once; the last axis is the alphabet.

    The dual is min_{τ ≥ max v} τ − (Σ q√(τ−v))²/C; at its minimum R ∝ q/√(τ−v), and if that still leaves
    mass at τ = max v it goes to a cell with q = 0 where v is greatest. The slope in C is (Σ q√(τ−v))²/C².
    """
    top = v.max(-1)
    depth = top[..., None] - v
    width = np.where(depth.max(-1) > 0, depth.max(-1), 1.0)
    depth = depth / width[..., None]
    c = np.where(np.isfinite(spread), spread, 1e30)
    gap = gap_for(depth, q, c, start, close)
    root = np.sqrt(depth + gap[..., None])
    length = inner(q, root)
    r = q / root * (length / c)[..., None]
    rest = np.maximum(1 - r.sum(-1), 0.0)  # zero up to rounding unless τ stopped at max v
    corner = np.eye(v.shape[-1])[np.argmax(v, -1)]
    r = r + rest[..., None] * corner
    r = r / r.sum(-1, keepdims=True)
    r = np.where(np.isfinite(spread)[..., None], r, corner)
    r = np.where(((spread <= 1) | (depth.max(-1) == 0))[..., None], q, r)
    return Mean(inner(r, v), r, top + width * gap, np.asarray(width * (length / c) ** 2), np.log(gap))


def inner(a: Floats, b: Floats) -> Floats:
    """Σ a·b over the last axis."""
    return np.asarray(np.einsum("...k,...k->...", a, b))


def gap_for(
    depth: Floats, q: Floats, c: Floats, start: Floats | None = None, close: float = GAP_CLOSE
) -> Floats:
    """x = τ − max v, in units of the width, with (Σ q√(d+x))·(Σ q/√(d+x)) = C, or the least x if that is below C.

    With r = √(d+x) and A = Σ q r the left side less 1 is Σ q (r − A)²/r / A, which loses no digits near 1. Its
    logarithm is nearly linear in log x, so Newton's method on it, kept inside a bracket, settles in about six steps.
    """
    shape, depth, q, c = c.shape, depth.reshape(-1, depth.shape[-1]), q.reshape(-1, q.shape[-1]), c.ravel()
    least = np.sqrt(depth + np.exp(LEAST_GAP))
    stuck = (q * least).sum(-1) * (q / least).sum(-1) <= c  # even τ = max v leaves slack, or v is constant
    most = np.log1p(2 / np.maximum(c**2 - 1, 1e-25)) + 1e-9
    out = np.where(stuck, LEAST_GAP, most)  # no room at all: τ is as far as it goes
    live = np.flatnonzero(~stuck & (c > 1 + 1e-15))
    if depth.shape[-1] == 2:
        out[live] = _gap_of_two(q[live], c[live])
        return np.exp(out).reshape(shape)
    d, w, wanted = depth[live], q[live], np.log(np.maximum(c[live] - 1, 1e-300))
    low, high = np.full(live.shape, LEAST_GAP), most[live]
    y = np.minimum(high - 0.5, 0.0) if start is None else np.clip(start.ravel()[live], low, high)
    for _ in range(GAP_STEPS):
        if not live.size:
            break
        found = Tilt.at(d, w, y)
        off = np.log(found.excess) - wanted
        low, high = np.where(off > 0, y, low), np.where(off > 0, high, y)
        step = y - off / found.steep
        inside = (step >= low) & (step <= high)
        before, y = y, np.where(inside, step, (low + high) / 2)
        done = (inside & (np.abs(y - before) <= close)) | (high - low <= 1e-14)
        out[live] = y
        if 4 * np.count_nonzero(done) >= len(live):
            keep = np.flatnonzero(~done)
            live, d, w = live[keep], d[keep], w[keep]
            wanted, low, high, y = wanted[keep], low[keep], high[keep], y[keep]
    return np.exp(out).reshape(shape)


def _gap_of_two(q: Floats, c: Floats) -> Floats:
    """log x of `gap_for` for two values, depths 0 and 1, in closed form.

    With ρ = √(x/(1+x)) the condition is q₀q₁(ρ + 1/ρ − 2) = C − 1, that is (1 − ρ)² = a²ρ, a² = (C − 1)/(q₀q₁); its
    root below 1 is ρ = (2/(a + √(a²+4)))², and x = ρ²/(1 − ρ²) with 1 − ρ = a√ρ: no cancellation.
    """
    a = np.sqrt((c - 1) / (q[:, 0] * q[:, 1]))
    root = 2 / (a + np.sqrt(a * a + 4))
    rho = root * root
    return np.asarray(np.log(rho * rho / (a * root * (1 + rho))))


Sides = Callable[[Floats, Ints], tuple[Mean, Mean, Floats]]


def best_split(sides: Sides, count: int, extra: Iterable[float] = (), close: float = SPLIT_CLOSE) -> Pairs:
    """The best split of a budget between two sides; sides(w, at) gives both at log-odds w and which way to lean.

    `at` says which pairs are asked about. The splits in `extra` are tried too, and both ends for every pair whose
    search did not surely end inside.
    """
    w, clean = _settled(sides, count, close)

    def pairs(w: Floats, at: Ints) -> Pairs:
        top, bottom, _ = sides(w, at)
        return Pairs(quotient(top.value, -bottom.value), top.r, bottom.r, top.tau, -bottom.tau)

    best, everyone = pairs(w, np.arange(count)), tuple((x, np.arange(count)) for x in extra)
    for x, at in ((-SPLIT_END, np.flatnonzero(~clean)), (SPLIT_END, np.flatnonzero(~clean)), *everyone):
        if at.size:
            other = pairs(np.full(at.shape, x), at)
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
    low, high = np.full(count, -SPLIT_END), np.full(count, SPLIT_END)
    w, before, lean, slope = np.zeros(count), np.zeros(count), np.zeros(count), np.full(count, SPLIT_SLOPE)
    for turn in range(SPLIT_STEPS if count else 0):
        last, lean = lean, sides(w, live)[2]
        if turn:
            with np.errstate(divide="ignore", invalid="ignore"):
                steep = (lean - last) / (w - before)
            slope = np.where(np.isfinite(steep) & (steep < -SPLIT_FLAT), steep, slope)
        low, high = np.where(lean >= 0, w, low), np.where(lean <= 0, w, high)
        before, ahead = w, np.clip(w - lean / slope, -SPLIT_END, SPLIT_END)
        inside = (ahead >= low) & (ahead <= high) & (turn % SPLIT_PATIENCE < SPLIT_PATIENCE - 1)
        clean[live] = (np.abs(lean) <= close) & (lean != 0) & (np.abs(w) < SPLIT_END)
        done = (np.abs(lean) <= close) | (high - low <= close)
        w = np.where(inside | done, np.clip(ahead, low, high), (low + high) / 2)
        out[live] = w
        if done.all():
            break
        live, keep = live[~done], np.flatnonzero(~done)
        low, high, w, before, lean, slope = (x[keep] for x in (low, high, w, before, lean, slope))
    return out, clean
