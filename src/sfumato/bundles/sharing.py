"""Sharing: how ε, or how the rows, are divided among the parts so that all tables together are estimated best.

What is minimised is Σ_T w_T·n·E‖p̂_T − p_T‖² over all tables T of one and two columns, at the uniform distribution,
up to a
constant: Σ_T w_T·m_T with the second moments m_T of the scores that estimate T (`Answer.moment`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.bundles.answers import Answer, best_answer

SECRET = -1  # the secret among the indices of columns
LEAST = 1e-6  # of a share
ROUNDS = 3000
CLOSE = 1e-4  # relative gap at which the division of rows is left


@dataclass(frozen=True, slots=True)
class TurnLayout:
    """The columns by size, which tables are wanted, and how much each matters."""

    secret: int
    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    with_secret: bool = True
    order: int = 2  # of the largest tables wanted
    asked: tuple[tuple[int, ...], ...] | None = None  # the tables that are wanted, where somebody says which

    def size(self, column: int) -> int:
        return self.secret if column == SECRET else self.sizes[column]

    def wanted(self) -> dict[tuple[int, ...], float]:
        """Every table with its weight: the product of its columns' weights, 1 for the secret."""
        return {t: math.prod(1.0 if c == SECRET else self.weights[c] for c in t) for t in self._tables()}

    def _tables(self) -> list[tuple[int, ...]]:
        if self.asked is not None:
            return list(self.asked)
        every = [*([SECRET] if self.with_secret else []), *range(len(self.sizes))]
        return [t for k in range(1, self.order + 1) for t in combinations(every, k)]

    def effects(self) -> dict[tuple[int, ...], float]:
        """Every effect that a wanted table has, weighted by its part in all of them.

        A table is a sum of the effects of its columns, of every two, …; one of some columns is spread over the K cells
        that the others have, so that a K-th of its square is in the table's.
        """
        out: dict[tuple[int, ...], float] = {}
        for table, weight in self.wanted().items():
            for k in range(1, len(table) + 1):
                for effect in combinations(table, k):
                    others = math.prod(self.size(c) for c in table if c not in effect)
                    out[effect] = out.get(effect, 0.0) + weight / others
        return {effect: w for effect, w in out.items() if all(self.size(c) > 1 for c in effect)}


@dataclass(frozen=True, slots=True)
class Spec:
    """A part to be: its useful columns, and whether it reads the secret."""

    columns: tuple[int, ...]
    reads_secret: bool = False

    @property
    def all(self) -> frozenset[int]:
        return frozenset((*self.columns, *([SECRET] if self.reads_secret else [])))

    def answer(self, layout: TurnLayout, epsilon: float) -> Answer:
        rows = layout.secret if self.reads_secret else 1
        return best_answer(rows, math.prod(layout.sizes[c] for c in self.columns), round(epsilon, 9))


def moment(spec: Spec, answer: Answer, table: Sequence[int], layout: TurnLayout) -> float:
    """Of the table's columns inside one part."""
    size = math.prod(layout.sizes[c] for c in table if c != SECRET)
    return answer.moment(size, secret=SECRET in table)


def error_together(specs: Sequence[Spec], answers: Sequence[Answer], layout: TurnLayout) -> float:
    """Tables across two parts are means of products of scores; noise is independent, so moments multiply."""
    home = {c: i for i, spec in enumerate(specs) for c in spec.all}
    total = 0.0
    for table, weight in layout.wanted().items():
        inside: dict[int, list[int]] = {}
        for column in table:
            inside.setdefault(home[column], []).append(column)
        total += weight * math.prod(moment(specs[i], answers[i], part, layout) for i, part in inside.items())
    return total


def shares_of_epsilon(
    specs: Sequence[Spec], layout: TurnLayout, epsilon: float, costs: Floats | None = None
) -> tuple[Floats, float]:
    """Levels e with Σ costs·e = ε that minimise the error, and the error.

    For single values m is log-convex in e (1/(e^x − 1) is a sum of log-convex terms), sums of products of such
    functions are convex, and the minimum is global; blocks of changing order make it a descent from even shares.
    """
    from scipy.optimize import minimize

    cost = np.ones(len(specs)) if costs is None else np.maximum(costs, LEAST)

    def levels(z: Floats) -> Floats:
        share = np.exp(z - z.max())
        return np.asarray(np.maximum(epsilon * share / share.sum() / cost, LEAST))

    def error(z: Floats) -> float:
        answers = [s.answer(layout, float(e)) for s, e in zip(specs, levels(z), strict=True)]
        return math.log(error_together(specs, answers, layout))

    start = np.zeros(len(specs))
    if len(specs) == 1:
        return levels(start), math.exp(error(start))
    found = minimize(error, start, method="L-BFGS-B", options={"maxiter": 60, "eps": 1e-4})
    z = found.x if found.fun < error(start) else start
    return levels(z), math.exp(error(z))


def merged_groups(layout: TurnLayout, epsilon: float, most_cells: int) -> tuple[list[Spec], Floats, float]:
    """Groups for parts answered together: columns are merged two groups at a time while that lowers the error."""
    secret = [Spec((), True)] if layout.with_secret else []
    groups = [Spec((c,)) for c in range(len(layout.sizes))]
    levels, best = shares_of_epsilon([*secret, *groups], layout, epsilon)
    while True:
        tried = []
        for a, b in _mergeable(groups, layout, most_cells):
            rest = [g for i, g in enumerate(groups) if i not in (a, b)]
            specs = [*rest, Spec((*groups[a].columns, *groups[b].columns))]
            tried.append((*shares_of_epsilon([*secret, *specs], layout, epsilon), specs))
        better = min(tried, key=lambda t: t[1], default=None)
        if better is None or better[1] >= best * (1 - 1e-6):
            return [*secret, *groups], levels, best
        levels, best, groups = better


def _mergeable(groups: Sequence[Spec], layout: TurnLayout, most_cells: int) -> list[tuple[int, int]]:
    """The pair with the smallest product of each pair of sizes: other pairs of the same sizes and weights are alike."""
    found: dict[Any, tuple[int, int]] = {}
    for a, b in combinations(range(len(groups)), 2):
        columns = (*groups[a].columns, *groups[b].columns)
        if math.prod(layout.sizes[c] for c in columns) <= most_cells:
            key = tuple(sorted((layout.sizes[c], layout.weights[c]) for c in columns))
            found.setdefault((key, len(groups[a].columns)), (a, b))
    return list(found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """Shares of the rows, the error they give, and a proved lower bound of the error of any division."""

    shares: Floats
    error: float
    bound: float


def shares_of_rows(specs: Sequence[Spec], answers: Sequence[Answer], layout: TurnLayout) -> Division:
    """π that minimises Σ_e w_e / Σ_{g ⊇ e} π_g/m_{ge}: each effect is estimated from all parts that hold it.

    With an effect in one part only it is Neyman's π ∝ √(w m). The function is convex; multiplying π by the square
    root of its slope lowers it, and the slopes d prove error* ≥ 2·error − max d (ours, from convexity).
    """
    wanted = layout.effects()
    precision = np.zeros((len(wanted), len(specs)))
    for t, effect in enumerate(wanted):
        dimensions = math.prod(layout.size(c) - 1 for c in effect)
        cells = math.prod(layout.size(c) for c in effect)
        for g, (spec, answer) in enumerate(zip(specs, answers, strict=True)):
            if set(effect) <= spec.all:
                precision[t, g] = 1 / answer.effect(dimensions, cells, secret=effect == (SECRET,))
    weight, pi = np.array(list(wanted.values())), np.full(len(specs), 1 / len(specs))
    error, bound = math.inf, 0.0
    for _ in range(ROUNDS):
        each = precision @ pi
        if not np.all(each > 0):
            return Division(pi, math.inf, math.inf)
        slope = precision.T @ (weight / each**2)
        error = float((weight / each).sum())
        bound = max(bound, 2 * error - float(slope.max()))
        if error - bound <= CLOSE * error:
            break
        pi = pi * np.sqrt(slope)
        pi = np.maximum(pi / pi.sum(), LEAST)
        pi = pi / pi.sum()
    return Division(pi, error, bound)


def named_errors(errors: Mapping[str, float]) -> str:
    """Compared plans in words, the best first."""
    ranked = sorted(errors.items(), key=lambda item: item[1])
    return ", ".join(f"{name} {value:.4g}" for name, value in ranked)
