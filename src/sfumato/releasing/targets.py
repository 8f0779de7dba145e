"""Targets: where a release goes. Files, folders and objects in a store are drafted, then named when all is done."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sfumato.atomic import FileDraft, as_output_error, check_target
from sfumato.errors import OutputError, option
from sfumato.sources.places import Place, Where, below, files_below, kind_of, size_of

if TYPE_CHECKING:
    from pyarrow import NativeFile


class Drafted(Protocol):
    """Something being written that nobody can mistake for the target until it is published."""

    @property
    def target(self) -> Where:
        """What it will be."""

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
class FolderDraft:
    """A folder being written under a hidden name beside its target, and renamed: it appears whole.

    A folder cannot be nameless, so after kill -9 the hidden one may stay; it holds released rows alone.
    """

    target: Path
    hidden: Path
    published: bool = False

    @classmethod
    def beside(cls, target: Path) -> FolderDraft:
        hidden = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
        hidden.mkdir()
        return cls(target, hidden)

    @property
    def size(self) -> int:
        return sum(size_of(below(self.hidden, parts)) for parts in files_below(self.hidden))

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
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)

    def withdraw(self) -> None:
        if self.published:
            shutil.rmtree(self.target, ignore_errors=True)

    def drop(self) -> None:
        if not self.published:
            shutil.rmtree(self.hidden, ignore_errors=True)


@dataclass(slots=True)
class StoreDraft:
    """Files being written in a store under a hidden name, and moved one by one.

    A single object appears whole. A folder in a store is a set of objects: they appear one after the other.
    """

    target: Place
    folder: bool = False
    names: list[str] = field(default_factory=list)
    moved: list[Place] = field(default_factory=list)
    streams: list[NativeFile] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def hidden(self) -> Place:
        return self.target.with_name(f".{self.target.name}.{self.token}.part")

    def _draft(self, name: str) -> Place:
        return self.hidden / name if name else self.hidden

    @property
    def size(self) -> int:
        return sum(size_of(self._draft(name)) for name in self.names)

    def open(self, name: str) -> NativeFile:
        place = self._draft(name)
        if name:
            place.filesystem.create_dir(place.path.rpartition("/")[0], recursive=True)
        stream = place.filesystem.open_output_stream(place.path)
        self.names.append(name)
        self.streams.append(stream)
        return stream

    def fill(self, content: bytes, *, private: bool = False) -> None:
        with as_output_error(self.target), self.open("") as stream:
            stream.write(content)

    def settle(self) -> None:
        """A closed stream is what a store calls settled."""

    def publish(self, *, replace: bool) -> None:
        if not replace and self.target.exists():
            raise FileExistsError(str(self.target))
        if replace and self.folder and self.target.exists():
            self.target.filesystem.delete_dir(self.target.path)
        for name in self.names:
            place = self.target / name if name else self.target
            if name:
                place.filesystem.create_dir(place.path.rpartition("/")[0], recursive=True)
            place.filesystem.move(self._draft(name).path, place.path)
            self.moved.append(place)

    def withdraw(self) -> None:
        for place in self.moved:
            with contextlib.suppress(OSError):
                place.filesystem.delete_file(place.path)

    def drop(self) -> None:
        """Close what is open (a store cannot abort an upload through Arrow) and delete it."""
        for stream in self.streams:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        for name in self.names:
            with contextlib.suppress(OSError):
                self.target.filesystem.delete_file(self._draft(name).path)
        if self.folder:
            with contextlib.suppress(OSError):
                self.hidden.filesystem.delete_dir(self.hidden.path)


def drafted(target: Where, *, folder: bool = False) -> Drafted:
    """The draft of a target."""
    if isinstance(target, Place):
        return StoreDraft(target, folder)
    return FolderDraft.beside(target) if folder else FileDraft.beside(target)


@contextlib.contextmanager
def all_drafted(targets: Sequence[Where], *, folder: Where | None = None) -> Iterator[list[Drafted]]:
    """Drafts for several targets, one of which may be a folder; whatever goes wrong, none is left behind."""
    made: list[Drafted] = []
    try:
        for target in targets:
            with as_output_error(target):
                made.append(drafted(target, folder=target is folder))
        yield made
    finally:
        for draft in made:
            draft.drop()


def check_place(target: Where, source: Where | None, *, force: bool, folder: bool = False) -> None:
    """Refuse to write over or into the input ever, over something else without force, or into a missing folder."""
    _check_apart(target, source)
    if isinstance(target, Path) and not folder:
        check_target(target, source if isinstance(source, Path) else None, force=force)
        return
    found = kind_of(target)
    if found == "nothing":
        if isinstance(target, Path) and not target.parent.is_dir():
            raise OutputError(f"the folder {target.parent} does not exist", next="Create it first.")
        return
    if folder != (found == "folder"):
        raise OutputError(f"is a {found}", next="Give another name.", where=target)
    if folder and isinstance(target, Path) and not any(target.iterdir()):
        return
    if not force:
        replacing = option("--force", "force=True")
        raise OutputError("exists", next=f"Choose another name, or replace it with {replacing}.", where=target)
    if folder:
        _check_replaceable(target)


def _check_apart(target: Where, source: Where | None) -> None:
    """Neither may be the other, nor lie in it: a folder that is replaced would take the input with it."""
    if source is None or isinstance(target, Path) != isinstance(source, Path):
        return
    if isinstance(target, Path) and isinstance(source, Path):
        ends = [str(p.resolve()) for p in (target, source)]
    else:
        assert isinstance(target, Place) and isinstance(source, Place)
        if target.filesystem != source.filesystem:
            return
        ends = [target.path, source.path]
    out, given = ends
    if out == given or given.startswith(f"{out}/"):
        raise OutputError(
            "is the input", next="Choose another name for the output; nothing was released.", where=target
        )
    if out.startswith(f"{given}/"):
        raise OutputError(
            f"lies in the input folder {source}", next="Choose a place outside; nothing was released.", where=target
        )


def _check_replaceable(target: Where) -> None:
    """A folder is replaced only if it holds Parquet files and nothing else."""
    odd = [parts for parts in files_below(target) if not parts[-1].lower().endswith(".parquet")]
    if odd:
        raise OutputError(
            f"holds other files than Parquet ones, such as {'/'.join(odd[0])}: it is not replaced",
            next="Remove it yourself, or choose another name.", where=target,
        )
