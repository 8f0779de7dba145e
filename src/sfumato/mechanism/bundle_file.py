"""The file of a bundle: one JSON document with every part as in a mechanism file, the turns and the promise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from sfumato.errors import FileFormatError, SfumatoError
from sfumato.mechanism.bundle import Bundle, Promise
from sfumato.mechanism.file import FORMAT as PART_FORMAT
from sfumato.mechanism.file import VERSIONS as PART_VERSIONS
from sfumato.mechanism.file import (
    ColumnRecord,
    MechanismRecord,
    _alphabet,
    _columns,
    _Head,
    checksum,
    mechanism_of,
)
from sfumato.mechanism.file import record_of as part_record
from sfumato.mechanism.mechanism import Mechanism

if TYPE_CHECKING:
    from sfumato.sources.places import Place

FORMAT, VERSION = "sfumato/bundle", 1


class PromiseRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ε in nats about the secret, for all answers of a row together, and what it assumes."""

    epsilon: float
    assuming: str


class BundleRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Mechanisms for one row, under one promise about the secret."""

    format: str
    version: int
    secret: list[ColumnRecord]
    parts: list[MechanismRecord]
    turns: list[int] | None = None  # weights of the parts, 2^62 in all; null: every row answers all parts
    promise: PromiseRecord | None = None
    source: str = "unstated"
    checksum: str = ""


def record_of(bundle: Bundle) -> BundleRecord:
    """The file's content."""
    promise = None if bundle.claim is None else PromiseRecord(bundle.claim.epsilon, bundle.claim.assuming)
    record = BundleRecord(
        FORMAT, VERSION, _columns(bundle.secret), [part_record(part) for part in bundle.parts],
        None if bundle.turns is None else list(bundle.turns), promise, bundle.source,
    )
    return msgspec.structs.replace(record, checksum=checksum(record))


def any_record(made: Mechanism | Bundle) -> MechanismRecord | BundleRecord:
    """The content of the file of a mechanism, or of a bundle."""
    return record_of(made) if isinstance(made, Bundle) else part_record(made)


def made_of(data: bytes) -> Mechanism | Bundle:
    """A mechanism or a bundle from bytes that this library wrote itself."""
    if msgspec.json.decode(data, type=_Head).format == FORMAT:
        return bundle_of(msgspec.json.decode(data, type=BundleRecord))
    return mechanism_of(msgspec.json.decode(data, type=MechanismRecord))


def bundle_of(record: BundleRecord) -> Bundle:
    """The bundle that a file's content describes; every part is checked again on the way in."""
    for part in record.parts:
        if part.format != PART_FORMAT or part.version not in PART_VERSIONS or part.checksum != checksum(part):
            raise FileFormatError("a part of the bundle is of another version or was changed after it was written.")
    promise = None if record.promise is None else Promise(record.promise.epsilon, record.promise.assuming)
    turns = None if record.turns is None else tuple(record.turns)
    return Bundle(tuple(map(mechanism_of, record.parts)), _alphabet(record.secret), turns, promise, record.source)


def decoded(data: bytes, path: str | os.PathLike[str] | Place) -> Bundle:
    """The bundle in the bytes of a file, after format, checksums and weights were checked."""
    where = str(path)
    try:
        record = msgspec.json.decode(data, type=BundleRecord)
    except msgspec.DecodeError as error:
        raise FileFormatError(f"is not a bundle file: {error}", where=where) from None
    if record.version != VERSION:
        raise FileFormatError(
            f"has format {record.format!r} version {record.version}; this version of sfumato reads version {VERSION}",
            where=where,
        )
    if record.checksum != checksum(record):
        raise FileFormatError(
            "was changed after it was written: the checksum does not match",
            next="Ask its author for the original; do not release with this one.", where=where,
        )
    try:
        return bundle_of(record)
    except FileFormatError as error:
        raise FileFormatError(f"{where}: {error}") from None
    except (SfumatoError, ValueError, OverflowError) as error:
        raise FileFormatError(f"does not describe a bundle: {error}", where=where) from None
