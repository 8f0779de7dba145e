"""Channels under limits on maximal (α, β)-leakage: the least expected distortion, and the most information.

Every level set {L_{α,β} ≤ ℓ} is convex in the channel (docs/corrections.md) and, by minimax on [004, (84)], a finite
set of cones:

    L_{α,β} ≤ ℓ  ⇔  for every x' there is a law q with  Σ_y Q_x^α (q^τ Q_x'^{1−τ})^{1−α} ≤ e^{(α−1)ℓ}  for all x

The terms are u^a v^{−b} w^{−d} with a = 1 + b + d: jointly convex; at the edges fewer or others do (`_imposed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from sfumato.errors import InputError
from sfumato.optimise.arrays import DUST, REPAIRED, SEALING, SOLVED, Floats, Ints, blended, goal, information
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.conic import ConicProgramme, ConicSolution, LawProgramme, exponential, power
from sfumato.optimise.funnel.posteriors import Channel, as_matrix, conditional_gain
from sfumato.optimise.linear import INFINITY, best_cover
from sfumato.optimise.loss.problem import SHARPENING, swept
from sfumato.optimise.product.two_level import subsets
from sfumato.tolerances import LEAST


@dataclass(frozen=True, slots=True)
class LeakageLimit:
    """L_{α,β} ≤ level."""

    alpha: float
    beta: float
    level: float


Level = Callable[[LeakageLimit, Floats], float]  # a certified upper bound of the leakage that a limit is about


def least_distortion(
    p: Floats, distance: Floats, limits: Sequence[LeakageLimit], level: Level, *, given: Floats | None = None,
    budget: Budget = FREE,
) -> Channel:
    """min Σ p_x Q(y|x) d[x, y] over channels with L_{α,β} ≤ ℓ for every limit.

    Limits are about the input or, with given[s, x] = p(x|s), about the secret: P(y|s) is linear in Q, so the same cones
    apply to variables that are tied to Q by linear rows.
    """
    cost, programme = (p[:, None] * distance).T, LawProgramme()

    def lost(q: Floats) -> float:
        return float((cost * q).sum())

    def fits(q: Floats) -> bool:
        seen = q if given is None else q @ given.T
        return all(level(limit, seen) <= goal(limit.level) for limit in limits)

    def inside(q: Floats) -> Floats:
        """exp of a multiple of the leakage is convex and a constant law leaks nothing: mixing lowers every level."""
        q = swept(q, cost)
        return blended(q, q.mean(axis=1), fits, DUST)

    constant = np.repeat(np.eye(len(cost))[:, [cost.sum(axis=1).argmin()]], len(p), axis=1)  # the best output for all
    if any(limit.level == 0 or (limit.alpha == 1 and limit.beta > 1 and limit.level < np.inf) for limit in limits):
        return Channel(constant, lost(constant), lost(constant), "constant")
    names = programme.laws(cost)
    seen = names if given is None else _seen(programme, names, given)
    sums = [part for limit in limits for part in _imposed(programme, seen, limit)]
    point, bound, status = solve(programme, sums, budget)
    bound = max(bound, float(cost.min(axis=0).sum()))
    best = min(constant, inside(point[names]), key=lost)
    if loose(lost(best), bound):
        bound, vertex = sharpened(programme, sums, point, lost(best), bound, budget.part(1.0, SHARPENING))
        best = min(best, inside(vertex[names]), key=lost)
    return Channel(best, lost(best), bound, status)


def _seen(programme: LawProgramme, q: Ints, given: Floats) -> Ints:
    """New laws P[y, s] with P(y|s) = Σ_x Q(y|x) p(x|s), as two inequalities an entry; Q are the first variables."""
    seen = programme.laws(np.zeros((len(q), len(given))))
    tied = sparse.hstack([sparse.kron(sparse.eye(len(q)), sparse.csr_matrix(given)), -sparse.eye(seen.size)])
    programme.at_most(sparse.vstack([tied, -tied]))
    return seen


def _imposed(programme: LawProgramme, q: Ints, limit: LeakageLimit) -> Sums:
    """One limit as rows, which are added, and sums of terms; q[y, x] are names of variables."""
    alpha, beta, level = limit.alpha, limit.beta, limit.level
    if np.isinf(level):
        return []
    if np.isinf(beta):  # LDP: low_y ≤ Q_yx ≤ e^ε low_y
        _, pairs = _beside(programme, q)
        programme.limit(pairs, [-1.0, 1.0])
        programme.limit(pairs, [np.exp(-(level if np.isinf(alpha) else level * (alpha - 1) / alpha)), -1.0])
        return []
    if np.isinf(alpha):  # with m_y ≥ Q_yx, Σ_y m_y^β Q_x'^{1−β} ≤ e^{βℓ} for every x'; Σ m ≤ e^ℓ when β = 1
        top, pairs = _beside(programme, q)
        programme.limit(pairs, [1.0, -1.0])
        if beta > 1:
            return [PowerSum(np.exp(-level), beta - 1, 0.0, top, other, other) for other in q.T]
        programme.limit(top[None], np.exp(-level), 1.0)
        return []
    if beta > 1 and beta >= alpha:  # Σ_y Q_x^β Q_x'^{1−β} ≤ e^{(β−1)ℓ} for every pair
        return _tilted(programme, q, beta, 0.0, level * (alpha - 1) * beta / (alpha * (beta - 1)))
    if alpha == 1:  # capacity: some law r has D(Q_x ‖ r) ≤ ℓ for every x
        centre = programme.laws(np.zeros((len(q), 1)))[:, 0]
        return [EntropySum(level, column, centre) for column in q.T]
    return _tilted(programme, q, alpha, (alpha - beta) / (beta * (alpha - 1)), level)


def _beside(programme: LawProgramme, q: Ints) -> tuple[Ints, Ints]:
    """A new variable for every output, and each entry of Q with that of its output."""
    new = programme.box(len(q))
    return new, np.stack([q, np.broadcast_to(new[:, None], q.shape)], axis=-1).reshape(-1, 2)


def _tilted(programme: LawProgramme, q: Ints, alpha: float, tau: float, level: float) -> Sums:
    """1 ≤ β ≤ α: a law r for every x' (one for all when β = 1, where x' has no say, and none when β = α)."""
    scale, sums = float(np.exp(-(alpha - 1) * level / alpha)), list[PowerSum | EntropySum]()
    b, d = tau * (alpha - 1), (1 - tau) * (alpha - 1)
    for reference in q.T if tau < 1 else q.T[:1]:
        if tau > 0:
            centre = programme.laws(np.zeros((len(q), 1)))[:, 0]
            sums += [PowerSum(scale, b, d, column, centre, reference) for column in q.T]
        else:
            others = (column for column in q.T if not np.array_equal(column, reference))
            sums += [PowerSum(scale, d, 0.0, column, reference, reference) for column in others]
    return sums


# --- laws under sums of homogeneous power and entropy terms: solved by Clarabel, bounded by hand ----------------------
# The solver's duals only suggest: any tangents of the terms of a sum (each is convex and homogeneous) add up to a
# linear row that holds beside those of the `LawProgramme`, and the bound is that of the rows:
#
#     (κu)^a v^{−b} w^{−d} ≥ a·A^{b/a} C^{d/a}·κu − b·A·v − d·C·w     for all A, C ≥ 0
#     u log(u/v)           ≥ (1 + log A)·u − A·v                       for all A > 0


Tangents = list[tuple[Ints, Floats]]  # variables of every term of a sum, with the slopes of a function below the terms


@dataclass(frozen=True, slots=True, eq=False)
class PowerSum:
    """Σ_j (κ u_j)^a v_j^{−b} w_j^{−d} ≤ 1, a = 1 + b + d; u, v, w are indices into x."""

    scale: float
    b: float
    d: float
    u: Ints
    v: Ints
    w: Ints
    limit: ClassVar[float] = 1.0

    @property
    def a(self) -> float:
        return 1 + self.b + self.d

    def tangent(self, first: Floats, second: Floats) -> Tangents:
        """Slopes in u, v and w of the tangents with A = first, C = second: below every term."""
        lift = self.a * first ** (self.b / self.a) * second ** (self.d / self.a) * self.scale
        return [(self.u, lift), (self.v, -self.b * first), (self.w, -self.d * second)]

    def cones(self, t: Ints, conic: ConicProgramme) -> Ints:
        """One cone a term, t at least the term; returns the first rows."""
        one = np.ones(t.size)
        above, middle = [[(t, one)], [(self.v, one)]], [(self.u, self.scale * one)]
        if self.d == 0:  # t^{1/a} v^{b/a} ≥ κu
            return conic.each(power(1 / self.a, self.b / self.a), *above, middle)
        exponents = 1 / self.a, self.b / self.a, 1 - (1 + self.b) / self.a
        return conic.each(power(*exponents), *above, [(self.w, one)], middle)

    def priced(self, z: Floats, first: Ints) -> Tangents:
        """The tangents that the duals of the cones suggest."""
        zt = np.maximum(z[first], LEAST)
        second = np.maximum(z[first + 2], 0) / zt / self.d if self.d > 0 else np.ones(first.size)
        return self.tangent(np.maximum(z[first + 1], 0) / zt / self.b, second)

    def touched(self, x: Floats) -> Tangents:
        """The tangents at x, or at a point near it where they are tame."""
        u, v, w = x[self.u], x[self.v], x[self.w]
        steep = self.a * np.log(self.scale) + (self.a - 1) * np.log(u) - self.b * np.log(v) - self.d * np.log(w)
        tamed = np.minimum(steep, STEEPEST)
        height = np.exp(tamed) * u / np.exp((steep - tamed) / (self.a - 1))
        return self.tangent(height / v, height / w)


@dataclass(frozen=True, slots=True, eq=False)
class EntropySum:
    """Σ_j u_j log(u_j / v_j) ≤ limit; methods are those of `PowerSum`."""

    limit: float
    u: Ints
    v: Ints

    def tangent(self, slope: Floats) -> Tangents:
        """Slopes in u and v of the tangents with A = slope."""
        slope = np.clip(slope, DUST, 1 / DUST)
        return [(self.u, 1 + np.log(slope)), (self.v, -slope)]

    def cones(self, t: Ints, conic: ConicProgramme) -> Ints:
        one = np.ones(t.size)
        return conic.each(exponential, [(t, -one)], [(self.u, one)], [(self.v, one)])

    def priced(self, z: Floats, first: Ints) -> Tangents:
        return self.tangent(np.maximum(z[first + 2], LEAST) / np.maximum(-z[first], LEAST))

    def touched(self, x: Floats) -> Tangents:
        return self.tangent(x[self.u] / x[self.v])


Sums = list[PowerSum | EntropySum]


def solve(programme: LawProgramme, sums: Sums, budget: Budget) -> tuple[Floats, float, str]:
    """Clarabel's point, a bound from its multipliers that does not trust them, and its status; the tangents that these
    suggest stay in the programme."""
    conic, linear = programme.conic()
    totals, cones = [], []
    for part in sums:
        t = conic.fresh(part.u.size)
        totals.append(conic.nonnegative(np.zeros_like(t), t, -np.ones(t.size), np.array([part.limit]))[0])
        cones.append(part.cones(t, conic))
    answer = _answered(conic, programme, budget)
    z = answer.z if np.all(np.isfinite(answer.z)) else np.zeros_like(answer.z)
    prices = [np.maximum(z[linear], 0.0)]
    for part, total, first in zip(sums, totals, cones, strict=True):
        if z[total] > 0:
            prices.append(z[[total]] * _hold(programme, part.priced(z, first), part.limit))
    return answer.x[: programme.size], programme.bound(np.concatenate(prices)), answer.status


def _hold(programme: LawProgramme, tangents: Tangents, limit: float) -> float:
    """The tangents of a sum as a row whose greatest slope is 1; what it was."""
    names, slopes = (np.concatenate(entries) for entries in zip(*tangents, strict=True))
    scale = float(np.abs(slopes).max())
    programme.limit(names[None], slopes / scale, limit / scale)
    return scale


def _answered(conic: ConicProgramme, programme: LawProgramme, budget: Budget) -> ConicSolution:
    """Clarabel's answer. Next to α = 1 its power cones may give up by an assertion of Rust, which is no Exception: then
    even laws and no prices are as good a suggestion as any, and tangents find the rest."""
    try:
        return conic.solve(programme.cost, tolerance=SOLVED, refine=True, budget=budget)
    except BaseException as broken:
        if type(broken).__name__ != "PanicException":
            raise
    even = 1.0 / np.bincount(programme.group + 1)[programme.group + 1]
    x = np.append(np.where(programme.group >= 0, even, 1.0), np.ones(conic.variables - programme.size))
    return ConicSolution("given up", False, x, np.zeros(conic.rows))


# --- sharper bounds by outer approximation: tangents at points, one linear programme a round --------------------------
# High orders (α of 20 and more) leave interior-point duals too rough for a good bound. Sums of tangents of their terms
# are rows of a linear programme that is a relaxation, and its own prices prove a bound.


TURNS = 15  # of tangents: one or two are the rule
STEEPEST = 19.0  # log of term/u, above which v and w grow before a tangent is taken


def loose(value: float, bound: float) -> bool:
    """Whether a bound is worth being sharpened: sealing costs as much as a smaller gap."""
    return value - bound > SEALING * max(1.0, abs(value))


def sharpened(
    programme: LawProgramme, sums: Sums, inside: Floats, value: float, bound: float, budget: Budget
) -> tuple[float, Floats]:
    """Rounds of tangents, taken ever nearer to the vertices of the relaxation: a better bound, and the last vertex,
    nearly feasible and often better than the cone's point."""
    point = last = inside
    for turn in range(TURNS):
        for part in sums:
            _hold(programme, part.touched(np.maximum(point, REPAIRED)), part.limit)  # off zero, where they are tame
        answer = programme.solve()
        bound = max(bound, programme.proved(answer)) if answer.optimal else bound
        if not answer.optimal or budget.over or not loose(value, bound):
            break
        last = answer.x
        point = last + 0.5 ** (turn + 1) * (inside - last)
    return bound, last


# --- the most informative channel under a limit on maximal leakage, and under local differential privacy --------------
# I(X;Y) is convex in Q and a sum over outputs of a function homogeneous in the row, so an optimum mixes extreme rows:
#
#     maximal leakage   vertices of [0, 1]^X, as max v = 1: subsets H, v = 1_H, worth P(H) log 1/P(H), Σθ ≤ e^ℓ
#     ε-LDP             rows in {1, e^ε}^X: subsets again, worth Σ p_x v_x log(v_x / p·v)
#
# Either is a linear programme over subsets; both limits together are not of this form.


LISTED_INPUTS = 16  # 2^16 columns: beyond it a pricing step would be needed
ChannelLevel = Callable[[Floats], float]  # of a channel


def under_maximal_leakage(p: Floats, limit: float, level: ChannelLevel) -> Channel:
    """max I(X;Y) subject to log Σ_y max_x Q(y|x) ≤ limit."""
    return _mixture(p, 0.0, 1.0, limit, level, float(np.exp(limit)))


def under_ldp(p: Floats, epsilon: float, level: ChannelLevel) -> Channel:
    """max I(X;Y) over ε-LDP channels: a mixture of two-level rows."""
    return _mixture(p, 1.0, float(np.exp(epsilon)), epsilon, level)


def _mixture(
    p: Floats, low: float, high: float, limit: float, level: ChannelLevel, most: float = INFINITY
) -> Channel:
    """The best mixture of rows, low but on a subset, with Σθ ≤ most; rounding is paid by a touch of the law of Y."""
    if p.size > LISTED_INPUTS:
        raise InputError(f"subsets are listed up to {LISTED_INPUTS} inputs, got {p.size}.")
    rows = low + (high - low) * np.concatenate([subsets(p.size), np.ones((1, p.size))])
    mass = rows.sum(axis=1)
    points = rows / mass[:, None]
    cover = best_cover(np.ones(p.size), points, conditional_gain(p[None, :])(points), 1.0 / mass, most)
    channel = as_matrix(cover)
    channel = blended(channel, channel @ p, lambda q: level(q) <= limit)
    return Channel(channel, information(channel, p), cover.bound, "all subsets")
