"""The average-case funnel: I(X;Y) large with I(S;Y) limited, by mixtures of posteriors and local ascent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.optimise.arrays import DUST, TINY, Floats, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.posteriors import enumerated, independence_rows, information, lip_rows, mechanism
from sfumato.optimise.funnel.rays import Degenerate, TooManyRays
from sfumato.optimise.linear import CoverProgramme

FIRST_LEVELS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the LIP designs whose posteriors are offered first
FIRST_RAYS = 30_000  # in each of them at most
NOTHING = 1e-13  # nats: a posterior that leaks less leaks nothing
START = 1e-9  # weight of a posterior from which ascent starts
WORTHWHILE = 1e-8  # reduced worth above which a posterior is offered
ASCENT = (1e-4, 0.3, 1e-10)  # floor of a start, its disturbance in logits, and the share below which a value is dropped


@dataclass(frozen=True, slots=True, eq=False)
class MutualFunnel:
    """Q[y, x] with I(X;Y) = value and I(S;Y) = leakage ≤ M; the bound is min{H(X), M + H(X|S)}."""

    matrix: Floats
    value: float
    bound: float
    leakage: float


def leaked(points: Floats, g: Floats, secret: Floats) -> Floats:
    """D(P(S|y) ‖ P(S)) for posteriors v of X as rows: what an output adds to I(S;Y), per unit of mass."""
    posterior = (points @ g.T) * secret
    return np.asarray((xlogx(posterior) - posterior * np.log(secret)).sum(axis=1))


def merged_supports(p: Floats) -> list[frozenset[int]]:
    """The blocks met by greedy merging: from singletons, join the two whose union cuts I(S;Y) most per loss of I(X;Y).

    Agglomerative clustering for the funnel (Makhdoumi et al. 2014; Ding and Sadeghi 2019).
    """
    blocks = [frozenset([x]) for x in np.flatnonzero(p.sum(axis=0) > 0.0).tolist()]
    met = list(blocks)
    while len(blocks) > 1:
        best = max(combinations(blocks, 2), key=lambda pair: _rate(p, *pair))
        blocks = [block for block in blocks if block not in best] + [best[0] | best[1]]
        met.append(blocks[-1])
    return met


def _rate(p: Floats, one: frozenset[int], two: frozenset[int]) -> float:
    first, second = p[:, sorted(one)].sum(axis=1), p[:, sorted(two)].sum(axis=1)
    masses = np.array([first.sum(), second.sum()])
    loss = float(xlogx(masses.sum()) - xlogx(masses).sum())
    gain = loss - float((xlogx(first + second) - xlogx(first) - xlogx(second)).sum())
    return gain / max(-loss, TINY) if loss < 0 else -gain / max(loss, TINY)


def best_mutual(p: Floats, leakage: float, budget: Budget) -> MutualFunnel:
    """A mechanism with high I(X;Y) and I(S;Y) ≤ leakage: the best mixture of posteriors, improved by local ascent.

    In posterior form both sides are linear in the masses α_y, so for given posteriors the best mechanism is an LP;
    greedy merging and the worst-case designs supply the first posteriors, ascent on f(v) − β·D(v) − λ·v the next.
    """
    p = p / p.sum()
    column, secret = p.sum(axis=0), p.sum(axis=1)
    p = p[secret > 0.0]
    secret = secret[secret > 0.0]
    live = np.flatnonzero(column > 0.0)
    g = p[:, live] / column[live] / secret[:, None]
    x = column[live]
    position = {int(v): i for i, v in enumerate(live)}
    supports = merged_supports(p) + [frozenset(pair) for pair in combinations(live.tolist(), 2)]
    points = np.zeros((len(supports) + 1, len(live)))
    points[-1] = x
    for row, block in zip(points, supports, strict=False):
        index = [position[v] for v in block]
        row[index] = x[index] / x[index].sum()
    points = np.concatenate([points, _worst_case_posteriors(p[:, live], x)])
    random, master = np.random.default_rng(0), CoverProgramme(x, max(leakage, DUST))
    while True:
        spends = leaked(points, g, secret)
        master.offer(points, xlogx(points).sum(axis=1), np.where(spends > NOTHING, spends, 0.0))
        weights, prices, rate = master.solve()
        points = _ascended(master.points[weights > START], prices, rate, g, secret, random, budget)
        if len(points) == 0 or budget.over:
            break
    used = weights > DUST
    spread = np.zeros((int(used.sum()), p.shape[1]))
    spread[:, live] = master.points[used]
    matrix = mechanism(weights[used], spread, column)
    between = float(xlogx(secret).sum() - xlogx(p).sum())
    bound = min(-float(xlogx(x).sum()), leakage + between)
    return MutualFunnel(matrix, information(matrix, column), bound, _secret_information(matrix, p))


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


def _secret_information(matrix: Floats, p: Floats) -> float:
    return information(matrix @ (p / p.sum(axis=1, keepdims=True)).T, p.sum(axis=1))


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
        answer = minimize(_deficit, logits, args=(prices, rate, g, secret), jac=True, method="L-BFGS-B")
        v = np.exp(answer.x - answer.x.max())
        v = np.where(v > dropped * v.sum(), v, 0.0)
        v /= v.sum()
        if float(xlogx(v).sum() - rate * leaked(v[None], g, secret)[0] - prices @ v) > WORTHWHILE:
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
