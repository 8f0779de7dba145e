"""What a release says: what it is doing, to whoever listens, and what whoever publishes must have been told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sfumato.errors import listed, option, spelled
from sfumato.joint import SMALL, Joint
from sfumato.mechanism import Bundle, Mechanism
from sfumato.noise import SEEDED

if TYPE_CHECKING:
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


# --- what whoever publishes must have been told, such as counts that become public with the mechanism file ------------


NOISY = option("--design auto", "design='auto'")
OTHER_DATA = option("--design-from reference.csv", "reference=")
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
    if any(p.joint is not None and p.joint.noise is not None and p.joint.noise.sampler == SEEDED for p in parts):
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
    small, shape = small_cells(joint), f"{joint.shape[0]} × {joint.shape[1]}"
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


def small_cells(joint: Joint | None) -> int:
    """Cells with 1 to 4 people."""
    if joint is None or joint.counts is None or joint.noise is not None:
        return 0
    return int(((joint.counts > 0) & (joint.counts < SMALL)).sum())


PUBLIC = {
    "private": (
        "Counts of the private table become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of {table} ({n} rows), without noise; nobody could verify "
        "the promise without it. Whoever gets the file gets the counts.",
        f"To keep private rows out of it, add noise to the counts ({NOISY}), design "
        f"from other data ({OTHER_DATA}), or on a random part that is then not released "
        f"({option('--split 0.1', 'split=0.1')}).",
    ),
    "split": (
        "Counts of the part set aside become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of the {n} rows of {table} that were set aside, without "
        "noise. These rows are not in the release, but whoever gets the file gets their counts.",
        f"To keep private rows out of it altogether, design from other data ({OTHER_DATA}).",
    ),
}
