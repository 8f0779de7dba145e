"""Work beside other work: messages between processes, whether one still runs, and sockets."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from sfumato.errors import InputError


def started(
    module: str, *words: str, stderr: int | None = None, inherited: Sequence[int] = (), apart: bool = False
) -> subprocess.Popen[bytes]:
    """A process that runs a module of ours on one core, and is spoken to by `send` and `receive`; `apart` from what
    ends this one, such as Ctrl-C."""
    path = os.pathsep.join(p for p in sys.path if p)
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env,
        pass_fds=inherited, start_new_session=apart,
    )


def answering() -> IO[bytes]:
    """In such a process: where its answers go, and nothing that a library prints. Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


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
