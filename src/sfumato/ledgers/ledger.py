"""The ledger: what has been released about whom, what it amounts to, and what may still be released."""

from __future__ import annotations

import datetime
import enum
import math
import os
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sfumato.certification import certificate
from sfumato.certification.together import bundle_certificate, drawn_for
from sfumato.composing import total_levels
from sfumato.decimals import SHORT, near
from sfumato.decimals import level as limit
from sfumato.drawing.manifest import manifest_path, read_manifest
from sfumato.drawing.randomness import Memo
from sfumato.errors import BudgetError, InputError, OutputError, SfumatoError, checked_epsilon
from sfumato.ledgers import entries as book
from sfumato.ledgers import persons as marks
from sfumato.ledgers.entries import Entry
from sfumato.ledgers.persons import Persons
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import made_of
from sfumato.mechanism.law import memory_key
from sfumato.processes import may_be_running, this_process
from sfumato.releasing.flow import Account, Booking
from sfumato.sources import Place, located
from sfumato.sources.places import whole_size

if TYPE_CHECKING:
    from types import TracebackType

    from sfumato.frames import Record
    from sfumato.releasing.flow import Flow, Target
    from sfumato.sources import Where

NOTIONS = ("rldp", "lip", "ldp", "srlip", "pml")


class Ledger:
    """A SQLite file that remembers releases, by the name of the people they are about.

    A release is reserved before a row is drawn, and delivered when its files have their names. Both count; a void one
    does not. The level of all that counts together is proved anew for every reservation, inside the transaction that
    makes it, so that releases that race cannot overspend a budget.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path)
        with book.connected(self.path, create=create):
            pass

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def entries(self, people: str | None = None) -> list[Entry]:
        """Every release, or those about some people."""
        with book.connected(self.path, create=False) as connection:
            return _entries(connection, people)

    def entry(self, number: int) -> Entry:
        with book.connected(self.path, create=False) as connection:
            return book.entry_in(connection, number)

    def mechanism(self, checksum: str) -> Mechanism | Bundle:
        """The mechanism or bundle of a release, as it was."""
        with book.connected(self.path, create=False) as connection:
            return _mechanism(connection, checksum)

    def composed(self, people: str, notion: str = "rldp") -> float:
        """The proved level of all releases about these people that count, about the secret that fares worst."""
        with book.connected(self.path, create=False) as connection:
            live = marks.counted(_entries(connection, people))
            return _level(connection, live, notion, math.inf) if live else 0.0

    def delta(self, people: str) -> float:
        """The chance, at most, that labels which these releases tell of their tables tell of single people."""
        with book.connected(self.path, create=False) as connection:
            used = {e.mechanism for e in marks.counted(_entries(connection, people))}
            return drawn_for(_mechanism(connection, mark) for mark in used)[1]

    def booking(self, flow: Flow, target: Target, account: Account) -> Reserved:
        """Reserve a place for a release, or refuse it with what is left."""
        people, memoise, person = marks.tidy(account.people or ""), account.memoise, account.person
        if flow.drawer.stream.seeded:
            raise InputError(
                "a seeded release is not for release, so it has no place in a ledger", next="Leave out the seed."
            )
        if memoise is not None and person not in (None, memoise):
            raise InputError(f"answers are remembered by {memoise!r}: people are told apart by it, not by {person!r}.")
        key, checksum = book.made_key(self.path), flow.mechanism.checksum
        table = marks.seen(key, flow, memoise or person, checksum=None if memoise is None else checksum)
        entry = self.reserve(
            flow.mechanism, people, budget=account.budget, fingerprints=table.fingerprints, key=book.key_name(key),
            same_values=account.same_values, memoised=memoise is not None, target=named(target), persons=table.persons,
        )
        # Bound to the name of the column as well: who goes by another name is another to whoever counts.
        memo = None if memoise is None else Memo(memoise, memory_key(key, f"{checksum} {memoise}"))
        return Reserved(self.path, entry, memo)

    def reserve(
        self, mechanism: Mechanism | Bundle, people: str, *, budget: float | None = None,
        fingerprints: dict[str, str] | None = None, key: str = "", same_values: bool = False, memoised: bool = False,
        target: str | None = None, persons: Persons | None = None,
    ) -> Entry:
        """Enter a release as reserved if everything that counts stays within the budget with it."""
        if budget is not None:
            checked_epsilon(budget)
        if memoised and (persons is None or persons.ids is None):
            raise InputError("remembered answers need the marks of the people whose they are (persons=).")
        record, claim = mechanism.record, mechanism.claim
        alone = None if claim is None else _alone(mechanism)
        entry = Entry(
            0, people, book.RESERVED, secrets.token_hex(16), record.checksum, None if claim is None else claim.sentence,
            None if alone is None or math.isinf(alone) else alone,
            claim.notion if claim is not None and claim.notion in NOTIONS else "rldp", 0.0, budget, fingerprints, key,
            same_values, memoised, None, target, False, None, this_process(), _now(), None, None,
            *((None, None) if persons is None else (persons.column, persons.who)),
        )
        with book.connected(self.path, create=True) as connection, book.writing(connection):
            connection.execute(
                "INSERT OR IGNORE INTO mechanisms VALUES (?, ?)", (record.checksum, msgspec.json.encode(record))
            )
            entry = replace(entry, people=marks.account_name(people, book.accounts(connection)))
            return book.insert(connection, _priced(connection, entry, persons), persons)

    def settle(self, number: int, delivered: bool | None = None) -> Entry:
        """Say what became of a reservation whose process has ended; without `delivered`, from what lies on the disk."""
        with book.connected(self.path, create=False) as connection, book.writing(connection):
            entry = book.entry_in(connection, number)
            if entry.state != book.RESERVED:
                raise InputError(f"release {number} is settled already: it is {entry.state}.")
            running = may_be_running(entry.process)
            if running:
                process = entry.process.split(":")[-2]
                raise InputError(f"release {number} is still under way, in process {process}", next="Wait for it.")
            found = evidence(entry)
            if delivered is None:
                delivered = _told(entry, found, running)
            elif not delivered and found is Evidence.DELIVERED:
                raise InputError(f"release {number} cannot be void: {entry.target} and its manifest are there.")
            state = book.DELIVERED if delivered else book.VOID
            told = f"settled afterwards; on the disk: {found.value}"
            note = told if entry.note is None else f"{entry.note}{book.REMARKS}{told}"
            connection.execute(
                "UPDATE releases SET state = ?, settled_at = ?, note = ? WHERE id = ?", (state, _now(), note, number)
            )
            return book.entry_in(connection, number)


def _entries(connection: sqlite3.Connection, people: str | None) -> list[Entry]:
    """All entries, or those about some people under any spelling of their name."""
    known = book.accounts(connection)
    return book.entries_in(connection, known if people is None else marks.spellings(people, known))


def _told(entry: Entry, found: Evidence, running: bool | None) -> bool:
    if found is Evidence.DELIVERED:
        return True
    if found is Evidence.NEVER and running is False:
        return False
    raise InputError(
        f"what became of release {entry.id} cannot be told from here: {found.value}",
        next="If nobody can have received it, settle it as void (--void), else as delivered (--delivered).",
    )


def _priced(connection: sqlite3.Connection, entry: Entry, persons: Persons | None) -> Entry:
    """The entry with the level of everything that counts with it, or BudgetError."""
    before = _entries(connection, entry.people)
    if entry.budget is None:  # a budget stays until another is stated
        stated = [e for e in before if e.budget is not None]
        entry = replace(entry, budget=stated[-1].budget, notion=stated[-1].notion) if stated else entry
    marks.check_declared(before, entry)
    live, changed = marks.counted(before), False
    if entry.memoised and persons is not None:
        root, changed = marks.repeats(connection, before, entry, persons)
        entry = replace(entry, repeats=root)
    if changed or any(e.changed for e in live):
        level, note = math.inf, book.CHANGED
    else:
        again = entry.repeats is not None
        asked = (live, math.inf) if again else ([*live, entry], _ratio(entry.budget))
        level, note = _level(connection, asked[0], entry.notion, asked[1]), None
    if entry.budget is not None and level > entry.budget and entry.repeats is None:
        declared = _level(connection, [*live, replace(entry, same_values=True)], entry.notion, math.inf)
        raise _refusal(entry, live, level, note, helps=declared <= entry.budget)
    return replace(entry, composed=level, note=note)


def _refusal(entry: Entry, live: list[Entry], level: float, note: str | None, *, helps: bool) -> BudgetError:
    """Why a release is refused, and what would help: the same values for earlier ones only where that is enough."""
    open_ = [str(e.id) for e in live if e.state == book.RESERVED]
    hint = f" Reserved and not settled: {', '.join(open_)} (sfumato ledger settle)." if open_ else ""
    if note is not None:
        hint = f" For {note}. Release without --memoise, where fresh noise hides changes.{hint}"
    elif helps and (math.isinf(level) or len(marks.same_inputs([*live, entry])) > 1):
        hint = (
            " The values may have changed since earlier releases, so each counts for any distribution. Name the column "
            "that tells people apart (--person COL) in every release, so that the ledger can see whether they have, or "
            f"say that those of people in both are unchanged (--same-values).{hint}"
        )
    return BudgetError(
        f"the budget of {entry.people!r} is {near(entry.budget or 0.0, SHORT)} ({entry.notion.upper()}), and with this "
        f"release the {len(live) + 1} that count would allow {limit(level)}", next=f"Nothing was released.{hint}",
    )


def _level(connection: sqlite3.Connection, live: list[Entry], notion: str, target: float) -> float:
    loaded = {c: _mechanism(connection, c) for c in {e.mechanism for e in live}}
    groups = [[loaded[e.mechanism] for e in group] for group in marks.same_inputs(live)]
    designs, _ = drawn_for(loaded.values())
    return designs + max(total.level for total in total_levels(groups, notion, target * math.exp(-designs)))


def _alone(mechanism: Mechanism | Bundle) -> float:
    """The proved level of what one release claims."""
    found = bundle_certificate(mechanism) if isinstance(mechanism, Bundle) else certificate(mechanism, wider=False)
    return found.level


def _mechanism(connection: sqlite3.Connection, checksum: str) -> Mechanism | Bundle:
    row = connection.execute("SELECT content FROM mechanisms WHERE checksum = ?", (checksum,)).fetchone()
    if row is None:
        raise InputError(f"the ledger holds no mechanism {checksum}.")
    return made_of(row[0])


def _ratio(budget: float | None) -> float:
    return math.inf if budget is None or budget > 700 else math.exp(budget) * (1 - 1e-15)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# --- the place of one release: reserved, and settled by the evidence of what became of it -----------------------------


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
        if kind is None:
            return self._deliver()
        # This process knows that it took nothing away: what is not there was never named. Rows in memory were not
        # handed over when an error was raised.
        delivered = evidence(self.entry) is Evidence.DELIVERED
        why = self.entry.note or f"stopped by {kind.__name__}"
        return self._set(state=book.DELIVERED if delivered else book.VOID, settled_at=_now(), note=why)

    def _deliver(self) -> None:
        try:
            self._set(state=book.DELIVERED, settled_at=_now())
        except SfumatoError as error:
            raise OutputError(
                f"the rows were released, but the ledger could not be told: {error} Release {self.entry.id} stays "
                "reserved, and counts", next="Settle it as delivered.",
            ) from None

    def _set(self, **values: str | int | None) -> None:
        names = ", ".join(f"{name} = :{name}" for name in values)
        with book.connected(self.path, create=False) as connection, book.writing(connection):
            connection.execute(f"UPDATE releases SET {names} WHERE id = :id", {**values, "id": self.entry.id})


def account_of(
    asked: Account, ledger: str | Path | None, table: Where | None = None, *, planned: bool = False
) -> Account:
    """The account with its ledger: the one named, or that beside the table; none where nothing is asked of one. No
    ledger counts the budget of planned releases."""
    if ledger is None and (replace(asked, budget=None) if planned else asked) == Account():
        return Account()
    if not asked.people:
        raise InputError("say whose data these are (--people NAME), so that the ledger can tell them from others.")
    if ledger is None:
        if not isinstance(table, Path):
            raise InputError("the ledger of a table in a store has no place beside it", next="Say --ledger FILE.")
        ledger = table.with_name("sfumato.ledger")
    return replace(asked, ledger=Ledger(ledger))


def account_text(account: Mapping[str, Any]) -> str:
    """What all releases about the same people amount to."""
    together = account["composed"]
    total = f"{limit(together)} ({account['notion'].upper()})" if math.isfinite(together) else limit(together)
    most = "no budget" if account["budget"] is None else f"budget {near(account['budget'], SHORT)}"
    again = "" if account["repeats"] is None else f"; the answers of release {account['repeats']} again, at no cost"
    note = "" if account["note"] is None else f"; {account['note']}"
    return f"release {account['release']} about {account['people']!r}: together {total}, {most}{again}{note}"
