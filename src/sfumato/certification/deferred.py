"""Later: levels that are proved when somebody first reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.certification.witness import Witness


class Later(Mapping[str, float]):
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
