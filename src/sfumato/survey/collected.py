"""Collected answers: the file that holds them, the table they become, and the server that takes them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.atomic import check_target
from sfumato.decimals import MISSING
from sfumato.drawing.decoding import decoder
from sfumato.drawing.manifest import OutputColumn, manifest_of, mechanism_beside
from sfumato.drawing.randomness import Stream
from sfumato.errors import FileFormatError, InputError, OutputError, SfumatoError
from sfumato.estimation import estimate
from sfumato.frames import environment, part_of
from sfumato.ledgers.entries import writing
from sfumato.libraries import starlette, uvicorn
from sfumato.mechanism import Bundle, Mechanism, load
from sfumato.mechanism.file import encoded
from sfumato.processes import listening
from sfumato.releasing.files import Files
from sfumato.survey.survey_page import Form, MalformedAnswer, policy_of, survey_id
from sfumato.tolerances import BUSY

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

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
TAKEN, USED, UNINVITED, MALFORMED = "taken", "used", "uninvited", "malformed"  # what becomes of an answer
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
        self.path, self.turn = path, threading.RLock()  # threads share the connection
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

    def take(self, lines: Iterable[str], form: Form) -> dict[str, int]:
        """Take answers that came as text; how many became what."""
        good, outcomes = [], Counter[str]()
        for line in filter(None, (x.strip() for x in lines)):
            try:
                good.append(form.read(line))
            except MalformedAnswer:
                outcomes[MALFORMED] += 1
        outcomes.update(self.accept(good))
        return {name: outcomes[name] for name in (TAKEN, USED, UNINVITED, MALFORMED)}

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


@contextlib.contextmanager
def opened_store(
    mechanism: Path, store: Path | None = None, *, fresh: bool = True
) -> Iterator[tuple[Mechanism | Bundle, Store]]:
    """A mechanism file and the store of its answers, which is beside it unless it is named."""
    made, path = load(mechanism), store or beside(mechanism, "answers.sqlite")
    with contextlib.closing(Store(path, survey_id(made), fresh=fresh)) as opened:
        yield made, opened


def beside(mechanism: Path, kind: str) -> Path:
    """The file of a survey beside its mechanism: survey.mechanism.json → survey.html."""
    return mechanism.with_name(f"{mechanism.name.removesuffix('.json').removesuffix('.mechanism')}.{kind}")


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


# --- the intake: a small server that can only ever see randomised answers, and its page of running estimates ----------
# It acknowledges an answer when it is on the disk, and keeps no log of requests. Addresses are held in memory for a
# minute, to slow down whoever sends too much, and are never written.


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast answers are taken."""

    at_once: int = 1000  # answers of one transaction: more would keep those who wait too long
    slow: float = 10.0  # seconds in which a short body must have arrived
    minute: float = 60.0
    fresh: float = 5.0  # seconds for which estimates are shown before they are made again


PACE = Pace()
STATUS = {TAKEN: 200, USED: 409, UNINVITED: 403}
HEADERS = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "cross-origin",
}
ANYWHERE = {**HEADERS, "Access-Control-Allow-Origin": "*"}  # a page saved as a file posts from no origin


@dataclass(slots=True)
class Rates:
    """At most `most` requests a minute from one address; a minute later nothing is known of it."""
    most: int
    seen: dict[str, int] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def allows(self, address: str) -> bool:
        now = time.monotonic()
        if now - self.since >= PACE.minute:
            self.seen, self.since = {}, now
        self.seen[address] = self.seen.get(address, 0) + 1
        return self.seen[address] <= self.most


class Intake:
    """Answers that wait for the disk: all that arrive during one commit are written by the next."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waiting: list[tuple[tuple[str, str], asyncio.Future[str]]] = []
        self.arrived = asyncio.Event()

    async def take(self, token: str, answer: str) -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append(((token, answer), done))
        self.arrived.set()
        return await done

    async def write(self) -> None:
        """Until cancelled: whatever waits, in one transaction."""
        while True:
            await self.arrived.wait()
            batch, self.waiting = self.waiting[:PACE.at_once], self.waiting[PACE.at_once:]
            if not self.waiting:
                self.arrived.clear()
            await self._written(batch)

    async def _written(self, batch: list[tuple[tuple[str, str], asyncio.Future[str]]]) -> None:
        try:
            told = await asyncio.to_thread(self.store.accept, [answer for answer, _ in batch])
            outcomes: list[str | Exception] = list(told)
        except Exception as error:  # told to everybody who waits: nothing of this batch was kept
            outcomes = [error] * len(batch)
        for (_, done), outcome in zip(batch, outcomes, strict=True):
            if done.done():
                continue
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)


class Collector:
    """The application: the page, the intake, and estimates for whoever has the key."""

    def __init__(self, mechanism: Mechanism | Bundle, store: Store, page: bytes | None, *, rate: int = 60) -> None:
        self.mechanism, self.store, self.page = mechanism, store, page
        self.form, self.rates, self.intake = Form.of(mechanism), Rates(rate), Intake(store)
        self.shown: tuple[float, str] = (-PACE.fresh, "")

    def app(self) -> Starlette:
        gets = {"/": self.ask, "/estimates": self.estimates, "/health": _healthy}
        routes = [starlette.routing.Route(path, answer, methods=["GET"]) for path, answer in gets.items()]
        routes.append(starlette.routing.Route("/answer", self.answer, methods=["POST"]))
        return starlette.applications.Starlette(routes=routes, lifespan=self._running)

    @contextlib.asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        writer = asyncio.create_task(self.intake.write())
        yield
        while self.intake.waiting:  # those who still wait are told before the door closes
            await asyncio.sleep(0.01)
        writer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writer

    async def ask(self, request: Request) -> Response:
        if self.page is None:
            return _said("answers are collected here; the page is elsewhere", 404, HEADERS)
        return starlette.responses.HTMLResponse(self.page, headers=HEADERS)

    async def answer(self, request: Request) -> Response:
        """200 once it is on the disk; 400 and 413 for what is no answer, 403, 409 and 429 for what is one too many."""
        if not self.rates.allows(request.client.host if request.client else ""):
            return _said("too many answers from here; try again in a minute", 429)
        try:
            body = await asyncio.wait_for(_body(request, self.form.longest), PACE.slow)
        except (TimeoutError, starlette.requests.ClientDisconnect):
            return _said("the answer did not arrive", 408)
        if body is None:
            return _said("this is longer than any answer", 413)
        try:
            token, answer = self.form.read(body.decode("ascii"))
        except (MalformedAnswer, UnicodeDecodeError) as error:
            return _said(str(error) if isinstance(error, MalformedAnswer) else "this is no answer", 400)
        try:
            outcome = await self.intake.take(token, answer)
        except SfumatoError:
            return _said("the answer could not be stored; try again", 503)
        return _said(outcome, STATUS[outcome])

    async def estimates(self, request: Request) -> Response:
        if not secrets.compare_digest(request.query_params.get("key", "").encode(), self.store.key.encode()):
            return _said("estimates are shown to whoever has the key", 403, HEADERS)
        made, text = self.shown
        if time.monotonic() - made >= PACE.fresh:
            text = await asyncio.to_thread(self._estimated)
            self.shown = time.monotonic(), text
        return starlette.responses.HTMLResponse(text, headers=HEADERS)

    def _estimated(self) -> str:
        """The HTML of what can be said so far."""
        counts, (script, style) = self.store.counts(), (part_of(__package__, f"estimates.{x}") for x in ("js", "css"))
        return str(environment(__package__).get_template("estimates.html").render(
            n=f"{sum(counts.values()):,}", tables=one_way(counts, self.mechanism) if counts else [], missing=MISSING,
            script=script, style=style, policy=policy_of(script, style, None),
        ))


def _said(text: str, status: int, headers: Mapping[str, str] = ANYWHERE) -> Response:
    return starlette.responses.PlainTextResponse(text, status, headers=headers)


async def _healthy(request: Request) -> Response:
    return _said("ok", 200, HEADERS)


async def _body(request: Request, longest: int) -> bytes | None:
    """The body, unless it is longer than any answer."""
    out = b""
    async for chunk in request.stream():
        out += chunk
        if len(out) > longest:
            return None
    return out


def serve(collector: Collector, *, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Run until interrupted. Behind a reverse proxy on this machine the addresses that it forwards are believed."""
    config = uvicorn.Config(
        collector.app(), host=host, port=port, access_log=False, log_level="warning", server_header=False,
        timeout_keep_alive=15, limit_concurrency=2000, h11_max_incomplete_event_size=16_384,
    )
    uvicorn.Server(config).run(sockets=[listening(port, host)])
