"""Many designs at once: a few processes, each ended and replaced when a design exceeds its time."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.comparing.results import Missing, Point
from sfumato.comparing.running import ENTRANTS
from sfumato.designers.base import REGISTERED
from sfumato.processes import receive, send
from sfumato.uncertainty import UncertaintySet

GRACE = 3.0  # times the limit that a design may take in all, with sealing and certifying, before it is ended
START = 20.0  # seconds more, for a process that has to load everything first
TICK = 0.2  # seconds between looks at the clock
SOON = 2.0  # seconds of work for closed forms while processes begin; what is left then is for these
Task = tuple[str, float]  # method, ε
Strand = tuple[tuple[str, tuple[float, ...]], ...]  # methods at the levels that one process designs, in this order
Answer = tuple[Task, Point | Missing, bool]  # the last: whether it may be kept for the next time


@dataclass(eq=False)
class Running:
    """A worker process and what it is doing."""

    process: subprocess.Popen[bytes]
    answers: queue.Queue[Any]
    left: list[Task] = field(default_factory=list)  # what it has not answered yet
    seconds: float | None = None  # for each of them
    deadline: float = field(default=float("inf"))

    @classmethod
    def start(cls, first: bytes, answers: queue.Queue[Any]) -> Running:
        """A process that loads itself while the others work; a thread brings its answers."""
        path = os.pathsep.join(p for p in sys.path if p)
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "sfumato.comparing.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=env,
        )
        running = cls(process, answers)
        assert process.stdin is not None
        process.stdin.write(len(first).to_bytes(8, "big") + first)
        process.stdin.flush()
        threading.Thread(target=running._bring, daemon=True).start()
        return running

    def _bring(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self.answers.put((self, receive(self.process.stdout)))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.answers.put((self, None))

    def given(self, waiting: list[Strand], seconds: float | None) -> Running:
        """Itself, with the next strand, if it has nothing to do and there is one; it may still be loading."""
        if not self.left and waiting:
            strand = waiting.pop()
            self.left, self.seconds = tasks_of(strand), seconds
            self._wait()
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):  # it has ended: whoever reads its answers hears so
                send(self.process.stdin, strand)
        return self

    def answered(self) -> Task:
        """The task that it has just answered; the others have as long again."""
        task = self.left.pop(0)
        self._wait()
        return task

    def _wait(self) -> None:
        known = bool(self.left) and self.seconds is not None
        self.deadline = time.monotonic() + len(self.left) * self.seconds if known else float("inf")  # type: ignore[operator]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue


def answers(
    within: UncertaintySet, tasks: Sequence[Task], workers: int, options: dict[str, Any]
) -> Iterator[Answer]:
    """Every task's answer as it comes, measured with the options. Closing it (or Ctrl-C) ends the processes.

    Processes take a second to begin. Closed forms are designed here meanwhile, so that there is something to look at.
    """
    strands = strands_of(tasks)
    own = [x for x in strands if x[0][0] in REGISTERED]  # others do not know who registered
    closed = [x for x in strands if ENTRANTS[x[0][0]].closed]
    there = sorted((x for x in strands if x not in own and x not in closed), key=lambda x: -len(tasks_of(x)))
    first = _portable((within, options)) if workers > 1 and len(strands) > 1 and there else None
    if first is None:
        yield from _here(within, strands, options)
    else:
        yield from _together(first, there, closed, own, workers, within, options)


def _here(within: UncertaintySet, strands: Sequence[Strand], options: dict[str, Any]) -> Iterator[Answer]:
    from sfumato.comparing.measuring import measured

    for strand in strands:
        for task, point in zip(tasks_of(strand), measured(within, strand, **options), strict=True):
            yield task, point, True


def strands_of(tasks: Sequence[Task]) -> list[Strand]:
    """What needs no search first, so that there is something to look at; a method whose levels share is one strand,
    with those that it helps."""
    levels: dict[str, tuple[float, ...]] = {}
    for method, epsilon in tasks:
        levels[method] = (*levels.get(method, ()), epsilon)
    helped = {m for m in levels if ENTRANTS[m].after in levels}
    alone = [((m, (e,)),) for m, e in tasks if not ENTRANTS[m].shares and m not in helped]
    shared = [((m, levels[m]), *((x, levels[x]) for x in levels if ENTRANTS[x].after == m))
              for m in levels if ENTRANTS[m].shares]
    return [*(x for x in alone if not ENTRANTS[x[0][0]].timed), *shared, *(x for x in alone if ENTRANTS[x[0][0]].timed)]


def tasks_of(strand: Strand) -> list[Task]:
    return [(method, epsilon) for method, epsilons in strand for epsilon in epsilons]


def _portable(content: Any) -> bytes | None:
    """As bytes, or None for sets made of functions, which only this process can call."""
    try:
        return pickle.dumps(content)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _together(
    first: bytes, strands: list[Strand], closed: list[Strand], own: list[Strand], workers: int, within: UncertaintySet,
    options: dict[str, Any],
) -> Iterator[Answer]:
    """Processes for the strands, the closed forms here while they begin, and what only this process can make."""
    arrived: queue.Queue[Any] = queue.Queue()
    waiting, open_tasks = list(reversed(strands)), sum(len(tasks_of(x)) for x in (*strands, *closed))
    most = None if options["time_limit"] is None else GRACE * options["time_limit"] + START
    pool = [Running.start(first, arrived).given(waiting, most) for _ in range(min(workers, len(strands)))]
    try:
        began = time.process_time()
        while closed and time.process_time() < began + SOON:
            for answer in _here(within, [closed.pop(0)], options):
                open_tasks -= 1
                yield answer
        waiting += reversed(closed)
        while open_tasks:
            for one in _arrivals(pool, arrived, first, waiting, most):
                open_tasks -= 1
                yield one
        yield from _here(within, own, options)
    finally:
        for one_worker in pool:
            one_worker.end()


def _arrivals(
    pool: list[Running], arrived: queue.Queue[Any], first: bytes, waiting: list[Strand], most: float | None
) -> list[Answer]:
    """What has come in a short while, or was given up; whoever is idle gets the next strand."""
    done: list[Answer] = []
    try:
        worker, answer = arrived.get(timeout=TICK)
    except queue.Empty:  # nothing has come that is not looked at yet: whoever is late is late
        for late in [w for w in pool if time.monotonic() > w.deadline]:
            why = f"it was ended after {most:.0f} s, three times the time limit and the start of a process"
            done += [(task, Missing(*task, why), True) for task in late.left]
            _replaced(pool, late, first, arrived).given(waiting, most)
        return done
    if worker in pool:
        if isinstance(answer, (Point, Missing)):
            done.append((worker.answered(), answer, True))
        else:  # something went wrong, with all that it had still to do
            done += [_failed(task, answer) for task in worker.left]
            worker.left = []
        (_replaced(pool, worker, first, arrived) if answer is None else worker).given(waiting, most)
    return done


def _replaced(pool: list[Running], worker: Running, first: bytes, arrived: queue.Queue[Any]) -> Running:
    worker.end()
    pool[pool.index(worker)] = fresh = Running.start(first, arrived)
    return fresh


def _failed(task: Task, answer: Any) -> Answer:
    if answer is None:
        return task, Missing(*task, "its process ended without an answer (too little memory?)"), False
    name, where = answer
    return task, Missing(*task, f"a bug in sfumato: {name} at {where}"), False
