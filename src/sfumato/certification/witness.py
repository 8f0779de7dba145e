"""Found: a ratio that was proved, and where it is attained."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Found:
    """An upper bound of the worst ratio, with the output and the secrets behind it (as codes)."""

    ratio: Fraction | float
    where: dict[str, int]

    def or_worse(self, other: Found) -> Found:
        return other if other.ratio > self.ratio else self
