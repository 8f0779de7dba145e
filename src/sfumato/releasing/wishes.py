"""Wishes: how a table is counted and a mechanism designed from it, with everything that has a usual value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from sfumato.errors import designed_epsilon

V = TypeVar("V")
Values = tuple[float, ...] | dict[str, float]  # numbers in the order of labels, or by label


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a table is counted and a mechanism designed from it."""

    secret: tuple[str, ...]
    useful: tuple[str, ...]  # none: those that fit are chosen
    epsilon: float
    method: str = "auto"
    confidence: float = 0.95
    notion: str = "rldp"
    reads: str = "both"
    aim: str | None = None  # of the method auto; None: what `design` aims at when nobody says
    bins: dict[str, int | str | list[float]] | None = None
    numbers: str = "bins"  # columns of many numbers that bins do not name are cut, or each number is a label
    rare: float | dict[str, float] | None = None
    missing: str = "category"
    unseen: str | dict[str, str] | None = None
    labels: dict[str, list[str | None]] | None = None
    time_limit: float | None = None
    gap: float | None = None
    distance: str | None = None  # these are for the method distortion
    values: Values | None = None
    outputs: str | None = None
    columns: str = "auto"  # one mechanism for all, or a bundle
    assuming: str = "nothing"  # by a bundle
    automatic: tuple[str, ...] = ()  # columns whose bins nobody said

    def __post_init__(self) -> None:
        designed_epsilon(self.epsilon)

    def about(self, useful: tuple[str, ...], *, among: Collection[str]) -> Wishes:
        """The same for useful columns that were chosen `among` some: what was said of the others is dropped."""
        dropped = {name for name in among if name not in useful}
        unseen = _without(self.unseen, dropped) if isinstance(self.unseen, dict) else self.unseen
        rare = _without(self.rare, dropped) if isinstance(self.rare, dict) else self.rare
        bins, labels = _without(self.bins, dropped), _without(self.labels, dropped)
        return replace(self, useful=useful, bins=bins, rare=rare, unseen=unseen, labels=labels)


def _without(rules: Mapping[str, V] | None, dropped: set[str]) -> dict[str, V] | None:
    return {name: rule for name, rule in (rules or {}).items() if name not in dropped} or None
