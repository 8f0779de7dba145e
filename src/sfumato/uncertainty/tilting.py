"""Worst conditionals in a χ² ball: one secret alone, and two that share the slack.

Given s, the conditional R of U lies in {R : Σ q²/R ≤ C}, q = P̂(·|s). Two conditionals share the slack b of the ball:
P̂_{s₁}(√C₁ − 1) + P̂_{s₂}(√C₂ − 1) ≤ b [002, Thm 3]. Everything here is in floats and vectorised over many rows; the last
axis is the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.uncertainty.multipliers import CLOSE, FURTHEST, LEAST, STEPS, Side, Tilt
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.stated import quotient

if TYPE_CHECKING:
    from sfumato.alphabet import Real

NEWTON = 40  # steps for a multiplier; Newton needs about six, the bisection behind it more
GAP_CLOSE = 1e-8  # of a step: Newton is quadratic, so the next one would be lost in rounding
SETTING = 60  # halvings for a multiplier that its own side does not determine
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
    for _ in range(NEWTON):
        if not live.size:
            break
        x, root_x = np.exp(y), np.exp(y / 2)[:, None]
        square = d + x[:, None]
        root = np.sqrt(square)
        rise = d / (root + root_x)  # r − √x
        part = w / root
        mean = np.einsum("iu,iu->i", w, rise)
        whole = root_x[:, 0] + mean
        excess = np.maximum(np.einsum("iu,iu->i", part, (rise - mean[:, None]) ** 2) / whole, 1e-300)
        slope = x * (part.sum(-1) ** 2 - whole * (part / square).sum(-1)) / (2 * excess)
        off = np.log(excess) - wanted
        low, high = np.where(off > 0, y, low), np.where(off > 0, high, y)
        step = y - off / np.minimum(slope, -1e-3)
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


def worst_pairs(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, slack: float, close: float = SPLIT_CLOSE
) -> Pairs:
    """max (R₁·v₁)/(R₂·v₂) over two conditionals that share the slack, for many pairs at once.

    Both multipliers by Newton's method; pairs where that does not settle (an end of the split, a greatest value without
    mass) by a search over the split: the ratio is quasi-concave in it, so that wherever neither side is leant to is the
    optimum.
    """
    found, settled = _by_newton(v1, q1, ps1, v2, q2, ps2, slack, close)
    if len(left := np.flatnonzero(~settled)):
        sides = _sides(v1[left], q1[left], ps1[left], v2[left], q2[left], ps2[left], slack)
        slow = best_split(sides, len(left), close=close)
        for mine, theirs in zip(found.arrays, slow.arrays, strict=True):
            mine[left] = theirs
    return found


def _by_newton(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, slack: float, close: float
) -> tuple[Pairs, npt.NDArray[np.bool_]]:
    """Multipliers y of both sides with Σ P̂_s(√C_s − 1) = b and the same relative gain for the same share of it.

    The gain d log|mean|/db is width·√A/(P̂_s B√B·|mean|) up to a constant; its slope in y and that of the slack spent
    are those of A, B, C (`multipliers.Tilt`).
    """
    n, mass, enough = len(ps1), np.concatenate([ps1, ps2]), max(CLOSE, close)
    side = Side.of(np.concatenate([v1, -v2]), np.concatenate([q1, q2]))
    worth = mass * np.abs(side.top - side.width * side.mean) / side.width
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        pull = mass * side.variance / worth**2  # what each side takes of little slack
        share = np.minimum(pull / (pull + np.roll(pull, n)), 1.0)
        part = slack * share / mass
        y = side.first(part * (2 + part))  # C − 1
        other = np.roll(y, n) + np.log(worth / np.roll(worth, n))  # where a constant has as much to gain
        y, flat = np.where(side.flat, other, y), side.flat[:n] & side.flat[n:]
        usual = np.isfinite(y) & side.tilts & (slack > 0)
        live = np.flatnonzero(usual[:n] & usual[n:] & ~flat)
        settled = np.zeros(n, dtype=np.bool_)
        for _ in range(STEPS if len(live) else 0):
            both, k = np.concatenate([live, live + n]), len(live)
            step = _pair_step(side.tilt(y[both], both), side, both, mass[both], slack, k)
            y[both] = np.clip(y[both] + np.clip(np.nan_to_num(step), -FURTHEST, FURTHEST), LEAST, None)
            size = np.maximum(np.abs(step[:k]), np.abs(step[k:]))
            done = size <= enough
            settled[live[done]] = True
            live = live[~done & (y[live] > LEAST) & (y[live + n] > LEAST)]
            if not len(live):
                break
        y = np.where(np.tile(flat, 2), LEAST, np.where(usual, y, 0.0))
        end = side.tilt(y, slice(None))
        spent = (mass * end.excess / (np.sqrt(1 + end.excess) + 1)).reshape(2, n).sum(0)
        settled = (settled & (np.abs(spent - slack) <= enough * slack)) | (flat & (worth > 0).reshape(2, n).all(0))
        # Laws lie in the ball: mixed with q by 1 − t, C − 1 is convex in t, and what is spent lies below its tangent.
        slope = (mass * end.excess / (2 * np.sqrt(1 + end.excess))).reshape(2, n).sum(0)
        t = np.tile(np.clip(1 - np.maximum(spent - slack, 0.0) / np.maximum(slope, 1e-300), 0.0, 1.0), 2)
    tau = side.top + side.width * end.x
    value = side.top - side.width * (side.mean + t * (end.drop - side.mean))
    law = side.q + t[:, None] * (end.law - side.q)
    return Pairs(quotient(value[:n], -value[n:]), law[:n], law[n:], tau[:n], -tau[n:]), settled


def _pair_step(t: Tilt, side: Side, at: Ints, mass: Floats, slack: float, k: int) -> Floats:
    """One step in both multipliers: a system of two equations for each pair."""
    width, root = side.width[at], np.sqrt(1 + t.excess)
    value = side.top[at] - width * t.drop
    spent, more = mass * t.excess / (root + 1), mass * t.grown / (2 * root)
    lean = np.log(width * np.sqrt(t.A / t.B) / (t.B * mass * np.abs(value)))
    turn = t.x * (0.25 * t.B / t.A + 0.75 * t.D / t.B) - width * t.grown / (t.B * t.B * value)
    total = spent[:k] + spent[k:]
    off, apart = np.log(total / slack), lean[:k] - lean[k:]
    a, b, c, d = more[:k] / total, more[k:] / total, turn[:k], -turn[k:]
    det = a * d - b * c
    return np.concatenate([(b * apart - d * off) / det, (c * off - a * apart) / det])


def _sides(v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, slack: float) -> Sides:
    """Both sides at any split of the slack, in one search, and the logarithm of the quotient of their gains."""
    n, values, centre = len(ps1), np.concatenate([v1, -v2]), np.concatenate([q1, q2])
    mass = np.concatenate([ps1, ps2])

    def sides(w: Floats, at: Ints) -> tuple[Mean, Mean, Floats]:
        k, both = len(at), np.concatenate([at, at + n])
        part = slack / (1 + np.exp(np.concatenate([-w, w])))
        found = greatest_mean(values[both], centre[both], spread_of(part, mass[both]))
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(found.slope * (1 + part / mass[both]) / mass[both] / np.abs(found.value))
            lean = np.nan_to_num(slope[:k] - slope[k:], nan=0.0, posinf=1e3, neginf=-1e3)
        return found.at(slice(k)), found.at(slice(k, None)), lean

    return sides


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


def _settled(sides: Sides, count: int, close: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
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


def balanced(found: Pairs, v1: Floats, p1: Floats, v2: Floats, p2: Floats) -> tuple[Floats, Floats]:
    """(μ, m) with l₁²/h₁³ = ratio·l₂²/h₂³, the condition under which the dual point of a pair is tight.

    Inside the split it holds already. At an end one side has no use for slack (a secret that always has one value,
    say): its multiplier is not determined by its own ball, may lie anywhere beyond its values, and is set to match the
    other. p1, p2 are P̂(s, u).
    """

    def size(p: Floats, r: Floats) -> Floats:
        return np.asarray(np.sqrt(np.divide(p * p, r, out=np.zeros_like(p), where=r > 0).sum(-1)))

    def length(p: Floats, depth: Floats) -> Floats:
        return inner(p, np.sqrt(np.maximum(depth, 0.0)))

    h1, h2 = size(p1, found.first), size(p2, found.second)
    l1, l2 = length(p1, found.mu[:, None] - v1), length(p2, v2 - found.m[:, None])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.sqrt(found.ratio * (h1 / h2) ** 3)
        want1, want2 = (np.nan_to_num(x, nan=0.0, posinf=0.0) for x in (scale * l2, l1 / scale))
    idle = h1 - p1.sum(-1) < h2 - p2.sum(-1)  # the first side has less of the slack
    mu, m = found.mu.copy(), found.m.copy()
    for want, of, p, v, sign, out in ((want1, idle, p1, v1, 1.0, mu), (want2, ~idle, p2, -v2, -1.0, m)):
        i = np.flatnonzero(of & (want > 0) & (p.sum(-1) > 0))
        low, high = v[i].max(-1), v[i].max(-1) + (want[i] / np.maximum(p[i].sum(-1), 1e-300)) ** 2
        for _ in range(SETTING if i.size else 0):
            middle = (low + high) / 2
            over = length(p[i], middle[:, None] - v[i]) > want[i]
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        out[i] = sign * high
    return mu, m
