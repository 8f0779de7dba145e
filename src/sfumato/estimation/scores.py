"""Scores: tables of a few columns from the answers of a bundle's parts.

A score L(t, y) of a part has E[L(t, Y) | x] = 1{x_T = t}: it is unbiased for every record, so its mean over rows
estimates the
table of the columns T whatever their distribution. Parts have independent noise, so products of the scores of two
parts estimate tables across them, again whatever the dependence of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sfumato.alphabet import Column, Floats
from sfumato.errors import InputError
from sfumato.estimation.dense import DenseInversion
from sfumato.estimation.inversion import Inversion, Mask, multinomial_deviations
from sfumato.estimation.models import prior
from sfumato.mechanism import Mechanism

AT_ONCE = 4_000_000  # numbers of a block of Gaussian draws


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


@dataclass(frozen=True, eq=False)
class Scores:
    """The unbiased scores of one part for all of its inputs, from which those of any of its columns follow."""

    columns: tuple[Column, ...]  # of the input, in code order
    left: Floats  # L[x, y]
    seen: Floats  # projector on the row space of Q
    expected: Floats  # P(y) at the design distribution
    rank: int

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
        step, out = max(1, AT_ONCE // self.f.size), []
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
class PooledInversion:
    """The same table from several parts that different rows answered: a mean with weights that sum to 1."""

    weights: tuple[float, ...]
    parts: tuple[DenseInversion, ...]

    @classmethod
    def of(cls, parts: Sequence[DenseInversion], moments: Sequence[float]) -> PooledInversion:
        """Weighted by n / (expected second moment): turns do not look at records, so nor do the weights."""
        precision = [part.n / moment for part, moment in zip(parts, moments, strict=True)]
        return cls(tuple(x / sum(precision) for x in precision), tuple(parts))

    @property
    def raw(self) -> Floats:
        return np.asarray(sum(w * p.raw for w, p in zip(self.weights, self.parts, strict=True)))

    @property
    def variance(self) -> Floats:
        return np.asarray(sum(w * w * p.variance for w, p in zip(self.weights, self.parts, strict=True)))

    @property
    def jump(self) -> Floats:
        return np.asarray(np.max([w * p.jump for w, p in zip(self.weights, self.parts, strict=True)], axis=0))

    @property
    def identified(self) -> Mask:
        return np.asarray(np.logical_and.reduce([p.identified for p in self.parts]))

    @property
    def rank(self) -> int:
        return min(p.rank for p in self.parts)

    def deviations(self, rng: np.random.Generator, draws: int) -> Floats:
        return np.asarray(sum(w * p.deviations(rng, draws) for w, p in zip(self.weights, self.parts, strict=True)))

    def covariance(self) -> Floats:
        return np.asarray(sum(w * w * p.covariance() for w, p in zip(self.weights, self.parts, strict=True)))

    def marginal(self, axis: int) -> Inversion:
        raise InputError("ask for the table of the column itself.")


def alike(one: Mechanism, other: Mechanism) -> bool:
    """Whether two parts have the same law and the same design distribution, so that their scores are the same."""
    laws: list[Any] = [one.law, other.law]
    numbers = [[getattr(law, f.name) for f in fields(law)] for law in laws]
    plain = all(isinstance(x, int) for x in numbers[0])
    return type(laws[0]) is type(laws[1]) and plain and numbers[0] == numbers[1] and bool(
        np.array_equal(prior(one), prior(other))
    )
