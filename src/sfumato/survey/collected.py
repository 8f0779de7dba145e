"""Collected answers: the file that holds them, and the table they become."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.atomic import check_target
from sfumato.drawing.decoding import decoder
from sfumato.drawing.manifest import OutputColumn, manifest_of, mechanism_beside
from sfumato.drawing.randomness import Stream
from sfumato.errors import FileFormatError, InputError, OutputError
from sfumato.estimation import estimate
from sfumato.ledgers.entries import writing
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.file import encoded
from sfumato.releasing.files import Files
from sfumato.tolerances import BUSY

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Floats, Label
    from sfumato.frames import Record


# --- which tokens are spent, and how often each answer was given. Nothing ties the two --------------------------------
# Two tables of one SQLite file, without row numbers and without times: tokens by their SHA-256, answers by their text
# with a count. A token and an answer are written in one transaction, so that neither is lost or doubled, and what is
# acknowledged is on the disk (write-ahead log, synced at every commit). A copy of the tables says who answered, to
# those who know the tokens, and how often each answer was given, but not who gave which; the order of arrival is not
# kept.
#
# This is a separate list and no blind signature: there is no maintained implementation of RFC 9474 for Python, and one
# of our own would be trusted less. So the operator of a server could still watch which answer arrives with an
# invitation; all that is seen then is randomised, and its level holds for whoever sees it.


FORMAT = "sfumato/answers 1"
TAKEN, USED, UNINVITED = "taken", "used", "uninvited"  # what becomes of an answer
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
        with self.turn, writing(self.db):
            yield

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

    def counts(self) -> dict[str, int]:
        """How often each answer was given, in the order of their texts."""
        with self.turn:
            return dict(self.db.execute("SELECT answer, n FROM answers ORDER BY answer").fetchall())

    def close(self) -> None:
        self.db.close()


# --- collected answers as the table that a release of them would be, and the estimates from it ------------------------


ENGINE, RANDOMNESS = "collected", "drawn by the respondents"


def drawn_of(counts: dict[str, int], mechanism: Mechanism | Bundle) -> Array:
    """Outputs as a sampler gives them, one row for each answer, sorted: no order of arrival is left."""
    fields = [a.split(".") for a in counts]
    once: Array
    times = np.array(list(counts.values()), np.int64)
    if isinstance(mechanism, Bundle) and mechanism.turns is not None:
        turn = [next(i for i, f in enumerate(row) if f) for row in fields]
        once = np.array([[i, int(row[i])] for i, row in zip(turn, fields, strict=True)], np.int32).reshape(-1, 2)
    elif isinstance(mechanism, Bundle):
        once = np.array([[int(f) for f in row] for row in fields], np.int32).reshape(-1, len(mechanism.parts))
    elif mechanism.law.meaning == "subset":
        once = np.array([[int(c) for c in row[0]] for row in fields], np.int64).reshape(-1, mechanism.inputs)
    else:
        once = np.array([int(row[0]) for row in fields], np.int32)
    return np.repeat(once, times, axis=0)


def table_of(counts: dict[str, int], mechanism: Mechanism | Bundle) -> tuple[pa.Table, list[OutputColumn]]:
    """The answers as a released table, with what its columns are."""
    made = decoder(mechanism, "symbols", Stream.of())
    arrays = made.arrays(drawn_of(counts, mechanism), 0)
    return pa.table(arrays, names=[c.name for c in made.columns]), list(made.columns)


def export(counts: dict[str, int], mechanism: Mechanism | Bundle, to: Path, *, force: bool = False) -> Path:
    """Write the answers as a .csv or .parquet table, with its manifest and the mechanism file beside it."""
    if not counts:
        raise InputError("no answers have arrived yet: there is nothing to export.")
    table, columns = table_of(counts, mechanism)
    check_target(to, None, force=force)
    mechanism.save(Path(str(mechanism_beside(to))), force=force)

    def described(size: int) -> bytes:
        return encoded(manifest_of(
            mechanism, mechanism.checksum, rows=table.num_rows, columns=columns, decode="symbols", engine=ENGINE,
            randomness=RANDOMNESS, size=size,
        ))

    Files.beside(to, mechanism=False, report=False).publish(table, described, force=force)
    return to


def one_way(counts: dict[str, int], mechanism: Mechanism | Bundle, level: float = 0.95) -> list[Record]:
    """The estimated table of every question with intervals; those of one table hold at once.

    A mechanism that answers with one value is looked at as a bundle of one part, whose tables of single columns are
    estimated one by one; one that answers with a set tells the table of all its inputs.
    """
    if isinstance(mechanism, Mechanism) and mechanism.law.words == 1:
        mechanism = Bundle((mechanism,), mechanism.secret)
    table, _ = table_of(counts, mechanism)
    if isinstance(mechanism, Bundle):
        found = estimate(table, mechanism)
        tables = [found.table(name) for name in found.columns]
        return [_told(t.columns[0].name, t.columns[0].labels, t.p, t.interval(level)) for t in tables]
    name = ", ".join(c.name for c in mechanism.reading)
    texts = [mechanism.input_text(x) for x in range(mechanism.inputs)]
    whole = estimate(table, mechanism)
    return [_told(name, texts, whole.p, whole.interval(level))]


def _told(name: str, labels: Sequence[Label], p: Floats, interval: tuple[Floats, Floats]) -> Record:
    low, high = interval
    return {"name": name, "labels": list(labels), "p": p.ravel(), "low": low.ravel(), "high": high.ravel()}
