"""A worker: a process that does one job after another. Started as `python -m sfumato.studio.jobs`.

Jobs come on stdin, answers go to stdout. A thread of its own reads what comes, so that a job hears at its next word of
progress that it is no longer wanted, and so that the process ends at once when the server is gone.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING, BinaryIO

from sfumato.errors import SfumatoError, bug, out_of_memory
from sfumato.processes import receive, send

if TYPE_CHECKING:
    from sfumato.frames import Datum
    from sfumato.studio.desk import Desk
    from sfumato.studio.hands import Document


class NoLongerWanted(BaseException):
    """The job that is under way is no longer wanted."""


class JobReports:
    """How a job speaks to the server while it works."""

    def __init__(self, out: BinaryIO) -> None:
        self.out, self.job, self.unwanted = out, 0, -1

    def __call__(self, **told: Datum) -> None:
        """Send something; raises where the job is no longer wanted."""
        if self.unwanted >= self.job:
            raise NoLongerWanted
        send(self.out, {"job": self.job, "told": told})


def main() -> None:
    """Do jobs until the server ends. Ctrl-C is for the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    tell = JobReports(out)
    waiting: queue.Queue[Document] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tell, waiting), daemon=True).start()
    from sfumato.studio.desk import Desk

    desk = Desk(tell)
    send(out, {"job": 0, "done": None})
    while True:
        order = waiting.get()
        tell.job = order["job"]
        send(out, {"job": order["job"], **_done(desk, order)})
        if order["what"] == "open":
            _prepare()


def _prepare() -> None:
    """Load what a first design needs (SciPy, half a second) while somebody looks at the columns."""
    import sfumato.certification.over_balls
    import sfumato.optimise.product.profiles  # noqa: F401


def _listen(stream: BinaryIO, tell: JobReports, waiting: queue.Queue[Document]) -> None:
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
