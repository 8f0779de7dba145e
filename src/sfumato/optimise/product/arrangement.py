"""Arrangements: one list of atoms per secret, laid on a common interval [0, T] in an order that levels their sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import Floats, Ints, xlogx
from sfumato.optimise.budget import spend

# Cuts closer than this share of T are one cut: LP lengths carry about 1e-12 of noise.
SNAP = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """A mechanism as intervals: output y is a cell of the common refinement of |S| partitions of [0, T].

    Q(dt | s, u) = heights[s][i, u] dt for t in the i-th interval of secret s, so Σ_i lengths[s][i]·heights[s][i, u]
    = 1.
    Numbers kept: about |S||U|² instead of |Y||S||U| (ours).
    """

    total: float
    lengths: tuple[Floats, ...]  # per secret [i]
    heights: tuple[Floats, ...]  # per secret [i, u]

    def reordered(self, orders: list[Ints]) -> Arrangement:
        """The same atoms in another order: same column sums, other rows."""
        return Arrangement(
            self.total,
            tuple(w[o] for w, o in zip(self.lengths, orders, strict=True)),
            tuple(h[o] for h, o in zip(self.heights, orders, strict=True)),
        )

    def cells(self) -> tuple[Floats, Ints]:
        """Lengths of the common refinement and, per cell and secret, the index of the atom there."""
        ends = [np.cumsum(w) for w in self.lengths]
        ends = [e * (self.total / e[-1]) for e in ends]
        cuts = np.unique(np.concatenate([[0.0, self.total], *ends]))
        # One cut per cluster of (numerically) equal cuts.
        apart = np.concatenate([[True], np.diff(cuts) > SNAP * self.total])
        cuts = cuts[apart]
        cuts[-1] = self.total
        middle = (cuts[1:] + cuts[:-1]) / 2
        index = np.stack([np.minimum(np.searchsorted(e, middle), len(e) - 1) for e in ends], axis=1)
        return np.diff(cuts), index

    def rows(self) -> Floats:
        """Q[y, s·|U| + u]; at most Σ_s (atoms of s − 1) + 1 rows."""
        length, index = self.cells()
        blocks = [h[index[:, s]] for s, h in enumerate(self.heights)]
        rows = length[:, None] * np.concatenate(blocks, axis=1)
        lost = rows.sum(axis=0) <= 0  # atoms too short to be told apart carried all of a column
        rows[:, lost] = length[:, None]
        return np.asarray(rows / rows.sum(axis=0))

    def _gain(self, p: Floats) -> float:
        atoms = zip(self.lengths, self.heights, p, strict=True)
        return sum(float(w @ (xlogx(h) @ row)) for w, h, row in atoms)

    def if_level(self, p: Floats) -> float:
        """What I(X;Y) would be if the atoms could be ordered so that the total height is level."""
        return self._gain(p) + float(np.log(self.total))

    def value(self, p: Floats) -> float:
        """I(X;Y) in nats without building the rows."""
        length, index = self.cells()
        z = np.zeros(len(length))
        for s, h in enumerate(self.heights):
            z += (h @ p[s])[index[:, s]]
        return self._gain(p) - float(length @ xlogx(z))


# --- order the atoms of every secret so that the total height Σ_s z_s is as level as possible -------------------------


MANY = 200  # above this many secrets one pass is level enough


class _Profile:
    """A piecewise constant function on [0, T], kept as knots and its running integral."""

    def __init__(self, knots: Floats, height: Floats) -> None:
        self.knots = knots
        self.integral = np.concatenate([[0.0], np.cumsum(height * np.diff(knots))])

    def over(self, ends: Floats) -> Floats:
        """Integral over consecutive intervals that end at `ends` [trial, atom]."""
        at = np.interp(ends, self.knots, self.integral)
        at[:, 1:] -= at[:, :-1].copy()
        return np.asarray(at)


def level(layout: Arrangement, p: Floats, *, passes: int = 4, trials: int = 400, seed: int = 0) -> Arrangement:
    """Reorder atoms to raise −∫φ(Σ_s z_s), by coordinate descent on ∫(Σ_s z_s)².

    With the others fixed, ∫(rest + z_s)² depends on the order of s only through Σ_i z_i ∫_{interval i} rest, because
    ∫ z_s² does not; so many orders are scored at once from the running integral of the rest (ours).
    Keeps the pass with the best true value.
    """
    rng = np.random.default_rng(seed)
    z = [h @ p[s] for s, h in enumerate(layout.heights)]
    if len(z) > MANY:
        return _level_many(layout, z, rng)
    spread = [float(w @ (x - w @ x / layout.total) ** 2) for w, x in zip(layout.lengths, z, strict=True)]
    sequence = [int(s) for s in np.argsort(-np.array(spread)) if len(z[s]) > 1]
    orders: list[Ints] = [np.argsort(x) for x in z]
    placed: set[int] = set(range(len(z))) - set(sequence)
    best, best_value = layout, layout.value(p)
    for turn in range(passes):
        for s in sequence:
            rest = _rest(layout, orders, z, s, placed if turn == 0 else set(range(len(z))))
            orders[s] = _best_order(layout.lengths[s], z[s], orders[s], rest, trials, rng)
            placed.add(s)
        candidate = layout.reordered(orders)
        value = candidate.value(p)
        if value > best_value + 1e-12:
            best, best_value = candidate, value
        elif turn:
            break
    return best


def _level_many(
    layout: Arrangement, z: list[Floats], rng: np.random.Generator, cells: int = 4096, trials: int = 32
) -> Arrangement:
    """One pass for many secrets: the total is kept on a fixed grid, so a secret costs its own atoms only."""
    knots = np.linspace(0.0, layout.total, cells + 1)
    middle = (knots[1:] + knots[:-1]) / 2
    height = np.zeros(cells)
    orders: list[Ints] = [np.arange(len(x)) for x in z]
    for s in np.argsort([-float(x.max() - x.min()) for x in z]):
        w = layout.lengths[s]
        tries = np.argsort(rng.random((trials, len(w))), axis=1)
        best = tries[int(np.argmin(_score(tries, w, z[s], _Profile(knots, height))))]
        orders[s] = best
        height += z[s][best][np.minimum(np.searchsorted(np.cumsum(w[best]), middle), len(w) - 1)]
    return layout.reordered(orders)


def _rest(layout: Arrangement, orders: list[Ints], z: list[Floats], s: int, placed: set[int]) -> _Profile:
    """Σ of z over the placed secrets other than s, as jumps at their interval ends."""
    places: list[Floats] = [np.zeros(1)]
    jumps: list[Floats] = [np.zeros(1)]
    for r in placed - {s}:
        ends = np.cumsum(layout.lengths[r][orders[r]])
        heights = z[r][orders[r]]
        places.append(np.concatenate([[0.0], ends[:-1]]))
        jumps.append(heights - np.append(0.0, heights[:-1]))
    place, jump = np.concatenate(places), np.concatenate(jumps)
    order = np.argsort(place, kind="stable")
    height = np.cumsum(jump[order])
    return _Profile(np.append(place[order], layout.total), height)


def _best_order(w: Floats, z: Floats, old: Ints, rest: _Profile, trials: int, rng: np.random.Generator) -> Ints:
    k = len(w)
    tries = np.argsort(rng.random((trials, k)), axis=1)
    tries = np.vstack([old, np.argsort(z), np.argsort(-z), tries])
    best = tries[int(np.argmin(_score(tries, w, z, rest)))]
    for _ in range(2 * k if k <= 24 else 6):
        near = _neighbours(best)
        if len(near) > 300:
            near = near[rng.choice(len(near), 300, replace=False)]
        score = _score(np.vstack([best, near]), w, z, rest)
        j = int(np.argmin(score))
        if j == 0 or score[j] > score[0] - 1e-15:
            break
        best = near[j - 1]
    return np.asarray(best)


def _score(tries: Ints, w: Floats, z: Floats, rest: _Profile) -> Floats:
    spend(10, tries.size)
    return np.asarray((z[tries] * rest.over(np.cumsum(w[tries], axis=1))).sum(axis=1))


def _neighbours(order: Ints) -> Ints:
    """All exchanges of two places."""
    k = len(order)
    i, j = np.triu_indices(k, 1)
    near = np.repeat(order[None], len(i), axis=0)
    rows = np.arange(len(i))
    near[rows, i], near[rows, j] = order[j], order[i]
    return near
