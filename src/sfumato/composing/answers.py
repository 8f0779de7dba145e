"""Answers: the laws a part may have, and how well tables can be estimated from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.closed_forms import srr_response
from sfumato.errors import InputError
from sfumato.mechanism import Blocks, Cells, Constant, Law, Table
from sfumato.mechanism.subset_laws import ORDERS, incidence
from sfumato.tolerances import LISTED

SECRET = -1  # the secret among the indices of columns
MOST_LISTED = LISTED // 10  # weights of blocks that are compared one by one when a part is certified
MANY_VALUES, FEW_ORDERS = 64, 2  # useful values beyond which only so many orders, nearly the best, are measured exactly
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

    @property
    def method(self) -> str:
        if self.order is not None:
            return f"blocks of order {self.order}"
        if self.chosen > 1:
            return f"sets of {self.chosen}"
        return "srr" if self.rows > 1 and self.useful > 1 else "grr"

    def law(self) -> Law:
        """GRR or SRR for single values; blocks otherwise."""
        if self.epsilon == 0 or self.rows * self.useful == 1:
            return Constant(self.rows, self.useful)
        if self.chosen > 1:
            return self._subsets()
        if self.order is None:
            return srr_response(self.rows, self.useful, self.epsilon) if self.method == "srr" else self._grr()
        inside, outside, other = self._weights()
        return Blocks(self.rows, self.useful, self.order, inside, outside, other)

    def _listed(self) -> bool:
        """Whether there are such blocks, few enough to be compared one by one."""
        try:
            held = incidence(self.useful, self.order or 2)
        except InputError:
            return False
        return bool(held[:, 0].any()) and self.rows**2 * held.size <= MOST_LISTED

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

    def _weights(self) -> tuple[float, float, float]:
        b, d, _ = _shape(self.useful, self.order, self.chosen)
        up = math.exp(self.epsilon)
        inside, outside, other = (up, 1.0, 0.0) if self.rows == 1 else (up, 1 / up, 1.0)
        total = d * inside + (b - d) * outside + (self.rows - 1) * b * other
        return inside / total, outside / total, other / total

    @lru_cache(maxsize=4096)  # noqa: B019 - answers are a few numbers each
    def strengths(self) -> tuple[float, float, float]:
        """(λ_s², λ_u², λ_su²): what of the effects of the secret, of the useful values and of both survives, squared.

        At the uniform input Qᵀdiag(1/f)Q/|X| has the eigenvalue 1 on constants; n times its eigenvalues is the
        precision. Where all outputs are equally likely it is I ⊗ (αI + βJ) + γJ, because every two values share equally
        many blocks, and noise is isotropic on each kind of effect (ours). Blocks of a plane that is larger than the
        useful values have different sizes: there it is the harmonic mean over an effect's dimensions.
        """
        whole = self.order is None or self.epsilon == 0 or self.useful == 1
        return self._nearly() if whole else self._block_strengths()

    def _nearly(self) -> tuple[float, float, float]:
        """Where all blocks have one size; nearly so otherwise."""
        if self.epsilon == 0:
            return 0.0, 0.0, 0.0
        if self.useful == 1:
            up = math.exp(self.epsilon)
            return ((up - 1) / (up + self.rows - 1)) ** 2, 0.0, 0.0
        b, d, shared = _shape(self.useful, self.order, self.chosen)
        i, o, t = self._weights()
        alpha = (d - shared) * (i - o) ** 2
        same = shared * i * i + 2 * (d - shared) * i * o + (b - 2 * d + shared) * o * o + (self.rows - 1) * b * t * t
        cross = 2 * t * (d * i + (b - d) * o) + (self.rows - 2) * b * t * t if self.rows > 1 else same
        return b / self.useful * (alpha + self.useful * (same - cross)), *(b / self.useful * alpha,) * 2

    def _block_strengths(self) -> tuple[float, float, float]:
        """From the k × k matrices on contrasts of the secret, M − C, and on its mean, M + (r − 1)C: an output of
        another secret tells nothing of u, so that cells of two secrets meet in sums over blocks alone."""
        r, k, (i, o, t) = self.rows, self.useful, self._weights()
        same = np.where(incidence(k, self.order or 2), i, o)
        each = 1 / (same.sum(1) + (r - 1) * k * t)  # 1 / (f |X|)
        rest, mixed = t * t * float(each.sum()), t * (each @ same)
        own = (same.T * each) @ same + (r - 1) * rest
        cross = mixed[:, None] + mixed + (r - 2) * rest if r > 1 else np.zeros((k, k))
        _, u = _on_mean_and_rest(own + (r - 1) * cross)
        s, both = _on_mean_and_rest(own - cross)
        return s, u, both

    def noise(self, effect: Sequence[int], size: Callable[[int], int]) -> float:
        """n times the squared error of an effect of some columns, at the uniform distribution: each of its dimensions
        costs alike."""
        dimensions, cells = (math.prod(size(c) - less for c in effect) for less in (1, 0))
        kind = 0 if tuple(effect) == (SECRET,) else 2 if SECRET in effect else 1
        strength = self.strengths()[kind]
        return dimensions / (strength * cells) if strength else (math.inf if dimensions else 0.0)

    def moment(self, k: int, *, secret: bool, nearly: bool = False) -> float:
        """Σ_cells E(score²) of a table of k useful cells, with or without the secret: n times its squared error is this
        less Σp² [isotropic noise on the effects]; `nearly` as if all blocks had one size, in little time."""
        r, sizes = self.rows if secret else 1, self._nearly() if nearly else self.strengths()
        terms = list(zip((r - 1, k - 1, (r - 1) * (k - 1)), sizes, strict=True))
        if any(size and not strength for size, strength in terms):
            return math.inf
        return (1 + sum(size / strength for size, strength in terms if size)) / (r * k)


@lru_cache(maxsize=4096)
def _shape(k: int, order: int | None, d: int) -> tuple[int, int, int]:
    """Blocks, those that hold a value, and those that hold two given values."""
    if order is None:
        return math.comb(k, d), math.comb(k - 1, d - 1), math.comb(k - 2, d - 2) if d > 1 else 0
    held = incidence(k, order)
    return len(held), int(held[:, 0].sum()), int((held[:, 0] & held[:, 1]).sum()) if k > 1 else 0


def _on_mean_and_rest(form: Floats) -> tuple[float, float]:
    """1 over the inverse on the constant vector, and over its mean on what is orthogonal to it; 0 where it has none."""
    try:
        inverse = np.linalg.inv(form)
    except np.linalg.LinAlgError:
        return 0.0, 0.0
    mean = float(inverse.mean()) * len(form)
    rest = (float(np.trace(inverse)) - mean) / max(len(form) - 1, 1)
    return max(1 / mean, 0.0) if mean else 0.0, max(1 / rest, 0.0) if rest else 0.0


@lru_cache(maxsize=4096)
def possible(rows: int, useful: int, epsilon: float) -> tuple[Answer, ...]:
    """Single values, blocks of each of the orders, and sets of so many values where all can be listed."""
    single = Answer(rows, useful, epsilon)
    if epsilon == 0:
        return (single,)
    blocks = [a for order in ORDERS if useful > 2 and (a := replace(single, order=order))._listed()]
    if useful > MANY_VALUES:
        blocks = sorted(blocks, key=lambda a: -a._nearly()[1])[:FEW_ORDERS]
    few = (k for k in range(2, useful // 2 + 1) if rows * rows * useful * math.comb(useful, k) <= MOST_WRITTEN)
    return (single, *blocks, *(replace(single, chosen=k) for k in few))


def best_answer(rows: int, useful: int, epsilon: float, *, nearly: bool = False) -> Answer:
    """The one with the least squared error of its whole table."""
    return min(possible(rows, useful, epsilon), key=lambda a: a.moment(useful, secret=rows > 1, nearly=nearly))
