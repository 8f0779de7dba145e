"""Entries of a ledger, the SQLite file that holds them, and its key."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import FileFormatError, InputError, OutputError, option
from sfumato.tolerances import BUSY

if TYPE_CHECKING:
    from sfumato.ledgers.persons import Persons

Marks = npt.NDArray[np.uint64]  # sorted keyed marks, each of one person or of one person's answer
RESERVED, DELIVERED, VOID = "reserved", "delivered", "void"
REMARKS = "; "  # what divides them in a note
CHANGED = "the answers are remembered and values may have changed, so that a changed answer shows the change"


@dataclass(frozen=True, slots=True)
class Entry:
    """A release: reserved before a row is drawn, then delivered or void. All but void ones count."""

    id: int
    people: str
    state: str
    token: str  # the random name that the release's manifest bears
    mechanism: str  # the checksum of the mechanism file
    claim: str | None
    level: float | None  # proved for this release alone
    notion: str  # in which the budget is kept
    composed: float  # proved for all releases that counted when this was reserved, with this one
    budget: float | None
    fingerprints: dict[str, str] | None  # column → keyed fingerprint of its codes; None: read only once
    key: str  # which key made them
    same_values: bool  # people in this and earlier releases were declared to have unchanged values
    memoised: bool
    repeats: int | None  # the earlier release whose remembered answers this one repeats: it costs nothing
    target: str | None
    ready: bool  # everything was written, and names were about to be given
    rows: int | None
    process: str
    reserved_at: str
    settled_at: str | None
    note: str | None  # remarks, one after another
    person: str | None = None  # the column that tells people apart, if it was named
    who: str | None = None  # keyed fingerprint of that column and its name; fingerprints are then bound to it

    @property
    def changed(self) -> bool:
        """Whether its remembered answers may show that values have changed, which has no level."""
        return (self.note or "").split(REMARKS)[0] == CHANGED


# --- one SQLite file, written in transactions that begin by taking the only right to write ----------------------------
# A rollback journal rather than a write-ahead log: nothing lies beside the file between transactions, so it can be
# copied and kept as one file. synchronous = EXTRA: a transaction is on the disk, and its journal gone for good, before
# the release goes on. SQLite's locks are reliable on local disks; on a network folder they are as good as its locks.


APPLICATION = 0x53465544  # "SFUD" in SQLite's header
VERSION = 1
SCHEMA = """
CREATE TABLE mechanisms (checksum TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE releases (
  id INTEGER PRIMARY KEY AUTOINCREMENT, people TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('reserved', 'delivered', 'void')), token TEXT NOT NULL UNIQUE,
  mechanism TEXT NOT NULL REFERENCES mechanisms (checksum), claim TEXT, level REAL, notion TEXT NOT NULL,
  composed REAL NOT NULL, budget REAL, fingerprints TEXT, key TEXT NOT NULL, same_values INTEGER NOT NULL,
  memoised INTEGER NOT NULL, repeats INTEGER REFERENCES releases (id), target TEXT, ready INTEGER NOT NULL DEFAULT 0,
  rows INTEGER, process TEXT NOT NULL, reserved_at TEXT NOT NULL, settled_at TEXT, note TEXT
) STRICT;
CREATE INDEX releases_of_people ON releases (people, state);
"""
PERSONS = """
CREATE TABLE IF NOT EXISTS persons (
  release INTEGER PRIMARY KEY REFERENCES releases (id), person TEXT NOT NULL, who TEXT NOT NULL, ids BLOB, answers BLOB
) STRICT
"""  # made when first needed, so that ledgers without it open as they are


@contextlib.contextmanager
def connected(path: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """The ledger, checked to be one; errors of SQLite in words."""
    if not path.exists() and not create:
        raise InputError(
            f"there is no ledger at {path.absolute()}",
            next=f"A release makes one beside its table; name it with {option('--ledger FILE', 'Ledger(path)')}.",
        )
    if not path.parent.is_dir():
        raise OutputError(f"the folder {path.parent} does not exist", next="Create it first.")
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
        connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        _check(connection, path, create)
        yield connection
    except sqlite3.DatabaseError as error:
        raise _in_words(error, path) from None
    finally:
        if connection is not None:
            connection.close()


def _check(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application == APPLICATION and version == VERSION:
        return
    if application == APPLICATION:
        raise FileFormatError(f"is a ledger of version {version}; this version of sfumato reads {VERSION}", where=path)
    with writing(connection):
        if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION:
            return  # somebody else was quicker
        if not create or application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise FileFormatError(
                "is a SQLite file, but not a ledger of sfumato", next="It was not touched.", where=path
            )
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _in_words(error: sqlite3.DatabaseError, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return FileFormatError(
            f"is not a ledger, or is damaged ({error})", next="Restore it from a copy; nothing was released.",
            where=path,
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return OutputError(
            f"was in use by others for {BUSY:g} seconds", next="Try again; nothing was released.", where=path
        )
    return OutputError(f"the ledger {path} could not be used: {error}", next="Nothing was released.")


@contextlib.contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that has the right to write from its first statement: what it reads stays true until it ends."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite ends it itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def entries_in(connection: sqlite3.Connection, names: Sequence[str]) -> list[Entry]:
    """Entries about people of these names, in the order in which they were reserved."""
    rows = connection.execute(
        f"SELECT * FROM releases WHERE people IN ({', '.join('?' * len(names))}) ORDER BY id", names
    )
    who = {row["release"]: row for row in _persons(connection, "release, person, who")}
    return [_entry(row, who.get(row["id"])) for row in rows]


def accounts(connection: sqlite3.Connection) -> list[str]:
    """The names of people, in the order in which they were first entered."""
    return [row[0] for row in connection.execute("SELECT people FROM releases GROUP BY people ORDER BY min(id)")]


def entry_in(connection: sqlite3.Connection, number: int) -> Entry:
    row = connection.execute("SELECT * FROM releases WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise InputError(f"the ledger has no release number {number}.")
    return _entry(row, next(iter(_persons(connection, "person, who", number)), None))


def marks_in(connection: sqlite3.Connection, number: int) -> tuple[Marks, Marks]:
    """The marks of the people of a release, and of their answers."""
    [row] = _persons(connection, "ids, answers", number)
    return np.frombuffer(row["ids"], "<u8"), np.frombuffer(row["answers"], "<u8")


def _persons(connection: sqlite3.Connection, columns: str, number: int | None = None) -> list[sqlite3.Row]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'persons'").fetchone():
        return []
    return connection.execute(
        f"SELECT {columns} FROM persons WHERE ? IS NULL OR release = ?", (number, number)
    ).fetchall()


def _entry(row: sqlite3.Row, who: sqlite3.Row | None) -> Entry:
    values: dict[str, Any] = {key: row[key] for key in row.keys()}  # noqa: SIM118 - iterating a Row gives values
    values["fingerprints"] = None if row["fingerprints"] is None else json.loads(row["fingerprints"])
    if who is not None:
        values |= {"person": who["person"], "who": who["who"]}
    return Entry(**{**values, **{k: bool(values[k]) for k in ("same_values", "memoised", "ready")}})


def insert(connection: sqlite3.Connection, entry: Entry, persons: Persons | None) -> Entry:
    """The entry with its number."""
    values = {name: getattr(entry, name) for name in Entry.__slots__ if name not in ("id", "person", "who")}
    values["fingerprints"] = None if entry.fingerprints is None else json.dumps(entry.fingerprints)
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    made = connection.execute(f"INSERT INTO releases ({names}) VALUES ({marks})", values)
    assert made.lastrowid is not None
    if persons is not None:
        blobs = [None if x is None else x.astype("<u8").tobytes() for x in (persons.ids, persons.answers)]
        connection.execute(PERSONS)
        connection.execute(
            "INSERT INTO persons VALUES (?, ?, ?, ?, ?)", (made.lastrowid, persons.column, persons.who, *blobs)
        )
    return replace(entry, id=made.lastrowid)


# --- the ledger's key: random bytes in a file of its own, without which fingerprints say nothing ----------------------
# A fingerprint is HMAC-SHA-256 of a column under this key. Whoever has the ledger alone sees which releases had the
# same column, and nothing else: without the key no guess about the column can be tried, however few rows it has. The
# key is not in the ledger, so that the ledger can be shown to an auditor.


LENGTH = 32


def key_path(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".key")


def made_key(ledger: Path) -> bytes:
    """The key beside a ledger, made if there is none; of several processes that make one, all get the first."""
    path = key_path(ledger)
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(LENGTH))
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise OutputError(f"the key {path} could not be made: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
    return read_key(ledger)


def read_key(ledger: Path) -> bytes:
    path = key_path(ledger)
    try:
        key = path.read_bytes()
    except OSError as error:
        raise InputError(f"the key {path} of the ledger could not be read: {error.strerror}.") from None
    if len(key) != LENGTH:
        raise FileFormatError(f"is not the key of a ledger: it has {len(key)} bytes, not {LENGTH}", where=path)
    return key


def key_name(key: bytes) -> str:
    """A name of the key that says nothing about it: 256 random bits cannot be guessed from their hash."""
    return hashlib.sha256(b"sfumato ledger key " + key).hexdigest()[:16]
