"""Scores: tables of a few columns from the answers of a bundle's parts.

A score L(t, y) of a part has E[L(t, Y) | x] = 1{x_T = t}: it is unbiased for every record, so its mean over rows
estimates the table of the columns T whatever their distribution. Parts have independent noise, so products of the
scores of two parts estimate tables across them, again whatever the dependence of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sfumato.alphabet import Column, Floats
from sfumato.errors import InputError
from sfumato.estimation.inversion import IDENTIFIED, DenseInversion, Mask, multinomial_deviations
from sfumato.estimation.models import prior
from sfumato.mechanism import Mechanism
from sfumato.mechanism.law import told_apart
from sfumato.tolerances import BLOCK

NO_PROJECTOR = np.zeros((0, 0))  # of a part of a table, which does not say by itself what is identified


def sums(columns: Sequence[Column], wanted: Sequence[str]) -> Floats:
    """[t, x]: which cell of the wanted columns each joint code of `columns` lies in."""
    place = {c.name: i for i, c in enumerate(columns)}
    axes, sizes = [place[name] for name in wanted], [c.size for c in columns]
    kept = [sizes[axis] for axis in axes]
    at = np.ravel_multi_index(tuple(np.indices(sizes)[axes]), kept).ravel()
    return np.asarray(np.arange(math.prod(kept))[:, None] == at, float)


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
    effects: dict[tuple[str, ...], Effect] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, part: Mechanism, columns: Sequence[Column]) -> Scores:
        q = part.matrix
        if q is None:
            raise InputError(f"a part with {part.outputs:,} outputs for {part.inputs:,} inputs is too large to invert.")
        p = prior(part)
        f = q @ p
        made = DenseInversion.of(q, f, 1, (part.inputs,), p)
        return cls(tuple(columns), made.left, made.seen, f)

    @property
    def sizes(self) -> dict[str, int]:
        return {c.name: c.size for c in self.columns}

    def table(self, wanted: Sequence[str], f: Floats, n: int) -> DenseInversion:
        """The table of some of the columns from the frequencies f of the outputs among n rows."""
        m, shape = sums(self.columns, wanted), tuple(self.sizes[name] for name in wanted)
        return DenseInversion(m @ self.left, f, n, shape, m @ self.seen, m)

    def effect(self, wanted: tuple[str, ...]) -> Effect:
        """The effect of some of the columns: their table less what fewer of them say of it."""
        if wanted not in self.effects:
            m = centred(sums(self.columns, wanted), [self.sizes[name] for name in wanted])
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
    identified: Mask

    @classmethod
    def of(cls, first: DenseInversion, second: DenseInversion, f: Floats, n: int) -> PairInversion:
        return cls(first.left, second.left, f, n, np.logical_and.outer(first.identified, second.identified))

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


@dataclass(frozen=True, eq=False)
class PooledInversion:
    """A table from parts that different rows answered: an even table, and the effects that each part tells of it.

    A table is 1/K and the effects of its columns and of their interaction, which do not overlap: sums over a column
    leave those of the others as they are. Each effect is a mean over the parts that tell it (`pooled`), so that two
    tables have the same effects of a column they share, and agree on it.
    """

    parts: tuple[DenseInversion, ...]  # what each tells of every cell
    identified: Mask

    @property
    def raw(self) -> Floats:
        even = np.full(self.identified.size, 1 / self.identified.size)
        return np.asarray(sum((p.raw for p in self.parts), even))

    @property
    def variance(self) -> Floats:
        return np.asarray(sum((p.variance for p in self.parts), np.zeros(self.identified.size)))

    @property
    def jump(self) -> Floats:
        """Each row answers one part."""
        return np.asarray(np.max([p.jump for p in self.parts] or [np.zeros(self.identified.size)], axis=0))

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        drawn = (p.deviations(rng, draws) for p in self.parts)
        return np.asarray(sum(drawn, np.zeros((draws, self.identified.size))))

    def covariance(self) -> Floats:
        return np.asarray(sum((p.covariance() for p in self.parts), np.zeros((self.identified.size,) * 2)))


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
    lefts: dict[int, Floats] = {}
    known = True
    for effect in (x for k in range(1, len(names) + 1) for x in combinations(names, k)):
        about = [(i, s.effect(effect)) for i, (s, _, n) in enumerate(seen) if n and set(effect) <= set(s.sizes)]
        told = {i: e for i, e in about if e.known}
        total = sum(seen[i][2] / e.moment for i, e in told.items())
        known &= total > 0 or math.prod(sizes[c] - 1 for c in effect) == 0
        for i, e in told.items():
            left = e.scores * (seen[i][2] / e.moment / total)
            lefts[i] = lefts.get(i, 0.0) + _in_cells(left, names.index(effect[0]), shape)
    parts = [DenseInversion(x, *seen[i][1:], (len(x),), NO_PROJECTOR, NO_PROJECTOR) for i, x in lefts.items()]
    return PooledInversion(tuple(parts), np.full(math.prod(shape), known))


def _in_cells(left: Floats, at: int, shape: Sequence[int]) -> Floats:
    """Scores of the effect of one column of a table as scores of its cells, in which all with a value of it share."""
    if len(left) == math.prod(shape):
        return left
    return np.asarray(left[np.indices(shape)[at].ravel()] * (len(left) / math.prod(shape)))


def alike(one: Mechanism, other: Mechanism) -> bool:
    """Whether two parts have the same law and the same design distribution, so that their scores are the same."""
    return told_apart(one.law) == told_apart(other.law) and bool(np.array_equal(prior(one), prior(other)))
