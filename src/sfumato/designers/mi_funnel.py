"""mi-funnel: the classic privacy funnel, I(X;Y) large with I(S;Y) ≤ ε. An average-case promise, unlike every other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.funnel import perfect
from sfumato.designers.lip import lip_rows
from sfumato.designers.posteriors import enumerated, independence_rows, information, mechanism, xlogx
from sfumato.errors import InputError
from sfumato.mechanism import Table
from sfumato.uncertainty import Exactly


@dataclass(frozen=True, slots=True, eq=False)
class MutualFunnel:
    """Q[y, x] with I(X;Y) = value and I(S;Y) = leakage ≤ M; the bound is min{H(X), M + H(X|S)}."""

    matrix: Floats
    value: float
    bound: float
    leakage: float


def mi_funnel(task: Task, *, time_limit: float = 5.0) -> Draft:
    """High I(X;Y) with I(S;Y) ≤ ε nats (M in the literature), by greedy merging and local ascent. A baseline.

    Makhdoumi et al. 2014; Ding and Sadeghi 2019. The promise is about the average: single outputs may tell S outright.
    The certificate proves I(S;Y) ≤ ε and states the worst-case level beside it. Not a global optimum.
    """
    if not isinstance(task.within, Exactly):
        raise InputError(f"mi-funnel is for a known distribution; give sf.Exactly(joint), not {task.within.kind!r}.")
    if task.epsilon == 0.0:
        return perfect(task, "mi-funnel")  # no average can hide anything: this is perfect privacy
    found = best_mutual(task.joint.p, leakage=task.epsilon, time_limit=time_limit)
    note = "average case: I(S;Y) ≤ ε says nothing about single outputs; see the worst output in the certificate"
    return Draft(Table(found.matrix, 1), "mi-funnel", found.bound, (note,), fine=True)


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
    gain = loss - float(
        (xlogx(first + second) - xlogx(first) - xlogx(second)).sum()
    )
    return gain / max(-loss, 1e-300) if loss < 0 else -gain / max(loss, 1e-300)


def best_mutual(p: Floats, *, leakage: float, time_limit: float = 5.0, seed: int = 0) -> MutualFunnel:
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
    random, deadline = np.random.default_rng(seed), time.monotonic() + time_limit
    while time.monotonic() < deadline:
        weights, prices, rate = _mixture(points, x, g, secret, leakage)
        fresh = _ascended(points[weights > 1e-9], prices, rate, g, secret, random, deadline)
        if len(fresh) == 0:
            break
        points = np.concatenate([points, fresh])
    weights, *_ = _mixture(points, x, g, secret, leakage)
    used = weights > 1e-12
    spread = np.zeros((int(used.sum()), p.shape[1]))
    spread[:, live] = points[used]
    matrix = mechanism(weights[used], spread, column)
    between = float(xlogx(secret).sum() - xlogx(p).sum())
    bound = min(-float(xlogx(x).sum()), leakage + between)
    return MutualFunnel(matrix, information(matrix, column), bound, _secret_information(matrix, p))


def _worst_case_posteriors(p: Floats, x: Floats) -> Floats:
    """Posteriors of the perfectly private design and of ε-LIP designs, where their rays are few."""
    from sfumato.solve.rays import Degenerate, TooManyRays

    designs = []
    for epsilon in (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        rows, flat = (
            (np.zeros((0, len(x))), independence_rows(p)) if epsilon == 0.0 else (lip_rows(p, epsilon), None)
        )
        try:
            designs.append(enumerated(x, rows, flat, limit=30_000).matrix * x)
        except (TooManyRays, Degenerate):
            continue
    posteriors = np.concatenate([*designs, x[None, :]])
    return np.asarray(posteriors / posteriors.sum(axis=1, keepdims=True))


def _secret_information(matrix: Floats, p: Floats) -> float:
    return information(matrix @ (p / p.sum(axis=1, keepdims=True)).T, p.sum(axis=1))


def _mixture(
    points: Floats, x: Floats, g: Floats, secret: Floats, leakage: float
) -> tuple[Floats, Floats, float]:
    """max Σ α f(v) : Σ α v = x, Σ α D(v) ≤ leakage; with the prices λ of x and β of leakage."""
    import highspy

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    count = len(points)
    worth, cost = xlogx(points).sum(axis=1), leaked(points, g, secret)
    table = np.hstack([points, np.where(cost > 1e-13, cost, 0.0)[:, None]])
    rows = table.shape[1]
    low, high = np.append(x, -highspy.kHighsInf), np.append(x, max(leakage, 1e-12))
    solver.addRows(rows, low, high, 0, np.zeros(rows, np.int32), np.zeros(0, np.int32), np.zeros(0))
    starts, index = (
        (np.arange(count) * rows).astype(np.int32),
        np.tile(np.arange(rows, dtype=np.int32), count),
    )
    solver.addCols(
        count,
        worth,
        np.zeros(count),
        np.full(count, highspy.kHighsInf),
        table.size,
        starts,
        index,
        table.ravel(),
    )
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.run()
    solution = solver.getSolution()
    prices = np.asarray(solution.row_dual)
    return np.asarray(solution.col_value), prices[:-1], float(max(0.0, prices[-1]))


def _ascended(
    starts: Floats,
    prices: Floats,
    rate: float,
    g: Floats,
    secret: Floats,
    random: np.random.Generator,
    deadline: float,
) -> Floats:
    """Posteriors v with f(v) − β D(v) − λ·v > 0, from ascent in the logits of v."""
    from scipy.optimize import minimize

    found = []
    for start in starts:
        if time.monotonic() > deadline:
            break
        logits = np.log(np.maximum(start, 1e-4)) + 0.3 * random.standard_normal(len(start))
        answer = minimize(_deficit, logits, args=(prices, rate, g, secret), jac=True, method="L-BFGS-B")
        v = np.exp(answer.x - answer.x.max())
        v = np.where(v > 1e-10 * v.sum(), v, 0.0)
        v /= v.sum()
        if float(xlogx(v).sum() - rate * leaked(v[None], g, secret)[0] - prices @ v) > 1e-8:
            found.append(v)
    return np.array(found).reshape(-1, starts.shape[1])


def _deficit(logits: Floats, prices: Floats, rate: float, g: Floats, secret: Floats) -> tuple[float, Floats]:
    v = np.exp(logits - logits.max())
    v /= v.sum()
    ratio = np.maximum(g @ v, 1e-300)
    posterior = secret * ratio
    value = float(xlogx(v).sum() - rate * (posterior @ np.log(ratio)) - prices @ v)
    slope = np.log(np.maximum(v, 1e-300)) + 1.0 - rate * ((secret * (np.log(ratio) + 1.0)) @ g) - prices
    return -value, -np.asarray(v * (slope - float(v @ slope)))
