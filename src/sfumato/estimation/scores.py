"""Scores: tables of a few columns from the answers of a bundle's parts.

A score L(t, y) of a part has E[L(t, Y) | x] = 1{x_T = t}: it is unbiased for every record, so its mean over rows
estimates the
table of the columns T whatever their distribution. Parts have independent noise, so products of the scores of two
parts estimate tables across them, again whatever the dependence of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sfumato.alphabet import Column, Floats, Ints
from sfumato.errors import InputError
from sfumato.estimation.inversion import IDENTIFIED, DenseInversion, Inversion, Mask, multinomial_deviations
from sfumato.estimation.models import prior
from sfumato.mechanism import Mechanism
from sfumato.mechanism.law import told_apart
from sfumato.tolerances import BLOCK

NO_PROJECTOR = np.zeros((0, 0))  # of a part of a table, which does not say by itself what is identified


def sums(columns: Sequence[Column], wanted: Sequence[str]) -> Floats:
    """[t, x]: which cell of the wanted columns each joint code of `columns` lies in."""
    sizes = [c.size for c in columns]
    digits = np.indices(sizes).reshape(len(sizes), -1)
    place = {c.name: i for i, c in enumerate(columns)}
    at = np.zeros(digits.shape[1], np.int64)
    for name in wanted:
        at = at * sizes[place[name]] + digits[place[name]]
    out = np.zeros((int(np.prod([sizes[place[n]] for n in wanted])), digits.shape[1]))
    out[at, np.arange(digits.shape[1])] = 1.0
    return out


def centred(table: Floats, shape: Sequence[int]) -> Floats:
    """Along every axis of the table less its mean: what the columns together say beyond fewer of them. [t, …]"""
    out = table.reshape(*shape, -1)
    for axis in range(len(shape)):
        out = out - out.mean(axis, keepdims=True)
    return np.asarray(out.reshape(table.shape))


@dataclass(frozen=True, eq=False)
class Scores:
    """The unbiased scores of one part for all of its inputs, from which those of any of its columns follow."""

    columns: tuple[Column, ...]  # of the input, in code order
    left: Floats  # L[x, y]
    seen: Floats  # projector on the row space of Q
    expected: Floats  # P(y) at the design distribution
    rank: int
    effects: dict[tuple[str, ...], Effect] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, part: Mechanism, columns: Sequence[Column]) -> Scores:
        q = part.matrix
        if q is None:
            raise InputError(f"a part with {part.outputs:,} outputs for {part.inputs:,} inputs is too large to invert.")
        p = prior(part)
        f = q @ p
        made = DenseInversion.of(q, f, 1, (part.inputs,), p)
        return cls(tuple(columns), made.left, made.seen, f, made.rank)

    def table(self, wanted: Sequence[str], f: Floats, n: int) -> DenseInversion:
        """The table of some of the columns from the frequencies f of the outputs among n rows."""
        m = sums(self.columns, wanted)
        sizes = {c.name: c.size for c in self.columns}
        shape = tuple(sizes[name] for name in wanted)
        seen = m @ self.seen if n else np.zeros_like(m)
        return DenseInversion(m @ self.left, f, max(n, 1), shape, seen, m, min(self.rank, len(m)))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def effect(self, wanted: tuple[str, ...]) -> Effect:
        """The effect of some of the columns: their table less what fewer of them say of it."""
        if wanted not in self.effects:
            sizes = {c.name: c.size for c in self.columns}
            m = centred(sums(self.columns, wanted), [sizes[name] for name in wanted])
            outside, size = np.linalg.norm(m - m @ self.seen), np.linalg.norm(m)
            scores = m @ self.left
            moment = float((scores**2 @ self.expected).sum())
            self.effects[wanted] = Effect(scores, moment, bool(outside <= IDENTIFIED * size) and moment > 0)
        return self.effects[wanted]

    def moment(self, wanted: Sequence[str]) -> float:
        """Σ_t E L(t, Y)² at the design distribution: known before any row is seen."""
        scores = sums(self.columns, wanted) @ self.left
        return float((scores**2 @ self.expected).sum())


@dataclass(frozen=True, eq=False)
class PairInversion:
    """A table across two parts: the mean of products of scores, from the joint frequencies f[y, y'] of their outputs.

    p̂ = A f Bᵀ; Var = (A² f (B²)ᵀ − p̂²)/n.
    """

    a: Floats  # [t, y]
    b: Floats
    f: Floats  # [y, y']
    n: int
    known: Mask
    rank: int

    @classmethod
    def of(cls, first: DenseInversion, second: DenseInversion, f: Floats, n: int) -> PairInversion:
        known = np.logical_and.outer(first.identified, second.identified)
        return cls(first.left, second.left, f, n, known, first.rank * second.rank)

    @property
    def raw(self) -> Floats:
        return np.asarray(self.a @ self.f @ self.b.T)

    @property
    def variance(self) -> Floats:
        return np.maximum(self.a**2 @ self.f @ (self.b**2).T - self.raw**2, 0.0) / self.n

    @property
    def jump(self) -> Floats:
        """At most: the product of the largest scores, and the value itself."""
        return np.asarray((np.outer(np.abs(self.a).max(1), np.abs(self.b).max(1)) + np.abs(self.raw)) / self.n)

    @property
    def identified(self) -> Mask:
        return self.known

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        step, out = max(1, BLOCK // self.f.size), []
        for start in range(0, draws, step):
            noise = multinomial_deviations(self.f.ravel(), self.n, rng, min(step, draws - start))
            table = self.a @ noise.reshape(-1, *self.f.shape) @ self.b.T
            out.append(table.reshape(len(noise), -1))
        return np.concatenate(out)

    def covariance(self) -> Floats:
        left = np.kron(self.a, self.b) - self.raw.reshape(-1, 1)
        return np.asarray((left * self.f.ravel()) @ left.T / self.n)

    def marginal(self, axis: int) -> Inversion:
        raise InputError("ask for the table of the column itself.")


@dataclass(frozen=True, eq=False)
class Lifted:
    """The effects that one part tells of a table: of all its columns, or of one, which every cell then shares in."""

    own: DenseInversion
    place: Ints | None = None  # for each cell of the table the value of the one column
    share: float = 1.0  # of that column's effect in a cell

    def spread(self, values: Floats, power: int = 1) -> Floats:
        """Figures of the part as figures of the table's cells."""
        flat = values.ravel()
        return np.asarray(flat if self.place is None else flat[self.place] * self.share**power)

    def covariance(self) -> Floats:
        found = self.own.covariance()
        return found if self.place is None else np.asarray(found[np.ix_(self.place, self.place)] * self.share**2)


@dataclass(frozen=True, eq=False)
class PooledInversion:
    """A table from parts that different rows answered: an even table, and the effects that each part tells of it.

    A table is 1/K and the effects of its columns and of their interaction, which do not overlap: sums over a column
    leave those of the others as they are. Each effect is a mean over the parts that tell it (`pooled`), so that two
    tables have the same effects of a column they share, and agree on it.
    """

    parts: tuple[Lifted, ...]
    cells: int
    known: bool

    @property
    def raw(self) -> Floats:
        return np.asarray(1 / self.cells + sum((p.spread(p.own.raw) for p in self.parts), np.zeros(self.cells)))

    @property
    def variance(self) -> Floats:
        return np.asarray(sum((p.spread(p.own.variance, 2) for p in self.parts), np.zeros(self.cells)))

    @property
    def jump(self) -> Floats:
        """Each row answers one part."""
        return np.asarray(np.max([p.spread(p.own.jump) for p in self.parts] or [np.zeros(self.cells)], axis=0))

    @property
    def identified(self) -> Mask:
        return np.full(self.cells, self.known)

    @property
    def rank(self) -> int:
        return self.cells if self.known else 0

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        out = np.zeros((draws, self.cells))
        for p in self.parts:
            noise = p.own.deviations(rng, draws)
            out += noise if p.place is None else noise[:, p.place] * p.share
        return out

    def covariance(self) -> Floats:
        return np.asarray(sum((p.covariance() for p in self.parts), np.zeros((self.cells, self.cells))))

    def marginal(self, axis: int) -> Inversion:
        raise InputError("ask for the table of the column itself.")


@dataclass(frozen=True, eq=False)
class Effect:
    """The scores of a part for the effect of some columns alone, and what they cost."""

    scores: Floats  # [t, y]
    moment: float  # Σ_t E score² at the design distribution: known before any row is seen
    known: bool


def pooled(
    sizes: Mapping[str, int], names: Sequence[str], seen: Sequence[tuple[Scores, Floats, int]]
) -> PooledInversion:
    """The table of some columns from several parts with the frequencies of their outputs and their rows.

    Each effect is a mean with weights n / moment: turns do not look at records, so nor do the weights, and the
    estimate is unbiased whatever the distribution. It is generalised least squares onto tables that agree, under the
    covariance that is expected: at the even distribution the noise of GRR and SRR is isotropic on every effect, that of
    blocks nearly (`bundles.answers`), so that effects are uncorrelated and least squares is the mean of each.
    """
    shape = [sizes[name] for name in names]
    digits, cells = np.indices(shape).reshape(len(shape), -1), int(np.prod(shape))
    lifted: dict[tuple[int, str | None], tuple[Floats, Scores]] = {}
    known = True
    for effect in subsets(names):
        told = [(i, s.effect(effect)) for i, (s, _, n) in enumerate(seen) if n and set(effect) <= s.names]
        told = [(i, e) for i, e in told if e.known]
        total = sum(seen[i][2] / e.moment for i, e in told if e.moment > 0)
        known &= total > 0 or math.prod(sizes[c] - 1 for c in effect) == 0
        for i, e in told if total > 0 else ():
            weighted = e.scores * (seen[i][2] / e.moment / total)
            whole = set(names) <= seen[i][0].names
            key = i, None if whole else effect[0]
            if whole and len(effect) < len(names):
                at = names.index(effect[0])
                weighted = weighted[digits[at]] * (shape[at] / cells)
            before = lifted.get(key)
            lifted[key] = weighted if before is None else before[0] + weighted, seen[i][0]
    parts = []
    for (i, alone), (left, _) in lifted.items():
        own = DenseInversion(left, seen[i][1], seen[i][2], (len(left),), NO_PROJECTOR, NO_PROJECTOR, len(left))
        home = None if alone is None else names.index(alone)
        parts.append(Lifted(own) if home is None else Lifted(own, digits[home], shape[home] / cells))
    return PooledInversion(tuple(parts), cells, known)


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All but the empty one."""
    return [x for k in range(1, len(names) + 1) for x in combinations(names, k)]


def alike(one: Mechanism, other: Mechanism) -> bool:
    """Whether two parts have the same law and the same design distribution, so that their scores are the same."""
    return told_apart(one.law) == told_apart(other.law) and bool(np.array_equal(prior(one), prior(other)))
