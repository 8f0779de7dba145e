"""Worst conditionals in a Rényi ball of any order α (2: the χ² ball): one secret alone, and two that share the radius.

With κ = (α − 1)/α write T(D) = (e^{κD} − 1)/κ for the price of a divergence (T = D at α = 1). Minimising
Σ_s P̂_s^α P_s^{1−α} e^{(α−1)D_s} over the marginal P_s (by Hölder; for α < 1 it is a maximum) shows that conditionals
with divergences D_s belong to some P in the ball iff Σ_s P̂_s T(D_s) ≤ T(B). One secret alone gives B_s of [000, (23)];
for α = 2 it is the shared slack of [002, Thm 3]. The worst mean has a dual in one variable for every α: for g = τ − v ≥
0 Hölder (reversed for α < 1, Jensen for α = 1) gives Σ R g ≥ e^{−D}·G, G = (Σ q g^κ)^{1/κ} being the power mean of
order κ, so R·v ≤ τ − e^{−D}G, with equality at R ∝ q·(τ − v)^{−1/α}. The last axis is the alphabet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.tolerances import EXPONENT, HALVINGS, LEAST, SLIP
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.tilting import NEWTON, SPLIT, AtPrice, Depths, Mean, Sides, Tilt, best_split, by_newton, inner

if TYPE_CHECKING:
    from sfumato.alphabet import Real

SPLIT_GRID = 33  # splits tried for α < ½, where the ratio need not be unimodal in the split


def kappa(alpha: float) -> float:
    return (alpha - 1) / alpha


def price(divergence: Real, alpha: float) -> Floats:
    """T(D) = (e^{κD} − 1)/κ; D itself at α = 1, at most 1/|κ| for α < 1."""
    k, d = kappa(alpha), np.asarray(divergence, float)
    if k == 0:
        return d
    with np.errstate(over="ignore"):
        return np.asarray(np.expm1(k * d) / k)


def divergence_at(spent: Real, mass: Real, alpha: float) -> Floats:
    """D with P̂_s·T(D) = spent [000, (23), corrected]: ∞ where the logarithm's argument is not positive or P̂_s = 0."""
    k = kappa(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.asarray(spent) > 0, np.asarray(spent, float) / mass, 0.0)
        if k == 0:
            return np.asarray(t)
        return np.asarray(np.where(k * t <= -1, np.inf, np.log1p(np.maximum(k * t, -1)) / k))


def divergence(q: Floats, r: Floats, alpha: float) -> Floats:
    """D_α(q‖r) over the last axis, from the definition [000, (7)]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(q > 0, np.log(np.maximum(q, LEAST)) - np.log(r), 0.0)
        if abs(alpha - 1) < 1e-3 and np.all(np.abs(logs) < 100):
            powers = np.expm1((alpha - 1) * logs) / (alpha - 1) if alpha != 1 else logs
            total = (q * powers).sum(-1)
            return np.asarray(np.log1p((alpha - 1) * total) / (alpha - 1) if alpha != 1 else total)
        return np.asarray(_log_sum(q, (alpha - 1) * logs) / (alpha - 1) if alpha != 1 else (q * logs).sum(-1))


def _log_sum(q: Floats, exponents: Floats) -> Floats:
    """log Σ q·e^exponent without overflow; cells with q = 0 count nothing."""
    top = np.where(q > 0, exponents, -np.inf).max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.log((q * np.exp(np.minimum(exponents - top, EXPONENT))).sum(-1)) + top[..., 0])


def greatest_mean(v: Floats, q: Floats, limit: Floats, alpha: float, close: float = NEWTON.close) -> Mean:
    """max R·v over {R in the simplex : D_α(q‖R) ≤ limit}, for many at once, with τ and the slope in the limit.

    If even τ = max v leaves some of the limit, the rest of the mass goes to where v is greatest: to a cell with q = 0
    (R_u = 1 − e^{−D} at most), or for α < 1, where a finite D may empty cells, to the top alone.
    """
    top = v.max(-1)
    depth = top[..., None] - v
    width = np.where(depth.max(-1) > 0, depth.max(-1), 1.0)
    depth = depth / width[..., None]
    flat, wide = (limit <= 0) | (depth.max(-1) == 0), ~np.isfinite(limit)
    x, used = _gap(depth, q, np.where(flat | wide, 1.0, limit), alpha, close)
    corner = np.eye(v.shape[-1])[np.argmax(v, -1)]
    r = _tilted(depth + x[..., None], q, alpha) * used[..., None] + (1 - used)[..., None] * corner
    r = np.where(flat[..., None], q, np.where(wide[..., None], corner, r))
    value = inner(r, v) + 0.0
    with np.errstate(over="ignore"):  # where next to nothing of the limit is left, τ may be beyond all floats
        tau = np.where(wide, top, top + width * x)
    return Mean(value, r, tau, np.where(wide, 0.0, tau - value))


def _tilted(g: Floats, q: Floats, alpha: float) -> Floats:
    """R ∝ q·g^{−1/α}."""
    if alpha == 2:
        part = q / np.sqrt(g)
    else:
        part = q * np.maximum(g / np.where(q > 0, g, np.inf).min(-1, keepdims=True), 1.0) ** (-1 / alpha)
    return np.asarray(part / part.sum(-1, keepdims=True))


def _along(depth: Floats, q: Floats, y: Floats, alpha: float) -> tuple[Floats, Floats]:
    """D_α(q‖R) for R ∝ q·(depth + e^y)^{−1/α}, at order 2 e^D − 1, and its slope in y."""
    if alpha == 2:
        found = Tilt.at(depth, q, y)
        return found.excess, found.grown
    return _divergence_along(depth, q, np.exp(y), alpha)


def _gap(depth: Floats, q: Floats, limit: Floats, alpha: float, close: float) -> tuple[Floats, Floats]:
    """x = τ − max v in units of the width, with D(x) = limit, or the least x if even there D is below; and e^{D−limit}.

    D falls in x and its logarithm is nearly linear in log x: Newton's method on it inside a bracket.
    """
    shape, depth, q, limit = limit.shape, *(x.reshape(-1, x.shape[-1]) for x in (depth, q)), limit.ravel()
    goal = np.expm1(limit) if alpha == 2 else limit
    out = np.full(limit.shape, max(NEWTON.least_gap * max(1.0, alpha), -EXPONENT))
    at_least = _along(depth, q, out, alpha)[0]
    live = np.flatnonzero(at_least > goal)
    used = np.exp(np.minimum((np.log1p(at_least) if alpha == 2 else at_least) - limit, 0.0))
    if alpha == 2 and depth.shape[-1] == 2:
        out[live] = _gap_of_two(q[live], goal[live])
    else:
        out[live] = _bracketed(depth[live], q[live], goal[live], alpha, out[live], close)
    return np.exp(out).reshape(shape), used.reshape(shape)


def _bracketed(depth: Floats, q: Floats, goal: Floats, alpha: float, low: Floats, close: float) -> Floats:
    """log x of `_gap` above `low`, where a gap meets the goal."""
    high = np.log1p(1 / np.sqrt(alpha * goal)) + np.log1p(1 / alpha) + 2
    for _ in range(HALVINGS):
        if not (over := _along(depth, q, high, alpha)[0] > goal).any():
            break
        high = np.where(over, high + 2, high)
    y = np.clip(Depths.of(-depth, q).first(alpha * goal / 2), low, high)
    out, live = y.copy(), np.arange(len(y))
    for _ in range(HALVINGS):
        if not live.size:
            break
        d, slope = _along(depth, q, y, alpha)
        off = np.log(np.maximum(d, LEAST) / goal)
        low, high = np.where(off > 0, y, low), np.where(off > 0, high, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = y - off * d / slope
        inside = (step >= low) & (step <= high)
        before, y = y, np.where(inside, step, (low + high) / 2)
        done = (inside & (np.abs(y - before) <= close)) | (high - low <= 1e-14)
        out[live] = y
        if 4 * np.count_nonzero(done) >= len(live):
            live, depth, q = live[~done], depth[~done], q[~done]
            goal, low, high, y = goal[~done], low[~done], high[~done], y[~done]
    return out


def _gap_of_two(q: Floats, excess: Floats) -> Floats:
    """log x of `_gap` at order 2 for two values, depths 0 and 1, in closed form.

    With ρ = √(x/(1+x)) the condition is q₀q₁(ρ + 1/ρ − 2) = C − 1, that is (1 − ρ)² = a²ρ, a² = (C − 1)/(q₀q₁); its
    root below 1 is ρ = (2/(a + √(a²+4)))², and x = ρ²/(1 − ρ²) with 1 − ρ = a√ρ: no cancellation.
    """
    a = np.maximum(np.sqrt(excess / np.maximum(q[:, 0] * q[:, 1], LEAST)), LEAST)
    root = 2 / (a + np.sqrt(a * a + 4))
    return np.asarray(3 * np.log(root) - np.log(a) - np.log1p(root * root))


def mass_range(q: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Least and greatest R(H) over {R : Σ q²/R ≤ C} for a set H with q(H) = q [000, Lemma 1, corrected].

    L = 2q²/(X + √·), X = C + 2q − 1, √· = √((C − 1)(C − (2q − 1)²)): no cancellation, and right for q = 0.
    """
    q, spread = np.broadcast_arrays(np.asarray(q, float), np.asarray(spread, float))
    wide = ~np.isfinite(spread)
    c = np.where(wide, 2.0, spread)

    def least(mass: Floats) -> Floats:
        x = c + 2 * mass - 1
        return np.asarray(2 * mass**2 / np.maximum(x + np.sqrt((c - 1) * (c - (2 * mass - 1) ** 2)), LEAST))

    low, high = least(q), 1 - least(1 - q)
    exact = c == 1
    return np.where(wide, 0.0, np.where(exact, q, low)), np.where(wide, 1.0, np.where(exact, q, high))


def _divergence_along(depth: Floats, q: Floats, x: Floats, alpha: float) -> tuple[Floats, Floats]:
    """D_α(q‖R) for R ∝ q·(depth + x)^{−1/α}, and its derivative in log x.

    D = log M_κ/(α−1) + log M_{κ−1} with M_r = Σ q g^r; relative to the mean of g and by expm1 when they are close, so
    that small divergences and orders near 1 lose no digits.
    """
    if alpha == 0.5:
        return _hellinger_along(depth, q, x)
    if alpha == 1:
        return _kullback_along(depth, q, x)[:2]
    k, g = kappa(alpha), depth + x[..., None]
    middle = (q * depth).sum(-1, keepdims=True)
    off = (depth - middle) / (middle + x[..., None])
    with np.errstate(divide="ignore"):
        logs = np.log1p(np.maximum(off, -1 + 1e-16))
    logs = np.where(off < -0.9, np.log(g) - np.log(middle + x[..., None]), logs)
    reach = np.abs(np.where(q > 0, logs, 0.0)).max(-1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        small = np.where(reach < 1, 1.0, 0.0)[..., None] * off
        a = (q * (np.expm1(np.clip(k * logs, -EXPONENT, EXPONENT)) / k - small)).sum(-1)
        first = np.where(abs(k) * reach < 1, np.log1p(k * a) / k / alpha, _log_sum(q, k * logs) / (alpha - 1))
        close = reach < min(1.0, alpha)
        b = (q * (np.expm1(np.clip(-logs / alpha, -EXPONENT, EXPONENT)) + off / alpha)).sum(-1)
        second = np.where(close, np.log1p(np.where(close, b, 0.0)), _log_sum(q, -logs / alpha))
        low, mid, high = (_log_sum(q, (k - j) * logs) for j in (2, 1, 0))
        slope = (np.exp(mid - high) - np.exp(low - mid)) / alpha * x / (middle[..., 0] + x)
    return np.maximum(first + second, 0.0), slope


def _hellinger_along(depth: Floats, q: Floats, x: Floats) -> tuple[Floats, Floats]:
    """The same at order ½, where all powers are whole: D = log M₋₂ − 2 log M₋₁, from the moments of 1/g.

    With m, v, t the mean and the central moments of x/g, M₋₂ is m² + v and the derivative 2(v² − m²v − mt)/(m(m² + v)).
    Deviations are those of whichever of x/g and 1 − x/g is small, so that the least divergences lose no digits.
    """
    over, under = x[..., None] / (depth + x[..., None]), depth / (depth + x[..., None])
    first = (q * over).sum(-1)
    off = np.where((first > 0.5)[..., None], (q * under).sum(-1)[..., None] - under, over - first[..., None])
    square = q * off * off  # a cube by `**` takes twenty times as long as this
    spread, skew = square.sum(-1), inner(square, off)
    second = spread + first**2
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.where(spread < 0.5 * second, -np.log1p(-spread / second), np.log(second) - 2 * np.log(first))
        return np.maximum(d, 0.0), 2 * (spread**2 - first**2 * spread - first * skew) / (first * second)


def _kullback_along(depth: Floats, q: Floats, x: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The same at order 1, where R = q/(gB), B = Σ q/g: D = Σ q log g + log B, with slope −x·Var(1/g)/B; and q/g, B,
    Σ q/g². Logarithms are taken relative to the mean of g, so that small divergences lose no digits."""
    g = depth + x[..., None]
    middle = inner(q, depth)[..., None] + x[..., None]
    off, part = (g - middle) / middle, q / g
    B = part.sum(-1)
    logs = np.where(off < -0.5, np.log(g / middle), np.log1p(np.maximum(off, -0.6)))
    d = inner(q, logs - off) + np.log1p(middle[..., 0] * inner(part, off * off))
    slope = -x * inner(q, (1 / g - B[..., None]) ** 2) / B
    return np.maximum(d, 0.0), slope, part, B, (part / g).sum(-1)


def _kullback_priced(depth: Floats, q: Floats, y: Floats) -> AtPrice:
    """The price is D itself, and d mean/dD = width/B."""
    x = np.exp(y)
    d, slope, part, B, C = _kullback_along(depth, q, x)
    d = np.maximum(d, LEAST)
    slope = d * np.clip(slope / d, NEWTON.steepest, NEWTON.flattest)
    return AtPrice(x, part / B[:, None], d, slope, -np.log(B), x * C / B, slope / B)


def _priced(depth: Floats, q: Floats, y: Floats, alpha: float) -> AtPrice:
    """At any order: d mean/dD is τ − mean, and the price T(D) has the slope e^{κD}."""
    k, x, law = kappa(alpha), np.exp(y), _tilted(depth + np.exp(y)[:, None], q, alpha)
    d, slope = _divergence_along(depth, q, x, alpha)
    d, gain = np.maximum(d, LEAST), x + inner(law, depth)
    slope = np.clip(slope, NEWTON.steepest * d, -LEAST)
    moved = gain * slope
    turn = (x - moved) / gain - k * slope
    return AtPrice(x, law, price(d, alpha), slope * np.exp(k * d), np.log(gain) - k * d, turn, moved)


_PRICED = {1.0: _kullback_priced, 2.0: Tilt.priced}  # orders for which slopes have forms of their own


def worst_pairs(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, budget: float, alpha: float,
    close: float = SPLIT.close,
) -> Pairs:
    """max (R₁·v₁)/(R₂·v₂) over two conditionals with P̂₁T(D₁) + P̂₂T(D₂) ≤ T(B) = budget, for many pairs at once.

    Both multipliers by Newton's method; pairs where that does not settle (an end of the split, a greatest value without
    mass), and other orders, by a search over the split. T is convex in R for α ≥ ½, so the ratio is then quasi-concave
    in the split; below ½ a grid of splits is tried too, and below 1 those at which a secret is free: corners that a
    search runs past.
    """
    corners = (-_free(ps1, budget, alpha), _free(ps2, budget, alpha)) if alpha < 1 else ()
    if alpha < 0.5:
        grid = np.linspace(-SPLIT.end / 4, SPLIT.end / 4, SPLIT_GRID)
        return best_split(split_sides(v1, q1, ps1, v2, q2, ps2, budget, alpha), len(ps1), grid, corners, close)
    slopes = _PRICED.get(alpha, partial(_priced, alpha=alpha))
    found, settled = by_newton(v1, q1, ps1, v2, q2, ps2, budget, close, slopes)
    if len(left := np.flatnonzero(~settled)):
        sides = split_sides(v1[left], q1[left], ps1[left], v2[left], q2[left], ps2[left], budget, alpha)
        slow = best_split(sides, len(left), (), [x[left] for x in corners], close)
        for mine, theirs in zip(found.arrays, slow.arrays, strict=True):
            mine[left] = theirs
    return found


def _free(mass: Floats, budget: float, alpha: float) -> Floats:
    """Log-odds of what the other secret takes where one of this mass has just as much as frees it, for α < 1: 1/|κ|
    pays for any divergence. An end of the split where all of the budget does not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = -kappa(alpha) * budget / (mass * (1 + SLIP)) - 1
        return np.where(odds > 0, np.clip(np.log(odds), -SPLIT.end, SPLIT.end), -SPLIT.end)


def split_sides(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, budget: float, alpha: float
) -> Sides:
    """Both sides at any split of the budget, in one search, and the logarithm of the quotient of their gains."""
    n, values, centre = len(ps1), np.concatenate([v1, -v2]), np.concatenate([q1, q2])
    mass = np.concatenate([ps1, ps2])

    def sides(w: Floats, at: Ints) -> tuple[Mean, Mean, Floats]:
        k, both = len(at), np.concatenate([at, at + n])
        part, own = budget / (1 + np.exp(np.concatenate([-w, w]))), mass[both]
        found = greatest_mean(values[both], centre[both], divergence_at(part, own, alpha), alpha)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            room = np.maximum(own + kappa(alpha) * part, LEAST)
            slope = np.log(np.maximum(found.slope, 0) / room / np.abs(found.value))
            slope[own == 0] = np.inf  # an empty secret is free: only an end of the split can be better
            lean = np.nan_to_num(slope[:k] - slope[k:], nan=0.0, posinf=1e3, neginf=-1e3)
        return found.at(slice(k)), found.at(slice(k, None)), lean

    return sides
