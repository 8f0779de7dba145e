"""Hands: processes that work for the server, one job at a time, ended when what they do is no longer wanted.

Started as `python -m sfumato.studio.hands`. Jobs come on stdin, answers go to stdout. A thread of its own reads what
comes, so that a job hears at its next word of progress that it is no longer wanted, and that the process ends at once
when the server is gone.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

from sfumato import studio
from sfumato.errors import SfumatoError, bug, out_of_memory
from sfumato.processes import answering, receive, send, started

if TYPE_CHECKING:
    from sfumato.frames import Datum
    from sfumato.studio.desk import Desk

Document = dict[str, Any]  # what page, server and workers tell each other
Asked = Mapping[str, Any]  # a document that a page sent: whoever uses a part of it checks it
Tell = Callable[[Document], None]


class Unwanted(Exception):
    """A job ended because another took its place."""


class Hand:
    """A worker process."""

    def __init__(self) -> None:
        self.process = started("sfumato.studio.hands", apart=True)
        self.loop = asyncio.get_running_loop()
        self.turn = asyncio.Lock()
        self.job, self.doing = 0, ""
        self.tell: Tell | None = None
        self.answer: asyncio.Future[Document] = self.loop.create_future()
        threading.Thread(target=self._bring, daemon=True).start()

    async def do(self, what: str, tell: Tell | None = None, **given: Any) -> Any:
        """The answer to a job, once those before it are done; its error, where there is one."""
        async with self.turn:
            self.job, self.doing = self.job + 1, what
            self.tell, self.answer = tell, self.loop.create_future()
            self._send({"job": self.job, "what": what, "given": given})
            try:
                found = await self.answer
            except asyncio.CancelledError:
                self._send({"unwanted": self.job})
                raise
            finally:
                self.tell = None
        if "refused" in found:
            raise found["refused"]
        if "unwanted" in found:
            raise Unwanted
        return found["done"]

    def give_up(self, *whats: str) -> None:
        """Ask the job under way to stop at its next word, if it is one of these; any, where none is named."""
        if self.turn.locked() and (not whats or self.doing in whats):
            self._send({"unwanted": self.job})

    def end(self) -> None:
        """Whatever it does."""
        self.process.kill()
        self.process.wait()

    def _send(self, message: Document) -> None:
        assert self.process.stdin is not None
        try:
            send(self.process.stdin, message)
        except OSError:
            self._arrived(None)

    def _bring(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self.loop.call_soon_threadsafe(self._arrived, receive(self.process.stdout))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            pass
        except RuntimeError:
            return  # the server has ended
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._arrived, None)

    def _arrived(self, message: Document | None) -> None:
        if message is None:
            ended = SfumatoError("the process that did this has ended (too little memory?)")
            message = {"job": self.job, "refused": ended}
        if message["job"] != self.job:
            return
        if "told" in message:
            if self.tell is not None:
                self.tell(message["told"])
        elif not self.answer.done():
            self.answer.set_result(message)


class Hands:
    """The processes of a server. One loads itself at the start, since that takes as long as a short job."""

    def __init__(self) -> None:
        self.all: list[Hand] = [Hand()]
        self.free: Hand | None = self.all[0]

    def take(self) -> Hand:
        """A process for somebody's own use."""
        taken, self.free = self.free or Hand(), None
        if taken not in self.all:
            self.all.append(taken)
        return taken

    def give_back(self, hand: Hand) -> None:
        """End one that is no longer needed."""
        self.all.remove(hand)
        hand.end()

    def close(self) -> None:
        for hand in self.all:
            hand.end()


# --- the other end: what such a process does --------------------------------------------------------------------------


class NoLongerWanted(BaseException):
    """The job that is under way is no longer wanted."""


class JobReports:
    """How a job speaks to the server while it works."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.job, self.unwanted = out, 0, -1

    def __call__(self, **told: Datum) -> None:
        """Send something; raises where the job is no longer wanted."""
        if self.unwanted >= self.job:
            raise NoLongerWanted
        send(self.out, {"job": self.job, "told": told})


def main() -> None:
    """Do jobs until the server ends."""
    out = answering()
    tell = JobReports(out)
    waiting: queue.Queue[Document] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tell, waiting), daemon=True).start()

    desk = studio.Desk(tell)
    send(out, {"job": 0, "done": None})
    while True:
        order = waiting.get()
        tell.job = order["job"]
        send(out, {"job": order["job"], **_done(desk, order)})
        if order["what"] == "open":
            _prepare()


def _prepare() -> None:
    """Load what a first design needs (solvers, half a second) while somebody looks at the columns."""
    import sfumato.optimise.informative  # noqa: F401


def _listen(stream: IO[bytes], tell: JobReports, waiting: queue.Queue[Document]) -> None:
    try:
        while True:
            order = receive(stream)
            if "unwanted" in order:
                tell.unwanted = max(tell.unwanted, order["unwanted"])
            else:
                waiting.put(order)
    except (EOFError, OSError):
        os._exit(0)  # whatever is under way: nobody is left to tell


def _done(desk: Desk, order: Document) -> dict[str, object]:
    try:
        return {"done": getattr(desk, order["what"])(**order["given"])}
    except NoLongerWanted:
        return {"unwanted": True}
    except SfumatoError as error:
        return {"refused": error}
    except MemoryError:
        return {"refused": out_of_memory()}
    except Exception as error:
        return {"refused": bug(error)}


if __name__ == "__main__":
    main()
