"""Found: a ratio that was proved, and where it is attained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from sfumato.frames import Datum

if TYPE_CHECKING:
    from sfumato.alphabet import Column

Witness: TypeAlias = "Mapping[str, Datum]"  # where a level is attained, in labels


@dataclass(frozen=True, slots=True)
class Attained:
    """An upper bound of the worst ratio, with the output and the secrets behind it (as codes)."""

    ratio: Fraction | float
    where: dict[str, int]

    def or_worse(self, other: Attained) -> Attained:
        return other if other.ratio > self.ratio else self


def known_text(code: int, columns: Sequence[Column]) -> str:
    """'age = 30, sex = F' from the code of J and x^J."""
    digits: list[int] = []
    for column in reversed(columns):
        code, digit = divmod(code, column.size + 1)
        digits.append(digit)
    named = zip(columns, reversed(digits), strict=True)
    return ", ".join(f"{c.name} = {c.labels[d - 1]}" for c, d in named if d)
