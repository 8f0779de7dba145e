"""Stages of a release that overlap: threads in order, with bounded memory. None is no item: it stands for the end."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
DEPTH, DRAWING_THREADS = 3, 2  # items that wait for another thread, and threads that share work


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, fetched by a thread of their own, a few before they are needed; an error of the source is raised
    where the item would have been."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="sfumato reader") as pool:
        waiting = deque(pool.submit(next, source, None) for _ in range(DEPTH))
        try:
            while (item := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, source, None))
                yield item
        finally:
            for future in waiting:
                future.cancel()


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """work(item) for every item, done by a few threads, given back in order."""
    with ThreadPoolExecutor(DRAWING_THREADS, thread_name_prefix="sfumato draw") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > DRAWING_THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Stopped(Exception):
    """The items did not all pass."""


class Beside(Generic[T, R]):
    """Work on items while they pass on to somewhere else, in a thread of its own and at most `depth` items behind.

    The work is given an iterator of the items, and `result` tells what it returned or raised. An error of the work does
    not stop the passing; an error of the passing is `Stopped` to the work. The thread does not keep a process alive.
    """

    def __init__(self, work: Callable[[Iterator[T]], R], depth: int = DEPTH) -> None:
        self.box: queue.Queue[T | None] = queue.Queue(depth)
        self.over = self.stopped = False
        self.future: Future[R] = Future()
        self.thread = threading.Thread(target=self._run, args=(work,), name="sfumato beside", daemon=True)

    def _run(self, work: Callable[[Iterator[T]], R]) -> None:
        try:
            self.future.set_result(work(self._items()))
        except BaseException as error:
            self.future.set_exception(error)
        while not self.over:  # whoever passes items must not wait for work that has ended early
            self.over = self.box.get() is None

    def _items(self) -> Iterator[T]:
        while (item := self.box.get()) is not None:
            yield item
        self.over = True
        if self.stopped:
            raise Stopped

    def __enter__(self) -> Callable[[T], None]:
        self.thread.start()
        return self.box.put

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.stopped = kind is not None
        self.box.put(None)

    def result(self) -> R:
        """What the work returned; its error is raised here."""
        return self.future.result()
