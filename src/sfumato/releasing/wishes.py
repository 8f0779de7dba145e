"""Wishes: how a table is counted and a mechanism designed from it, with everything that has a usual value."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sfumato import designers
from sfumato.alphabet import Alphabet, Column
from sfumato.errors import InputError, designed_epsilon, option, unknown
from sfumato.noise import DELTA

V = TypeVar("V")
EVERY = "all"  # columns are public
DESIGNS = ("exact", "noisy", "any", "auto")
TWO = ("auto", "ballopt", "precise", "grr", "srr", "ir", "cr", "sue", "oue")  # methods of two promises over any set
Values = tuple[float, ...] | dict[str, float]  # numbers in the order of labels, or by label
BinWish = int | str | list[float]  # how many, a part of dates, or inner edges


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
    bins: dict[str, BinWish] | None = None
    numbers: str = "bins"  # columns of many numbers that bins do not name are cut, or each number is a label
    rare: float | dict[str, float] | None = None
    missing: str = "category"
    unseen: str | dict[str, str] | None = None
    labels: Mapping[str, Sequence[str | None] | Column] | None = None
    time_limit: float | None = None
    gap: float | None = None
    distance: str | None = None  # these are for the method distortion
    values: Values | None = None
    outputs: str | None = None
    columns: str = "auto"  # one mechanism for all, or a bundle
    assuming: str = "nothing"  # by a bundle
    tables: tuple[tuple[str, ...], ...] = ()  # that a bundle is asked for; none: all of one and two columns
    design: str = "exact"  # from the counts of the table as they are, 'noisy' ones, 'any' (none), or what suits: 'auto'
    design_epsilon: float | None = None  # the part of ε that noisy counts take; None: chosen without looking
    public: tuple[str, ...] = ()  # columns whose labels everybody knows; EVERY: all of them
    delta: float = DELTA  # chance that a label tells of a single person, where they are not
    at_most: float | None = None  # nats for any distribution, as a second promise
    releases: int | None = None  # planned, which stay within `planned` together
    planned: float | None = None
    counts_in: str | os.PathLike[str] | None = None  # the folder where what noise tells of the table is kept; None: its
    automatic: tuple[str, ...] = ()  # columns whose bins nobody said

    def __post_init__(self) -> None:
        designed_epsilon(self.epsilon)
        if self.design not in DESIGNS:
            raise unknown("something to design from", self.design, DESIGNS)
        if not 0 < self.confidence < 1:
            raise InputError("confidence must lie strictly between 0 and 1", value=self.confidence)
        if self.at_most is not None and not self.epsilon <= self.at_most < math.inf:
            raise InputError(
                f"{option('--at-most', 'at_most')} must be a finite number of nats, ε = {self.epsilon:g} or more, got "
                f"{self.at_most:g}: what holds for any distribution holds over the set too."
            )

    @property
    def searched(self) -> bool:
        """Whether the mechanism can have two promises, over a set around noisy counts."""
        near = any(x is not None for x in (self.distance, self.values, self.outputs))
        return self.notion == "rldp" and self.method in TWO and not near

    def is_public(self, name: str) -> bool:
        """Whether somebody said that everybody knows the labels of a column; not which of them are rare."""
        grouped = self.rare is not None and (not isinstance(self.rare, dict) or name in self.rare)
        return not grouped and (name in self.public or EVERY in self.public)

    def about(self, useful: tuple[str, ...], *, among: Collection[str]) -> Wishes:
        """The same for useful columns that were chosen `among` some: what was said of the others is dropped."""
        dropped = {name for name in among if name not in useful}
        unseen = without(self.unseen, dropped) if isinstance(self.unseen, dict) else self.unseen
        rare = without(self.rare, dropped) if isinstance(self.rare, dict) else self.rare
        bins, labels = without(self.bins, dropped), without(self.labels, dropped)
        return replace(self, useful=useful, bins=bins, rare=rare, unseen=unseen, labels=labels)


def completed(
    secret: tuple[str, ...], useful: tuple[str, ...], *, private: bool = True, design: str | None = None,
    at_most: str | None = None, **said: Any,
) -> Wishes:
    """Wishes with what is usual where nothing was said: a private table tells no exact count, and a second promise is
    made where there can be one (`at_most` is a number of nats as text, or 'none')."""
    if (method := said.get("method")) is not None and method not in designers.methods():
        raise unknown("a method", method, designers.methods())
    made = Wishes(secret, useful, design=design or ("auto" if private else "exact"), **said)
    if private and made.design != "exact" and not (made.searched or made.notion == "ldp"):
        raise InputError(_at_counts(made))
    if made.releases is not None:
        several, cap = option("--releases", "releases="), option("--at-most", "at_most=")
        if at_most is not None:
            raise InputError(f"{several} sets what {cap} would say", next="Give one of the two.")
        if made.planned is None:
            raise InputError(f"{several} needs the {option('--budget', 'budget=')} that they shall stay within.")
        return made if made.searched else replace(made, releases=None, planned=None)
    return replace(made, planned=None, at_most=_second(at_most, made))


def _at_counts(wishes: Wishes) -> str:
    """Why a method is not for what a private table may tell of itself."""
    what = f"the method {wishes.method}" if wishes.notion == "rldp" else f"the notion {wishes.notion}"
    if any(x is not None for x in (wishes.distance, wishes.values, wishes.outputs)):
        what = "the method distortion"
    exact, other = option("--design exact", "design='exact'"), option("--design-from, --split", "reference=, split=")
    return (
        f"{what} needs exact counts of the table, which would be in the mechanism file. Ask for that by name ({exact}),"
        f" take counts from elsewhere ({other}, or sfumato design --source reference), or leave the method to auto."
    )


def _second(text: str | None, wishes: Wishes) -> float | None:
    """The second promise: what was said, or what is usual where it can be had."""
    if text is None:
        return usual_cap(wishes.epsilon) if wishes.searched and wishes.assuming == "nothing" else None
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option('--at-most', 'at_most')} is a number of nats, or 'none'", value=text) from None


def usual_cap(epsilon: float) -> float:
    """The second promise of a release where nobody says one: odds of twenty to one, or the square of the first."""
    return max(3.0, 2 * epsilon)


def without(rules: Mapping[str, V] | None, dropped: Collection[str]) -> dict[str, V] | None:
    """The rules for other columns than these."""
    return {name: rule for name, rule in (rules or {}).items() if name not in dropped} or None


def numbered(values: Values | None, useful: Alphabet) -> list[float] | None:
    """The numbers in the order of the useful labels."""
    if not isinstance(values, dict):
        return None if values is None else list(values)
    labels = [useful.text(i) for i in range(useful.size)]
    if set(values) != set(labels):
        off = sorted(set(labels) - set(values)) or sorted(set(values) - set(labels))
        what = "has no number for" if set(labels) - set(values) else "names what is no useful value:"
        raise InputError(
            f"{option('--values', 'values')} {what} {', '.join(map(repr, off[:5]))} (useful values: "
            f"{', '.join(labels[:20])})."
        )
    return [values[label] for label in labels]
