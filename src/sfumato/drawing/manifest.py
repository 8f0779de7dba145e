"""The manifest: what a released table is, beside the table, with nothing of its rows."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import msgspec

from sfumato import __version__
from sfumato.certification.promises import notes_of
from sfumato.errors import FileFormatError, InputError, option
from sfumato.mechanism.bundle import Bundle
from sfumato.mechanism.file import load
from sfumato.mechanism.mechanism import Mechanism
from sfumato.sources.places import PACKINGS, Place, Where, located, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT, VERSION = "sfumato/manifest", 1
METADATA_KEY = b"sfumato.manifest"  # under which Arrow tables and frames carry theirs
DECODES = {  # how outputs are written
    "symbols": "as the mechanism gave them",
    "likely": "turned back into the likeliest original values",
    "sample": "turned back into original values drawn from the posterior, which echoes the design distribution",
}
DOCUMENTS = (".mechanism.json", ".manifest.json", ".report.html")  # beside a table, which hold no rows
SPARK_KEY = "sfumato"  # under which the columns of a Spark frame tell how they came about


class OutputColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the released table and its role: 'secret', 'useful', 'symbol', 'bits', 'part', 'answer', 'guess' or
    'kept'."""

    name: str
    role: str


class Imprint(NamedTuple):
    """Who published a table, and with which command: what a reader wants to know and a program does not."""

    publisher: str | None = None
    command: str | None = None


NO_IMPRINT = Imprint()


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was released, with which mechanism, and how to read it."""

    format: str
    version: int
    sfumato: str
    date: str
    rows: int | None  # None when it was written before the rows had passed
    columns: list[OutputColumn]
    decode: str  # 'symbols', 'likely' or 'sample'
    meaning: str  # what an output of the mechanism is: 'cell', 'useful', 'subset' or 'symbol'; 'bundle' for several
    method: str
    mechanism: str  # the checksum of the mechanism file
    claim: str | None
    engine: str
    randomness: str  # 'system', or 'seeded: not for release'
    design_data: str = "unstated"
    notes: list[str] = []
    packages: dict[str, str] = {}
    size: int | None = None  # bytes of the released file: one of another size is not the one described
    entry: str | None = None  # the random name of this release in its publisher's ledger
    publisher: str | None = None  # who answers for it, in their own words
    command: str | None = None  # how it was made, with names of files and without folders

def manifest_of(
    mechanism: Mechanism | Bundle, checksum: str, *, rows: int | None, columns: list[OutputColumn], decode: str,
    engine: str, randomness: str, size: int | None = None, entry: str | None = None, imprint: Imprint = NO_IMPRINT,
) -> Manifest:
    """The manifest of a release, with a mechanism or a bundle."""
    from importlib.metadata import version as package_version

    meaning = "bundle" if isinstance(mechanism, Bundle) else mechanism.law.meaning
    notes = [_SAMPLE_NOTE] if decode == "sample" else []
    kept = [c.name for c in columns if c.role == "kept"]
    if kept:
        notes.append(f"Columns passed through without any protection: {', '.join(kept)}.")
    notes += notes_of(mechanism)
    guesses = [c.name for c in columns if c.role == "guess"]
    if guesses:
        notes.append(f"The likeliest value by the design distribution, for reading only: {', '.join(guesses)}.")
    return Manifest(
        FORMAT, VERSION, __version__, datetime.date.today().isoformat(), rows, columns, decode,
        meaning, mechanism.method, checksum,
        None if mechanism.claim is None else mechanism.claim.sentence, engine, randomness, mechanism.source,
        notes, {name: package_version(name) for name in ("numpy", "pyarrow", "cryptography")}, size, entry,
        *imprint,
    )


_SAMPLE_NOTE = (
    "Values were drawn from the posterior under the design distribution: their marginals are right when the "
    "rows follow that distribution, and echo it when they do not."
)


@overload
def manifest_path(table: str | os.PathLike[str]) -> Path: ...


@overload
def manifest_path(table: Place) -> Place: ...


def manifest_path(table: str | os.PathLike[str] | Place) -> Where:
    """Where the manifest of a table lies, a path like that of the table: released.csv.gz → released.manifest.json.

    >>> manifest_path("out/released.csv.gz").name
    'released.manifest.json'
    """
    return file_beside(located(table), "manifest.json")


def mechanism_beside(table: Where) -> Where:
    """Where a release puts the mechanism file: released.csv → released.mechanism.json."""
    return file_beside(table, "mechanism.json")


def mechanism_of(released: Where, mechanism: str | os.PathLike[str] | Place | None = None) -> Mechanism | Bundle:
    """What a table was released with: the mechanism in the file named, or in the one beside it."""
    if released.name.endswith(DOCUMENTS):
        raise InputError("is a file beside a released table", next="Give the table itself.", where=released)
    if mechanism is not None:
        return load(mechanism)
    if isinstance(released, Path) and not released.exists():
        raise InputError("could not be read: No such file or directory", where=released)
    beside = mechanism_beside(released)
    if not beside.exists():
        raise InputError(f"there is no mechanism file beside {released} ({beside})",
                         next=f"Name it with {option('--mechanism', 'mechanism=')}.")
    return load(beside)


def file_beside(table: Where, kind: str) -> Where:
    """Where a release puts a file of some kind: beside the table, under its name without what says its format."""
    stem = table.name
    for suffix in (*filter(None, PACKINGS), ".csv", ".tsv", ".parquet"):
        stem = stem[: -len(suffix)] if stem.lower().endswith(suffix) else stem
    return table.with_name(f"{stem}.{kind}")


def read_manifest(path: str | os.PathLike[str] | Place) -> Manifest:
    """The manifest in a file."""
    where: Where = located(path)
    try:
        with opened(where) as file:
            data = bytes(file.read())
    except OSError as error:
        known = os.strerror(error.errno) if error.errno else "the store gave no reason"
        raise InputError(f"the manifest {where} could not be read: {known}.") from None
    return decoded_manifest(data, str(where))


def decoded_manifest(data: bytes, where: str) -> Manifest:
    try:
        manifest: Manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise FileFormatError(f"is not a manifest: {error}", where=where) from None
    if manifest.format != FORMAT or manifest.version != VERSION:
        raise FileFormatError(
            f"has format {manifest.format!r} version {manifest.version}; this version of sfumato reads {FORMAT!r} "
            f"version {VERSION}", where=where,
        )
    return manifest


class Told(NamedTuple):
    """What the columns of a released Spark frame say about themselves."""

    mechanism: str  # the checksum of the mechanism file
    decode: str
    randomness: str


def told_by(frame: DataFrame) -> Told | None:
    """What a Spark frame's columns tell, if they were released and nobody dropped it."""
    said = [field.metadata[SPARK_KEY] for field in frame.schema.fields if SPARK_KEY in (field.metadata or {})]
    return Told(**said[0]) if said else None
