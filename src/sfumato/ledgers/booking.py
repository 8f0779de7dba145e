"""Booking: a release is reserved, and settled by the evidence of what became of it."""

from __future__ import annotations

import datetime
import enum
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sfumato.decimals import SHORT, level, near
from sfumato.drawing.manifest import manifest_path, read_manifest
from sfumato.drawing.randomness import Memo
from sfumato.errors import OutputError, SfumatoError
from sfumato.ledgers.entries import DELIVERED, VOID, Entry, connected, writing
from sfumato.releasing.flow import Booking
from sfumato.sources import Place, located
from sfumato.sources.places import whole_size

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.releasing.flow import Target


class Evidence(enum.Enum):
    """What can be told."""

    NEVER = "it was stopped before its files could get their names"
    DELIVERED = "the table and the manifest of this release are there"
    UNKNOWN = "everything was written, but the table and its manifest are not there (not named in time, or moved away)"
    MEMORY = "everything was drawn for a program, which may have received it"


def evidence(entry: Entry) -> Evidence:
    """A release commits that it is ready before the first file gets its name, and the table gets its name last; its
    manifest bears the entry's random token. So nothing of one that was not ready is there, and a table beside the
    manifest with the token, of the size that the manifest says, is the release."""
    if not entry.ready:
        return Evidence.NEVER
    if entry.target is None:
        return Evidence.MEMORY
    try:
        table = located(entry.target)
        manifest = read_manifest(manifest_path(table))
        whole = table.exists() and manifest.size in (None, whole_size(table))
    except (SfumatoError, OSError):
        return Evidence.UNKNOWN
    return Evidence.DELIVERED if manifest.entry == entry.token and whole else Evidence.UNKNOWN


def named(target: Target) -> str | None:
    """How the ledger writes down where a release goes: a whole path, or the address in a store."""
    if target is None:
        return None
    where = located(target)
    return str(where) if isinstance(where, Place) else os.path.abspath(where)


# --- which releases count, and which of them are known to have had the same values of the same people -----------------


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """Those that count: not the void ones, and remembered answers once, whoever of their releases came through.

    A repeat without marks of its people was entered on the word of its values alone, and counts as any other.
    """
    seen: set[int] = set()
    out = []
    for entry in entries:
        root = entry.id if entry.repeats is None or entry.who is None else entry.repeats
        if entry.state != VOID and root not in seen:
            seen.add(root)
            out.append(entry)
    return out


@dataclass(slots=True, eq=False)
class _Group:
    """Releases of one state of the values: every fingerprint that a column had in it."""
    entries: list[Entry]
    marks: dict[str, set[str]]

    @classmethod
    def of(cls, entries: list[Entry]) -> _Group:
        marks: dict[str, set[str]] = {}
        for entry in entries:
            for column, mark in _known(entry).items():
                marks.setdefault(column, set()).add(mark)
        return cls(entries, marks)

    def holds(self, entry: Entry) -> bool:
        """Every column that the entry read was seen in this state, as it was then."""
        own = _known(entry)
        return bool(own) and all(mark in self.marks.get(column, ()) for column, mark in own.items())

    def within(self, entry: Entry) -> bool:
        """Every column that was read in this state was seen by the entry, as it was."""
        own, known = _known(entry), all(_known(e) for e in self.entries)
        return known and all(marks == {own.get(column)} for column, marks in self.marks.items())


def same_inputs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in groups within which the values that went in are known to be the same.

    Known means: it was declared, or one release of the group read all columns of the others, and each of theirs has
    the fingerprint that it had then. Fingerprints tell only when they are bound to a column of persons: of codes in
    row order alone, a sorted table has the same ones after people have changed places. Sharing one column is not
    enough either: others that two releases read at different times may have changed together with the secret.
    """
    groups: list[_Group] = []
    for entry in entries:
        if entry.same_values:
            groups = [_Group.of([*(e for group in groups for e in group.entries), entry])]
            continue
        inside = [g for g in groups if g.within(entry)]
        outside = next((g for g in groups if not inside and g.holds(entry)), None)
        if outside is not None:
            outside.entries.append(entry)
            continue
        joined = _Group.of([*(e for g in inside for e in g.entries), entry])
        groups = [*(g for g in groups if g not in inside), joined]
    return [group.entries for group in groups]


def _known(entry: Entry) -> dict[str, str]:
    """The fingerprints of an entry as far as they are about persons, under the key that made them."""
    if entry.fingerprints is None or entry.who is None:
        return {}
    return {column: f"{entry.key} {mark}" for column, mark in entry.fingerprints.items()}


@dataclass(slots=True)
class Reserved(Booking):
    """A reservation. When it is left without an error the release was delivered; with one, the disk tells."""

    path: Path
    entry: Entry
    memo: Memo | None = field(default=None, repr=False)

    @property
    def token(self) -> str:
        return self.entry.token

    @property
    def account(self) -> Record:
        e = self.entry
        return {
            "ledger": str(self.path), "release": e.id, "people": e.people, "notion": e.notion, "composed": e.composed,
            "budget": e.budget, "repeats": e.repeats, "note": e.note,
        }

    def ready(self, rows: int | None) -> None:
        """Committed before the first file gets its name, so that what was not ready was never released."""
        self._set(ready=1, rows=rows)
        self.entry = replace(self.entry, ready=True, rows=rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        if kind is None:
            return self._deliver(now)
        # This process knows that it took nothing away: what is not there was never named. Rows in memory were not
        # handed over when an error was raised.
        delivered = evidence(self.entry) is Evidence.DELIVERED
        why = self.entry.note or f"stopped by {kind.__name__}"
        return self._set(state=DELIVERED if delivered else VOID, settled_at=now, note=why)

    def _deliver(self, now: str) -> None:
        try:
            self._set(state=DELIVERED, settled_at=now)
        except SfumatoError as error:
            raise OutputError(
                f"the rows were released, but the ledger could not be told: {error} Release {self.entry.id} stays "
                "reserved, and counts", next="Settle it as delivered.",
            ) from None

    def _set(self, **values: str | int | None) -> None:
        names = ", ".join(f"{name} = :{name}" for name in values)
        with connected(self.path, create=False) as connection, writing(connection):
            connection.execute(f"UPDATE releases SET {names} WHERE id = :id", {**values, "id": self.entry.id})


def account_text(account: Mapping[str, Any]) -> str:
    """What all releases about the same people amount to."""
    together = account["composed"]
    total = f"{level(together)} ({account['notion'].upper()})" if math.isfinite(together) else level(together)
    limit = "no budget" if account["budget"] is None else f"budget {near(account['budget'], SHORT)}"
    again = "" if account["repeats"] is None else f"; the answers of release {account['repeats']} again, at no cost"
    note = "" if account["note"] is None else f"; {account['note']}"
    return f"release {account['release']} about {account['people']!r}: together {total}, {limit}{again}{note}"
