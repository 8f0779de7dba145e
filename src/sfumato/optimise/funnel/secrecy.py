"""Secrecy that is no cone of ratios: I(S;Y) limited on average, and none at all in exact integers.

On average: mixtures of posteriors and local ascent. Not at all: integer vectors that satisfy integer equations, by a
short basis of their lattice and the one of them that is nearest to a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from sfumato.optimise.arrays import DUST, SEALING, TINY, Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.posteriors import Funnel, answer, enumerated, independence_rows, likelihood, lip_rows
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays
from sfumato.optimise.linear import Mixture

FIRST_LEVELS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the LIP designs whose posteriors are offered first
FIRST_RAYS = 30_000  # in each of them at most
ASCENT = (1e-4, 0.3, 1e-10)  # floor of a start, its disturbance in logits, and the share below which a value is dropped


def leaked(points: Floats, g: Floats, secret: Floats) -> Floats:
    """D(P(S|y) ‖ P(S)) for posteriors v of X as rows: what an output adds to I(S;Y), per unit of mass."""
    posterior = (points @ g.T) * secret
    return np.asarray((xlogx(posterior) - posterior * np.log(secret)).sum(axis=1))


def best_mutual(p: Floats, leakage: float, budget: Budget) -> Funnel:
    """A mechanism with high I(X;Y) and I(S;Y) ≤ leakage: the best mixture of posteriors, improved by local ascent.

    In posterior form both sides are linear in the masses α_y, so for given posteriors the best mechanism is an LP; one
    value, any two of them and the worst-case designs are the first posteriors, ascent on f(v) − β·D(v) − λ·v finds the
    next. The bound is min{H(X), M + H(X|S)}.
    """
    p = p[p.sum(axis=1) > 0.0] / p.sum()
    column, secret = p.sum(axis=0), p.sum(axis=1)
    p, x, g = p[:, column > 0.0], column[column > 0.0], likelihood(p)[:, column > 0.0]
    one = np.eye(len(x))
    blocks = np.concatenate([one, one[np.triu_indices(len(x), 1)[0]] + one[np.triu_indices(len(x), 1)[1]]]) * x
    points = np.concatenate([blocks / blocks.sum(axis=1, keepdims=True), _worst_case_posteriors(p, x)])
    random, master = np.random.default_rng(0), Mixture(x, max(leakage, DUST))
    while True:
        spends = leaked(points, g, secret)
        master.offer(points, xlogx(points).sum(axis=1), np.where(spends > DUST, spends, 0.0))
        weights, prices, rate = master.best()
        used = weights > DUST
        points = _ascended(master.points[used], prices, rate, g, secret, random, budget)
        if len(points) == 0 or budget.over:
            break
    bound = min(0.0, leakage + float(xlogx(x).sum() + xlogx(secret).sum() - xlogx(p).sum()))
    return answer(column, weights[used], master.points[used], bound, "local ascent")


def _worst_case_posteriors(p: Floats, x: Floats) -> Floats:
    """Posteriors of the perfectly private design and of ε-LIP designs, where their rays are few."""
    cones = [(np.zeros((0, len(x))), independence_rows(p)), *((lip_rows(p, level), None) for level in FIRST_LEVELS)]
    designs = []
    for rows, flat in cones:
        try:
            designs.append(enumerated(x, rows, flat, limit=FIRST_RAYS).matrix * x)
        except (TooManyRays, Degenerate):
            continue
    posteriors = np.concatenate([*designs, x[None, :]])
    return np.asarray(posteriors / posteriors.sum(axis=1, keepdims=True))


def _ascended(
    starts: Floats, prices: Floats, rate: float, g: Floats, secret: Floats, random: np.random.Generator, budget: Budget
) -> Floats:
    """Posteriors v with f(v) − β D(v) − λ·v > 0, from ascent in the logits of v."""
    from scipy.optimize import minimize

    floor, disturbance, dropped = ASCENT
    found = []
    for start in starts:
        if budget.over:
            break
        logits = np.log(np.maximum(start, floor)) + disturbance * random.standard_normal(len(start))
        met = minimize(_deficit, logits, args=(prices, rate, g, secret), jac=True, method="L-BFGS-B").x
        v = np.exp(met - met.max())
        v = np.where(v > dropped * v.sum(), v, 0.0)
        v /= v.sum()
        if float(xlogx(v).sum() - rate * leaked(v[None], g, secret)[0] - prices @ v) > SEALING:
            found.append(v)
    return np.array(found).reshape(-1, starts.shape[1])


def _deficit(logits: Floats, prices: Floats, rate: float, g: Floats, secret: Floats) -> tuple[float, Floats]:
    v = np.exp(logits - logits.max())
    v /= v.sum()
    ratio = np.maximum(g @ v, TINY)
    posterior = secret * ratio
    value = float(xlogx(v).sum() - rate * (posterior @ np.log(ratio)) - prices @ v)
    slope = np.log(np.maximum(v, TINY)) + 1.0 - rate * ((secret * (np.log(ratio) + 1.0)) @ g) - prices
    return -value, -np.asarray(v * (slope - float(v @ slope)))


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
