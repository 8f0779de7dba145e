"""Sets of source distributions, known by the largest value of a linear function over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import Floats
from sfumato.optimise.loss.ratios import support


class Sources(Protocol):
    """A closed set of distributions, seen through the largest value of a linear function."""

    @property
    def size(self) -> int:
        """M, the number of letters."""

    def worst(self, c: Floats) -> tuple[float, Floats]:
        """max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    def first(self) -> Floats:
        """Some members [k, M] to start with."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Finitely many distributions (or their convex hull: the same thing here [003, Lemma 2])."""

    p: Floats  # [k, M]

    @property
    def size(self) -> int:
        return int(self.p.shape[1])

    def worst(self, c: Floats) -> tuple[float, Floats]:
        values = self.p @ c
        k = int(np.argmax(values))
        return float(values[k]), self.p[k]

    def first(self) -> Floats:
        return self.p


@dataclass(frozen=True, slots=True)
class Supported:
    """A set known by its support function, c → (max ⟨c, P⟩, a maximiser), and one member."""

    support: Callable[[Floats], tuple[float, Floats]]
    member: Floats

    @property
    def size(self) -> int:
        return int(self.member.size)

    def worst(self, c: Floats) -> tuple[float, Floats]:
        return self.support(c)

    def first(self) -> Floats:
        return self.member[None, :]


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """The χ² ball of the given radius around p."""

    p: Floats
    radius: float

    @property
    def size(self) -> int:
        return int(self.p.size)

    def worst(self, c: Floats) -> tuple[float, Floats]:
        return support(c, self.p, self.radius)

    def first(self) -> Floats:
        return self.p[None, :]


def checked(sources: Sources, budget: float) -> Floats:
    """First members, validated."""
    if not (np.isfinite(budget) and 0.0 <= budget <= 1.0):
        raise InputError(f"budget must lie between 0 and 1, got {budget}.")
    first = np.asarray(sources.first(), dtype=np.float64)
    if first.ndim != 2 or first.size == 0:
        raise InputError("the source set is empty.")
    if not np.all(np.isfinite(first)) or (first < 0.0).any() or np.abs(first.sum(axis=1) - 1.0).max() > 1e-9:
        raise InputError("sources must be distributions: nonnegative rows that sum to 1.")
    return first
