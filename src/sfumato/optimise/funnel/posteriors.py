"""The funnel in posterior form: a mechanism on X is a way to write p_X as a mixture of posteriors from a cone.

I(X;Y) = H(X) + Σ_y α_y f(v_y) with α_y = P(y), v_y = P(X|y), f(v) = Σ v log v [001, Thm 3] (docs/funnel.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

import numpy as np
import numpy.typing as npt

from sfumato.optimise import arrays
from sfumato.optimise.arrays import DUST, SUMMED, Floats, Ints, blended, goal, information, xlogx
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.funnel.envelope import envelope
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays, extreme_rays
from sfumato.optimise.linear import Cover, Mixture, best_cover
from sfumato.optimise.starts import told_in_full
from sfumato.tolerances import EXPONENT, LEAST, SUBSETS


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """A mechanism Q[y, x], its I(X;Y) or expected distortion, a number no mechanism of the family passes, and how."""

    matrix: Floats
    value: float
    bound: float
    status: str


def likelihood(p: Floats) -> Floats:
    """g[s, x] = p(s|x) / p(s) for secrets and values that occur; P(y|s)/P(y) = g_s · P(X|y)."""
    p = p[p.sum(axis=1) > 0.0]
    column = p.sum(axis=0)
    return np.asarray(p / np.where(column > 0.0, column, 1.0) / p.sum(axis=1, keepdims=True))


def independence_rows(p: Floats) -> Floats:
    """Rows E with E v = 0 iff g_s·v = 1 for every s: the output says nothing about S."""
    rows = likelihood(p) - 1.0
    return np.where(np.abs(rows) > DUST, rows, 0.0)  # rounding noise: to leave out a condition relaxes the problem


def lip_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A v ≤ 0 iff e^{−ε} ≤ g_s·v ≤ e^ε for every s (Σv = 1) [001, (15)]: a + 2c inequalities."""
    return np.concatenate([pml_rows(p, epsilon), math.exp(-epsilon) - likelihood(p)])


def pml_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A v ≤ 0 iff g_s·v ≤ e^ε for every s (Σv = 1): the upper half of LIP."""
    return likelihood(p) - math.exp(epsilon)


def ldp_rows(p: Floats, epsilon: float) -> Floats:
    """Rows A with A (v, m) ≤ 0 iff m ≤ g_s·v ≤ e^ε m for every s.

    One extra coordinate m instead of c(c − 1) pairs: with pairs, all of {tight above} × {tight below} meet at a ray,
    so the cone is never simple; with m it is, and a ray has at most c positive values of x [ours].
    """
    g = likelihood(p)
    one = np.ones((len(g), 1))
    return np.concatenate([np.hstack([g, -math.exp(epsilon) * one]), np.hstack([-g, one])])


def enumerated(
    p: Floats, rows: Floats, equalities: npt.ArrayLike = (), *, extra: int = 0, budget: Budget = FREE
) -> Channel:
    """Largest I(X;Y) with posteriors in {v ≥ 0 : A v ≤ 0, E v = 0}, by all extreme rays and an LP.

    The last `extra` coordinates of the cone are auxiliary and are dropped from the rays. Weak duality needs the rays,
    and these are floats good to about 1e-13: a thousand times that is added.
    """
    live, keep = _occurring(p, extra)
    flat = np.reshape(equalities, (-1, rows.shape[1]))[:, keep]
    points = extreme_rays(rows[:, keep], flat, dimension=len(keep), budget=budget)[:, : len(live)]
    mass = points.sum(axis=1)
    points = np.concatenate([points[mass > arrays.EMPTY] / mass[mass > arrays.EMPTY, None], p[None, live]])
    cover = best_cover(p[live], points, xlogx(points).sum(axis=1))
    return answer(p, cover.weights, cover.points, cover.bound + arrays.SOLVED, "all extreme rays")


def generated(p: Floats, rows: Floats, budget: Budget, *, extra: int = 0, gap: float = 1e-6) -> Channel:
    """The same optimum by column generation with a proved bound, for cones with too many rays to list."""
    live, keep = _occurring(p, extra)
    found = envelope(p[live], rows[:, keep], budget, extra=extra, gap=gap)
    return answer(p, found.weights, found.points, found.bound + DUST, "column generation")


def _occurring(p: Floats, extra: int) -> tuple[Ints, Ints]:
    """The values of X that occur, and they with the auxiliary coordinates."""
    live = np.flatnonzero(p > 0.0)
    return live, np.concatenate([live, np.arange(len(p), len(p) + extra)])


def answer(p: Floats, weights: Floats, points: Floats, bound: float, status: str) -> Channel:
    """Q(y|x) = α_y v_y(x) / p(x) for posteriors of the values that occur; others are answered as p_X is."""
    joint, live = weights[:, None] * points, p > 0.0
    matrix = np.repeat(joint.sum(axis=1, keepdims=True) / joint.sum(), len(p), axis=1)
    matrix[:, live] = joint / joint.sum(axis=0)
    return Channel(matrix, information(matrix, p), bound - float(xlogx(p).sum()), status)


def best(
    rows: Callable[[Floats, float], Floats], level: Callable[[Floats, Floats], float], p: Floats, epsilon: float,
    budget: Budget = FREE, *, extra: int = 0, gap: float = 1e-6,
) -> Channel:
    """The mechanism Q[y, x] with the largest I(X;Y) under the rows of a promise at p: all rays where they fit, columns
    otherwise, a value and a proved bound in either case. It is mixed with as little of the law of Y, sent whatever X
    is, as brings its level(p, Q) below ε by a margin."""
    p = p / p.sum()
    column, cone = p.sum(axis=0).ravel(), rows(p, epsilon)
    try:
        found = enumerated(column, cone, extra=extra, budget=budget.part())
    except (TooManyRays, Degenerate):
        found = generated(column, cone, budget, extra=extra, gap=gap)
    matrix = blended(found.matrix, found.matrix @ column, lambda q: level(p, q) <= goal(epsilon, SUMMED))
    return replace(found, matrix=matrix, value=information(matrix, column))


def _level(told: Callable[[Floats, Floats], Floats], p: Floats, matrix: Floats) -> float:
    """The greatest of what log P(y|s) [y, s] and log P(y) tell, of what occurs."""
    live, q = p[p.sum(axis=1) > 0.0], matrix @ p.sum(axis=0)
    given = matrix[q > 0.0] @ (live / live.sum(axis=1, keepdims=True)).T
    return float(told(arrays.log_or_minus_infinity(given), np.log(q[q > 0.0, None])).max(initial=0.0))


# e^{−ε} ≤ P(y|s)/P(y) ≤ e^ε at p; P(y|s) ≤ e^ε P(y); P(y|s) ≤ e^ε P(y|s')
best_lip = partial(best, lip_rows, partial(_level, lambda given, q: np.abs(given - q)))
best_pml = partial(best, pml_rows, partial(_level, lambda given, q: given - q))
best_ldp = partial(best, ldp_rows, partial(_level, lambda given, _: np.ptp(given, axis=1)), extra=1)


def conditional_gain(context: Floats) -> Callable[[Floats], Floats]:
    """For context[k, x] = P(k, x): the map from rows r = Q(y|·) to what y adds to I(X;Y|K).

    Σ_k Σ_x r_x P(k,x) log(r_x / Σ_x' r_x' P(x'|k)): convex and homogeneous in r, so extreme rows suffice.
    """
    weight, mass = context.sum(axis=0), context.sum(axis=1)
    log_mass = np.log(np.where(mass > 0.0, mass, 1.0))

    def gain(rows: Floats) -> Floats:
        seen = rows @ context.T
        return np.asarray(xlogx(rows) @ weight - xlogx(seen).sum(axis=1) + seen @ log_mass)

    return gain


def as_matrix(cover: Cover) -> Floats:
    """Q[y, x] from a cover of the all-ones row, columns scaled to sum 1."""
    matrix = cover.weights[:, None] * cover.points
    return np.asarray(matrix / matrix.sum(axis=0))


# --- the best mechanism that reads S too under P(y|s) ≤ E·P(y): pointwise maximal leakage -----------------------------
# Best is H(U|S) + max I(S;Y) (`told_in_full`), over mixtures of posteriors q of S in {0 ≤ q_s ≤ E·p_s, Σq = 1}: extreme
# points, at which all secrets but one are at 0 or at E·p_s (docs/pml.md, what is proved).


FILLINGS = 64  # for each of many secrets: orders in which secrets are raised until nothing is left


def best_response(p: Floats, E: float) -> Floats:
    """P(y|s) [y, s] of the response to S that tells most: the funnel where S itself is released, or, for many secrets,
    the best mixture of many extreme points."""
    if len(p) <= SUBSETS:
        return best_pml(np.diag(p), math.log(E)).matrix
    points = np.concatenate([_filled(p, E), p[None]])
    found = best_cover(p, points, xlogx(points).sum(1) - points @ np.log(p))
    return np.asarray(found.weights[:, None] * found.points / p)


def response_bound(p: Floats, epsilon: float) -> float:
    """No response to S under ε tells more: exact for few secrets, min{H(S), ε} for many."""
    p = p[p > 0]
    most = min(float(-xlogx(p).sum()), epsilon)
    if len(p) > SUBSETS or len(p) < 2 or epsilon == 0:
        return most
    return min(most, best_pml(np.diag(p), min(epsilon, EXPONENT)).bound)


def _filled(p: Floats, E: float) -> Floats:
    """Extreme points that raise secrets in some order, the likeliest ones among them."""
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(len(p)) for _ in range(FILLINGS * len(p))])
    before = np.cumsum(np.minimum(E * p, 1.0)[orders], 1)
    taken = np.diff(np.minimum(before, 1.0), axis=1, prepend=0.0)
    return np.take_along_axis(taken, np.argsort(orders, 1), 1)


def telling_rows(p: Floats, E: float) -> Floats:
    """Rows [y, s·|U| + u] of the best mechanism at P̂, P̂ [s, u]; what never occurs is answered by chance."""
    ps = p.sum(1)
    response = best_response(ps[ps > 0] / ps.sum(), E)
    answers = np.repeat(response @ ps[ps > 0, None] / ps.sum(), len(p), axis=1)
    answers[:, ps > 0] = response
    return told_in_full(answers, p).rows()


# --- I(S;Y) limited on average: mixtures of posteriors and local ascent -----------------------------------------------


ASCENT = (1e-4, 0.3, 1e-10)  # floor of a start, its disturbance in logits, and the share below which a value is dropped
CLIMBS = 150  # of ascent: half of them do in most cases


def leaked(points: Floats, g: Floats, secret: Floats) -> Floats:
    """D(P(S|y) ‖ P(S)) for posteriors v of X as rows: what an output adds to I(S;Y), per unit of mass."""
    posterior = (points @ g.T) * secret
    return np.asarray((xlogx(posterior) - posterior * np.log(secret)).sum(axis=1))


def best_mutual(p: Floats, leakage: float, budget: Budget) -> Channel:
    """A mechanism with high I(X;Y) and I(S;Y) ≤ leakage: the best mixture of posteriors, improved by local ascent.

    In posterior form both sides are linear in the masses α_y, so for given posteriors the best mechanism is an LP; one
    value and any two of them are the first posteriors, ascent on f(v) − β·D(v) − λ·v from those in use and from random
    ones finds the next. The bound is min{H(X), M + H(X|S)}.
    """
    p = p[p.sum(axis=1) > 0.0] / p.sum()
    column, secret = p.sum(axis=0), p.sum(axis=1)
    p, x, g = p[:, column > 0.0], column[column > 0.0], likelihood(p)[:, column > 0.0]
    one, (first, second) = np.eye(len(x)), np.triu_indices(len(x), 1)
    blocks = np.concatenate([one, one[first] + one[second]]) * x
    points = np.concatenate([blocks / blocks.sum(axis=1, keepdims=True), x[None]])
    random, master = np.random.default_rng(0), Mixture(x, max(leakage, DUST))
    while len(points):
        spends = leaked(points, g, secret)
        master.offer(points, xlogx(points).sum(axis=1), np.where(spends > DUST, spends, 0.0))
        weights, prices, rate = master.best()
        used = weights > DUST
        if budget.over:
            break
        starts = np.maximum(np.concatenate([master.points[used], random.dirichlet(x * len(x), 4 * len(x))]), ASCENT[0])
        starts = starts * np.exp(ASCENT[1] * random.standard_normal(starts.shape))
        points = _ascended(starts / starts.sum(axis=1, keepdims=True), prices, rate, g, secret)
    bound = min(0.0, leakage + float(xlogx(x).sum() + xlogx(secret).sum() - xlogx(p).sum()))
    return answer(column, weights[used], master.points[used], bound, "local ascent")


def _ascended(v: Floats, prices: Floats, rate: float, g: Floats, secret: Floats) -> Floats:
    """Posteriors v with f(v) − β D(v) − λ·v > 0, from ascent in the logits of v: each has steps of its own length."""

    def worth(v: Floats) -> Floats:
        return np.asarray(xlogx(v).sum(axis=1) - rate * leaked(v, g, secret) - v @ prices)

    length, value = np.ones((len(v), 1)), worth(v)
    for _ in range(CLIMBS):
        slope = arrays.log_or_minus_infinity(v) - rate * (np.log(np.maximum(v @ g.T, LEAST)) * secret) @ g - prices
        there = v * np.exp(length * (slope - slope.max(axis=1, keepdims=True)))
        there = np.where(there > ASCENT[2] * there.sum(axis=1, keepdims=True), there, 0.0)
        there /= there.sum(axis=1, keepdims=True)
        reached = worth(there)
        better = (reached > value)[:, None]
        v, value = np.where(better, there, v), np.maximum(value, reached)
        length = np.where(better, 2.0 * length, length / 4.0)
    return v[value > arrays.SEALING]


# --- integer vectors that satisfy integer equations exactly -----------------------------------------------------------


Vector = npt.NDArray[np.object_]  # of Python's integers


def kernel(equations: Sequence[Sequence[int]], size: int) -> list[Vector]:
    """A basis of {r ∈ Z^size : every equation · r = 0}, by unimodular column operations."""
    basis = list(np.eye(size, dtype=np.object_))
    for equation in equations:
        value = [np.array(equation, np.object_) @ v for v in basis]
        while len(live := sorted((abs(x), i) for i, x in enumerate(value) if x)) > 1:
            least = live[0][1]
            for _, i in live[1:]:
                times = value[i] // value[least]
                value[i] -= times * value[least]
                basis[i] = basis[i] - times * basis[least]
        basis = [v for v, x in zip(basis, value, strict=True) if x == 0]
    return basis


def reduced(basis: list[Vector]) -> list[Vector]:
    """The same lattice with a short basis: no vector is made shorter by multiples of another."""
    b, moved = sorted(basis, key=lambda v: int(v @ v)), True
    while moved:
        moved = False
        for i, j in permutations(range(len(b)), 2):
            size = b[j] @ b[j]
            shorter = b[i] - (2 * (b[i] @ b[j]) + size) // (2 * size) * b[j]
            if shorter @ shorter < b[i] @ b[i]:
                b[i], moved = shorter, True
    return b


def nearby(basis: list[Vector], target: Sequence[int]) -> Vector:
    """A lattice vector near an integer target: coordinates in the basis, rounded; refined twice on what is left."""
    whole, rest = np.array(basis), np.array(target, np.object_)
    table = whole.astype(float).T
    scale = float(np.abs(table).max())
    for _ in range(3):
        coordinates, *_ = np.linalg.lstsq(table / scale, rest.astype(float) / scale, rcond=None)
        rest = rest - np.array([round(float(c)) for c in coordinates], np.object_) @ whole
    return np.asarray(np.array(target, np.object_) - rest)
