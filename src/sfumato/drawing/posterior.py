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
from sfumato.tolerances import BLOCK, CHANNEL

if TYPE_CHECKING:
    from sfumato.mechanism.law import Words


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
    def _by_row(self) -> Lines:
        return Lines(self.counts)

    @cached_property
    def _by_column(self) -> Lines:
        return Lines(self.counts.T)

    @cached_property
    def _rest(self) -> Lines:
        """[u, s]: the rows of secret s away from useful value u."""
        return Lines((self.by_secret[:, None] - self.counts).T)

    def _in_row(self, s: Ints, u: Ints, t: Ints) -> Ints:
        """The t-th row of secret s among those away from u."""
        return np.asarray(s * self.counts.shape[1] + self._by_row.without(s, u, t)[0])

    def _in_column(self, s: Ints, u: Ints, t: Ints) -> Ints:
        return np.asarray(self._by_column.without(u, s, t)[0] * self.counts.shape[1] + u)

    def _beyond(self, s: Ints, u: Ints, t: Ints) -> Ints:
        row, left = self._rest.without(u, s, t)
        return self._in_row(row, u, left)


class Lines:
    """Counts line after line, with their running sum."""

    def __init__(self, table: Ints) -> None:
        self.table = np.ascontiguousarray(table)
        self.ends = np.append(0, np.cumsum(table.ravel()))

    def without(self, i: Ints, j: Ints, t: Ints) -> tuple[Ints, Ints]:
        """Where in line i its t-th item is when entry j is left out, and what is left of t inside that place."""
        first = i * self.table.shape[1]
        target = self.ends[first] + t
        target += np.where(target >= self.ends[first + j], self.table[i, j], 0)
        at = np.searchsorted(self.ends[1:], target, side="right")
        return at - first, target - self.ends[at]


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
Drawn = Array
Turn = Callable[[Drawn, int], Drawn]  # (outputs, first row) → inputs


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
    def words(first_row: int, rows: int) -> Words:
        out = np.empty(rows, np.uint64)
        stream.words(first_row, out, lane=Lane.DECODE())
        return out

    if isinstance(mechanism.law, Unary):
        return _by_sets(mechanism.law, _prior(mechanism), lambda w, first_row: _at_share(w, words(first_row, len(w))))
    listed = _listed(mechanism)
    if listed is None:
        cells = _cells_posterior(mechanism)
        return lambda drawn, first_row: cells.draw(drawn, words(first_row, len(drawn)))
    ends, inputs, low = listed_ends(listed), listed.shape[1], np.uint64((1 << DRAW_BITS) - 1)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        y = drawn.astype(np.int64)
        at = (y << DRAW_BITS) + (words(first_row, len(y)) & low).astype(np.int64)
        return np.asarray(np.searchsorted(ends, at, side="right") - y * inputs).astype(np.int32)

    return turn


def _at_share(weights: Floats, words: Words) -> Ints:
    """The index at which the running sum of each row passes a word's share of the total."""
    ends = np.cumsum(weights, axis=1)
    return np.asarray((ends > (unit(words) * ends[:, -1])[:, None]).argmax(1))


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
    q = mechanism.matrix if mechanism.outputs * mechanism.inputs <= CHANNEL else None
    return None if q is None else inverted_law(q, _prior(mechanism))


def inverted_law(q: Floats, p: Floats) -> Floats:
    """P(x|y) as [y, x] by Bayes, the prior where y never occurs."""
    weight = q * p
    total = weight.sum(1, keepdims=True)
    return np.asarray(np.divide(weight, total, out=np.broadcast_to(p, weight.shape).copy(), where=total > 0))


def _cells_posterior(mechanism: Mechanism) -> CellsPosterior:
    law, joint = mechanism.law, mechanism.joint
    assert joint is not None
    if not isinstance(law, (Cells, Constant)):
        raise InputError(
            f"{mechanism.outputs:,} outputs of {mechanism.inputs:,} inputs are too many to decode with this law",
            next="Use decode='symbols'.",
        )
    four = tuple(map(float, law.four)) if isinstance(law, Cells) else (1.0,) * 4
    counts = np.rint(joint.p * 2.0**DRAW_BITS).astype(np.int64) if joint.counts is None else joint.counts
    return CellsPosterior(four, counts if law.rows > 1 else counts.sum(0, keepdims=True))


def _by_sets(law: Unary, p: Floats, choose: Callable[[Floats, int], Ints]) -> Turn:
    """For answers that are sets: P(x|y) ∝ p(x) times `high` inside the set and `low` outside."""
    high, low = (float(w) for w in law.odds)
    top = max(high, low)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        out, rows = np.empty(len(drawn), np.int32), max(1, BLOCK // p.size)
        for start in range(0, len(drawn), rows):
            bits = drawn[start : start + rows]
            weights = p * np.where(bits != 0, high / top, low / top)
            weights[weights.sum(1) <= 0] = p
            out[start : start + rows] = choose(weights, first_row + start)
        return out

    return turn
