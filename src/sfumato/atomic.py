"""Atomic output: a file or a folder appears under its name complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from sfumato.errors import Named, OutputError, SfumatoError, Spot, option
from sfumato.libraries import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow import NativeFile

UNNAMED = getattr(os, "O_TMPFILE", 0)  # a file without a name vanishes with the process, even after kill -9
OTHERWISE = f"Choose another name, or replace it with {option('--force', 'force=True')}."
ELSEWHERE = "Choose another name for the output; nothing was released."
NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


class Existing(Named, Protocol):
    """What a draft will be."""

    def exists(self) -> bool: ...


class Drafted(Protocol):
    """Something being written that nobody can mistake for its target until it is published."""

    @property
    def target(self) -> Existing: ...

    @property
    def size(self) -> int:
        """Bytes written so far."""

    def open(self, name: str) -> NativeFile:
        """An Arrow stream to write to: the file itself (''), or one in the folder."""

    def fill(self, content: bytes, *, private: bool = False) -> None:
        """Write all of it at once; a private file can be read by its owner alone."""

    def settle(self) -> None:
        """Bytes on the disk before the name exists."""

    def publish(self, *, replace: bool) -> None:
        """Give it its name. Without `replace` nothing that exists is touched."""

    def withdraw(self) -> None:
        """Take back what was published."""

    def drop(self) -> None:
        """Remove what was never published."""


@dataclass(slots=True)
class FileDraft:
    """A file being written in the folder of its target: nameless where the system can, else hidden."""

    target: Path
    descriptor: int
    hidden: Path | None = None
    published: bool = False

    @classmethod
    def beside(cls, target: Path) -> FileDraft:
        if UNNAMED:
            try:
                return cls(target, os.open(target.parent, UNNAMED | os.O_RDWR, 0o666))
            except OSError as error:
                if error.errno not in NO_UNNAMED:
                    raise
        hidden = _hidden_name(target)
        return cls(target, os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), hidden)

    @property
    def path(self) -> str:
        """A path under which other code can open the draft for writing."""
        return f"/proc/self/fd/{self.descriptor}" if self.hidden is None else str(self.hidden)

    @property
    def size(self) -> int:
        with as_output_error(self.target):
            return os.fstat(self.descriptor).st_size

    def open(self, name: str = "") -> NativeFile:
        return pa.OSFile(self.path, "wb")

    def fill(self, content: bytes, *, private: bool = False) -> None:
        with as_output_error(self.target), open(self.descriptor, "wb", closefd=False) as file:
            if private:
                os.fchmod(self.descriptor, 0o600)
            file.write(content)

    def settle(self) -> None:
        os.fsync(self.descriptor)

    def publish(self, *, replace: bool) -> None:
        if self.hidden is None and not replace:
            self._link(self.target)
            self.published = True
            return
        if self.hidden is None:
            self.hidden = _hidden_name(self.target)
            self._link(self.hidden)
        if replace:
            os.replace(self.hidden, self.target)
        else:
            os.link(self.hidden, self.target)
            os.unlink(self.hidden)
        self.hidden, self.published = None, True

    def withdraw(self) -> None:
        if self.published:
            self.target.unlink(missing_ok=True)

    def _link(self, name: Path) -> None:
        folder = os.open(name.parent, os.O_RDONLY)
        try:  # naming a folder makes os.link use linkat and follow the link in /proc
            os.link(f"/proc/self/fd/{self.descriptor}", name.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)

    def drop(self) -> None:
        os.close(self.descriptor)
        if self.hidden is not None:
            self.hidden.unlink(missing_ok=True)


@dataclass(slots=True)
class FolderDraft:
    """A folder being written under a hidden name beside its target, and renamed: it appears whole.

    A folder cannot be nameless, so after kill -9 the hidden one may stay; it holds released rows alone.
    """

    target: Path
    hidden: Path
    published: bool = False

    @classmethod
    def beside(cls, target: Path) -> FolderDraft:
        made = cls(target, _hidden_name(target))
        made.hidden.mkdir()
        return made

    @property
    def size(self) -> int:
        with as_output_error(self.target):
            return sum(path.stat().st_size for path in self.hidden.rglob("*") if path.is_file())

    def open(self, name: str) -> NativeFile:
        path = self.hidden / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(path), "wb")

    def fill(self, content: bytes, *, private: bool = False) -> None:
        raise NotImplementedError("a folder has no content of its own")

    def settle(self) -> None:
        for path in [self.hidden, *self.hidden.rglob("*")]:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def publish(self, *, replace: bool) -> None:
        old = None
        if replace and self.target.exists():
            old = self.hidden.with_suffix(".old")
            self.target.rename(old)
        try:
            self.hidden.rename(self.target)  # fails if a folder with anything in it has that name
        except OSError:
            if old is not None:
                old.rename(self.target)
            raise
        self.published = True
        if old is not None and old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        elif old is not None:
            old.unlink(missing_ok=True)

    def withdraw(self) -> None:
        if self.published:
            shutil.rmtree(self.target, ignore_errors=True)

    def drop(self) -> None:
        if not self.published:
            shutil.rmtree(self.hidden, ignore_errors=True)


def _hidden_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")


D = TypeVar("D", bound=Drafted)


def check_target(target: Path, source: Path | None, *, force: bool) -> None:
    """Refuse to write over the input ever, over another file without force, or where nothing can be written."""
    if source is not None and target.exists() and os.path.samefile(target, source):
        raise OutputError("is the input", next=ELSEWHERE, where=target)
    if target.is_dir():
        raise OutputError("is a folder", next="Give the name of a file.", where=target)
    if target.exists() and not force:
        raise OutputError("exists", next=OTHERWISE, where=target)
    check_folder(target)


def check_folder(target: Path) -> None:
    """Refuse a target whose folder is not there or cannot be written, by making a draft there and dropping it."""
    if not target.parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", next="Create it first.")
    with drafts([(target, partial(FileDraft.beside, target))]):
        pass


def make_folder(folder: Path) -> None:
    """Make the folder, or say why it cannot be written, before any work."""
    with as_output_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder / "file")


@contextlib.contextmanager
def drafts(wanted: Iterable[tuple[Spot, Callable[[], D]]]) -> Iterator[list[D]]:
    """Drafts for several targets, each with what makes it; whatever goes wrong, none is left behind."""
    made: list[D] = []
    try:
        for target, make in wanted:
            with as_output_error(target):
                made.append(make())
        yield made
    finally:
        for draft in made:
            draft.drop()


@contextlib.contextmanager
def as_output_error(target: Spot) -> Iterator[None]:
    """Errors of the system while writing, in words."""
    try:
        yield
    except SfumatoError:
        raise
    except FileExistsError:
        raise OutputError("has come into existence meanwhile; it was not replaced", where=target) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        known = os.strerror(error.errno) if error.errno else "the system gave no reason"
        why = "there is not enough room" if full else known
        raise OutputError(f"could not be written: {why}", next="Nothing was left behind.", where=target) from None


def publish_all(made: Sequence[Drafted], *, replace: bool) -> None:
    """Name every draft in order; when one cannot be named, take back those that are new, and give the others back what
    they replaced: half of one release beside half of another would belong to neither."""
    for draft in made:
        with as_output_error(draft.target):
            draft.settle()
    named: list[Drafted] = []
    before: dict[Path, Path] = {}
    try:
        for draft in made:
            with as_output_error(draft.target):
                if not draft.target.exists():
                    named.append(draft)
                elif isinstance(draft.target, Path) and draft.target.is_file():
                    before[draft.target] = _kept_aside(draft.target)
                draft.publish(replace=replace)
    except BaseException:
        for draft in named:
            draft.withdraw()
        for target, old in before.items():
            old.replace(target)
        raise
    finally:
        for old in before.values():
            old.unlink(missing_ok=True)


def _kept_aside(target: Path) -> Path:
    """The file under a hidden name, too."""
    old = _hidden_name(target)
    try:
        os.link(target, old)
    except OSError:  # a file system without links
        shutil.copy2(target, old)
    return old


def write_all(contents: Mapping[Path, bytes], *, replace: bool, private: bool = False) -> None:
    """Several files at once, all of them or none; private ones can be read by their owner alone."""
    with drafts((target, partial(FileDraft.beside, target)) for target in contents) as made:
        for draft, content in zip(made, contents.values(), strict=True):
            draft.fill(content, private=private)
        publish_all(made, replace=replace)
