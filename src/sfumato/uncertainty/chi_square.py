"""ChiSquareBall: every distribution a χ² test would not reject, and how far an output moves beliefs over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.errors import InputError, unknown
from sfumato.joint import Joint, checked_joint
from sfumato.uncertainty.sets import Extreme, Pairs, Worst
from sfumato.uncertainty.tilting import (
    GAP_CLOSE,
    SPLIT_CLOSE,
    greatest_mean,
    mass_range,
    spread_of,
    worst_pairs,
)

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Bools

CALIBRATIONS = ("asymptotic", "bootstrap", "exact")
DRAWS = 20_000  # tables drawn for a bootstrap
DRAWN_CELLS = 20_000_000  # at most, so that large tables take fewer draws


@dataclass(frozen=True, slots=True, eq=False)
class ChiSquareBall:
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

    def means(self, values: Floats, s: Ints, spent: Floats, close: float = GAP_CLOSE) -> Floats:
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

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        q, spread = self.joint.useful_given_secret, self.spread()
        shape = np.broadcast_shapes(rows.shape, q.shape)
        v, q, c = np.broadcast_to(rows, shape), np.broadcast_to(q, shape), np.broadcast_to(spread, shape[:-1])
        return -greatest_mean(-v, q, c).value, greatest_mean(v, q, c).value

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        q, c = self.joint.useful_given_secret[s], self.spread()[s]
        return -greatest_mean(-values, q, c).value, greatest_mean(values, q, c).value

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        pair = self.pairs(row[None, s1], row[None, s2], np.array([s1]), np.array([s2]))
        return Worst(float(pair.ratio[0]), pair.first[0], pair.second[0])

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        return self.pairs(first, second, s1, s2).ratio

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = SPLIT_CLOSE) -> Pairs:
        q, ps = self.joint.useful_given_secret, self.joint.p_secret
        return worst_pairs(first, q[s1], ps[s1], second, q[s2], ps[s2], self.slack, close)

    def support(self, c: Floats) -> Extreme:
        best = greatest_mean(c.reshape(1, -1), self.joint.p.reshape(1, -1), np.array([1 + self.radius]))
        return Extreme(float(best.value[0]), best.r[0].reshape(c.shape))


def _statistics(p: Floats, n: int, draws: int, seed: int) -> Floats:
    """Σ (P̂ − P)²/P for `draws` tables P̂ of n rows from P."""
    truth = p.ravel()[p.ravel() > 0]
    truth = truth / truth.sum()
    rng, out = np.random.default_rng(seed), []
    for start in range(0, draws, 1000):
        drawn = rng.multinomial(n, truth, size=min(1000, draws - start)) / n
        out.append(((drawn - truth) ** 2 / truth).sum(1))
    return np.concatenate(out)


def _calibrated(joint: Joint, n: int, confidence: float, calibration: str, seed: int) -> float:
    from scipy.special import chdtri

    asymptotic = float(chdtri(joint.p.size - 1, 1 - confidence)) / n
    if calibration == "asymptotic":
        return asymptotic
    if calibration == "exact":
        return float(np.nextafter((joint.p.size - 1) / (n * (1 - confidence)), np.inf))
    draws = max(200, min(DRAWS, DRAWN_CELLS // joint.p.size))
    smooth = (joint.p * n + 0.5) / (n + 0.5 * joint.p.size)
    # An order statistic three standard errors above the quantile, so that chance in the draws does not lower it.
    rank = min(1.0, confidence + 3 * math.sqrt(confidence * (1 - confidence) / draws))
    found = [float(np.quantile(_statistics(p, n, draws, seed), rank, method="higher")) for p in (joint.p, smooth)]
    return max(asymptotic, *found)


# --- how far an output moves beliefs over the ball: the worst P(y|s)/P(y) and its inverse, from inside ----------------
# P(y|s)/P(y) = 1/(π + (1−π) w/u) with π = P(s), u = E[r|s], w = E[r|¬s], r = Q(y|·). The cells of all other secrets
# are one law: P is in F iff h₁/π + h₂/(1−π) ≤ 1 + B with h₁ = Σ P̂(s,x)²/P(x|s), h₂ = Σ P̂(s',x)²/P(s',x|¬s) over s'
# ≠ s. A row that reads X alone is the same for all s', which merge: for given P(x|¬s) the cheapest split among them
# is proportional to P̂ (Cauchy–Schwarz). With √h₁ = P̂_s + α and √h₂ = 1 − P̂_s + β that leaves α, β ≥ 0 with α + β ≤
# √(1+B) − 1; u and w are then extreme means, and π is an end of an interval.


FINE = np.linspace(-1.0, 1.0, 3)
NUMBERS = 8_000_000  # held at once, whatever the table


@dataclass(frozen=True, slots=True)
class Search:
    """A grid of shares of the slack, dense at both ends, and how often it is narrowed."""

    nodes: int
    zooms: int
    close: float  # of a step of Newton's method for a mean

    def first(self) -> tuple[Floats, Floats]:
        grid = np.sin(np.linspace(0, np.pi / 2, self.nodes)) ** 2
        a, b = (x.ravel() for x in np.meshgrid(grid, grid, indexing="ij"))
        inside = a + b <= 1 + 1e-12
        return a[inside], b[inside]


EXACT = Search(17, 24, GAP_CLOSE)
CLOSE = Search(9, 15, 1e-6)  # to about 1e-8 of a ratio: the objective is flat at its top
ROUGH = Search(7, 6, 1e-3)  # any P it finds is in the ball: enough for a cut, and to see which cases matter


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """For each case the greatest P(y|s)/P(y) (above) or P(y)/P(y|s) (below) reached, and the P that reaches it."""

    ratio: Floats
    given: Floats  # [i, x]: P(x|s)
    rest: Floats  # [i, cell]: the law given ¬s, over X or over the cells of the other secrets in order
    share: Floats  # P(s)

    @property
    def overall(self) -> Floats:
        """P(x), for rows that read X alone."""
        pi = self.share[:, None]
        return np.asarray(pi * self.given + (1 - pi) * self.rest)


def worst_shifts(ball: ChiSquareBall, rows: Floats, s: Ints, above: Bools, search: Search = EXACT) -> Shifts:
    """The worst distribution in the ball for each case i: row[i] over x or (s, x), secret s[i], above or below."""
    numbers = len(search.first()[0]) * ball.joint.p.size
    step = max(1, NUMBERS // numbers)
    parts = [
        _searched(_sides(ball, rows[i : i + step], s[i : i + step], above[i : i + step], search.close), ball, search)
        for i in range(0, max(len(rows), 1), step)
    ]
    return Shifts(*(np.concatenate([getattr(x, n) for x in parts]) for n in ("ratio", "given", "rest", "share")))


def others(table: Array, s: Ints) -> Array:
    """[i, cell]: for each case the cells of the secrets other than s[i]; table is [s, x] or one for each case."""
    count, secrets = len(s), table.shape[-2]
    away = np.arange(secrets - 1) + (np.arange(secrets - 1) >= np.asarray(s)[:, None])  # [i, s'], s' ≠ s
    picked = table[away] if table.ndim == 2 else table[np.arange(count)[:, None], away]
    return np.asarray(picked.reshape(count, (secrets - 1) * table.shape[-1]))


def _sides(ball: ChiSquareBall, rows: Floats, s: Ints, above: Bools, close: float) -> _Sides:
    p = ball.joint.p
    b = 1 + ball.radius
    if rows.ndim == 2:
        return _Sides(rows, p[s], rows, np.maximum(p.sum(0) - p[s], 0.0), above, b, close)
    own = rows[np.arange(len(rows)), s]
    return _Sides(own, p[s], others(rows, s), others(p, s), above, b, close)


def _searched(sides: _Sides, ball: ChiSquareBall, search: Search) -> Shifts:
    a, b = search.first()
    count, slack = len(sides.own), ball.slack
    centre_a, centre_b = np.zeros(count), np.zeros(count)
    reach = np.full(count, 1.7 / search.nodes)
    trial_a, trial_b = np.broadcast_to(a, (count, len(a))), np.broadcast_to(b, (count, len(b)))
    best, lines = np.full(count, -np.inf), np.arange(count)
    for _ in range(search.zooms):
        ratio = sides.ratio(slack * trial_a, slack * trial_b)[0]
        at = np.argmax(ratio, axis=1)
        here = ratio[lines, at]
        better = here > best
        centre_a = np.where(better, trial_a[lines, at], centre_a)
        centre_b = np.where(better, trial_b[lines, at], centre_b)
        best = np.maximum(best, here)
        reach = np.where(better, reach, reach * 0.45)
        step_a, step_b = (x.ravel() for x in np.meshgrid(FINE, FINE, indexing="ij"))
        trial_a = np.clip(centre_a[:, None] + reach[:, None] * step_a, 0, 1)
        trial_b = np.minimum(np.clip(centre_b[:, None] + reach[:, None] * step_b, 0, 1), 1 - trial_a)
    ratio, given, rest, share = sides.ratio(slack * centre_a[:, None], slack * centre_b[:, None])
    return Shifts(ratio[:, 0], given[:, 0], rest[:, 0], share[:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The two conditional laws of each case, and the ratio they make with the best P(s)."""

    own: Floats  # values of the row given s
    mine: Floats  # P̂(s, x)
    away: Floats  # values of the row given ¬s
    others: Floats  # P̂ there
    above: Bools
    b: float
    close: float

    def ratio(self, alpha: Floats, beta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        sign = np.where(self.above, 1.0, -1.0)[:, None, None]
        own, given = self._extreme(sign * self.own[:, None], self.mine, alpha)
        other, rest = self._extreme(-sign * self.away[:, None], self.others, beta)
        u, w = np.einsum("itx,ix->it", given, self.own), np.einsum("itx,ix->it", rest, self.away)
        middle = self.b + own - other
        root = np.sqrt(np.maximum(middle**2 - 4 * self.b * own, 0.0))
        towards = (w < u) == self.above[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(towards, 2 * own / (middle + root), (middle + root) / (2 * self.b))
            mixed = share + (1 - share) * (w / u)
            ratio = np.where(self.above[:, None], 1 / mixed, mixed)
        return np.nan_to_num(ratio, nan=1.0, posinf=np.inf), given, rest, share

    def _extreme(self, v: Floats, weights: Floats, spent: Floats) -> tuple[Floats, Floats]:
        """h = (mass + spent)² and the law of greatest mean that it allows; an empty side is free at h = 0."""
        mass = weights.sum(1)[:, None]
        q = np.divide(weights, mass, out=np.full(weights.shape, 1 / weights.shape[1]), where=mass > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.where(mass > 0, (1 + spent / mass) ** 2, np.inf)
        shape = (*spent.shape, v.shape[-1])
        r = greatest_mean(np.broadcast_to(v, shape), np.broadcast_to(q[:, None], shape), spread, None, self.close).r
        return np.where(mass > 0, (mass + spent) ** 2, 0.0), r
