"""The door: who may speak to the server. Only the browser that was given the token, and only from its own pages.

A name that leads to this machine (DNS rebinding) has another Host; a page of another site, or of another port of this
machine, another Origin. Cookies do not know ports: whoever serves on another one may be sent ours, so that it opens
nothing by itself. Everything lies below the random address of a visit, which is in no cookie and no referrer.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

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
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


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
