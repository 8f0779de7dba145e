"""Posterior: the input behind an output, as the likeliest or as a draw, under the design distribution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Array, Floats, Ints
from sfumato.drawing.randomness import Lane, WordSource
from sfumato.errors import InputError
from sfumato.mechanism.cells import Cells, Constant
from sfumato.mechanism.law import whole_weights
from sfumato.mechanism.mechanism import Mechanism
from sfumato.mechanism.subset_laws import Unary
from sfumato.tolerances import CHANNEL

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight, Words


class CellsPosterior:
    """P(s, u | s', u') ∝ n(s, u) times one of four weights: truth, same secret, same useful, neither.

    Four regions, whatever the size of the table: never a |Y| × |X| matrix.
    """

    def __init__(self, four: tuple[float, ...], counts: Ints) -> None:
        top = max(four)
        self.four = tuple(w / top for w in four)
        self.counts = np.ascontiguousarray(counts, np.int64)
        self.by_secret, self.by_useful = counts.sum(1), counts.sum(0)
        self.total = int(counts.sum())

    def likeliest(self) -> Ints:
        """The likeliest cell for every output y."""
        n = self.counts.astype(float)
        s, u = np.indices(n.shape)
        in_row, row_at = _best_other(n, 1)
        in_column, column_at = _best_other(n, 0)
        beyond, beyond_at = _best_other(in_row, 0)  # in_row[s, u]: the best of row s away from column u
        values = np.stack([w * x for w, x in zip(self.four, (n, in_row, in_column, beyond), strict=True)])
        cells = np.stack([
            s * n.shape[1] + u, s * n.shape[1] + row_at, column_at * n.shape[1] + u,
            beyond_at * n.shape[1] + row_at[beyond_at, u],
        ])
        best = values.argmax(0)
        return np.asarray(np.take_along_axis(cells, best[None], 0)[0].ravel())

    def draw(self, drawn: Array, words: Words) -> Ints:
        """One cell for each output, by inverting the posterior at a word; integers within a region."""
        s, u = np.divmod(drawn.astype(np.int64), self.counts.shape[1])
        own = self.counts[s, u]
        rows = np.stack([
            own, self.by_secret[s] - own, self.by_useful[u] - own,
            self.total - self.by_secret[s] - self.by_useful[u] + own,
        ])
        mass = rows * np.array(self.four)[:, None]
        mass[:, mass.sum(0) <= 0] = rows[:, mass.sum(0) <= 0]  # an output that cannot occur: the prior
        ends = np.cumsum(mass, axis=0)
        at = unit(words) * ends[-1]
        region = (at < ends).argmax(0)
        each = np.arange(len(s))
        share = (at - (ends - mass)[region, each]) / mass[region, each]
        t = np.clip((share * rows[region, each]).astype(np.int64), 0, rows[region, each] - 1)
        out = s * self.counts.shape[1] + u
        for number, find in ((1, self._in_row), (2, self._in_column), (3, self._beyond)):
            here = region == number
            if here.any():
                out[here] = find(s[here], u[here], t[here])
        return np.asarray(out.astype(np.int32))

    @cached_property
    def _row_ends(self) -> Ints:
        return np.cumsum(self.counts.ravel())

    @cached_property
    def _column_ends(self) -> Ints:
        return np.cumsum(self.counts.T.ravel())

    @cached_property
    def _rest(self) -> Ints:
        """[u, s]: the rows of secret s away from useful value u."""
        return np.ascontiguousarray((self.by_secret[:, None] - self.counts).T)

    @cached_property
    def _rest_ends(self) -> Ints:
        return np.cumsum(self._rest.ravel())

    def _in_row(self, s: Ints, u: Ints, t: Ints) -> Ints:
        """The t-th row of secret s among those away from u."""
        return _skip(self._row_ends, self.counts, s, u, t)[0]

    def _in_column(self, s: Ints, u: Ints, t: Ints) -> Ints:
        at, _ = _skip(self._column_ends, self.counts.T, u, s, t)
        column, row = np.divmod(at, self.counts.shape[0])
        return np.asarray(row * self.counts.shape[1] + column)

    def _beyond(self, s: Ints, u: Ints, t: Ints) -> Ints:
        at, left = _skip(self._rest_ends, self._rest, u, s, t)
        return self._in_row(at % self.counts.shape[0], u, left)


def _skip(ends: Ints, table: Ints, i: Ints, j: Ints, t: Ints) -> tuple[Ints, Ints]:
    """The place of the t-th item of line i when entry j is left out, and what is left of t inside that place.

    `ends` is the running sum of the whole table, line after line.
    """
    width = table.shape[1]
    first = i * width
    before = np.where(first > 0, ends[first - 1], 0)
    start = np.where(first + j > 0, ends[first + j - 1], 0)
    target = before + t
    target += np.where(target >= start, table[i, j], 0)
    at = np.searchsorted(ends, target, side="right")
    return at, target - np.where(at > 0, ends[at - 1], 0)


def _best_other(table: Floats, axis: int) -> tuple[Floats, Ints]:
    """For every entry the greatest of the others along an axis, and where; −1 when there is no other."""
    if table.shape[axis] == 1:
        return np.full(table.shape, -1.0), np.zeros(table.shape, np.int64)
    order = np.argpartition(-table, 1, axis=axis)
    first, second = (np.take(order, [k], axis=axis) for k in (0, 1))
    a, b = (np.take_along_axis(table, x, axis) for x in (first, second))
    swap = b > a
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    place = np.indices(table.shape)[axis]
    at = np.where(place == first, second, first)
    return np.take_along_axis(table, at, axis), at


DRAW_BITS = 40  # a listed posterior is drawn with integer weights that sum to 2^40 for each output
SET_ROWS = 4096  # records of a unary law decoded at a time
Drawn = Array
Turn = Callable[[Drawn, int], Drawn]


def likeliest(mechanism: Mechanism) -> Turn:
    """arg max_x Q(y|x) p(x)."""
    law, p = mechanism.law, _prior(mechanism)
    if isinstance(law, Unary):
        return _by_sets(law, p, lambda weights, first_row: weights.argmax(1))
    listed = _listed(mechanism)
    best = _cells_posterior(mechanism).likeliest() if listed is None else listed.argmax(1)
    table = best.astype(np.int32)
    return lambda drawn, first_row: np.asarray(table[drawn])


def posterior_draw(mechanism: Mechanism, stream: WordSource) -> Turn:
    """x with probability P(x|y), by one more word, from the lane for it."""
    law, p = mechanism.law, _prior(mechanism)

    def words(first_row: int, rows: int) -> Words:
        out = np.empty(rows, np.uint64)
        stream.words(first_row, out, lane=Lane.DECODE())
        return out

    def inverted(weights: Floats, first_row: int) -> Ints:
        """The index at which the running sum of each row passes a word's share of the total."""
        ends = np.cumsum(weights, axis=1)
        return np.asarray((ends > (unit(words(first_row, len(weights))) * ends[:, -1])[:, None]).argmax(1))

    if isinstance(law, Unary):
        return _by_sets(law, p, inverted)
    listed = _listed(mechanism)
    if listed is None:
        cells = _cells_posterior(mechanism)
        return lambda drawn, first_row: cells.draw(drawn, words(first_row, len(drawn)))
    ends, inputs = listed_ends(listed), listed.shape[1]
    low = np.uint64((1 << DRAW_BITS) - 1)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        y = drawn.astype(np.int64)
        at = (y << DRAW_BITS) + (words(first_row, len(y)) & low).astype(np.int64)
        return np.asarray(np.searchsorted(ends, at, side="right") - y * inputs).astype(np.int32)

    return turn


def listed_ends(posterior: Floats) -> Ints:
    """Where each x ends in y's stretch of 2^40 words, all stretches one after the other."""
    weights = whole_weights(posterior.T, DRAW_BITS).T
    return np.cumsum(weights.ravel(), dtype=np.int64)


def unit(words: Words) -> Floats:
    """Words as floats in [0, 1) with 53 bits."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _prior(mechanism: Mechanism) -> Floats:
    assert mechanism.joint is not None
    return mechanism.input_law(mechanism.joint)


def _listed(mechanism: Mechanism) -> Floats | None:
    """P(x|y) as [y, x], the prior where y never occurs; None when that is too much to list."""
    if mechanism.outputs * mechanism.inputs > CHANNEL:
        return None
    q, p = mechanism.matrix, _prior(mechanism)
    if q is None:
        return None
    weight = q * p
    total = weight.sum(1, keepdims=True)
    prior = np.broadcast_to(p, weight.shape).copy()
    return np.asarray(np.divide(weight, total, out=prior, where=total > 0))


def _cells_posterior(mechanism: Mechanism) -> CellsPosterior:
    law, joint = mechanism.law, mechanism.joint
    assert joint is not None
    four: tuple[Weight, ...]
    if isinstance(law, Constant):
        four = (1, 1, 1, 1)
    elif isinstance(law, Cells):
        four = law.four
    else:
        raise InputError(
            f"{mechanism.outputs:,} outputs of {mechanism.inputs:,} inputs are too many to decode with this law",
            next="Use decode='symbols'.",
        )
    counts = joint.counts
    if counts is None:
        counts = np.rint(joint.p * 2.0**DRAW_BITS).astype(np.int64)
    return CellsPosterior(tuple(map(float, four)), counts if law.rows > 1 else counts.sum(0, keepdims=True))


def _by_sets(law: Unary, p: Floats, choose: Callable[[Floats, int], Ints]) -> Turn:
    """For answers that are sets: P(x|y) ∝ p(x) times `high` inside the set and `low` outside."""
    high, low = (float(w) for w in law.odds)
    top = max(high, low)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        out = np.empty(len(drawn), np.int32)
        for start in range(0, len(drawn), SET_ROWS):
            bits = drawn[start : start + SET_ROWS]
            weights = p * np.where(bits != 0, high / top, low / top)
            weights[weights.sum(1) <= 0] = p
            out[start : start + SET_ROWS] = choose(weights, first_row + start)
        return out

    return turn


