"""Worst conditionals in a Rényi ball of any order α: one secret alone, and two that share the radius.

With κ = (α − 1)/α write T(D) = (e^{κD} − 1)/κ for the price of a divergence (T = D at α = 1). Minimising
Σ_s P̂_s^α P_s^{1−α} e^{(α−1)D_s} over the marginal P_s (by Hölder; for α < 1 it is a maximum) shows that conditionals
with divergences D_s belong to some P in the ball iff Σ_s P̂_s T(D_s) ≤ T(B). One secret alone gives B_s of [000, (23)];
for α = 2 it is the shared slack of [002, Thm 3]. The worst mean has a dual in one variable for every α: for g = τ − v ≥
0 Hölder (reversed for α < 1, Jensen for α = 1) gives Σ R g ≥ e^{−D}·G, G = (Σ q g^κ)^{1/κ} being the power mean of
order κ, so R·v ≤ τ − e^{−D}G, with equality at R ∝ q·(τ − v)^{−1/α}. The last axis is the alphabet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.tolerances import EXPONENT, HALVINGS, LEAST
from sfumato.uncertainty.sets import Pairs
from sfumato.uncertainty.tilting import NEWTON, SPLIT, AtPrice, Mean, best_split, by_newton, inner

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


def greatest_mean(v: Floats, q: Floats, limit: Floats, alpha: float) -> Mean:
    """max R·v over {R in the simplex : D_α(q‖R) ≤ limit}, for many at once, with τ and the slope in the limit.

    If even τ = max v leaves some of the limit, the rest of the mass goes to where v is greatest: to a cell with q = 0
    (R_u = 1 − e^{−D} at most), or for α < 1, where a finite D may empty cells, to the top alone.
    """
    top = v.max(-1)
    depth = top[..., None] - v
    width = np.where(depth.max(-1) > 0, depth.max(-1), 1.0)
    depth = depth / width[..., None]
    flat, wide = (limit <= 0) | (depth.max(-1) == 0), ~np.isfinite(limit)
    target = np.where(flat | wide, 1.0, limit)
    x, at = _gap(depth, q, target, alpha)
    logs = np.log(depth + x[..., None])
    tilt = -logs / alpha - _log_sum(q, -logs / alpha)[..., None]
    share = np.exp(np.where(q > 0, tilt, 0.0)) * q
    used = np.exp(np.minimum(at - target, 0.0))  # 1 up to rounding unless τ stopped at max v
    corner = np.eye(v.shape[-1])[np.argmax(v, -1)]
    r = share * used[..., None] + (1 - used)[..., None] * corner
    r = r / r.sum(-1, keepdims=True)
    r = np.where(wide[..., None], corner, np.where(flat[..., None], q, r))
    value, tau = np.asarray((r * v).sum(-1) + 0.0), np.where(wide, top, top + width * x)
    return Mean(value, r, tau, np.where(wide, 0.0, tau - value))


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
    spread, skew = (q * off**2).sum(-1), (q * off**3).sum(-1)
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
    return AtPrice(x, part / B[:, None], inner(part, depth) / B, d, slope, -np.log(B), x * C / B, slope / B)


def _gap(depth: Floats, q: Floats, target: Floats, alpha: float) -> tuple[Floats, Floats]:
    """x = τ − max v in units of the width, with D(x) = target, or the least x if even there D is below; and D(x).

    D falls in x and log D is nearly linear in log x: Newton's method on it inside a bracket.
    """
    least = max(NEWTON.least_gap * max(1.0, alpha), -EXPONENT)
    low = np.full(target.shape, least)
    high = np.log1p(1 / np.sqrt(alpha * target)) + np.log1p(1 / alpha) + 2
    for _ in range(40):
        over = _divergence_along(depth, q, np.exp(high), alpha)[0] > target
        if not over.any():
            break
        high = np.where(over, high + 2, high)
    at_least = _divergence_along(depth, q, np.exp(low), alpha)[0]
    stuck = at_least <= target
    y = np.where(stuck, low, np.minimum(0.0, (high + np.maximum(low, -5)) / 2))
    for _ in range(0 if stuck.all() else HALVINGS):
        d, slope = _divergence_along(depth, q, np.exp(y), alpha)
        off = np.log(np.maximum(d, LEAST) / target)
        low, high = np.where(off > 0, y, low), np.where(off > 0, high, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = y - off * d / slope
        before, y = y, np.where((step >= low) & (step <= high), step, (low + high) / 2)
        if np.all(stuck | (np.abs(y - before) <= 4e-15 * np.maximum(np.abs(y), 1.0)) | (high - low <= 1e-14)):
            break
    x = np.exp(np.where(stuck, least, y))
    return x, np.where(stuck, at_least, target)


def worst_pairs(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, budget: float, alpha: float,
    close: float = SPLIT.close,
) -> Pairs:
    """max (R₁·v₁)/(R₂·v₂) over two conditionals with P̂₁T(D₁) + P̂₂T(D₂) ≤ T(B) = budget, for many pairs at once.

    T is convex in R for α ≥ ½, so the ratio is then quasi-concave in the split; below ½ a grid of splits is tried too.
    """
    if alpha != 1:
        return _by_split(v1, q1, ps1, v2, q2, ps2, budget, alpha, close)
    found, settled = by_newton(v1, q1, ps1, v2, q2, ps2, budget, close, _kullback_priced)
    if len(left := np.flatnonzero(~settled)):
        rest = v1[left], q1[left], ps1[left], v2[left], q2[left], ps2[left]
        for mine, theirs in zip(found.arrays, _by_split(*rest, budget, alpha, close).arrays, strict=True):
            mine[left] = theirs
    return found


def _by_split(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, budget: float, alpha: float, close: float
) -> Pairs:
    """The same by a search over the split of the budget."""
    k = kappa(alpha)

    def sides(w: Floats, at: Ints) -> tuple[Mean, Mean, Floats]:
        spent, masses = (budget / (1 + np.exp(-w)), budget / (1 + np.exp(w))), (ps1[at], ps2[at])
        top = greatest_mean(v1[at], q1[at], divergence_at(spent[0], masses[0], alpha), alpha)
        bottom = greatest_mean(-v2[at], q2[at], divergence_at(spent[1], masses[1], alpha), alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = [
                np.log(np.maximum(side.slope, 0) / np.maximum(mass + k * part, LEAST) / np.abs(side.value))
                for side, part, mass in zip((top, bottom), spent, masses, strict=True)
            ]
            return top, bottom, np.nan_to_num(slopes[0] - slopes[1], nan=0.0, posinf=1e3, neginf=-1e3)

    extra = np.linspace(-SPLIT.end / 4, SPLIT.end / 4, SPLIT_GRID) if alpha < 0.5 else ()
    return best_split(sides, len(ps1), extra, close)
