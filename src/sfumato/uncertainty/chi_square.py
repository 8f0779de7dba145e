"""ChiSquareBall: every distribution a χ² test would not reject, and the worst pairs of conditionals in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError, unknown
from sfumato.joint import Joint, checked_joint
from sfumato.tolerances import HALVINGS, LEAST, LISTED, UNIT
from sfumato.uncertainty.sets import Extreme, FromPairs, Pairs
from sfumato.uncertainty.tilting import NEWTON, SPLIT, Mean, Sides, Tilt, best_split, by_newton, inner

if TYPE_CHECKING:
    from sfumato.alphabet import Real

CALIBRATIONS = ("asymptotic", "bootstrap", "exact")
BOOTSTRAPS = 20_000  # tables drawn for a bootstrap
UNSURE = 1e-6  # a confidence below which 1 − confidence has lost its digits


@dataclass(frozen=True, slots=True, eq=False)
class ChiSquareBall(FromPairs):
    """F = {P : Σ (P̂ − P)² / P ≤ B}, the confidence set of the χ² test [000, (9), corrected; 002, (2)].

    calibration says how B follows from the confidence:
    'asymptotic': B = F⁻¹_{|X|−1}(confidence) / n; at small n it covers the truth less often than stated.
    'bootstrap': the quantile of the statistic over tables drawn from P̂ and from (counts + ½), whichever is larger, and
    never below the asymptotic one; at small n close to what is stated, without a guarantee.
    'exact': B = (|X| − 1) / (n(1 − confidence)), by Markov: the statistic has mean (|X| − 1)/n under every
    distribution. It holds for every n and every distribution and is conservative; RenyiBall(joint, alpha=1,
    confidence=…) holds as well and is closer for large tables.

    All of them are about rows drawn independently, and about labels fixed before the rows were seen: labels taken from
    the rows, or grouped by how rare they are in them (`joint.learned`), may lower the coverage to nothing.

    >>> joint = Joint.from_counts([[7, 10], [26, 57]])
    >>> round(math.log1p(ChiSquareBall(joint, confidence=0.95).radius), 6)
    0.075244
    """

    joint: Joint
    radius: float  # B; Σ P̂²/P ≤ 1 + B
    confidence: float | None
    calibration: str | None
    kind: ClassVar[str] = "chi-square-ball"

    def __init__(
        self, joint: Joint, *, confidence: float | None = None, radius: float | None = None,
        calibration: str | None = None, seed: int = 0,
    ) -> None:
        checked_joint(joint, "a ball")
        if radius is None:
            level, calibration = 0.95 if confidence is None else confidence, calibration or "asymptotic"
            if not 0 < level < 1:
                raise InputError("confidence must lie strictly between 0 and 1", value=confidence)
            if level < UNSURE:
                raise InputError(f"a confidence below {UNSURE:g} says nothing", value=confidence, next="Give 0.95.")
            if joint.n is None:
                raise InputError("a confidence ball needs to know how many rows the table was counted from (joint.n).")
            if calibration not in CALIBRATIONS:
                raise unknown("a calibration", calibration, CALIBRATIONS)
            radius = _calibrated(joint, joint.n, level, calibration, seed) if joint.p.size > 1 else 0.0
            confidence = level
        if not (math.isfinite(radius) and radius >= 0):
            raise InputError("radius must be finite and not negative", value=radius)
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "confidence", confidence)
        object.__setattr__(self, "calibration", calibration)

    def coverage(self, draws: int = 10_000, seed: int = 0) -> float:
        """How often a ball of this radius around tables of n rows drawn from P̂ covers P̂: the finite-sample coverage if
        P̂ were the truth, by simulation (standard error at most 0.5/√draws)."""
        if self.joint.n is None:
            raise InputError("coverage needs to know how many rows the table was counted from (joint.n).")
        return float((_statistics(self.joint.p, self.joint.n, draws, seed) <= self.radius).mean())

    def widened(self, times: float) -> ChiSquareBall:
        """The ball with the radius so many times as large."""
        return ChiSquareBall(self.joint, radius=times * self.radius)

    def around(self, joint: Joint) -> ChiSquareBall:
        """The ball of the same radius around another table."""
        return ChiSquareBall(joint, radius=self.radius)

    @property
    def slack(self) -> float:
        """b = √(1+B) − 1, which all conditionals share: Σ_s P̂_s (√(Σ_u q_u²/R_u) − 1) ≤ b [002, Thm 3]."""
        return self.radius / (math.sqrt(1 + self.radius) + 1)

    budget = slack

    def means(self, values: Floats, s: Ints, spent: Floats, close: float = NEWTON.close) -> Floats:
        """The greatest R·v given s when that secret takes `spent` of the slack; all but the last axis broadcast."""
        shape = np.broadcast_shapes(values.shape[:-1], np.shape(s), np.shape(spent))
        q, mass = self.joint.useful_given_secret[s], self.joint.p_secret[s]
        whole = (*shape, values.shape[-1])
        c = np.broadcast_to(spread_of(spent, mass), shape)
        return greatest_mean(np.broadcast_to(values, whole), np.broadcast_to(q, whole), c, None, close).value

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H), P̂(H|s) = w, for a secret of this share that takes `spent` of the slack."""
        return mass_range(w, spread_of(spent, share))

    def spread(self) -> Floats:
        """C_s = e^{B_s} = (1 + b/P̂_s)²: given s, R lies in {R : Σ q²/R ≤ C_s} [000, Thm 1]; ∞ where P̂_s = 0."""
        return spread_of(self.slack, self.joint.p_secret)

    def spikes(self) -> tuple[Floats, Floats]:
        return mass_range(self.joint.useful_given_secret, self.spread()[:, None])

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        q, c = self.joint.useful_given_secret[s], self.spread()[s]
        return -greatest_mean(-values, q, c).value, greatest_mean(values, q, c).value

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = SPLIT.close) -> Pairs:
        q, ps = self.joint.useful_given_secret, self.joint.p_secret
        return worst_pairs(first, q[s1], ps[s1], second, q[s2], ps[s2], self.slack, close)

    def support(self, c: Floats) -> Extreme:
        return greatest_sum(c, self.joint.p, self.radius)


def _statistics(p: Floats, n: int, draws: int, seed: int) -> Floats:
    """Σ (P̂ − P)²/P for `draws` tables P̂ of n rows from P."""
    truth = p.ravel()[p.ravel() > 0]
    truth = truth / truth.sum()
    rng, out = np.random.default_rng(seed), []
    for start in range(0, draws, 1000):
        drawn = rng.multinomial(n, truth, size=min(1000, draws - start)) / n
        out.append(((drawn - truth) ** 2 / truth).sum(1))
    return np.concatenate(out)


def chi_square_quantile(k: int, tail: float) -> float:
    """x with P(χ²_k > x) = tail, 0 < tail < 1, without scipy, which takes longer to load than everything else here.

    With h = x/2 and T_m = e^{−h}h^m/Γ(m+1) the tail is T_{k/2−1} + T_{k/2−2} + …, down to T_0 for even k, and to
    T_{1/2} and erfc(√h) for odd k: all terms are positive, so that no digit is lost. Its logarithm is concave in
    r = √x, as that of r's density is, with slope −r·T_{k/2−1}/tail: Newton's method cannot end below the root, and then
    only falls.
    """
    top, r = k / 2 - 1, math.sqrt(k)
    ratios = np.arange(top, 0.25 + k % 2 / 2, -1.0)  # T_{m−1} = T_m·m/h
    for _ in range(HALVINGS):  # four to eight steps settle it unless the tail is far out
        h = r * r / 2
        first = math.exp(top * math.log(h) - h - math.lgamma(top + 1))
        terms = first * (1.0 + float(np.cumprod(ratios / h).sum())) if k > 1 else 0.0
        over = terms + (math.erfc(math.sqrt(h)) if k % 2 else 0.0)
        if not first:  # a step too far out, where nothing is left of the tail
            r = (r + math.sqrt(k)) / 2
            continue
        step = over / (r * first) * math.log(over / tail)
        r += step
        if abs(step) <= 1e-15 * r:
            break
    return r * r


def _calibrated(joint: Joint, n: int, confidence: float, calibration: str, seed: int) -> float:
    asymptotic = chi_square_quantile(joint.p.size - 1, 1 - confidence) / n
    if calibration == "asymptotic":
        return asymptotic
    if calibration == "exact":
        return float(np.nextafter((joint.p.size - 1) / (n * (1 - confidence)), np.inf))
    draws = max(200, min(BOOTSTRAPS, LISTED // joint.p.size))
    smooth = (joint.p * n + 0.5) / (n + 0.5 * joint.p.size)
    # An order statistic three standard errors above the quantile, so that chance in the draws does not lower it.
    rank = min(1.0, confidence + 3 * math.sqrt(confidence * (1 - confidence) / draws))
    found = [float(np.quantile(_statistics(p, n, draws, seed), rank, method="higher")) for p in (joint.p, smooth)]
    return max(asymptotic, *found)


# --- the worst conditional of one secret alone: R in {R : Σ q²/R ≤ C} ------------------------------------------------


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
        return np.asarray(2 * mass**2 / np.maximum(x + np.sqrt((c - 1) * (c - (2 * mass - 1) ** 2)), LEAST))

    low, high = least(q), 1 - least(1 - q)
    exact = c == 1
    return np.where(wide, 0.0, np.where(exact, q, low)), np.where(wide, 1.0, np.where(exact, q, high))


def greatest_mean(
    v: Floats, q: Floats, spread: Floats, start: Floats | None = None, close: float = NEWTON.close
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


def greatest_sum(c: Floats, p: Floats, radius: float) -> Extreme:
    """max ⟨c, P⟩ over {P : Σ p²/P ≤ 1 + B} from above, by duality, and a P that attains it up to rounding.

    max = min_{μ ≥ max c} μ − (Σ p √(μ − c))²/(B + 1) [002, Thm 2, simplified]: any μ bounds it from above, and a sum of
    k products is off by k units at most.
    """
    flat, centre, top = c.ravel(), p.ravel(), float(c.max())
    if radius <= 0:
        return Extreme(float(flat @ centre), p)
    best = greatest_mean(flat[None, :], centre[None, :], np.array([1 + radius]))
    mu = max(float(best.tau[0]), top)
    dual = mu - float(centre @ np.sqrt(mu - flat)) ** 2 / (1 + radius)
    upper = min(dual + flat.size * UNIT * max(abs(mu), float(np.abs(flat).max())), top)
    return Extreme(max(upper, float(best.value[0])), best.r[0].reshape(p.shape))


def gap_for(
    depth: Floats, q: Floats, c: Floats, start: Floats | None = None, close: float = NEWTON.close
) -> Floats:
    """x = τ − max v, in units of the width, with (Σ q√(d+x))·(Σ q/√(d+x)) = C, or the least x if that is below C.

    With r = √(d+x) and A = Σ q r the left side less 1 is Σ q (r − A)²/r / A, which loses no digits near 1. Its
    logarithm is nearly linear in log x, so Newton's method on it, kept inside a bracket, settles in about six steps.
    """
    shape, depth, q, c = c.shape, depth.reshape(-1, depth.shape[-1]), q.reshape(-1, q.shape[-1]), c.ravel()
    least = np.sqrt(depth + np.exp(NEWTON.least_gap))
    stuck = (q * least).sum(-1) * (q / least).sum(-1) <= c  # even τ = max v leaves slack, or v is constant
    most = np.log1p(2 / np.maximum(c**2 - 1, 1e-25)) + 1e-9
    out = np.where(stuck, NEWTON.least_gap, most)  # no room at all: τ is as far as it goes
    live = np.flatnonzero(~stuck & (c > 1 + 1e-15))
    if depth.shape[-1] == 2:
        out[live] = _gap_of_two(q[live], c[live])
        return np.exp(out).reshape(shape)
    d, w, wanted = depth[live], q[live], np.log(np.maximum(c[live] - 1, LEAST))
    low, high = np.full(live.shape, NEWTON.least_gap), most[live]
    y = np.minimum(high - 0.5, 0.0) if start is None else np.clip(start.ravel()[live], low, high)
    for _ in range(HALVINGS):
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


# --- the worst pair of conditionals, which share the slack: P̂_{s₁}(√C₁ − 1) + P̂_{s₂}(√C₂ − 1) ≤ b [002, Thm 3] --------


def worst_pairs(
    v1: Floats, q1: Floats, ps1: Floats, v2: Floats, q2: Floats, ps2: Floats, slack: float, close: float = SPLIT.close
) -> Pairs:
    """max (R₁·v₁)/(R₂·v₂) over two conditionals that share the slack, for many pairs at once.

    Both multipliers by Newton's method; pairs where that does not settle (an end of the split, a greatest value without
    mass) by a search over the split: the ratio is quasi-concave in it, so that wherever neither side is leant to is the
    optimum.
    """
    found, settled = by_newton(v1, q1, ps1, v2, q2, ps2, slack, close)
    if len(left := np.flatnonzero(~settled)):
        sides = _sides(v1[left], q1[left], ps1[left], v2[left], q2[left], ps2[left], slack)
        slow = best_split(sides, len(left), close=close)
        for mine, theirs in zip(found.arrays, slow.arrays, strict=True):
            mine[left] = theirs
    return found


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
        low, high = v[i].max(-1), v[i].max(-1) + (want[i] / np.maximum(p[i].sum(-1), LEAST)) ** 2
        for _ in range(HALVINGS if i.size else 0):
            middle = (low + high) / 2
            over = length(p[i], middle[:, None] - v[i]) > want[i]
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        out[i] = sign * high
    return mu, m
