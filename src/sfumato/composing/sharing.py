"""Sharing: how ε, or how the rows, are divided among the parts so that all tables together are estimated best.

What is minimised is n times the mean square error of a share, at the uniform distribution: the mean over all cells of
tables of one column, and that over all cells of tables of two, in equal parts (`TurnLayout.wanted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Protocol

import numpy as np

from sfumato.alphabet import Floats
from sfumato.composing.answers import SECRET, Answer, best_answer, possible
from sfumato.libraries import scipy
from sfumato.mechanism import Law


@dataclass(frozen=True, slots=True)
class Dividing:
    """How long shares are divided anew."""

    least: float = 1e-6  # of a share
    rounds: int = 10_000
    turns: int = 4  # of choosing answers and shares for each other
    gap: float = 1e-4  # relative gap at which the division of rows is left


DIVIDING = Dividing()


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
        """Every table with the weight of its squared error: the product of its columns' weights, 1 for the secret, over
        the cells of all tables of as many columns.

        The sum is then the mean square error of a share, of tables of one column and of two in equal parts. Of plain
        sums two columns would be nearly all, and single columns told badly for a little more of pairs (ours).
        """
        tables = self._tables()
        given = {t: math.prod(1.0 if c == SECRET else self.weights[c] for c in t) for t in tables}
        cells = dict.fromkeys(map(len, tables), 0.0)
        for t, weight in given.items():
            cells[len(t)] += weight * self.cells(t)
        return {t: weight / cells[len(t)] / len(cells) for t, weight in given.items()}

    def cells(self, table: Sequence[int]) -> int:
        return math.prod(self.size(c) for c in table)

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

    def answer(self, layout: TurnLayout, epsilon: float, *, nearly: bool = False) -> Answer:
        return best_answer(*self.shape(layout), round(epsilon, 9), nearly=nearly)

    def shape(self, layout: TurnLayout) -> tuple[int, int]:
        return layout.secret if self.reads_secret else 1, layout.cells(self.columns)


class PartAnswer(Protocol):
    """How a part answers: a law, its level about what it reads, and how well effects are told by it."""

    @property
    def epsilon(self) -> float: ...
    @property
    def rows(self) -> int: ...
    @property
    def method(self) -> str: ...
    def law(self) -> Law: ...
    def noise(self, effect: Sequence[int], size: Callable[[int], int]) -> float: ...


def error_together(
    specs: Sequence[Spec], answers: Sequence[Answer], layout: TurnLayout, *, nearly: bool = False
) -> float:
    """Tables across two parts are means of products of scores; noise is independent, so moments multiply."""
    home = {c: i for i, spec in enumerate(specs) for c in spec.all}
    total = 0.0

    @cache
    def moment(i: int, part: tuple[int, ...]) -> float:
        cells = layout.cells([c for c in part if c != SECRET])
        return answers[i].moment(cells, secret=SECRET in part, nearly=nearly)

    for table, weight in layout.wanted().items():
        inside: dict[int, list[int]] = {}
        for column in table:
            inside.setdefault(home[column], []).append(column)
        moments = math.prod(moment(i, tuple(part)) for i, part in inside.items())
        total += weight * (moments - 1 / layout.cells(table))
    return total


def shares_of_epsilon(
    specs: Sequence[Spec], layout: TurnLayout, epsilon: float, costs: Floats | None = None
) -> tuple[Floats, float]:
    """Levels e with Σ costs·e = ε that minimise the error, and the error.

    For single values m is log-convex in e (1/(e^x − 1) is a sum of log-convex terms), sums of products of such
    functions are convex, and the minimum is global; blocks of changing order make it a descent from even shares.
    """
    cost = np.ones(len(specs)) if costs is None else np.maximum(costs, DIVIDING.least)

    def levels(z: Floats) -> Floats:
        share = np.exp(z - z.max())
        return np.asarray(np.maximum(epsilon * share / share.sum() / cost, DIVIDING.least))

    def error(z: Floats, nearly: bool = True) -> float:
        answers = [s.answer(layout, float(e), nearly=nearly) for s, e in zip(specs, levels(z), strict=True)]
        return math.log(error_together(specs, answers, layout, nearly=nearly))

    z = start = np.zeros(len(specs))
    if len(specs) > 1:
        found = scipy.optimize.minimize(error, start, method="L-BFGS-B", options={"maxiter": 60, "eps": 1e-4})
        z = found.x if error(found.x, False) < error(start, False) else start
    return levels(z), math.exp(error(z, False))


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
    found: dict[object, tuple[int, int]] = {}
    for a, b in combinations(range(len(groups)), 2):
        columns = (*groups[a].columns, *groups[b].columns)
        if math.prod(layout.sizes[c] for c in columns) <= most_cells:
            key = tuple(sorted((layout.sizes[c], layout.weights[c]) for c in columns))
            found.setdefault((key, len(groups[a].columns)), (a, b))
    return list(found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """Shares of the rows, the error they give, a proved lower bound of the error of any division, and by how much a
    little more precision of each effect would lower it."""

    shares: Floats
    error: float
    bound: float
    prices: Mapping[tuple[int, ...], float]


def shares_of_rows(specs: Sequence[Spec], answers: Sequence[PartAnswer], layout: TurnLayout) -> Division:
    """π that minimises Σ_e w_e / Σ_{g ⊇ e} π_g/m_{ge}: each effect is estimated from all parts that hold it.

    With an effect in one part only it is Neyman's π ∝ √(w m). The function is convex; multiplying π by the square
    root of its slope lowers it, and the slopes d prove error* ≥ 2·error − max d (ours, from convexity).
    """
    wanted = layout.effects()
    place = {effect: t for t, effect in enumerate(wanted)}
    entries = [
        (place[e], i, 1 / answer.noise(e, layout.size))
        for i, (spec, answer) in enumerate(zip(specs, answers, strict=True)) for e in held_effects(spec) if e in place
    ]
    t, g = np.array([x[:2] for x in entries], np.int64).reshape(-1, 2).T
    precision, weight = np.array([x[2] for x in entries]), np.array([*wanted.values()])
    pi, error, bound, each = np.full(len(specs), 1 / len(specs)), math.inf, 0.0, weight
    for _ in range(DIVIDING.rounds):
        each = np.bincount(t, precision * pi[g], len(wanted))
        if not np.all(each > 0):
            return Division(pi, math.inf, math.inf, {})
        slope = np.bincount(g, precision * (weight / each**2)[t], len(specs))
        error = float((weight / each).sum())
        bound = max(bound, 2 * error - float(slope.max()))
        if error - bound <= DIVIDING.gap * error:
            break
        pi = pi * np.sqrt(slope)
        pi = np.maximum(pi / pi.sum(), DIVIDING.least)
        pi = pi / pi.sum()
    return Division(pi, error, bound, dict(zip(wanted, (weight / each**2).tolist(), strict=True)))


def held_effects(spec: Spec) -> list[tuple[int, ...]]:
    """Those of one and two columns that a part holds."""
    return [e for k in (1, 2) for e in combinations(sorted(spec.all), k)]


def answered(specs: Sequence[Spec], layout: TurnLayout, epsilon: float) -> tuple[list[Answer], Division]:
    """The closed form of each part and the division of the rows, chosen for each other.

    Which answer is best depends on what is wanted of a part: whether the secret, single columns or their interaction.
    So each part takes the answer that lowers the error most at the prices of the last division.
    """
    answers = [s.answer(layout, epsilon) for s in specs]
    split = shares_of_rows(specs, answers, layout)
    for _ in range(DIVIDING.turns if math.isfinite(split.error) else 0):
        others = [_best_at(split.prices, s, layout, epsilon) for s in specs]
        again = shares_of_rows(specs, others, layout)
        if others == answers or again.error >= split.error:
            break
        answers, split = others, again
    return answers, split


def _best_at(prices: Mapping[tuple[int, ...], float], spec: Spec, layout: TurnLayout, epsilon: float) -> Answer:
    held = [(e, prices[e]) for e in held_effects(spec) if e in prices]

    def gain(answer: Answer) -> float:
        return sum(price / answer.noise(e, layout.size) for e, price in held)

    return max(possible(*spec.shape(layout), round(epsilon, 9)), key=gain)
