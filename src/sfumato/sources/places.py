"""Places: where a table lies or goes, here or on any filesystem that Arrow can use, and what its suffix says of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from sfumato.errors import InputError
from sfumato.libraries import fsspec, pyarrow

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

Kind = Literal["file", "folder", "nothing"]
AGAIN = "Fetch it, or save it, once more."


@dataclass(frozen=True)
class Place:
    """A path on a filesystem other than this machine's own: an object store, or whatever Arrow or fsspec can reach.

    It has the few properties of `pathlib.Path` that sources and targets need.

    >>> from pyarrow.fs import LocalFileSystem
    >>> Place("bucket/people.csv", LocalFileSystem()).with_name("released.csv").path
    'bucket/released.csv'
    """

    path: str
    filesystem: FileSystem  # of pyarrow.fs, or of fsspec
    root: str = ""  # how messages begin: the scheme of the address, never its credentials

    def __post_init__(self) -> None:
        if not isinstance(self.filesystem, pyarrow.fs.FileSystem):
            object.__setattr__(self, "filesystem", pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(self.filesystem)))
        object.__setattr__(self, "path", self.path.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.root}{self.path}"

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.path).suffixes

    def with_name(self, name: str) -> Place:
        return Place(str(PurePosixPath(self.path).with_name(name)), self.filesystem, self.root)

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.path}/{name}", self.filesystem, self.root)

    def exists(self) -> bool:
        return kind_of(self) != "nothing"


Where = Path | Place


def located(where: str | os.PathLike[str] | Place) -> Where:
    """What a text says: a path of this machine, or an address such as s3://bucket/people.parquet.

    >>> located("file:///data/people%20of%20Delft.csv").name
    'people of Delft.csv'
    """
    if isinstance(where, Place):
        return where
    if not isinstance(where, str | os.PathLike):
        raise InputError(f"the path of a file was expected, got a {type(where).__name__}.")
    text = os.fspath(where)
    if "://" not in text:
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return _addressed(text, parts.scheme)


def _addressed(text: str, scheme: str) -> Place:
    """An address of another machine. Its user, password and options are never repeated in a message."""
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(text)
        return Place(path, filesystem, f"{scheme}://")
    except pa.ArrowInvalid:
        pass
    except OSError:
        raise InputError(f"the store behind this {scheme}:// address could not be reached",
                         next="Check the address, the network and your rights.") from None
    try:
        filesystem, path = fsspec.core.url_to_fs(text)
        return Place(path, filesystem, f"{scheme}://")
    except (ImportError, ValueError):
        raise InputError(
            f"Arrow cannot open addresses that begin with {scheme}:// (it knows file, s3, gs, abfs and hdfs)",
            next="Install fsspec with the package for it, or give sfumato.Place(path, filesystem).",
        ) from None


def kind_of(where: Where) -> Kind:
    """What is there now."""
    if isinstance(where, Path):
        return "folder" if where.is_dir() else "file" if where.exists() else "nothing"
    found, kinds = where.filesystem.get_file_info(where.path).type, pyarrow.fs.FileType
    return "folder" if found == kinds.Directory else "nothing" if found == kinds.NotFound else "file"


def size_of(where: Where) -> int:
    """Bytes of a file."""
    if isinstance(where, Path):
        return where.stat().st_size
    return int(where.filesystem.get_file_info(where.path).size or 0)


def whole_size(where: Where) -> int:
    """Bytes of a file, or of all files of a folder."""
    if kind_of(where) != "folder":
        return size_of(where)
    return sum(size_of(below(where, parts)) for parts in files_below(where))


def opened(where: Where) -> NativeFile:
    """The file, for reading at any position."""
    if isinstance(where, Path):
        return pa.OSFile(str(where), "rb")
    return where.filesystem.open_input_file(where.path)


def files_below(where: Where) -> list[tuple[str, ...]]:
    """Files of a folder and its folders, as parts of their paths below it, in order; hidden ones are passed over."""
    if isinstance(where, Path):
        found = [p.relative_to(where).parts for p in where.rglob("*") if p.is_file()]
    else:
        base = PurePosixPath(where.path)
        listed = where.filesystem.get_file_info(pyarrow.fs.FileSelector(where.path, recursive=True))
        found = [PurePosixPath(i.path).relative_to(base).parts for i in listed if i.type == pyarrow.fs.FileType.File]
    return sorted(parts for parts in found if not any(p.startswith((".", "_")) and "=" not in p for p in parts))


def below(where: Where, parts: tuple[str, ...]) -> Where:
    """The file or folder with these parts below a folder."""
    for part in parts:
        where = where / part
    return where


PACKINGS = {"": None, ".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}  # suffix → Arrow's name


def text_forms(marks: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """(delimiter, packing) of text by its suffix, packed or not."""
    packed = PACKINGS.items()
    return {f"{kind}{suffix}": (mark, packing) for kind, mark in marks.items() for suffix, packing in packed}


TEXT_FORMS = text_forms({".csv": ",", ".tsv": "\t"})  # those that are written


def suffix_of(path: Where) -> str:
    """The suffix that says the format: '.csv', '.csv.gz', '.parquet', …

    >>> from pathlib import Path
    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    parts = [s.lower() for s in path.suffixes]
    packed = parts[-1:] and parts[-1] in PACKINGS
    return "".join(parts[-2:]) if packed else "".join(parts[-1:])
