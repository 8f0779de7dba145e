"""Threads: stages of a release that overlap, in order, with bounded memory."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_END = object()


def ahead(items: Iterable[T], depth: int = 3) -> Iterator[T]:
    """The same items, fetched by a thread of their own, at most `depth` before they are needed.

    Closing the iterator stops the thread; an error of the source is raised where the item would have been.
    """
    box: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: Any) -> bool:
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
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        worker.join()


def in_order(work: Callable[[T], R], items: Iterable[T], workers: int = 2) -> Iterator[R]:
    """work(item) for every item, done by a few threads, given back in order."""
    with ThreadPoolExecutor(workers, thread_name_prefix="sfumato draw") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
