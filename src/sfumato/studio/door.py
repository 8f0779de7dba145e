"""The door: who may come in, what is handed out, and the private folder for what is uploaded and written."""

from __future__ import annotations

import contextlib
import json
import mimetypes
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from sfumato.atomic import NO_UNNAMED, UNNAMED
from sfumato.errors import InputError
from sfumato.frames import as_json
from sfumato.processes import may_be_running, this_process

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sfumato.frames import Datum

# --- who may speak to the server. Only the browser that was given the token, and only from its own pages --------------
# A name that leads to this machine (DNS rebinding) has another Host; a page of another site, or of another port of
# this machine, another Origin. Cookies do not know ports: whoever serves on another one may be sent ours, so that it
# opens nothing by itself. Everything lies below the random address of a visit, which is in no cookie and no referrer.


# The one style that Observable Plot writes into its pictures; nothing else may be styled from within a page.
PLOT_STYLE = "'sha256-+TfQir1nvDucAdvE6XUQBt4ayUjpAWkbw2kCdSfekHM='"
POLICY = (
    f"default-src 'self'; style-src 'self' {PLOT_STYLE}; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'self'"  # the page of a report has a policy of its own
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
OURS = (None, "same-origin", "none")  # Sec-Fetch-Site of requests from our pages, the address bar, and no browser


class Door:
    """Middleware that lets in whoever has the cookie, from here; the token is good for one cookie."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.token: str | None = secrets.token_urlsafe(32)
        self.cookie, self.key = f"sfumato-{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refused(HTTPConnection(scope))
        if refused is not None:
            await PlainTextResponse(refused[1], refused[0], headers=HEADERS)(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sent)

    def _refused(self, request: HTTPConnection) -> tuple[int, str] | None:
        headers = request.headers
        if headers.getlist("host") != [headers.get("host")] or headers["host"] not in self.hosts:
            return 421, "this server answers to 127.0.0.1 alone."
        if headers.get("sec-fetch-site") not in OURS or not self._own_origin(headers, request.scope["method"]):
            return 403, "this came from another page."
        if request.scope["path"] == "/" and self.exchanged(request.query_params.get("token")):
            return None
        if not secrets.compare_digest(request.cookies.get(self.cookie, "").encode(), self.key.encode()):
            return 403, "open the address that sfumato studio printed; it works once. For another one, start it again."
        return None

    def _own_origin(self, headers: Headers, method: str) -> bool:
        origin = headers.get("origin")
        if method in ("GET", "HEAD"):
            return origin in (None, f"http://{headers['host']}")
        return origin == f"http://{headers['host']}"

    def exchanged(self, token: str | None) -> bool:
        """Whether this is the token; it is none afterwards."""
        good = self.token is not None and token is not None
        if not good or not secrets.compare_digest(str(token).encode(), str(self.token).encode()):
            return False
        self.token = None
        return True


ASSETS = (
    "studio.css", "main.js", "dom.js", "talk.js", "charts.js", "table.js", "columns.js", "editor.js", "level.js",
    "release.js", "analyse.js", "d3.min.js", "plot.umd.min.js",
)


def unknown() -> Response:
    """Nothing is here."""
    return PlainTextResponse("there is nothing here; a studio forgets everything when it is stopped.", 404)


def attached(path: Path) -> Response:
    """A file to be saved, whatever it holds: nothing of it runs here."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = "application/octet-stream" if kind == "text/html" else kind
    return FileResponse(path, media_type=kind, filename=path.name)


def archive(held: dict[str, Path]) -> Path:
    """The files of a release in one; those of a folder below its name."""
    table = held["table"]
    to = held["mechanism"].parent / f"{table.name.split('.')[0]}.zip"
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in held.values():
            parts = sorted(path.rglob("*")) if path.is_dir() else [path]
            for part in parts:
                archive.write(part, part.relative_to(path.parent))
    return to


async def asset(request: Request) -> Response:
    """A file of the page, by its name in the list."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return unknown()
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text(name), media_type=kind, headers={"Cache-Control": "no-store"})


@cache
def text(name: str) -> str:
    """A file of the page; those of others are in a folder of their own."""
    home = files(__package__)
    place = home.joinpath("vendor") if name.endswith(".min.js") else home.joinpath("assets")
    return place.joinpath(name).read_text("utf-8")


def as_line(value: Datum) -> str:
    """One line of JSON; what is without limit is null, and the words beside it say so."""
    return json.dumps(as_json(value, {}), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# --- a private folder for what is uploaded and written, which is gone when the server is, however it ends -------------
# Where the system can, an upload has no name on the disk: the server holds a nameless file open, with a link to it
# under the name it came with, so that after kill -9, or a loss of power, there is nothing to remove. Elsewhere it is
# a file of the folder. The folder is removed by a small process that waits for the server's end; one whose watcher
# ended too is swept away by the next start.


PREFIX = "sfumato-studio-"
LONGEST_NAME = 200  # letters of a file's name
WATCH = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class Folder:
    """The private folder of one server."""

    def __init__(self) -> None:
        sweep()
        _, number, began = this_process().rsplit(":", 2)
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{number}-{began}-"))  # readable by its owner alone
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WATCH, str(self.path)], stdin=subprocess.PIPE,
            start_new_session=True,  # what ends the server, such as Ctrl-C, does not end it
        )

    def place(self) -> Path:
        """A new folder in it."""
        made = self.path / secrets.token_hex(8)
        made.mkdir(mode=0o700)
        return made

    def incoming(self, name: str) -> Incoming:
        """A file to be filled with what is uploaded under a name."""
        return Incoming.below(self.place(), checked_name(name))

    def close(self) -> None:
        """Remove everything."""
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()


@dataclass(slots=True)
class Incoming:
    """A file on its way in, and the path by which other processes of this server read it."""

    path: Path
    descriptor: int

    @classmethod
    def below(cls, folder: Path, name: str) -> Incoming:
        path = folder / name
        if UNNAMED and Path("/proc/self/fd").is_dir():
            try:
                descriptor = os.open(folder, UNNAMED | os.O_RDWR, 0o600)
                path.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
                return cls(path, descriptor)
            except OSError as error:
                if error.errno not in NO_UNNAMED:
                    raise
        return cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            view = view[os.write(self.descriptor, view):]

    def drop(self) -> None:
        """Forget what came, and its name."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
        shutil.rmtree(self.path.parent, ignore_errors=True)


def checked_name(name: str) -> str:
    """The name of a file without any folder.

    >>> checked_name("C:\\\\data\\\\people.csv"), checked_name("../people.csv")
    ('people.csv', 'people.csv')
    """
    bare = PurePath(name.replace("\\", "/")).name
    if bare in ("", ".", "..") or len(bare) > LONGEST_NAME or not bare.isprintable():
        raise InputError("this is no name of a file", next="Use letters, digits, dots and dashes, 200 at most.")
    return bare


def room(folder: Path) -> int:
    """Bytes that are free where the folder is."""
    return shutil.disk_usage(folder).free


def sweep() -> None:
    """Remove folders of servers that have ended, where their watchers ended too."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number, _, rest = folder.name.removeprefix(PREFIX).partition("-")
        process = f"{socket.gethostname()}:{number}:{rest.rpartition('-')[0]}"
        if number.isdigit() and folder.stat().st_uid == os.getuid() and may_be_running(process) is False:
            shutil.rmtree(folder, ignore_errors=True)
