"""What an uncertainty set is: its worst case over the distributions it allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.joint import Joint


@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """The greatest P(y|s1) / P(y|s2) for a row, with conditionals of U that attain (or approach) it."""

    ratio: float
    given_first: Floats  # R1[u]
    given_second: Floats  # R2[u]


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The greatest ⟨c, P⟩ over the set, with a maximiser P[s, u]."""

    value: float
    p: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The greatest (R₁·v₁)/(R₂·v₂) with the conditionals that attain it and, for balls, multipliers μ ≥ max v₁,
    m ≤ min v₂ that prove it (nearly: certification checks them)."""

    ratio: Floats
    first: Floats
    second: Floats
    mu: Floats = field(default_factory=lambda: np.zeros(0))
    m: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def arrays(self) -> tuple[Floats, ...]:
        return self.ratio, self.first, self.second, self.mu, self.m


class UncertaintySet(Protocol):
    """A set F of joint distributions of (S, U), known by its worst cases."""

    kind: ClassVar[str]

    @property
    def joint(self) -> Joint:
        """The estimate P̂ it surrounds, with the labels."""

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        """Greatest P(y|s1) / P(y|s2) over P in F for the row Q(y|·) as [s, u]."""

    def ratios(self, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Floats:
        """`worst` for many pairs at once: first[i, u] for secret s1[i] against second[i, u] for s2[i]."""

    def pairs(self, first: Floats, second: Floats, s1: Ints, s2: Ints, close: float = ...) -> Pairs:
        """`ratios` with conditionals that attain them; a looser `close` may name pairs that are not quite the worst."""

    def spikes(self) -> tuple[Floats, Floats]:
        """Least and greatest P(u|s) over F, as two tables [s, u]."""

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        """Least and greatest Σ_u P(u|s) v[y, s, u] over F for each y and s: what one secret alone allows."""

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        """`ranges` for rows that belong to one secret each: values[i, u] for secret s[i]."""

    def support(self, c: Floats) -> Extreme:
        """max ⟨c, P⟩ over P in F."""


def pairs_of(within: UncertaintySet, first: Floats, second: Floats, s1: Ints, s2: Ints) -> Pairs:
    """`pairs` of a set that only knows its worst case of one row at a time."""
    found = []
    for v1, v2, i, j in zip(first, second, s1, s2, strict=True):
        row = np.zeros(within.joint.shape)
        row[i], row[j] = v1, v2
        found.append(within.worst(row, int(i), int(j)))
    shape = (len(found), first.shape[-1])
    given = [np.array([getattr(x, n) for x in found]).reshape(shape) for n in ("given_first", "given_second")]
    return Pairs(np.array([x.ratio for x in found]), *given)
