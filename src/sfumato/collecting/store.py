"""The store of a collection: which tokens are spent, and how often each answer was given. Nothing ties the two.

Two tables of one SQLite file, without row numbers and without times: tokens by their SHA-256, answers by their text
with a count. A token and an answer are written in one transaction, so that neither is lost or doubled, and what is
acknowledged is on the disk (write-ahead log, synced at every commit). A copy of the tables says who answered, to those
who know the tokens, and how often each answer was given, but not who gave which; the order of arrival is not kept.

This is a separate list and no blind signature: there is no maintained implementation of RFC 9474 for Python, and one of
our own would be trusted less. So the operator of a server could still watch which answer arrives with an invitation;
all that is seen then is randomised, and its level holds for whoever sees it.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sfumato.errors import FileFormatError, InputError, OutputError

FORMAT = "sfumato/answers 1"
TAKEN, USED, UNINVITED = "taken", "used", "uninvited"  # what becomes of an answer
BUSY = 30.0  # seconds to wait for another process that writes
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, spent INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE answers (answer TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
"""


def new_token() -> str:
    """22 letters with 128 bits of chance."""
    return secrets.token_urlsafe(16)


def hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Store:
    """Answers to one survey in one file; every method is one transaction."""

    def __init__(self, path: Path, survey: str, *, fresh: bool = True) -> None:
        """Open the store of a survey (by its id), or make it when it may be made."""
        self.turn = threading.RLock()  # threads share the connection
        if not fresh and not path.exists():
            raise InputError("could not be read: No such file or directory", where=path)
        try:
            self.db = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.execute("PRAGMA secure_delete=ON")
            with self._transaction():
                if not self.db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                    self._found(survey)
                known = dict(self.db.execute("SELECT name, value FROM about"))
        except sqlite3.Error as error:
            raise FileFormatError(f"is no store of answers: {error}", where=path) from None
        if known.get("format") != FORMAT:
            raise FileFormatError("is no store of answers of this version of sfumato", where=path)
        if known["survey"] != survey:
            raise InputError(
                "holds answers to another survey", next="Give the mechanism file they were drawn with.", where=path
            )
        self.key = known["key"]

    def _found(self, survey: str) -> None:
        for statement in TABLES.strip().split(";\n"):
            self.db.execute(statement)
        about = {"format": FORMAT, "survey": survey, "key": secrets.token_urlsafe(16)}
        self.db.executemany("INSERT INTO about VALUES (?, ?)", about.items())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self.turn:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    @property
    def invited(self) -> bool:
        """Whether only those answer who were invited."""
        return self.db.execute("SELECT 1 FROM about WHERE name = 'invited'").fetchone() is not None

    def invite(self, count: int) -> list[str]:
        """New tokens; from the first invitation on, nobody answers without one."""
        made = [new_token() for _ in range(count)]
        with self._transaction():
            if not self.invited and self.spent():
                raise InputError("people have answered without invitations already", next="Start another store.")
            self.db.execute("INSERT OR IGNORE INTO about VALUES ('invited', '1')")
            self.db.executemany("INSERT INTO tokens VALUES (?, 0)", [(hashed(t),) for t in made])
        return made

    def accept(self, answers: Sequence[tuple[str, str]]) -> list[str]:
        """What becomes of each (token, answer); those taken are on the disk when this returns."""
        try:
            with self._transaction():
                invited = self.invited
                return [self._accept(hashed(token), answer, invited) for token, answer in answers]
        except sqlite3.Error as error:
            raise OutputError(f"the answers could not be stored: {error}.") from None

    def _accept(self, token: bytes, answer: str, invited: bool) -> str:
        found = self.db.execute("SELECT spent FROM tokens WHERE hash = ?", (token,)).fetchone()
        if found is None and invited:
            return UNINVITED
        if found is not None and found[0]:
            return USED
        self.db.execute("INSERT INTO tokens VALUES (?, 1) ON CONFLICT (hash) DO UPDATE SET spent = 1", (token,))
        self.db.execute("INSERT INTO answers VALUES (?, 1) ON CONFLICT (answer) DO UPDATE SET n = n + 1", (answer,))
        return TAKEN

    def spent(self) -> int:
        """How many tokens are spent."""
        return int(self.db.execute("SELECT count(*) FROM tokens WHERE spent").fetchone()[0])

    def is_spent(self, tokens: Iterable[str]) -> list[bool]:
        """Of some tokens, whether each is spent."""
        ask = "SELECT 1 FROM tokens WHERE hash = ? AND spent"
        return [self.db.execute(ask, (hashed(t),)).fetchone() is not None for t in tokens]

    def counts(self) -> dict[str, int]:
        """How often each answer was given, in the order of their texts."""
        with self.turn:
            return dict(self.db.execute("SELECT answer, n FROM answers ORDER BY answer").fetchall())

    def close(self) -> None:
        self.db.close()
