"""Booking: the place of a release in a ledger, reserved before a row is drawn and settled when the files are named.

Ledgers live in a folder of their own; a release only knows what it needs of one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import pyarrow as pa

from sfumato.errors import At, DataError, InputError
from sfumato.mechanism.law import Words, memory_key, remembered

if TYPE_CHECKING:
    from sfumato.alphabet import Array
    from sfumato.frames import Record
    from sfumato.releasing.flow import Flow
    from sfumato.sources.places import Where


@dataclass(frozen=True, slots=True)
class Memo:
    """Answers that are remembered: the column that tells people apart, and the key of this mechanism's answers."""

    column: str
    key: bytes

    def part(self, name: str) -> Memo:
        """The same people, with a key for one part of a bundle: its answers share no words with another's."""
        return replace(self, key=memory_key(self.key, name))

    def words(self, people: pa.Array, codes: Array, count: int, first_row: int) -> Words:
        """The random words [i·count] of every record."""
        names = names_of(people, self.column, first_row).to_pylist()
        drawn = [remembered(self.key, n.encode(), int(c), count) for n, c in zip(names, codes, strict=True)]
        return np.frombuffer(b"".join(drawn), np.uint64)


def names_of(people: pa.Array, column: str, first_row: int) -> pa.Array:
    """The names of people as text; nobody may be nameless."""
    if people.null_count:
        row = first_row + int(np.flatnonzero(np.asarray(people.is_null()))[0]) + 1
        raise DataError("nobody is named, so that people cannot be told apart", where=At(column, row=row))
    return people.cast(pa.string())


class Booking(Protocol):
    """A reserved place. Leaving it without an error means that the release was delivered."""
    @property
    def token(self) -> str | None:
        """A random name of the release, which its manifest bears."""

    @property
    def memo(self) -> Memo | None:
        """How answers are remembered, if they are."""

    @property
    def account(self) -> Record | None:
        """What the ledger says about these people with this release, for whoever asked."""

    def ready(self, rows: int | None) -> None:
        """Everything is written; from here on the files may get their names."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Book(Protocol):
    """A ledger, as far as a release knows it."""

    def booking(
        self, flow: Flow, target: Where | str | os.PathLike[str] | None, *, people: str | None, budget: float | None,
        same_values: bool, memoise: str | None, person: str | None,
    ) -> Booking:
        """Reserve a place for the release, or refuse it."""


class Unbooked:
    """No ledger."""

    token: str | None = None
    memo: Memo | None = None
    account: Record | None = None

    def ready(self, rows: int | None) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Account:
    """Where a release is entered, and under which conditions; nowhere without a ledger."""

    ledger: Book | None = None
    people: str | None = None
    budget: float | None = None
    same_values: bool = False
    memoise: str | None = None
    person: str | None = None

    def booking(self, flow: Flow, target: Where | str | os.PathLike[str] | None) -> Booking:
        """The place of a release in the ledger, if there is one."""
        if self.ledger is not None:
            return self.ledger.booking(
                flow, target, people=self.people, budget=self.budget, same_values=self.same_values,
                memoise=self.memoise, person=self.person,
            )
        if any(x is not None for x in (self.people, self.budget, self.memoise, self.person)):
            raise InputError("people, budget, memoise and person need a ledger: ledger=sf.Ledger('people.ledger').")
        return Unbooked()
