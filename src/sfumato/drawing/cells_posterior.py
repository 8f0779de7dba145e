"""The posterior of a law of cells, whatever the size of the table: four regions, never a |Y| × |X| matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sfumato.alphabet import Floats, Ints


class CellsPosterior:
    """P(s, u | s', u') ∝ n(s, u) times one of four weights: truth, same secret, same useful, neither."""

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

    def draw(self, drawn: Any, words: Any) -> Ints:
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
        at = (words >> np.uint64(11)).astype(float) * 2.0**-53 * ends[-1]
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


def _skip(ends: Ints, table: Any, i: Ints, j: Ints, t: Ints) -> tuple[Ints, Ints]:
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
