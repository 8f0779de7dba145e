"""A private folder for what is uploaded and written, which is gone when the server is, however it ends.

Where the system can, an upload has no name on the disk: the server holds a nameless file open, with a link to it under
the name it came with, so that after kill -9, or a loss of power, there is nothing to remove. Elsewhere it is
a file of the folder. The folder is removed by a small process that waits for the server's end; one whose watcher ended
too is swept away by the next start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from sfumato.atomic import NO_UNNAMED, UNNAMED
from sfumato.errors import InputError
from sfumato.processes import may_be_running, this_process

PREFIX = "sfumato-studio-"
LONGEST = 200  # letters of a file's name
WATCH = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class Folder:
    """The private folder of one server."""

    def __init__(self) -> None:
        sweep()
        _, number, began = this_process().rsplit(":", 2)
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{number}-{began}-"))  # readable by its owner alone
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WATCH, str(self.path)], stdin=subprocess.PIPE,
            start_new_session=True,  # what ends the server, such as Ctrl-C, does not end it
        )

    def place(self) -> Path:
        """A new folder in it."""
        made = self.path / secrets.token_hex(8)
        made.mkdir(mode=0o700)
        return made

    def incoming(self, name: str) -> Incoming:
        """A file to be filled with what is uploaded under a name."""
        return Incoming.below(self.place(), checked_name(name))

    def close(self) -> None:
        """Remove everything."""
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()


@dataclass(slots=True)
class Incoming:
    """A file on its way in, and the path by which other processes of this server read it."""

    path: Path
    descriptor: int

    @classmethod
    def below(cls, folder: Path, name: str) -> Incoming:
        path = folder / name
        if UNNAMED and Path("/proc/self/fd").is_dir():
            try:
                descriptor = os.open(folder, UNNAMED | os.O_RDWR, 0o600)
                path.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
                return cls(path, descriptor)
            except OSError as error:
                if error.errno not in NO_UNNAMED:
                    raise
        return cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            view = view[os.write(self.descriptor, view):]

    def drop(self) -> None:
        """Forget what came, and its name."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
        shutil.rmtree(self.path.parent, ignore_errors=True)


def checked_name(name: str) -> str:
    """The name of a file without any folder.

    >>> checked_name("C:\\\\data\\\\people.csv"), checked_name("../people.csv")
    ('people.csv', 'people.csv')
    """
    bare = PurePath(name.replace("\\", "/")).name
    if bare in ("", ".", "..") or len(bare) > LONGEST or not bare.isprintable():
        raise InputError("this is no name of a file", next="Use letters, digits, dots and dashes, 200 at most.")
    return bare


def room(folder: Path) -> int:
    """Bytes that are free where the folder is."""
    return shutil.disk_usage(folder).free


def sweep() -> None:
    """Remove folders of servers that have ended, where their watchers ended too."""
    for folder in _left():
        shutil.rmtree(folder, ignore_errors=True)


def _left() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number, _, rest = folder.name.removeprefix(PREFIX).partition("-")
        process = f"{socket.gethostname()}:{number}:{rest.rpartition('-')[0]}"
        if number.isdigit() and folder.stat().st_uid == os.getuid() and may_be_running(process) is False:
            yield folder
