"""Many designs at once: a few processes, each ended and replaced when a design exceeds its time."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from sfumato import reporting
from sfumato.designers.base import Options
from sfumato.designers.choose import REGISTERED
from sfumato.processes import answering, receive, send, started
from sfumato.reporting.comparing import CLOSED, ENTRANTS, Task
from sfumato.reporting.comparison import Missing, Point
from sfumato.uncertainty import UncertaintySet


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long one waits for processes."""

    grace: float = 3.0  # times the limit that a design may take in all, with sealing and certifying, before it is ended
    start: float = 20.0  # seconds more, for a process that has to load everything first
    tick: float = 0.2  # seconds between looks at the clock
    soon: float = 2.0  # of work for closed forms while processes begin; what is left then is for these


WAITING = Waiting()
Strand = tuple[tuple[str, tuple[float, ...]], ...]  # methods at the levels that one process designs, in this order
Answer = tuple[Task, Point | Missing, bool]  # the last: whether it may be kept for the next time


@dataclass(eq=False)
class Running:
    """A worker process and what it is doing."""

    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    results: IO[bytes]
    left: list[Task] = field(default_factory=list)  # what it has not answered yet
    seconds: float | None = None  # for each of them
    deadline: float = math.inf

    @classmethod
    def started(cls, first: bytes, answers: Arrivals) -> Running:
        """A process that loads itself while the others work, and a thread that brings its answers."""
        process = started("sfumato.reporting.workers", stderr=subprocess.DEVNULL)
        assert process.stdin is not None and process.stdout is not None
        made = cls(process, process.stdin, process.stdout)
        made.tasks.write(len(first).to_bytes(8, "big") + first)
        made.tasks.flush()
        threading.Thread(target=made._bring, args=(answers,), daemon=True).start()
        return made

    def _bring(self, answers: Arrivals) -> None:
        try:
            while True:
                answers.put((self, receive(self.results)))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.results.close()
            answers.put((self, None))

    def given(self, waiting: list[Strand], seconds: float | None) -> Running:
        """Itself, with the next strand, if it has nothing to do and there is one; it may still be loading."""
        if not self.left and waiting:
            strand = waiting.pop()
            self.left, self.seconds = tasks_of(strand), seconds
            self._wait()
            with contextlib.suppress(OSError):  # it has ended: whoever reads its answers hears so
                send(self.tasks, strand)
        return self

    def answered(self) -> Task:
        """The task that it has just answered; the others have as long again."""
        task = self.left.pop(0)
        self._wait()
        return task

    def _wait(self) -> None:
        each = math.inf if self.seconds is None or not self.left else self.seconds * len(self.left)
        self.deadline = time.monotonic() + each

    def end(self) -> None:
        """It ends by itself when there are no more tasks, and is ended while it has one."""
        with contextlib.suppress(OSError):
            self.tasks.close()
        if self.left:
            self.process.kill()


Arrivals = queue.Queue[tuple[Running, Point | Missing | tuple[str, str] | None]]
"""Who answered, and what: a point, what went wrong, or None at its end."""


def answers(
    within: UncertaintySet, tasks: Sequence[Task], workers: int, options: Options
) -> Iterator[Answer]:
    """Every task's answer as it comes, measured with the options. Closing it (or Ctrl-C) ends the processes.

    Processes take a second to begin. Closed forms are designed here meanwhile, so that there is something to look at.
    """
    strands = strands_of(tasks)
    own = [x for x in strands if x[0][0] in REGISTERED]  # others do not know who registered
    closed = [x for x in strands if ENTRANTS[x[0][0]].designer in CLOSED]
    there = sorted((x for x in strands if x not in own and x not in closed), key=lambda x: -len(tasks_of(x)))
    first = _portable((within, options)) if workers > 1 and len(strands) > 1 and there else None
    if first is None:
        yield from _here(within, strands, options)
    else:
        yield from _together(first, there, closed, own, workers, within, options)


def _here(within: UncertaintySet, strands: Sequence[Strand], options: Options) -> Iterator[Answer]:
    waiting = list(reversed(strands))
    while waiting:
        strand = waiting.pop()
        for task, point in zip(tasks_of(strand), reporting.measured(within, strand, **options), strict=True):
            yield task, point, True
            yield from _implied(point, waiting, within)


def _implied(point: Point | Missing, waiting: list[Strand], within: UncertaintySet) -> list[Answer]:
    """Answers to tasks that wait, where a point says what a larger ε would bring; they wait no longer."""
    done: list[Answer] = []
    if isinstance(point, Point):
        for strand in [x for x in waiting if [method for method, _ in x] == [point.method]]:
            found = [x for epsilon in strand[0][1] if (x := point.at_larger(epsilon, within.joint))]
            if len(found) == len(strand[0][1]):
                waiting.remove(strand)
                done += [((x.method, x.epsilon), x, True) for x in found]
    return done


def strands_of(tasks: Sequence[Task]) -> list[Strand]:
    """What needs no search first, so that there is something to look at; a method whose levels share is one strand,
    with those that it helps."""
    levels: dict[str, tuple[float, ...]] = {}
    for method, epsilon in tasks:
        levels[method] = (*levels.get(method, ()), epsilon)
    helped = {m for m in levels if ENTRANTS[m].after in levels}
    alone = [((m, (e,)),) for m, e in tasks if not ENTRANTS[m].shares and m not in helped]
    shared = [((m, levels[m]), *((x, levels[x]) for x in levels if ENTRANTS[x].after == m))
              for m in levels if ENTRANTS[m].shares and m not in helped]
    return [*(x for x in alone if not ENTRANTS[x[0][0]].timed), *shared, *(x for x in alone if ENTRANTS[x[0][0]].timed)]


def tasks_of(strand: Strand) -> list[Task]:
    return [(method, epsilon) for method, epsilons in strand for epsilon in epsilons]


def _portable(content: object) -> bytes | None:
    """As bytes, or None for sets made of functions, which only this process can call."""
    try:
        return pickle.dumps(content)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _together(
    first: bytes, strands: list[Strand], closed: list[Strand], own: list[Strand], workers: int, within: UncertaintySet,
    options: Options,
) -> Iterator[Answer]:
    """Processes for the strands, the closed forms here while they begin, and what only this process can make."""
    arrived: Arrivals = queue.Queue()
    waiting = list(reversed(strands))
    open_tasks = sum(len(tasks_of(x)) for x in (*strands, *closed))
    most = None if options["time_limit"] is None else WAITING.grace * options["time_limit"] + WAITING.start
    pool = [Running.started(first, arrived).given(waiting, most) for _ in range(min(workers, len(strands)))]
    try:
        began = time.process_time()
        while closed and time.process_time() < began + WAITING.soon:
            for answer in _here(within, [closed.pop(0)], options):
                open_tasks -= 1
                yield answer
        waiting += reversed(closed)
        while open_tasks:
            for one in _arrivals(pool, arrived, first, waiting, most):
                for answer in (one, *_implied(one[1], waiting, within)):
                    open_tasks -= 1
                    yield answer
        yield from _here(within, own, options)
    finally:
        for worker in pool:
            worker.end()
        for worker in pool:
            worker.process.wait()


def _arrivals(
    pool: list[Running], arrived: Arrivals, first: bytes, waiting: list[Strand], most: float | None
) -> list[Answer]:
    """What has come in a short while, or was given up; whoever is idle gets the next strand."""
    done: list[Answer] = []
    try:
        worker, answer = arrived.get(timeout=WAITING.tick)
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


def _replaced(pool: list[Running], worker: Running, first: bytes, arrived: Arrivals) -> Running:
    worker.end()
    worker.process.wait()
    pool[pool.index(worker)] = fresh = Running.started(first, arrived)
    return fresh


def _failed(task: Task, answer: tuple[str, str] | None) -> Answer:
    if answer is None:
        return task, Missing(*task, "its process ended without an answer (too little memory?)"), False
    name, where = answer
    return task, Missing(*task, f"a bug in sfumato: {name} at {where}"), False


# --- the process: reads strands, writes points ---------------------------------------------------
# One of its own rather than of multiprocessing: it never imports the caller's script again, and it can be ended at its
# time limit without harm to the others.


def main() -> None:
    """Load, and answer tasks until there are no more."""
    tasks, out = sys.stdin.buffer, answering()
    within, options = receive(tasks)
    while True:
        try:
            strand = receive(tasks)
        except EOFError:
            return
        try:
            for point in reporting.measured(within, strand, **options):
                send(out, point)
        except Exception as error:  # the parent says that it is a bug; the text may quote values of private rows
            send(out, (type(error).__name__, _place(error)))


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}, line {last.lineno}"


if __name__ == "__main__":
    main()
