"""A collecting server in a process of its own on the loopback address, and clients that post to it."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import sfumato as sf
from sfumato.survey.collected import hashed

SCRIPT = """
import sys
from pathlib import Path
from sfumato.survey.collected import Collector, Store, serve
from sfumato.mechanism import load
from sfumato.survey.survey_page import survey_id
mechanism, store, page, port, rate = sys.argv[1:]
law = load(mechanism)
serve(Collector(law, Store(Path(store), survey_id(law)), Path(page).read_bytes() if page else None, rate=int(rate)), port=int(port))
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Started when made, killed or ended when told."""

    def __init__(self, mechanism: Path, store: Path, page: Path | str = "", rate: int = 10**9, port: int | None = None):
        self.port = free_port() if port is None else port
        home = str(Path(sf.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(mechanism), str(store), str(page), str(self.port), str(rate)],
            env={**os.environ, "PYTHONPATH": home}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self, seconds: float = 60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the server did not start")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def get(self, path):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.request("GET", path)
            found = link.getresponse()
            return found.status, found.read().decode(), dict(found.getheaders())
        finally:
            link.close()

    def post(self, body, path="/answer", headers=None):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.request("POST", path, body.encode() if isinstance(body, str) else body, headers or {})
            return link.getresponse().status
        finally:
            link.close()

    def kill(self):
        """As kill -9 does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.terminate()
        self.process.wait()


async def posted(port, lines, links=32, got=None):
    """Post lines over some lasting connections; {line: status} of those that were answered."""
    waiting, got = list(reversed(lines)), {} if got is None else got

    async def client():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        try:
            while waiting:
                line = waiting.pop()
                writer.write(f"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(line)}\r\n\r\n{line}".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length"))
                await reader.readexactly(length)
                got[line] = int(head.split()[1])
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(links)))
    return got


async def killed_while_posting(server, lines, enough):
    """Post lines, kill -9 the server when enough answers have been acknowledged; what was."""
    got = {}
    task = asyncio.create_task(posted(server.port, lines, got=got))
    while len(got) < enough and not task.done():
        await asyncio.sleep(0.001)
    server.kill()
    return await task


def loss(acknowledged, store):
    """(acknowledged answers that are not there, spent tokens without an answer or answers without a token)."""
    tokens = [line.split(":")[3] for line in acknowledged]
    ask = "SELECT 1 FROM tokens WHERE hash = ? AND spent"
    lost = sum(store.db.execute(ask, (hashed(token),)).fetchone() is None for token in tokens)
    return lost, store.spent() - sum(store.counts().values())
