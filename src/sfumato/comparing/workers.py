"""Many designs at once: a few processes, each ended and replaced when a design exceeds its time."""

from __future__ import annotations

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
from sfumato.designers.registry import REGISTERED
from sfumato.processes import receive, send
from sfumato.uncertainty import UncertaintySet

GRACE = 3.0  # times the limit that a design may take in all, with sealing and certifying, before it is ended
START = 20.0  # seconds more, for a process that has to load everything first
TICK = 0.2  # seconds between looks at the clock
Task = tuple[str, float]  # method, ε
Answer = tuple[Task, Point | Missing, bool]  # the last: whether it may be kept for the next time


@dataclass(eq=False)
class Running:
    """A worker process and what it is doing."""

    process: subprocess.Popen[bytes]
    answers: queue.Queue[Any]
    task: Task | None = None
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

    def give(self, task: Task, seconds: float | None) -> None:
        self.task = task
        self.deadline = float("inf") if seconds is None else time.monotonic() + seconds
        assert self.process.stdin is not None
        send(self.process.stdin, task)

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
    """Every task's answer as it comes, measured with the options. Closing it (or Ctrl-C) ends the processes."""
    first = _portable((within, options)) if workers > 1 and len(tasks) > 1 else None
    here = [task for task in tasks if first is None or task[0] in REGISTERED]  # others do not know who registered
    if here:
        from sfumato.comparing.measuring import measured

        for method, epsilon in here:
            yield (method, epsilon), measured(within, epsilon, method, **options), True
    there = [task for task in tasks if task not in here]
    if first is not None and there:
        yield from _together(first, there, min(workers, len(there)), options["time_limit"])


def _portable(content: Any) -> bytes | None:
    """As bytes, or None for sets made of functions, which only this process can call."""
    try:
        return pickle.dumps(content)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _together(first: bytes, tasks: list[Task], workers: int, time_limit: float | None) -> Iterator[Answer]:
    arrived: queue.Queue[Any] = queue.Queue()
    pool = [Running.start(first, arrived) for _ in range(workers)]
    waiting, open_tasks = list(reversed(tasks)), len(tasks)
    most = None if time_limit is None else GRACE * time_limit + START
    try:
        while open_tasks:
            done: list[Answer] = []
            try:
                worker, answer = arrived.get(timeout=TICK)
            except queue.Empty:
                worker, answer = None, None
            if worker in pool:
                if worker.task is not None:
                    done.append(_judged(worker.task, answer))
                if answer is None:
                    worker = _replaced(pool, worker, first, arrived)
                else:
                    worker.task = None
                    if waiting:
                        worker.give(waiting.pop(), most)
            for late in [w for w in pool if w.task is not None and time.monotonic() > w.deadline]:
                assert late.task is not None
                why = f"it was ended after {most:.0f} s, three times the time limit and the start of a process"
                done.append((late.task, Missing(*late.task, why), True))
                _replaced(pool, late, first, arrived)
            for one in done:
                open_tasks -= 1
                yield one
    finally:
        for one_worker in pool:
            one_worker.end()


def _replaced(pool: list[Running], worker: Running, first: bytes, arrived: queue.Queue[Any]) -> Running:
    worker.end()
    pool[pool.index(worker)] = fresh = Running.start(first, arrived)
    return fresh


def _judged(task: Task, answer: Any) -> Answer:
    if isinstance(answer, (Point, Missing)):
        return task, answer, True
    if answer is None:
        return task, Missing(*task, "its process ended without an answer (too little memory?)"), False
    name, where = answer
    return task, Missing(*task, f"a bug in sfumato: {name} at {where}"), False
