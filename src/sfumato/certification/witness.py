"""Where a proved ratio is attained, and levels that are proved when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from sfumato.errors import SfumatoError
from sfumato.frames import Datum

if TYPE_CHECKING:
    from sfumato.alphabet import Column


# --- a ratio that was proved, and where it is attained ----------------------------------------------------------------


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


# --- levels that are proved when somebody first reads them ------------------------------------------------------------


class DeferredLevels(Mapping[str, float]):
    """A mapping made on first reading and kept: what no promise depends on need not hold up a design."""

    def __init__(self, make: Callable[[], dict[str, float]]) -> None:
        self._make = make
        self._made: dict[str, float] | None = None

    def _read(self) -> dict[str, float]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: str) -> float:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


class DeferredLevel:
    """A proved level with where it is attained, made on first reading and kept; of a claim that was `confirmed` at a
    level, that one where the fast proof finds none as good."""

    def __init__(self, make: Callable[[], tuple[float, Witness]], confirmed: float | None = None) -> None:
        self._make, self.confirmed = make, confirmed

    @classmethod
    def known(cls, level: float, witness: Witness) -> DeferredLevel:
        out = cls(dict)  # type: ignore[arg-type]  # never asked
        out.__dict__["made"] = level, witness
        return out

    @cached_property
    def made(self) -> tuple[float, Witness]:
        if self.confirmed is None:
            return self._make()
        try:
            level, witness = self._make()
        except SfumatoError:
            return self.confirmed, {}
        return min(level, self.confirmed), witness

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeferredLevel) and self.made == other.made

    def __hash__(self) -> int:
        return hash(self.made[0])

    def __repr__(self) -> str:
        return f"Level({self.made[0]:.10g})"
