"""Listening: how a release says what it is doing, while it does it, to whoever wants to know."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sfumato.optimise.budget import Heard

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
