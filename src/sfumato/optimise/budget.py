"""Budget: how long a search may go on, and who is told how it goes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace

from sfumato.errors import InputError

PASS, NUMBER = 4.5e-6, 2.7e-9  # seconds that one pass over an array costs, and each number in it: numpy takes less
STAGE = 0.6  # of the time left, that a stage has where others follow and add to it: somewhat more than all these have
GRAIN = 0.05  # seconds of work at the pace of an idle machine, with which a pace begins: less is a scheduler's turn
PATIENCE = "SFUMATO_PATIENCE"  # environment: a factor for the seconds of default searches, 1 unless set
Progress = Callable[[str, float, float], None]
"""(stage, value, proved bound or ±∞), called at least once per outer iteration."""
Heard = Callable[[str, float, float, float], None]
"""The same, and the seconds left: for whoever shows it to people."""
INTERRUPTED = "interrupted: the best design so far"
_HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)


def patience() -> float:
    """By how much the seconds that a default search works are stretched or cut short (SFUMATO_PATIENCE)."""
    try:
        found = float(os.environ.get(PATIENCE, "1"))
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise InputError(f"{PATIENCE} in the environment must be a positive number, got {os.environ[PATIENCE]!r}.")
    return found


class _Work(threading.local):
    seconds = 0.0


_WORK = _Work()


def spend(passes: float, numbers: float = 0.0) -> None:
    """So many passes over arrays of so many numbers were made, or an amount of work like that."""
    _WORK.seconds += passes * (PASS + NUMBER * numbers)


def spent() -> float:
    """Seconds of work as counted, not measured, in this thread: the same on every machine, idle or busy."""
    return _WORK.seconds


@contextlib.contextmanager
def heard_by(listener: Heard | None) -> Iterator[None]:
    """Searches inside tell how they go, whichever designer began them: a person waits for all of them alike."""
    token = _HEARD.set(listener or (lambda *_: None))
    try:
        yield
    finally:
        _HEARD.reset(token)


class OutOfTime(Exception):
    """Raised where a step that is worth nothing unfinished has no time left: what was found before is taken."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A deadline on a clock and a listener; ∞ is a search that ends by its gap alone.

    The clock is that of the wall where somebody set a limit, and of methods that are known to end soon. The search for
    information counts what it does (`spent`) when nobody limits it, so that the same table, in any order, gets the same
    answer on any machine; that for estimates takes the time that it works (`time.thread_time`).

    What a step will cost is foretold in seconds of work, which take longer on the wall of a busy machine: `less` keeps
    them and `fits` compares them at the pace of this budget so far, as long as the pace goes on changing.
    """

    deadline: float = float("inf")
    progress: Progress | None = None
    clock: Callable[[], float] = time.monotonic
    work: Callable[[], float] = time.thread_time
    began: tuple[float, float] = (0.0, 0.0)  # clock and work when it did, and a little before
    kept: float = 0.0  # seconds of work for what must be done afterwards
    halted: list[bool] | None = None  # whether somebody ended it, for all of its parts alike

    @staticmethod
    def of(
        seconds: float | None, progress: Progress | None = None, clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] | None = None,
    ) -> Budget:
        """So many seconds from now; None is as long as it takes. A clock other than the wall's is of work itself."""
        work = work or (time.thread_time if clock is time.monotonic else clock)
        now, began = clock(), (clock() - GRAIN, work() - GRAIN)
        return Budget(float("inf") if seconds is None else now + seconds, progress, clock, work, began, halted=[])

    @staticmethod
    def of_work(seconds: float, progress: Progress | None = None) -> Budget:
        """So many seconds of work, whatever else the machine does."""
        return Budget.of(seconds, progress, time.thread_time)

    @staticmethod
    def counted(seconds: float, progress: Progress | None = None) -> Budget:
        """About so many seconds of work, by what is done and not by a clock."""
        return Budget.of(seconds, progress, spent)

    @property
    def waited(self) -> bool:
        """Whether somebody waits: the clock does not stand still while others work."""
        return self.clock is not self.work

    @property
    def firm(self) -> Budget:
        """The same where somebody waits, else one without end: for steps that are not worth breaking off."""
        return self if self.waited else FREE

    @property
    def pace(self) -> float:
        """Seconds on the clock for a second of work so far: more than 1 where others keep the machine busy."""
        clock, work = self.began
        return max((self.clock() - clock) / max(self.work() - work, GRAIN), 1.0) if self.waited else 1.0

    @property
    def left(self) -> float:
        """Seconds until the deadline, less those that are kept; never negative."""
        if self.halted:
            return 0.0
        kept = self.kept * self.pace if self.kept else 0.0
        return max(self.deadline - kept - self.clock(), 0.0)

    @property
    def over(self) -> bool:
        return self.left <= 0.0

    def halt(self) -> None:
        """Of a KeyboardInterrupt: end with what was found so far. Whoever listens waits for more than a design, such as
        a release, and ends with nothing; so does a search without a budget of its own."""
        if self.halted is None or _HEARD.get() is not None:
            raise
        self.halted.append(True)

    def go_on(self) -> None:
        """Raise OutOfTime if it is over and somebody waits: whoever does not has the step finished."""
        if self.waited and self.over:
            raise OutOfTime

    def fits(self, seconds: float) -> bool:
        """Whether so many seconds of work may be begun."""
        return seconds * self.pace <= self.left

    def part(self, share: float = STAGE, most: float = float("inf")) -> Budget:
        """A stage that may take this share of what is left, and no more seconds than `most`."""
        mine, kept = min(share * self.left, most), self.kept * self.pace
        return replace(self, deadline=min(self.deadline, self.clock() + mine + kept))

    def less(self, seconds: float) -> Budget:
        """What is left when so many seconds of work are kept for something that must be done afterwards."""
        return replace(self, kept=self.kept + seconds)

    def tell(self, stage: str, value: float, bound: float = float("inf")) -> None:
        if self.progress is not None:
            self.progress(stage, float(value), float(bound))
        if (listener := _HEARD.get()) is not None:
            listener(stage, float(value), float(bound), self.left)


FREE = replace(Budget.of(None), halted=None)  # no deadline, no listener, and everybody's
