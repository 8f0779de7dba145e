"""Answers: the laws a part may have, and how well tables can be estimated from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from sfumato.designers.closed_forms import srr_response as response
from sfumato.errors import InputError
from sfumato.mechanism import Blocks, Cells, Constant, Law, Table
from sfumato.mechanism.blocks import LISTED, ORDERS, incidence

MOST_LISTED = LISTED // 20  # weights of blocks that are compared one by one when a part is certified
MOST_WRITTEN = 2000  # weights of sets, which stand in the file one by one


@dataclass(frozen=True, slots=True)
class Answer:
    """A randomised response about `useful` values (and the secret, with rows > 1) at a level: with single values, with
    blocks of an order, or with any set of so many `chosen` values."""

    rows: int
    useful: int
    epsilon: float
    order: int | None = None
    chosen: int = 1

    def law(self) -> Law:
        """GRR or SRR for single values; blocks otherwise."""
        if self.epsilon == 0 or self.rows * self.useful == 1:
            return Constant(self.rows, self.useful)
        if self.chosen > 1:
            return self._subsets()
        if self.order is None:
            return response(self.rows, self.useful, self.epsilon) if self.rows > 1 and self.useful > 1 else self._grr()
        inside, outside, other = self._weights()
        return Blocks(self.rows, self.useful, self.order, inside, outside, other)

    def _grr(self) -> Law:
        size, up = self.rows * self.useful, math.exp(self.epsilon)
        hit, miss = up / (up + size - 1), 1 / (up + size - 1)
        return Cells(self.rows, self.useful, hit, miss, miss, miss)

    def _subsets(self) -> Law:
        """Every set of so many values, listed: subset selection [Ye, Barg 2018], or with the secret SRR of sets."""
        inside, outside, other = self._weights()
        held = np.zeros((math.comb(self.useful, self.chosen), self.useful), bool)
        for block, values in zip(held, combinations(range(self.useful), self.chosen), strict=True):
            block[list(values)] = True
        same = np.where(held, inside, outside)
        table = np.full((self.rows, len(held), self.rows, self.useful), other)
        for s in range(self.rows):
            table[s, :, s] = same
        return Table(table.reshape(self.rows * len(held), -1), self.rows)

    def _shape(self) -> tuple[int, int, int]:
        """Blocks, those that hold a value, and those that hold two given values."""
        if self.order is None:
            k, d = self.useful, self.chosen
            return math.comb(k, d), math.comb(k - 1, d - 1), math.comb(k - 2, d - 2) if d > 1 else 0
        held = incidence(self.useful, self.order)
        return len(held), int(held[:, 0].sum()), int((held[:, 0] & held[:, 1]).sum()) if self.useful > 1 else 0

    def _weights(self) -> tuple[float, float, float]:
        b, d, _ = self._shape()
        up = math.exp(self.epsilon)
        inside, outside, other = (up, 1.0, 0.0) if self.rows == 1 else (up, 1 / up, 1.0)
        total = d * inside + (b - d) * outside + (self.rows - 1) * b * other
        return inside / total, outside / total, other / total

    def strengths(self) -> tuple[float, float]:
        """(λ_s², λ_u²): what of the effects of the secret and of the useful values survives, squared (ours).

        At the uniform input all outputs are (nearly) equally likely, f = 1/|Y|, and Qᵀdiag(1/f)Q/|X| has the
        eigenvalue 1
        on constants and these on the effects of s, and on those of u and of their interaction: QᵀQ is
        I ⊗ (αI + βJ) + γJ because every two values share equally many blocks. n times them is the precision.
        """
        if self.epsilon == 0:
            return 0.0, 0.0
        if self.useful == 1:
            up = math.exp(self.epsilon)
            return ((up - 1) / (up + self.rows - 1)) ** 2, 0.0
        b, d, shared = self._shape()
        i, o, t = self._weights()
        alpha = (d - shared) * (i - o) ** 2
        same = shared * i * i + 2 * (d - shared) * i * o + (b - 2 * d + shared) * o * o + (self.rows - 1) * b * t * t
        cross = 2 * t * (d * i + (b - d) * o) + (self.rows - 2) * b * t * t if self.rows > 1 else same
        return b / self.useful * (alpha + self.useful * (same - cross)), b / self.useful * alpha

    def effect(self, dimensions: int, cells: int, *, secret: bool) -> float:
        """Σ_cells E(score²) of an effect alone, in a table of so many cells: its noise is isotropic, so each of its
        dimensions costs alike; `secret` for the effect of the secret by itself."""
        strength = self.strengths()[0 if secret else 1]
        return dimensions / (strength * cells) if strength else (math.inf if dimensions else 0.0)

    def moment(self, k: int, *, secret: bool) -> float:
        """Σ_cells E(score²) of a table of k useful cells, with or without the secret: n times its squared error is this
        less Σp² [isotropic noise on the effects]."""
        s, u = self.strengths()
        r = self.rows if secret else 1
        terms = [(r - 1, s), (r * (k - 1), u)]
        if any(size and not strength for size, strength in terms):
            return math.inf
        return (1 + sum(size / strength for size, strength in terms if size)) / (r * k)


@lru_cache(maxsize=4096)
def best_answer(rows: int, useful: int, epsilon: float) -> Answer:
    """The answer with the least squared error of its whole table: single values, blocks of one of the orders, or sets
    of so many values where all can be listed."""
    tried = [Answer(rows, useful, epsilon)]
    for order in ORDERS if useful > 2 and epsilon > 0 else ():
        try:
            held = incidence(useful, order)
        except InputError:
            continue
        if held[:, 0].any() and rows * rows * held.size <= MOST_LISTED:
            tried.append(Answer(rows, useful, epsilon, order))
    for chosen in range(2, useful // 2 + 1) if epsilon > 0 else ():
        if rows * rows * useful * math.comb(useful, chosen) <= MOST_WRITTEN:
            tried.append(Answer(rows, useful, epsilon, None, chosen))
    return min(tried, key=lambda a: a.moment(useful, secret=rows > 1))
