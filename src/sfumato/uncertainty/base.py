"""What an uncertainty set is: its worst case over the distributions it allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

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


class UncertaintySet(Protocol):
    """A set F of joint distributions of (S, U), known by its worst cases."""

    kind: ClassVar[str]

    @property
    def joint(self) -> Joint:
        """The estimate P̂ it surrounds, with the labels."""

    def worst(self, row: Floats, s1: int, s2: int) -> Worst:
        """Greatest P(y|s1) / P(y|s2) over P in F for the row Q(y|·) as [s, u]."""

    def ratios(self, first: Floats, second: Floats, s1: Floats, s2: Floats) -> Floats:
        """`worst` for many pairs at once: first[i, u] for secret s1[i] against second[i, u] for s2[i]."""

    def spikes(self) -> tuple[Floats, Floats]:
        """Least and greatest P(u|s) over F, as two tables [s, u]."""

    def ranges(self, rows: Floats) -> tuple[Floats, Floats]:
        """Least and greatest Σ_u P(u|s) v[y, s, u] over F for each y and s: what one secret alone allows."""

    def ranges_of(self, values: Floats, s: Ints) -> tuple[Floats, Floats]:
        """`ranges` for rows that belong to one secret each: values[i, u] for secret s[i]."""

    def support(self, c: Floats) -> Extreme:
        """max ⟨c, P⟩ over P in F."""
