"""Memory: the key without which fingerprints say nothing, and whether a release repeats answers given before."""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import numpy as np

from sfumato.errors import FileFormatError, InputError, OutputError
from sfumato.ledgers.entries import VOID, Entry, marks_in
from sfumato.ledgers.persons import Marks, Persons

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


# --- whether a release repeats answers that its people have given before, told from the marks of both -----------------


CONTRADICTED = (
    "it was declared that values are unchanged (--same-values), but people of release {} have other values now. "
    "Leave the declaration out; nothing was released."
)


def repeats(
    connection: sqlite3.Connection, before: Sequence[Entry], entry: Entry, persons: Persons
) -> tuple[int | None, bool]:
    """The release whose remembered answers this one repeats, if it does; and whether somebody's values have changed.

    Releases whose people are known by the same column, under the same key and mechanism, form families. One more
    belongs to a family if all its people are in it, or all people of the family are in it: a row is a person, so those
    who are new then are no others under a new name. Within a family, therefore, nobody has two names, and nobody who
    keeps his values has two answers. Where somebody left and somebody joined, the one may be the other: such a release
    begins a family of its own, and counts in full.
    """
    assert persons.ids is not None and persons.answers is not None
    families: dict[int, list[tuple[Marks, Marks]]] = {}
    for e in before:
        if e.state != VOID and e.memoised and e.who is not None and _asked(e) == _asked(entry):
            families.setdefault(e.repeats or e.id, []).append(marks_in(connection, e.id))
    found = None
    for root, members in families.items():
        ids, answers = (reduce(np.union1d, part) for part in zip(*members, strict=True))
        again = int(np.isin(persons.ids, ids).sum())
        if int(np.isin(persons.answers, answers).sum()) < again:
            if entry.same_values:
                raise InputError(CONTRADICTED.format(root))
            return None, True
        found = root if again in (len(persons.ids), len(ids)) else found
    return found, False


def _asked(entry: Entry) -> tuple[str, str, str | None]:
    return entry.mechanism, entry.key, entry.person


def check_declared(before: Sequence[Entry], entry: Entry) -> None:
    """Refuse to declare values unchanged that the fingerprints of the same people show to have changed."""
    if entry.same_values and entry.who is not None:
        for e in before:
            same = (e.who, *_asked(e)) == (entry.who, *_asked(entry)) and e.state != VOID
            if same and e.fingerprints != entry.fingerprints:
                raise InputError(CONTRADICTED.format(e.id))
