"""Balls: Rényi balls, the one around noisy counts, and every distribution that a χ² test would not reject."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError, is_number, unknown
from sfumato.joint import Joint, Noise, checked_joint
from sfumato.noise import projected
from sfumato.tolerances import BLOCK, HALVINGS, LISTED, SEED, SUBSETS, UNIT
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean, mass_range, price, worst_pairs
from sfumato.uncertainty.sets import Extreme, FromPairs, Pairs
from sfumato.uncertainty.tilting import NEWTON, SPLIT

if TYPE_CHECKING:
    from sfumato.alphabet import Real


class SharedRadius(FromPairs):
    """F = {P : D_α(P̂‖P) ≤ B}: the conditionals share T(B), Σ_s P̂_s T(D_s) ≤ T(B), T(D) = (e^{κD} − 1)/κ, κ = (α − 1)/α
    (ours; see power_tilting)."""

    __slots__ = ()
    joint: Joint
    alpha: float
    budget: float  # T(B)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def closed(self) -> bool:
        """Whether `masses` have a closed form; at other orders they are searched for."""
        return self.alpha in (0.5, 2.0)

    @property
    def possible(self) -> Ints:
        return np.flatnonzero((self.joint.p_secret > 0) | (self.budget > 0))

    def radius_of(self) -> Floats:
        """B_s, the radius of the conditionals given each s [000, Thm 1, (23) corrected].

        ∞, the whole simplex, where P̂_s = 0, and for α < 1 where e^{(α−1)B/α} ≤ 1 − P̂_s.
        """
        return divergence_at(self.budget, self.joint.p_secret, self.alpha)

    def spikes(self) -> tuple[Floats, Floats]:
        """L = P̂·ξ₋ and P̂·ξ₊ [000, (27), (28), domain corrected to ξ < 1/ρ], as worst means of two cells."""
        return self._masses(self.joint.useful_given_secret, self.radius_of()[:, None])

    def masses(self, w: Floats, share: float | Floats, spent: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H), P̂(H|s) = w, for a secret of this share that takes `spent` of the budget."""
        return self._masses(w, divergence_at(spent, share, self.alpha))

    def _masses(self, q: Floats, limit: Floats) -> tuple[Floats, Floats]:
        """Least and greatest R(H) for sets with P̂(H|s) = q; q = 0 gives 0 and 1 − e^{−B_s}."""
        q, limit = np.broadcast_arrays(np.clip(q, 0, 1), limit)
        if self.alpha == 0.5 and self.joint.useful.size > 1:  # √(wR) + √((1−w)(1−R)) is the cosine of an angle
            angle, turn = np.arccos(np.sqrt(q)), np.arccos(np.exp(-limit / 2))
            far = angle + turn
            low = np.where(far < np.pi / 2, np.cos(far) ** 2, 0.0)  # the cosine of a right angle is no zero in floats
            return low, np.cos(np.maximum(angle - turn, 0.0)) ** 2
        if self.alpha == 2 and self.joint.useful.size > 1:
            with np.errstate(over="ignore"):
                return mass_range(q, np.exp(limit))
        cells, one = np.stack([q, 1 - q], -1), np.broadcast_to([1.0, 0.0], (*q.shape, 2))
        low = 0.0 - greatest_mean(-one, cells, limit, self.alpha).value
        high = greatest_mean(one, cells, limit, self.alpha).value
        if self.joint.useful.size == 1:
            return np.ones(q.shape), np.ones(q.shape)
        return np.clip(low, 0, 1), np.clip(high, 0, 1)

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        limit = self.radius_of()[s]
        v, q = _few_cells(values, self.joint.useful_given_secret[s])
        return -greatest_mean(-v, q, limit, self.alpha).value, greatest_mean(v, q, limit, self.alpha).value

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        q, ps, n = self.joint.useful_given_secret, self.joint.p_secret, len(s1)
        v, w = _few_cells(np.concatenate([first, second]), q[np.concatenate([s1, s2])])
        return worst_pairs(v[:n], w[:n], ps[s1], v[n:], w[n:], ps[s2], self.budget, self.alpha).ratio

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = SPLIT.close) -> Pairs:
        q, ps = self.joint.useful_given_secret, self.joint.p_secret
        return worst_pairs(first, q[s1], ps[s1], second, q[s2], ps[s2], self.budget, self.alpha, close)

    def means(self, values: Floats, s: Ints, spent: Floats, close: float = NEWTON.close) -> Floats:
        """The greatest R·v given s when that secret takes `spent` of the budget; all but the last axis broadcast."""
        shape = np.broadcast_shapes(values.shape[:-1], np.shape(s), np.shape(spent))
        q, mass = self.joint.useful_given_secret[s], self.joint.p_secret[s]
        whole, limit = (*shape, values.shape[-1]), np.broadcast_to(divergence_at(spent, mass, self.alpha), shape)
        v, q = np.broadcast_to(values, whole), np.broadcast_to(q, whole)
        return greatest_mean(v, q, limit, self.alpha, close).value


@dataclass(frozen=True, slots=True, eq=False)
class RenyiBall(SharedRadius):
    """F = {P : D_α(P̂‖P) ≤ B} for an order 0 < α < ∞ [000, (8)]; α = 1 is the Kullback–Leibler divergence.

    α = 2 with B = log(1 + r) is ChiSquareBall with radius r.

    confidence= instead of radius= takes a B for which the ball covers the truth with at least that probability at every
    n and every distribution, if the labels were fixed before the rows were seen (see `joint.learned`) and the rows are
    independent: P(D₁(P̂‖P) ≥ t/n) ≤ e^{−t}(et/(k−1))^{k−1} with k = |S||U| [Agrawal, IEEE Trans. IT 2020].
    Since D_α ≤ D₁ for α ≤ 1, it holds for every α ≤ 1.

    >>> joint = Joint.from_counts([[7, 10], [26, 57]])
    >>> [round(float(b), 6) for b in RenyiBall(joint, alpha=2, radius=0.0752443).radius_of()]
    [0.406735, 0.090313]
    """

    joint: Joint
    alpha: float
    radius: float  # B
    confidence: float | None
    kind: ClassVar[str] = "renyi-ball"

    def __init__(
        self, joint: Joint, *, alpha: float, radius: float | None = None, confidence: float | None = None
    ) -> None:
        checked_joint(joint, "a ball")
        if not is_number(alpha) or alpha <= 0:
            raise InputError("alpha must be positive and finite", value=alpha)
        if (radius is None) == (confidence is None):
            raise InputError("give either radius= or confidence=.")
        if radius is None:
            assert confidence is not None
            radius = _finite_sample(joint, alpha, confidence)
        self._set(joint=joint, alpha=float(alpha), radius=checked_radius(radius), confidence=confidence)

    def widened(self, times: float) -> RenyiBall:
        """The ball with the radius so many times as large."""
        return RenyiBall(self.joint, alpha=self.alpha, radius=times * self.radius)

    def around(self, joint: Joint) -> RenyiBall:
        """The ball of the same order and radius around another table."""
        return RenyiBall(joint, alpha=self.alpha, radius=self.radius)

    @property
    def budget(self) -> float:  # type: ignore[override]
        return float(price(self.radius, self.alpha))

    def rad(self) -> Floats:
        """rad_s = max ‖R − P̂(·|s)‖₁ given s [000, (30)]; for more than 12 useful values an upper bound.

        The bound is Pinsker's √(2B_s), or √(2B_s/α) for α < 1 (Gilardoni), and at most 2.
        """
        q, limit, k = self.joint.useful_given_secret, self.radius_of(), self.joint.useful.size
        if k <= SUBSETS:
            sets = np.array(list(itertools.product([0.0, 1.0], repeat=k)))[1:]
            mass = q @ sets.T
            return np.asarray(2 * (self._masses(mass, limit[:, None])[1] - mass).max(1)) if k > 1 else np.zeros(len(q))
        return np.asarray(np.minimum(2.0, np.sqrt(2 * limit / min(1.0, self.alpha))))

    def support(self, c: Floats) -> Extreme:
        best = greatest_mean(c.reshape(1, -1), self.joint.p.reshape(1, -1), np.array([self.radius]), self.alpha)
        return Extreme(float(best.value[0]), best.r[0].reshape(c.shape))


def checked_radius(radius: float) -> float:
    if not is_number(radius) or radius < 0:
        raise InputError("radius must be finite and not negative", value=radius)
    return float(radius)


def checked_rows(joint: Joint, confidence: float) -> int:
    """The rows that a ball of some confidence was counted from."""
    if not is_number(confidence) or not 0 < confidence < 1:
        raise InputError("confidence must lie strictly between 0 and 1", value=confidence)
    if joint.n is None:
        raise InputError("a confidence ball needs to know how many rows the table was counted from (joint.n).")
    return joint.n


def _few_cells(v: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Rows of two values each as rows of two cells: within a value the worst R is in proportion to q."""
    top, low = v.max(-1, keepdims=True), v.min(-1, keepdims=True)
    inside = v == top
    if v.shape[-1] <= 2 or not np.all(inside | (v == low)):
        return v, q
    mass = np.where(inside, q, 0.0).sum(-1)
    return np.concatenate([top, low], -1), np.stack([mass, np.where(inside, 0.0, q).sum(-1)], -1)


def _finite_sample(joint: Joint, alpha: float, confidence: float) -> float:
    """The least t/n with e^{−t}(et/(k−1))^{k−1} ≤ 1 − confidence, for t ≥ k − 1."""
    n = checked_rows(joint, confidence)
    if alpha > 1:
        raise InputError(
            "a finite-sample confidence is known for alpha ≤ 1", value=alpha,
            next="Give radius=, or use ChiSquareBall.",
        )
    free = joint.p.size - 1
    if free == 0:
        return 0.0
    goal = math.log(1 - confidence)
    low, high = float(free), float(free) + 1
    while -high + free * (1 + math.log(high / free)) > goal:
        high *= 2
    for _ in range(HALVINGS):
        mid = (low + high) / 2
        low, high = (mid, high) if -mid + free * (1 + math.log(mid / free)) > goal else (low, mid)
    return high / n


# --- a Hellinger ball whose radius is simulated -----------------------------------------------------------------------
# A χ² ball around noisy counts excludes every truth with an empty cell that noise lifted above zero, and one without
# such cells is too small. At order ½, D = −2 log Σ √(P̂P), empty cells on either side cost little. How far the truth
# lies from noisy counts depends on the truth, above all on how many of its cells are empty, which noise hides: so
# tables are drawn around the noisy counts and around these with the small ones set to zero, and the greatest quantile
# is taken. Nothing proves that this covers: the file says that coverage was simulated, and no confidence.


EMPTIED = (0.0, 1.0, 2.0, 4.0)  # counts below so many scales of the noise are set to zero in a centre


def covering(joint: Joint, coverage: float = 0.95) -> RenyiBall:
    """The ball of order ½ around noisy counts that covers the truth in this share of simulated draws."""
    if joint.noise is None or joint.counts is None:
        raise InputError("covering() is for noisy counts (sf.noisy_counts); around exact ones use ChiSquareBall.")
    if not 0 < coverage < 1:
        raise InputError("coverage must lie strictly between 0 and 1", value=coverage)
    radius = simulated_radius(joint.counts.astype(float), joint.noise, coverage)
    if math.isinf(radius):
        raise InputError(
            "noise may leave nothing in common with the rows: this table is too small for noisy counts",
            next="Design for any distribution instead (at_most = epsilon), which needs none.",
        )
    return RenyiBall(replace(joint, noise=replace(joint.noise, coverage=coverage)), alpha=0.5, radius=radius)


def simulated_radius(counts: Floats, noise: Noise, coverage: float, draws: int = 400) -> float:
    """The greatest quantile of D_½ over the centres, of draws of rows and noise around each, the same for everybody."""
    flat, rng = counts.ravel(), np.random.default_rng(SEED)
    radii = []
    for times in EMPTIED:
        centre = np.where(flat >= times * noise.scale, flat, 0.0)
        if times == 0 or (centre.sum() > 0 and (centre != flat).any()):
            radii.append(np.quantile(distances(centre / centre.sum(), noise, rng, draws), coverage, method="higher"))
    return float(max(radii))


def distances(p: Floats, noise: Noise, rng: np.random.Generator, draws: int) -> Floats:
    """D_½ between a distribution and what noisy counts of its rows make of it."""
    out, step, stop = [], max(1, BLOCK // (2 * len(p))), -np.expm1(-1 / noise.scale)
    for first in range(0, draws, step):
        size = (min(step, draws - first), len(p))
        drawn = rng.multinomial(noise.rows, p, size=size[0]) + rng.geometric(stop, size) - rng.geometric(stop, size)
        near = projected(drawn.astype(float), float(noise.rows)) / noise.rows
        with np.errstate(divide="ignore"):  # what has nothing in common is infinitely far
            out.append(-2 * np.log(np.minimum(np.sqrt(near * p).sum(1), 1.0)))
    return np.concatenate(out)


CALIBRATIONS = ("asymptotic", "bootstrap", "exact")
BOOTSTRAPS = 20_000  # tables drawn for a bootstrap
UNSURE = 1e-6  # a confidence below which 1 − confidence has lost its digits


@dataclass(frozen=True, slots=True, eq=False)
class ChiSquareBall(SharedRadius):
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
    alpha: ClassVar[float] = 2.0  # type: ignore[misc]  # the order of D_α ≤ log(1 + B)
    kind: ClassVar[str] = "chi-square-ball"

    def __init__(
        self, joint: Joint, *, confidence: float | None = None, radius: float | None = None,
        calibration: str | None = None, seed: int = 0,
    ) -> None:
        checked_joint(joint, "a ball")
        if radius is None:
            level, calibration = 0.95 if confidence is None else confidence, calibration or "asymptotic"
            n = checked_rows(joint, level)
            if level < UNSURE:
                raise InputError(f"a confidence below {UNSURE:g} says nothing", value=confidence, next="Give 0.95.")
            if calibration not in CALIBRATIONS:
                raise unknown("a calibration", calibration, CALIBRATIONS)
            radius = _calibrated(joint, n, level, calibration, seed) if joint.p.size > 1 else 0.0
            confidence = level
        self._set(joint=joint, radius=checked_radius(radius), confidence=confidence, calibration=calibration)

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

    @property
    def budget(self) -> float:  # type: ignore[override]
        return 2 * self.slack

    def spread(self) -> Floats:
        """C_s = e^{B_s} = (1 + b/P̂_s)²: given s, R lies in {R : Σ q²/R ≤ C_s} [000, Thm 1]; ∞ where P̂_s = 0."""
        return spread_of(self.slack, self.joint.p_secret)

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


def spread_of(slack: Real, mass: Real) -> Floats:
    """C = (1 + slack/P̂_s)² for a share of the slack; ∞ for an empty secret as soon as there is any slack."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(slack > 0, (1 + slack / mass) ** 2, 1.0))


def greatest_sum(c: Floats, p: Floats, radius: float) -> Extreme:
    """max ⟨c, P⟩ over {P : Σ p²/P ≤ 1 + B} from above, by duality, and a P that attains it up to rounding.

    max = min_{μ ≥ max c} μ − (Σ p √(μ − c))²/(B + 1) [002, Thm 2, simplified]: any μ bounds it from above, and a sum of
    k products is off by k units at most.
    """
    flat, centre, top = c.ravel(), p.ravel(), float(c.max())
    if radius <= 0:
        return Extreme(float(flat @ centre), p)
    best = greatest_mean(flat[None, :], centre[None, :], np.log1p([radius]), 2.0)
    mu = max(float(best.tau[0]), top)
    dual = mu - float(centre @ np.sqrt(mu - flat)) ** 2 / (1 + radius)
    upper = min(dual + flat.size * UNIT * max(abs(mu), float(np.abs(flat).max())), top)
    return Extreme(max(upper, float(best.value[0])), best.r[0].reshape(p.shape))
