"""ChiSquareBall: every distribution a χ² test would not reject, and the worst pairs of conditionals in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError, unknown
from sfumato.joint import Joint, checked_joint
from sfumato.tolerances import HALVINGS, LISTED, UNIT
from sfumato.uncertainty.power_tilting import greatest_mean
from sfumato.uncertainty.renyi import SharedRadius, checked_radius, checked_rows
from sfumato.uncertainty.sets import Extreme

if TYPE_CHECKING:
    from sfumato.alphabet import Real

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
