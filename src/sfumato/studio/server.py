"""The server of studio: requests of one browser on this machine, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeAlias

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from sfumato.errors import InputError, SfumatoError
from sfumato.libraries import uvicorn
from sfumato.studio import door
from sfumato.studio.door import Door, Folder, Incoming
from sfumato.studio.hands import Hands
from sfumato.studio.visits import Visit

if TYPE_CHECKING:
    from sfumato.studio.hands import Asked, Document

Post: TypeAlias = "Callable[[Visit, Asked], Awaitable[None] | None]"  # what is done with a document of the page

Answer: TypeAlias = "Callable[[Visit, Request], Awaitable[Response]]"  # to somebody who knows the address of a visit


@dataclass(frozen=True, slots=True)
class Serving:
    """How much is taken, and how long is waited."""

    upload: int = 4 << 30  # bytes; a larger table is named on the command line and read where it lies
    free: int = 256 << 20  # bytes that an upload leaves free on the disk
    asked: int = 1 << 20  # bytes of anything else that is sent
    idle: float = 1800.0  # seconds for which a visit is kept while nobody looks
    beat: float = 15.0  # seconds after which a silent stream says that it is alive


SERVING = Serving()
CLOSING = {"Connection": "close"}  # what still comes is not read


class TooMuch(Exception):
    """An upload that is larger than there is room for."""


class Studio:
    """The application: visits, and what is asked of them."""

    def __init__(self, table: Path | None = None, ledger: Path | None = None, *, most: int = SERVING.upload) -> None:
        self.table, self.ledger, self.most = table, ledger, most
        self.visits: dict[str, Visit] = {}
        self.door: Door | None = None
        self.ending = False

    def app(self, port: int) -> Door:
        """Everything behind the door of a port."""
        below = "/s/{visit}/"
        gets: dict[str, Answer] = {
            "": self.page, "new": self.new, "events": self.events, "files/{name}": self.file, "report": self.report,
            "synthetic": self.synthetic,
        }
        posts: dict[str, Answer] = {name: partial(_asked, answer) for name, answer in POSTS.items()}
        posts |= {"table": self.upload, "bring": self.bring}
        routes = [
            Route("/", self.enter, methods=["GET"]), Route("/assets/{name}", door.asset, methods=["GET"]),
            *(Route(below + name, self._visited(answer), methods=["GET"]) for name, answer in gets.items()),
            *(Route(below + name, self._visited(answer), methods=["POST"]) for name, answer in posts.items()),
        ]
        self.door = Door(Starlette(routes=routes, lifespan=self._running), port)
        return self.door

    @contextlib.asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncIterator[None]:
        self.folder, self.hands = Folder(), Hands()
        try:
            yield
        finally:
            self.hands.close()
            self.folder.close()

    def end(self) -> None:
        """Let go of every page that listens."""
        self.ending = True
        for visit in self.visits.values():
            visit.put(busy=None)

    # coming in

    async def enter(self, request: Request) -> Response:
        """The token was good: a cookie, and a visit with an address of its own."""
        assert self.door is not None
        if "token" not in request.query_params:
            return PlainTextResponse("this address needs its token; an open studio has a link for a new tab.", 404)
        answer = RedirectResponse(f"/s/{self._visit().id}/", 303)
        answer.set_cookie(self.door.cookie, self.door.key, httponly=True, samesite="strict", path="/")
        return answer

    def _visit(self) -> Visit:
        ledger = self.ledger
        if ledger is None and self.table is not None:
            ledger = self.table.with_name("sfumato.ledger")
        made = Visit(self.hands, self.folder, ledger)
        self.visits[made.id] = made
        if self.table is not None:
            made.tasks["opening"] = asyncio.create_task(made.open(self.table, self.table.name, str(self.table), {}))
        return made

    def _visited(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """For those who know the address of a visit."""
        async def answered(request: Request) -> Response:
            visit = self.visits.get(request.path_params["visit"])
            return door.unknown() if visit is None else await answer(visit, request)

        return answered

    async def new(self, visit: Visit, request: Request) -> Response:
        return RedirectResponse(f"/s/{self._visit().id}/", 303)

    async def page(self, visit: Visit, request: Request) -> Response:
        return Response(door.text("page.html"), media_type="text/html")

    # what comes and goes

    async def events(self, visit: Visit, request: Request) -> Response:
        """Everything a page shows, and every change of it."""
        async def stream() -> AsyncIterator[str]:
            try:
                with visit.listening() as queue:
                    while not self.ending:
                        try:
                            message = await asyncio.wait_for(queue.get(), SERVING.beat)
                            yield f"data: {door.as_line(message)}\n\n"
                        except TimeoutError:
                            yield ": alive\n\n"
            finally:
                self._left(visit)

        return StreamingResponse(stream(), media_type="text/event-stream")

    def _left(self, visit: Visit) -> None:
        """Nobody looks at a visit: unless somebody comes back, it is forgotten with everything it holds."""
        async def forget() -> None:
            await asyncio.sleep(SERVING.idle)
            if not visit.listeners and self.visits.pop(visit.id, None) is not None:
                visit.close()

        visit.tasks["leaving"] = asyncio.create_task(forget())

    async def upload(self, visit: Visit, request: Request) -> Response:
        """A table, as the body of a request."""
        return await self._received(request, visit, self.folder.incoming, "table", visit.taken)

    async def bring(self, visit: Visit, request: Request) -> Response:
        """A file of somebody's release."""
        first = request.query_params.get("first") == "1"
        return await self._received(request, visit, lambda name: visit.bring(name, first=first), "analysis", None)

    async def _received(
        self, request: Request, visit: Visit, place: Callable[[str], Incoming], field: str,
        then: Callable[[Incoming, Document], Coroutine[None, None, None]] | None,
    ) -> Response:
        coming: Incoming | None = None
        with visit.refusing(field):
            coming = place(request.query_params.get("name", ""))
        if coming is None:
            return PlainTextResponse(visit.state["errors"][field]["text"], 400)
        try:
            await self._fill(request, coming)
        except (TooMuch, ClientDisconnect, OSError) as error:
            coming.drop()
            if coming in visit.brought:
                visit.brought.remove(coming)
            return self._too_much(visit, field, error)
        if then is not None:
            visit.tasks["opening"] = asyncio.create_task(then(coming, {}))
        return JSONResponse({}, 202)

    async def _fill(self, request: Request, coming: Incoming) -> None:
        """Write a body to the disk as it comes, never more than there may be."""
        said = request.headers.get("content-length", "")
        left = min(self.most, door.room(coming.path.parent) - SERVING.free)
        if said.isdigit() and int(said) > left:
            raise TooMuch
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                raise TooMuch
            coming.write(chunk)

    def _too_much(self, visit: Visit, field: str, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):
            return PlainTextResponse("the upload broke off.", 400)
        most = f"{self.most / 2**30:.3g} GiB" if isinstance(error, TooMuch) else "what the disk holds"
        said = InputError(
            f"the file is larger than {most}",
            next="Name it on the command line instead (sfumato studio TABLE), where it is read in its place.",
        )
        visit.put(errors={**visit.state["errors"], field: said.fields()})
        return PlainTextResponse(said.text(shell=True), 413, headers=CLOSING)

    # what is fetched

    async def file(self, visit: Visit, request: Request) -> Response:
        """A file of the release, by what it is; all of them as one archive."""
        name = request.path_params["name"]
        if not visit.files:
            return door.unknown()
        if name == "all":
            return door.attached(await asyncio.to_thread(door.archive, visit.files))
        return door.attached(visit.files[name]) if name in visit.files else door.unknown()

    async def report(self, visit: Visit, request: Request) -> Response:
        """The report in its frame, where its script can reach nothing of ours."""
        if (path := visit.files.get("report")) is None:
            return door.unknown()
        return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": door.REPORT_POLICY})

    async def synthetic(self, visit: Visit, request: Request) -> Response:
        rows = request.query_params.get("rows", "")
        try:
            number = int(rows) if rows.isascii() and rows.isdigit() else 0
            return door.attached(await visit.synthesise(number, "synthetic.csv"))
        except SfumatoError as error:
            return PlainTextResponse(error.text(shell=True), 400)


async def _asked(answer: Post, visit: Visit, request: Request) -> Response:
    """A small document in, an answer by the stream of events."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > SERVING.asked:
            return PlainTextResponse("this is more than a page sends.", 413, headers=CLOSING)
    try:
        given = json.loads(body or b"{}")
        if not isinstance(given, dict):
            raise TypeError
        found = answer(visit, given)
        if asyncio.iscoroutine(found):
            await found
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return PlainTextResponse("this is no document that a page sends.", 400)
    return JSONResponse({})


def _read_again(visit: Visit, given: Asked) -> Awaitable[None] | None:
    return None if visit.table is None else visit.open(visit.table, visit.table.name, visit.spelled, given)


def _ask(visit: Visit, given: Asked) -> Awaitable[None]:
    return visit.ask("odds" if given["kind"] == "odds" else "table", [str(x) for x in given["names"]][:6])


def _choice(given: Asked) -> Asked:
    """A choice as far as it has the shape of one."""
    for name in ("roles", "bins", "rare"):
        if not isinstance(given.get(name, {}), dict):
            raise TypeError
    if not all(isinstance(role, str) for role in given.get("roles", {}).values()):
        raise TypeError
    return given


POSTS: dict[str, Post] = {  # what a page asks of its visit
    "reading": _read_again, "choice": lambda visit, given: visit.choose(_choice(given)),
    "suggest": lambda visit, given: visit.suggest(), "level": lambda visit, given: visit.look_at(given["epsilon"]),
    "search": lambda visit, given: visit.search() if given["go"] else visit.stop_search(),
    "say": Visit.say, "release": Visit.release, "ask": _ask, "stop": lambda visit, given: visit.stop(),
    "analyse": lambda visit, given: visit.analyse(own=bool(given.get("own")), decode=given.get("decode")),
}


def serve(studio: Studio, link: socket.socket, ready: Callable[[str], None]) -> None:
    """Run until interrupted; `ready` is told the address with its token when requests are taken."""
    port = link.getsockname()[1]
    app = studio.app(port)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, access_log=False, log_level="critical", server_header=False,
        date_header=False, timeout_graceful_shutdown=2, h11_max_incomplete_event_size=16_384, ws="none",
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(f"http://127.0.0.1:{port}/?token={app.token}")

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            studio.end()
            super().handle_exit(sig, frame)

    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[link])
