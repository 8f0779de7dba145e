"""Work beside other work: messages between processes, whether one still runs, sockets, and threads in order."""

from __future__ import annotations

import enum
import os
import pickle
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from sfumato.errors import InputError


def send(stream: IO[bytes], value: object) -> None:
    """One message: its length, then its bytes."""
    body = pickle.dumps(value)
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message; EOFError when there is none."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    body = stream.read(int.from_bytes(head, "big"))
    return pickle.loads(body)


def this_process() -> str:
    """Host, process and when it began, so that a later process of the same number is not taken for it."""
    return f"{socket.gethostname()}:{os.getpid()}:{_began(os.getpid())}"


def may_be_running(process: str) -> bool | None:
    """Whether a process still runs; None when it ran on another host."""
    host, number, began = process.rsplit(":", 2)
    if host != socket.gethostname():
        return None
    if Path("/proc/self/stat").exists():
        return _began(int(number)) == began
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def listening(port: int | None, host: str = "127.0.0.1") -> socket.socket:
    """A socket, of this machine alone unless another address is given; at a port of the system's choice if none is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port or 0), family=family, backlog=2048)
    except OSError as error:
        what = f"cannot listen on {host}, port {port}: {error.strerror}"
        raise InputError(what, next="Choose another --port.") from None


def _began(number: int) -> str:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # a zombie has ended


# --- threads: stages that overlap, in order, with bounded memory ------------------------------------------------------


T = TypeVar("T")
R = TypeVar("R")
DEPTH, WORKERS = 3, 2  # items that wait for another thread, and threads that share work


class _Mark(enum.Enum):
    """What passes when no item does."""

    END = enum.auto()
    STOP = enum.auto()


_END, _STOP = _Mark


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, fetched by a thread of their own, a few before they are needed.

    Closing the iterator stops the thread; an error of the source is raised where the item would have been.
    """
    box: queue.Queue[tuple[T | _Mark, BaseException | None]] = queue.Queue(DEPTH)
    stop = threading.Event()

    def put(item: tuple[T | _Mark, BaseException | None]) -> bool:
        while not stop.is_set():
            try:
                box.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def run() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    worker = threading.Thread(target=run, name="sfumato reader", daemon=True)
    worker.start()
    try:
        while True:
            item, error = box.get()
            if error is not None:
                raise error
            if isinstance(item, _Mark):
                return
            yield item
    finally:
        stop.set()
        worker.join()


class Beside(Generic[T, R]):
    """Work on items while they pass on to somewhere else, in a thread of its own and at most `depth` items behind.

    The work is given an iterator of the items, and `result` tells what it returned or raised. An error of the work does
    not stop the passing; an error of the passing is `Stopped` to the work. The thread does not keep a process alive.
    """

    def __init__(self, work: Callable[[Iterator[T]], R], depth: int = DEPTH) -> None:
        self.box: queue.Queue[T | _Mark] = queue.Queue(depth)
        self.over = False
        self.future: Future[R] = Future()
        self.thread = threading.Thread(target=self._run, args=(work,), name="sfumato beside", daemon=True)

    def _run(self, work: Callable[[Iterator[T]], R]) -> None:
        try:
            self.future.set_result(work(self._items()))
        except BaseException as error:
            self.future.set_exception(error)
        while not self.over:  # whoever passes items must not wait for work that has ended early
            self.over = isinstance(self.box.get(), _Mark)

    def _items(self) -> Iterator[T]:
        while not isinstance(item := self.box.get(), _Mark):
            yield item
        self.over = True
        if item is _STOP:
            raise Stopped

    def __enter__(self) -> Callable[[T], None]:
        self.thread.start()
        return self.box.put

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.box.put(_END if kind is None else _STOP)

    def result(self) -> R:
        """What the work returned; its error is raised here."""
        return self.future.result()


class Stopped(Exception):
    """The items did not all pass."""


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """work(item) for every item, done by a few threads, given back in order."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="sfumato draw") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > WORKERS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
