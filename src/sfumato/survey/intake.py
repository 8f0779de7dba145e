"""The intake: a small server that can only ever see randomised answers, and its page of running estimates.

It acknowledges an answer when it is on the disk, and keeps no log of requests. Addresses are held in memory for a
minute, to slow down whoever sends too much, and are never written.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from sfumato.decimals import MISSING
from sfumato.errors import SfumatoError
from sfumato.frames import environment, part_of
from sfumato.libraries import uvicorn
from sfumato.mechanism import Bundle, Mechanism
from sfumato.processes import listening
from sfumato.survey import Form, MalformedAnswer
from sfumato.survey.collected import TAKEN, UNINVITED, USED, Store, one_way
from sfumato.survey.survey_page import policy_of

if TYPE_CHECKING:
    from sfumato.frames import Record


def estimates_page(n: int, tables: list[Record]) -> str:
    """The HTML of what can be said so far."""
    script, style = (part_of(__package__, f"estimates.{kind}") for kind in ("js", "css"))
    return str(environment(__package__).get_template("estimates.html").render(
        n=f"{n:,}", tables=tables, missing=MISSING, script=script, style=style, policy=policy_of(script, style, None)
    ))


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
        routes = [
            Route("/", self.ask, methods=["GET"]), Route("/answer", self.answer, methods=["POST"]),
            Route("/estimates", self.estimates, methods=["GET"]),
            Route("/health", lambda request: PlainTextResponse("ok", headers=HEADERS), methods=["GET"]),
        ]
        return Starlette(routes=routes, lifespan=self._running)

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
            return PlainTextResponse("answers are collected here; the page is elsewhere", 404, headers=HEADERS)
        return HTMLResponse(self.page, headers=HEADERS)

    async def answer(self, request: Request) -> Response:
        """200 once it is on the disk; 400 and 413 for what is no answer, 403, 409 and 429 for what is one too many."""
        if not self.rates.allows(request.client.host if request.client else ""):
            return _said("too many answers from here; try again in a minute", 429)
        try:
            body = await asyncio.wait_for(_body(request, self.form.longest), PACE.slow)
        except (TimeoutError, ClientDisconnect):
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
            return PlainTextResponse("estimates are shown to whoever has the key", 403, headers=HEADERS)
        made, text = self.shown
        if time.monotonic() - made >= PACE.fresh:
            text = await asyncio.to_thread(self._estimated)
            self.shown = time.monotonic(), text
        return HTMLResponse(text, headers=HEADERS)

    def _estimated(self) -> str:
        counts = self.store.counts()
        return estimates_page(sum(counts.values()), one_way(counts, self.mechanism) if counts else [])


def _said(text: str, status: int) -> Response:
    return PlainTextResponse(text, status, headers=ANYWHERE)


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
