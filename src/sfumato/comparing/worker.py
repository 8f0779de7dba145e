"""A worker: reads tasks from stdin, writes points to stdout. Started as `python -m sfumato.comparing.worker`.

A process of its own rather than one of multiprocessing: it never imports the caller's script again, and it can be
ended at its time limit without harm to the others.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

from sfumato.processes import receive, send


def main() -> None:
    """Answer tasks until stdin ends. Ctrl-C is for the parent, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    from sfumato.comparing.measuring import measured

    within, options = receive(sys.stdin.buffer)
    while True:
        try:
            strand = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            for point in measured(within, strand, **options):
                send(out, point)
        except Exception as error:  # the parent says that it is a bug; the text may quote values of private rows
            send(out, (type(error).__name__, _place(error)))


def _place(error: BaseException) -> str:
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}, line {last.lineno}"


if __name__ == "__main__":
    main()
