"""The mechanism from which a table is estimated best: A-optimal mixtures of rows over the exact ball (ours).

With rows v of mean p·v = 1 and weights θ = P(y), the efficient unbiased estimate of p from n rows has covariance
(J⁻¹ − p pᵀ)/n with J = Σ_y θ_y v_y v_yᵀ. So min tr(C J⁻¹) subject to Σ θ_y v_y = 1 is convex in θ, and its slope in
θ_y, −v_yᵀ J⁻¹CJ⁻¹ v_y, is quadratic over linear in an unscaled row: convex and homogeneous, like the gain of mutual
information. Hence optimal rows are extreme rays of the same product of cones, and rows are generated in the same way.
Which rows are tried is a heuristic; the mixture of those that were is optimal, and every start is kept.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from sfumato.solve.arrays import Floats, Ints
from sfumato.solve.few import Points, two_level
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.margin import with_margin, worst
from sfumato.solve.mixing import Mixed, best_mixture
from sfumato.solve.watch import FREE, Watch
from sfumato.solve.worst_rows import settled
from sfumato.uncertainty.tilting import mass_range, spread_of

FEW = 64  # cells up to which the exact worst case of every pair and row is listed
LISTED = 8  # useful values up to which every set of them is tried
RANDOM = 600  # sets tried beyond, for each secret
STARTS = 192  # rows that pricing begins from, besides those in use
PARTS = 4  # times as many rows as cells to begin with, in large tables
COMMON = 100  # random sets of useful values in rows that do not look at the secret
ROUNDS = 60
PASSES = 6  # over the secrets, for each start
FRESH = 2  # times as many rows added in a round as there are cells, at most
USED = 1e-6  # weight below which a row is dropped
ENOUGH = 1e-4  # share of the objective that a further round must promise


def precise(
    p: Floats, b: float, epsilon: float, cost: Floats, *, start: Floats | None = None, seed: int = 0,
    watch: Watch = FREE,
) -> tuple[Floats, float]:
    """Rows Q[y, x] with a small tr(C J⁻¹) and a level of at most ε over the ball of slack b; and that trace.

    cost is C[x, x]. `start` are rows that are private already and kept among the columns. The product set is larger
    than F, so a second turn designs at the nominal ε that F itself allows.
    """
    nominal, best = epsilon, None
    rows = np.empty((0, p.size)) if start is None else start
    for _ in range(2):
        found = Search(p, b, float(np.exp(nominal)), cost, rows, seed).run(watch)
        safe, reached = _private(found, p, b, epsilon)
        value = trace(safe, p, cost)
        if best is None or value < best[1]:
            best = (safe, value)
        rows = np.concatenate([rows, safe])
        room = epsilon - reached
        if watch.over or room < 1e-4 * epsilon:
            break
        nominal += room
    assert best is not None
    return best


def _private(rows: Floats, p: Floats, b: float, epsilon: float) -> tuple[Floats, float]:
    """The rows, mixed with the constant law just enough for the level over F itself; and that level."""
    if p.size <= FEW:
        found = settled(rows, p, b, epsilon)
        return found.rows, found.log_ratio
    layout = with_margin(layout_of_rows(rows, p), p, b, epsilon)
    return layout.rows(), worst(layout, p, b)


def trace(rows: Floats, p: Floats, cost: Floats) -> float:
    """tr(C J⁻¹) of a mechanism Q[y, x], with the pseudo-inverse's ∞ where C asks for what J does not tell."""
    law = rows @ p.ravel()
    unit = rows[law > 0] / np.sqrt(law[law > 0])[:, None]
    values, vectors = np.linalg.eigh(unit.T @ unit)
    seen = values > 1e-13 * values[-1]
    asked = np.einsum("xi,xz,zi->i", vectors, cost, vectors)
    if asked[~seen].sum() > 1e-9 * asked.sum():
        return float("inf")
    return float((asked[seen] / values[seen]).sum())


class Search:
    """Column generation for one nominal level."""

    def __init__(self, p: Floats, b: float, E: float, cost: Floats, start: Floats, seed: int) -> None:
        self.p, self.cost, self.rng = p, cost, np.random.default_rng(seed)
        self.families = _families(p, b, E, self.rng)
        listed = [np.ones((1, p.size)), start, *_simple(self.families), _common(p, b, E, self.rng)]
        if p.shape[1] > LISTED:
            listed.append(_parts(p, b, E, self.rng))
        self.columns = _unit(np.concatenate(listed), p)

    def run(self, watch: Watch) -> Floats:
        """Rows Q[y, x] of the best mixture found."""
        weight: Floats | None = None
        for _ in range(ROUNDS):
            mixed = best_mixture(self.columns, self.cost, weight, settled=1e-5)
            watch.tell("precise", -mixed.value)
            fresh, promise = self._fresh(mixed)
            used = mixed.weight > USED
            rows = mixed.weight[used, None] * self.columns[used]  # before fresh columns take their places
            if watch.over or promise < ENOUGH * mixed.value or not len(fresh):
                break
            self.columns = np.concatenate([self.columns[used], fresh])
            weight = np.concatenate([mixed.weight[used], np.zeros(len(fresh))])
        return np.asarray(rows / rows.sum(0))

    def _fresh(self, mixed: Mixed) -> tuple[Floats, float]:
        """Rows whose slope is steepest, by moving one secret's part at a time; and how steep the best one is."""
        found: dict[bytes, tuple[float, Floats]] = {}
        for family in self.families:
            begin = self._starts(family, mixed)
            rows, gain = _climbed(family, begin, mixed, self.p)
            for row, g in zip(rows, gain, strict=True):
                if g > 0:
                    found[row.round(9).tobytes()] = (float(g), row)
        best = sorted(found.values(), key=lambda x: -x[0])[: FRESH * self.p.size]
        return np.array([row for _, row in best]).reshape(-1, self.p.size), best[0][0] if best else 0.0

    def _starts(self, family: list[Points], mixed: Mixed) -> Ints:
        """Tuples of points: random ones, and ones with the same index for all secrets (the same set of values)."""
        sizes = [x.heights.shape[1] for x in family]
        drawn = np.stack([self.rng.integers(0, k, STARTS) for k in sizes], axis=1)
        same = np.repeat(self.rng.integers(0, min(sizes), STARTS)[:, None], len(sizes), axis=1)
        return np.concatenate([drawn, same])


def _parts(p: Floats, b: float, E: float, rng: np.random.Generator) -> Floats:
    """Rows that are high on one part of all cells out of E + 1, about, and low on the others, the parts being those of
    a few rows of a Hadamard matrix together: few rows that tell all cells apart evenly, as in Hadamard response
    [Acharya, Sun, Zhang 2019], each as steep as the ball allows. A share 1/(E + 1) is best for LDP."""
    depth = max(1, round(float(np.log2(E + 1))))
    size = 1 << int(p.size).bit_length()
    often = max(1, int(np.ceil(PARTS * p.size / 2**depth)))
    cells = np.arange(1, p.size + 1)
    sets: list[Any] = []
    for which in rng.integers(1, size, (often, depth)):
        code = sum((_parity(int(i) & cells) << k for k, i in enumerate(which)), np.zeros(p.size, np.int64))
        sets.extend(code == part for part in np.unique(code))
    listed = np.unique(np.array(sets), axis=0).reshape(-1, *p.shape)
    blocks = []
    for s, share in enumerate(p.sum(1)):
        C = float(spread_of(b, share))
        blocks.append(_steepest(p[s], C, 1.0, E, listed[:, s].astype(float)))
    return np.concatenate(blocks, axis=1)


def _common(p: Floats, b: float, E: float, rng: np.random.Generator) -> Floats:
    """Rows 1 + t·1{u ∈ H} that do not look at the secret, with the greatest t that the ranges of R(H) given each secret
    allow: what SUE and OUE on u alone do at best. Halves of a Hadamard matrix, single values and random sets."""
    k = p.shape[1]
    eye = np.eye(k, dtype=bool)
    halves = np.array([_parity(i & np.arange(1, k + 1)) for i in range(1, 1 << int(k).bit_length())], bool)
    drawn = rng.random((COMMON, k)) < rng.choice([1 / (E + 1), 0.25, 0.5], (COMMON, 1))
    sets = np.unique(np.concatenate([eye, halves, ~halves, drawn]), axis=0)
    sets = np.asarray(sets[sets.any(1) & ~sets.all(1)], float)
    sets = np.concatenate([sets, 1.0 - sets])
    shares = p.sum(1)
    given = np.clip(sets @ (p / shares[:, None]).T, 0.0, 1.0)  # [set, s]
    low, high = mass_range(given, spread_of(b, shares))
    gap = high.max(1) - E * low.min(1)
    rows = np.where((gap > 0)[:, None], 1 + ((E - 1) / np.where(gap > 0, gap, 1.0))[:, None] * sets, sets)
    return np.tile(rows, (1, len(p)))


def _parity(x: Ints) -> Ints:
    return np.array([int(v).bit_count() & 1 for v in x], np.int64)


def _steepest(p: Floats, C: float, floor: float, roof: float, sets: Floats) -> Floats:
    """The steepest point on every set; the constant floor where a set cannot carry it."""
    low, high = mass_range(np.clip(sets @ (p / p.sum()), 0.0, 1.0), np.array(C))
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (roof - floor) / (high - low)
        lo = floor - d * low
        step = np.where(lo < 0, roof / high, d)
    lo = np.maximum(np.nan_to_num(lo, nan=0.0, neginf=0.0), 0.0)
    good = np.isfinite(step) & (step > 0) & (lo + step * low >= floor * (1 - 1e-12))
    return np.asarray(np.where(good[:, None], lo[:, None] + np.where(good, step, 0.0)[:, None] * sets, floor))


def _unit(rows: Floats, p: Floats) -> Floats:
    return np.asarray(rows / (rows @ p.ravel())[:, None])


def _families(p: Floats, b: float, E: float, rng: np.random.Generator) -> list[list[Points]]:
    """Points of every secret; with few secrets also those where one of them is distinguished (t > 1)."""
    C = spread_of(b, p.sum(axis=1))
    one = np.ones(1)

    sets = None if p.shape[1] <= LISTED else _some(p, rng)

    def points(s: int, floor: float, roof: float) -> Points:
        if sets is None:
            own = two_level(p[s : s + 1], C[s : s + 1], floor * one, roof * one)
            return Points(own.heights[0], own.gain[0], own.z[0])
        ends = np.stack([np.full(p.shape[1], x) for x in (floor, roof)])
        heights = np.concatenate([_steepest(p[s], C[s], floor, roof, sets), ends])[None]
        return Points(heights, np.zeros(heights.shape[:2]), heights @ p[s])

    out = [[points(s, 1.0, E) for s in range(len(p))]]
    if len(p) <= 4 and p.shape[1] <= LISTED:
        for s0, t in itertools.product(range(len(p)), (E**0.25, E**0.5, E)):
            out.append([points(s, 1.0, E * t) if s == s0 else points(s, t, E) for s in range(len(p))])
    return out


def _some(p: Floats, rng: np.random.Generator) -> Floats:
    """Some sets of useful values, the same for all secrets: single values, pairs, their complements, random ones."""
    k = p.shape[1]
    eye = np.eye(k, dtype=bool)
    pairs = np.array([eye[i] | eye[j] for i, j in itertools.combinations(range(k), 2)])
    drawn = rng.random((RANDOM, k)) < rng.uniform(0.1, 0.9, (RANDOM, 1))
    sets = np.unique(np.concatenate([eye, ~eye, pairs, ~pairs, drawn]), axis=0)
    return np.asarray(sets[sets.any(1) & ~sets.all(1)], float)


def _simple(families: list[list[Points]]) -> list[Floats]:
    """One secret's point beside the least constant of the others: what GRR does, at its steepest; and, for every
    point that all secrets have, all of them together: what a report of U does."""
    out, first = [], families[0]
    flat = [x.heights[0, -2] for x in first]
    for s, x in enumerate(first):
        some = x.heights[0][:: max(1, x.heights.shape[1] // 24)]
        rows = np.tile(np.concatenate(flat), (len(some), 1)).reshape(len(some), len(first), -1)
        rows[:, s] = some
        out.append(rows.reshape(len(some), -1))
    least = min(x.heights.shape[1] for x in first)
    step = max(1, least // 24)
    out.append(np.concatenate([x.heights[0, :least:step] for x in first], axis=1))
    return out


def _climbed(family: list[Points], choice: Ints, mixed: Mixed, p: Floats) -> tuple[Floats, Floats]:
    """Coordinate ascent on vᵀMv/z² − λ·v/z, z = p·v, over tuples: the slope of a unit row. Unit rows and slopes."""
    S, U = p.shape
    M, cells = mixed.slope, [slice(s * U, (s + 1) * U) for s in range(S)]
    points = [x.heights[0] for x in family]
    own = [((h @ M[c, c]) * h).sum(1) for h, c in zip(points, cells, strict=True)]
    line = [h @ mixed.dual[c] for h, c in zip(points, cells, strict=True)]
    rows = np.concatenate([h[choice[:, s]] for s, h in enumerate(points)], axis=1)
    pull, before = rows @ M, np.full(len(rows), -np.inf)
    for _ in range(PASSES):
        for s, c in enumerate(cells):
            mine = rows[:, c]
            cross = pull[:, c] - mine @ M[c, c]  # Mv without this secret's own part
            inner = (rows * pull).sum(1) - 2 * (mine * cross).sum(1) - ((mine @ M[c, c]) * mine).sum(1)
            z = (rows @ p.ravel() - mine @ p[s])[:, None] + family[s].z[0]
            flat = (rows @ mixed.dual - mine @ mixed.dual[c])[:, None] + line[s]
            score = ((own[s] + 2 * cross @ points[s].T + inner[:, None]) / z - flat) / z
            at = score.argmax(1)
            pull += (points[s][at] - mine) @ M[c]
            rows[:, c] = points[s][at]
        now = score[np.arange(len(rows)), at]
        if np.all(now <= before + 1e-6 * np.abs(now)):
            break
        before = now
    return _unit(rows, p), now
