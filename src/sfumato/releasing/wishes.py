"""Wishes: how a table is counted and a mechanism designed from it, with everything that has a usual value; and what a
release says, of its steps to whoever listens, and of what becomes public to whoever publishes."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato import designers
from sfumato.alphabet import Column
from sfumato.errors import InputError, designed_epsilon, listed, option, spelled, unknown
from sfumato.joint import SMALL
from sfumato.mechanism import Bundle, Mechanism
from sfumato.noise import DELTA, SEEDED

if TYPE_CHECKING:
    from sfumato.optimise.budget import Heard

V = TypeVar("V")
EVERY = "all"  # columns are public
DESIGNS = ("exact", "noisy", "any", "auto")
TWO = ("auto", "ballopt", "precise", "grr", "srr", "ir", "cr", "sue", "oue")  # methods of two promises over any set
Names = str | Sequence[str] | None  # of columns
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

    @property
    def unsaid(self) -> dict[str, BinWish | None]:
        """The columns of which something must be found out, with their bins: a number of them, edges (then only whether
        values are missing is asked), a part of dates, or None for labels."""
        out: dict[str, BinWish | None] = {}
        for name in (*self.secret, *self.useful):
            rule = (self.bins or {}).get(name)
            said = self.is_public(name) or name in (self.labels or {})
            if isinstance(rule, int) or (not said and (not isinstance(rule, list) or self.missing == "category")):
                out[name] = rule
        return out

    def at(self, epsilon: float) -> Wishes:
        """The same at another level, with the second promise that is usual there."""
        return replace(self, epsilon=epsilon, at_most=usual_cap(epsilon))

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
    exact, other = option("--design exact", "design='exact'"), option(
        "sfumato release --design-from or --split, sfumato design --source reference",
        "reference=, split= or origin='reference'",
    )
    return (
        f"{what} needs exact counts of the table, which would be in the mechanism file. Ask for that by name ({exact}),"
        f" take counts from elsewhere ({other}), or leave the method to auto."
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


def named(columns: Names) -> tuple[str, ...]:
    """The names of columns, none where nobody named any."""
    if columns is not None and not isinstance(columns, Iterable):
        raise InputError("a column is named by a text, several by a list of them", value=columns)
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


def usual_cap(epsilon: float) -> float:
    """The second promise of a release where nobody says one: odds of twenty to one, or the square of the first."""
    return max(3.0, 2 * epsilon)


def without(rules: Mapping[str, V] | None, dropped: Collection[str]) -> dict[str, V] | None:
    """The rules for other columns than these."""
    return {name: rule for name, rule in (rules or {}).items() if name not in dropped} or None


# --- what a release says: what it is doing, to whoever listens --------------------------------------------------------


Tell = Callable[[int], None]  # told the number of rows done so far
Total = int | Callable[[int], int | None] | None  # rows there are, or a guess from those done


class Listener(Protocol):
    """Told of every step as it begins, and of choices that were made."""

    def step(self, what: str, total: Total = None, *, rows: bool = False) -> AbstractContextManager[Tell]:
        """Something that takes a while; with `rows` it tells how many are done."""

    def search(self, what: str) -> AbstractContextManager[Heard | None]:
        """A search that may take long: told its stage, its value, a proved bound and the seconds left, or nothing."""

    def say(self, text: str) -> None:
        """A choice that was made where none was asked for."""

    def warn(self, told: Notice) -> None:
        """What nobody may miss."""


def say(listener: Listener, *lines: str) -> None:
    """Some lines to whoever listens."""
    for line in lines:
        listener.say(line)


@dataclass(frozen=True, slots=True)
class Silent:
    """Says nothing; a program asks the values. Progress in rows is told to `rows`, if it is given."""

    rows: Tell | None = None

    @contextlib.contextmanager
    def step(self, what: str, total: Total = None, *, rows: bool = False) -> Iterator[Tell]:
        yield self.rows if rows and self.rows is not None else lambda done: None

    def search(self, what: str) -> AbstractContextManager[Heard | None]:
        return contextlib.nullcontext()

    def say(self, text: str) -> None:
        return None

    def warn(self, told: Notice) -> None:
        return None


# --- what whoever publishes must have been told, such as counts that become public with the mechanism file ------------


NOISY = option("--design auto", "design='auto'")
OTHER_DATA = option("sfumato release --design-from reference.csv", "reference=")
COARSER = f"{option('--bins', 'bins=')}, {option('--rare', 'rare=')}, fewer {option('--useful', 'useful=')}"


@dataclass(frozen=True, slots=True, repr=False)
class Notice:
    """Something that nobody may miss. `errors.spelled` chooses how its options are written."""

    title: str
    paragraphs: tuple[str, ...]

    def __str__(self) -> str:
        return spelled("\n".join((self.title, *self.paragraphs)))

    def __repr__(self) -> str:
        return f"<{self}>"


def notices_of(mechanism: Mechanism | Bundle, file: str, table: str) -> Iterator[Notice]:
    """What becomes public with the mechanism file, and what a promise rests on beyond the proof."""
    parts = mechanism.parts if isinstance(mechanism, Bundle) else (mechanism,)
    joints = [part.joint for part in parts if part.joint is not None]
    if any(joint.noise is not None and joint.noise.sampler == SEEDED for joint in joints):
        yield Notice("The noise was seeded: not for release", (
            f"Whoever knows or guesses the seed can take the noise off what {file} tells of {table}. Design it again "
            f"without {option('--seed', 'seed=')}.",
        ))
    if isinstance(mechanism, Bundle):
        yield from _of_a_bundle(mechanism, file, table)
        return
    joint = mechanism.joint
    if joint is None or mechanism.source not in PUBLIC:
        return
    title, first, way_out = PUBLIC[mechanism.source]
    small, shape = joint.small_cells, f"{joint.shape[0]} × {joint.shape[1]}"
    people = f"{small:,} of its {joint.p.size:,} cells hold" if small != 1 else f"1 of its {joint.p.size:,} cells holds"
    warning = [
        f"! {people} only 1 to {SMALL - 1} people: so small a count may single somebody out. Coarser columns help "
        f"({COARSER})."
    ] if small else []
    yield Notice(title, (first.format(file=file, shape=shape, table=table, n=f"{joint.n:,}"), *warning, way_out))


def _of_a_bundle(bundle: Bundle, file: str, table: str) -> Iterator[Notice]:
    assuming = "nothing" if bundle.claim is None else bundle.claim.assuming
    if assuming in ("star", "tree"):
        yield Notice("The promise rests on a model of the columns", (
            f"It holds if the columns {'are independent given the secret' if assuming == 'star' else 'form a tree'}, "
            f"which cannot be proved from data. Leave out {option('--assuming', 'assuming=')} for a promise that needs "
            "no model.",
        ))
    if assuming != "nothing" and bundle.source != "reference":
        yield Notice("Counts of the private table become public with the mechanism file", (
            f"{file} contains, without noise, the table of counts of {table} for each of its {len(bundle.parts)} "
            "parts; nobody could verify the promise without them.",
            f"Assuming nothing (the default) it contains no counts; {OTHER_DATA} keeps private rows out of it.",
        ))


def learned(columns: Sequence[str]) -> tuple[str, ...]:
    """What a confidence does not cover where labels were found in the rows that were counted."""
    if not columns:
        return ()
    return (
        f"the labels of {listed(columns)} were found in these rows: the confidence is about labels fixed beforehand "
        "(the option labels), and says nothing of those that did not occur",
    )


PUBLIC = {
    "private": (
        "Counts of the private table become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of {table} ({n} rows), without noise; nobody could verify "
        "the promise without it. Whoever gets the file gets the counts.",
        f"To keep private rows out of it, add noise to the counts ({NOISY}), design "
        f"from other data ({OTHER_DATA}), or on a random part that is then not released "
        f"({option('sfumato release --split 0.1', 'split=0.1')}).",
    ),
    "split": (
        "Counts of the part set aside become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of the {n} rows of {table} that were set aside, without "
        "noise. These rows are not in the release, but whoever gets the file gets their counts.",
        f"To keep private rows out of it altogether, design from other data ({OTHER_DATA}).",
    ),
}
