"""How far an output moves beliefs about a secret over the χ² ball: the worst P(y|s)/P(y) and its inverse, from inside.

P(y|s)/P(y) = 1/(π + (1−π) w/u) with π = P(s), u = E[r|s], w = E[r|¬s], r = Q(y|·). The cells of all other secrets are
one law: P is in F iff h₁/π + h₂/(1−π) ≤ 1 + B with h₁ = Σ P̂(s,x)²/P(x|s), h₂ = Σ P̂(s',x)²/P(s',x|¬s) over s' ≠ s. A row
that reads X alone is the same for all s', which merge: for given P(x|¬s) the cheapest split among them is proportional
to P̂ (Cauchy–Schwarz). With √h₁ = P̂_s + α and √h₂ = 1 − P̂_s + β that leaves α, β ≥ 0 with α + β ≤ √(1+B) − 1; u and w
are then extreme means, and π is an end of an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.uncertainty.chi_square import ChiSquareBall
from sfumato.uncertainty.tilting import GAP_CLOSE, greatest_mean

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Bools, Ints

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
