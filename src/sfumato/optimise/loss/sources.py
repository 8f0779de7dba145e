"""Sets of source distributions, known by the largest value of a linear function over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError
from sfumato.optimise.arrays import Floats
from sfumato.optimise.loss.ratios import support

CUTTING_ROUNDS = 200  # of members that enter because they are violated: one for each that matters, a few as a rule
WHOLE = 1e-9  # by which a given distribution may miss 1: files carry decimal digits


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """A closed set of distributions, seen through the largest value of a linear function."""

    members: Floats  # [k, M], some to start with
    worst: Callable[[Floats], tuple[float, Floats]]
    """c ↦ max ⟨c, P⟩ (an upper bound of it, for sets where it is computed) and a P that attains it."""

    def __post_init__(self) -> None:
        p = self.members
        if p.ndim != 2 or p.size == 0:
            raise InputError("the source set is empty: give at least one distribution.")
        if not np.all(np.isfinite(p)) or (p < 0.0).any() or np.abs(p.sum(axis=1) - 1.0).max() > WHOLE:
            raise InputError("sources must be distributions: nonnegative rows that sum to 1.")

    @property
    def size(self) -> int:
        """M, the number of letters."""
        return int(self.members.shape[1])

    @staticmethod
    def listed(p: Floats) -> Sources:
        """Finitely many distributions (or their convex hull: the same thing here [003, Lemma 2])."""

        def worst(c: Floats) -> tuple[float, Floats]:
            values = p @ c
            return float(values.max()), p[int(np.argmax(values))]

        return Sources(p, worst)

    @staticmethod
    def chi_square(p: Floats, radius: float) -> Sources:
        """The χ² ball of the given radius around p."""
        return Sources(p[None, :], lambda c: support(c, p, radius))
