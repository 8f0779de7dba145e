"""The mechanism file: one JSON document with alphabets, weights, claim, design distribution and a checksum."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sfumato import sources
from sfumato.atomic import check_target, write_all
from sfumato.errors import FileFormatError, InputError, SfumatoError
from sfumato.joint import Joint
from sfumato.mechanism import file_records as records
from sfumato.mechanism.mechanism import Mechanism
from sfumato_kernel import admitted, documents

if TYPE_CHECKING:
    from sfumato.alphabet import Alphabet
    from sfumato.mechanism import Bundle
    from sfumato.sources.places import Place

Record = TypeVar("Record", bound=msgspec.Struct)
Made = TypeVar("Made")
MANIFEST = "sfumato/manifest"
FORMAT, VERSIONS = "sfumato/mechanism", (1, 2)  # a file that says nothing new is written as the older version


class MechanismRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A sealed mechanism and its promise."""

    format: str
    version: int
    method: str
    reads: str
    secret: list[records.ColumnRecord]
    useful: list[records.ColumnRecord]
    law: records.LawRecord
    claim: records.ClaimRecord | None = None
    design: records.DesignRecord | None = None
    answers: records.ColumnRecord | None = None
    checksum: str = ""


def checksum(record: msgspec.Struct) -> str:
    """SHA-256 over the document with an empty checksum, keys in file order."""
    bare = msgspec.structs.replace(record, checksum="")
    return "sha256:" + hashlib.sha256(msgspec.json.encode(bare)).hexdigest()


def sealed(record: Record) -> Record:
    return msgspec.structs.replace(record, checksum=checksum(record))


def record_of(mechanism: Mechanism) -> MechanismRecord:
    """The file's content for a sealed mechanism."""
    if not mechanism.sealed:
        raise InputError(
            "only a sealed mechanism can be saved: its weights must be integers", next="Call sf.seal first."
        )
    claim, joint = mechanism.claim, mechanism.joint
    if joint is None and claim is not None and claim.within is not None:
        joint = claim.within.joint
    design = None
    if joint is not None:
        counted = joint.counts is not None
        design = records.DesignRecord(
            mechanism.source, joint.counts.tolist() if joint.counts is not None else None,
            None if counted else joint.p.tolist(), joint.n, joint.fingerprint, records.noise_record(mechanism.noise),
        )
    return sealed(MechanismRecord(
        FORMAT, VERSIONS[0 if design is None or design.noise is None else 1], mechanism.method, mechanism.reads,
        records.column_records(mechanism.secret), records.column_records(mechanism.useful),
        records.law_record(mechanism.law),
        None if claim is None else records.claim_record(claim),
        design, None if mechanism.answers is None else records.column_record(mechanism.answers),
    ))


def mechanism_of(record: MechanismRecord) -> Mechanism:
    """The mechanism a file's content describes; every part is checked again on the way in."""
    if record.version == VERSIONS[0] and record.design is not None and record.design.noise is not None:
        raise FileFormatError("a file of version 1 knows no noise of design counts.")
    secret, useful = records.alphabet_of(record.secret), records.alphabet_of(record.useful)
    rows, sizes = secret.size if record.reads == "both" else 1, tuple(c.size for c in useful.columns)
    law = records.law_of(record.law, rows, sizes)
    d, joint = record.design, None
    if d is not None and d.counts is not None:
        joint = _counts(d.counts, secret, useful, d.noise)
    elif d is not None and d.probabilities is not None:
        joint = Joint.from_probabilities(d.probabilities, secret, useful, d.n, records.noise_of(d.noise, False))
    claim = None if record.claim is None else records.claim_of(record.claim, joint)
    source = "unstated" if d is None else d.source
    answers = None if record.answers is None else records.column_of(record.answers)
    return Mechanism(law, secret, useful, record.reads, record.method, claim, joint, source, answers)


def save(mechanism: Mechanism, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write the mechanism file; an existing file is only replaced with force=True, and never half."""
    return save_record(mechanism.record, path, force=force)


def save_record(record: msgspec.Struct, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a document that the kernel admits."""
    text = encoded(record)
    try:
        admitted(text)
    except documents.Malformed as error:
        raise InputError(f"this mechanism cannot be saved, for no verifier would read it: {error}.") from None
    except documents.Refused:
        pass  # it can be read, whether or not its claim holds
    return _written(text, path, force)


def _written(text: bytes, path: str | os.PathLike[str], force: bool) -> Path:
    target = Path(path)
    check_target(target, None, force=force)
    write_all({target: text}, replace=force)
    return target


def encoded(record: msgspec.Struct) -> bytes:
    """A document as it stands in a file."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


class Head(msgspec.Struct):
    format: str
    version: int = 0


def load(path: str | os.PathLike[str] | Place) -> Mechanism | Bundle:
    """The mechanism (or the bundle of mechanisms) in a file, after its format, checksum and weights were checked."""
    try:
        data = _content(path)
    except OSError as error:
        raise InputError(f"the mechanism file {path} could not be read: {error.strerror}.") from None
    kind = _kind_of(data, path)
    from sfumato.mechanism import bundle

    made = bundle.decoded(data, path) if kind == bundle.FORMAT else decoded(
        data, path, MechanismRecord, FORMAT, VERSIONS, mechanism_of)
    with _as_format_error(path):
        admitted(data)
    return made


def _kind_of(data: bytes, path: str | os.PathLike[str] | Place) -> str:
    """The format that a file says it has, if it can be that of a mechanism or a bundle."""
    if not data.lstrip().startswith(b"{"):
        raise FileFormatError(
            "is not a mechanism file", next="That of a release lies beside its table, as NAME.mechanism.json.",
            where=path,
        )
    with _as_format_error(path):
        documents.parsed(data)  # within the limits of size, depth and digits
    try:
        kind = msgspec.json.decode(data, type=Head).format
    except msgspec.DecodeError:
        return FORMAT  # what is wrong with it is said by the reader of mechanisms
    if kind == MANIFEST:
        beside = re.sub(r"\.manifest\.json$", ".mechanism.json", str(path))
        raise FileFormatError(
            "is the manifest of a release and promises nothing: the mechanism that drew the rows does",
            next=f"It lies beside them{f' as {beside}' if beside != str(path) else ''}.", where=path,
        )
    return kind


@contextmanager
def _as_format_error(path: str | os.PathLike[str] | Place) -> Iterator[None]:
    """What the kernel does not take for a mechanism is none; a claim that does not hold may be looked at."""
    try:
        yield
    except documents.Malformed as error:
        raise FileFormatError(f"is not a mechanism file: {error}", where=path) from None
    except documents.Refused:
        pass


def known(mechanism: object) -> Mechanism | Bundle:
    """A mechanism or bundle, from itself, from a design that has one, or from the path of its file."""
    if isinstance(mechanism, (str, os.PathLike)):
        return load(mechanism)
    from sfumato.mechanism.bundle import Bundle

    found = getattr(mechanism, "mechanism", getattr(mechanism, "bundle", mechanism))
    if not isinstance(found, (Mechanism, Bundle)):
        raise InputError(
            f"a mechanism was expected, or the path of its file, got a {type(mechanism).__name__}",
            next="The table comes first, then the mechanism.",
        )
    return found


def load_mechanism(path: str | os.PathLike[str] | Place) -> Mechanism:
    """The mechanism in a file; a bundle is refused."""
    found = load(path)
    if not isinstance(found, Mechanism):
        raise InputError(f"is a bundle of {len(found.parts)} mechanisms; this is for a single mechanism", where=path)
    return found


def _content(path: str | os.PathLike[str] | Place) -> bytes:
    """The bytes of a file; only one that lies in a store needs Arrow."""
    if isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path):
        return Path(path).read_bytes()

    with sources.opened(sources.located(path)) as file:
        return bytes(file.read())


def decoded(
    data: bytes, path: str | os.PathLike[str] | Place, kind: type[Record], form: str, versions: Sequence[int],
    made: Callable[[Record], Made],
) -> Made:
    """What the bytes of a file describe, after format, checksums and weights were checked.

    Checksums are those of the bytes, as the kernel takes them: 1 for 1.0 is the same number, if whoever wrote it so has
    sealed it so. What is known of the content by its own checksum (`record_of`) does not depend on the spelling.
    """
    what = form.removeprefix("sfumato/").replace("counts", "counts table")
    record = _checked_record(data, path, kind, form, versions, what)
    try:
        return made(record)
    except FileFormatError:
        raise
    except (SfumatoError, ValueError, OverflowError) as error:
        raise FileFormatError(f"does not describe a {what}: {error}", where=path) from None


def _checked_record(
    data: bytes, path: str | os.PathLike[str] | Place, kind: type[Record], form: str, versions: Sequence[int], what: str
) -> Record:
    """The record that the bytes spell, in this format and as it was sealed."""
    try:
        head, record = msgspec.json.decode(data, type=Head), msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise FileFormatError(f"is not a {what} file: {error}", where=path) from None
    if head.format != form or head.version not in versions:
        raise FileFormatError(
            f"has format {head.format!r} version {head.version}; this version of sfumato reads {form!r} "
            f"versions {versions[0]} to {versions[-1]}", where=path,
        )
    if not documents.sealed(data, what == "bundle"):
        raise FileFormatError(
            "was changed after it was written: the checksum does not match",
            next="Ask its author for the original; do not release with this one.", where=path,
        )
    return record


# --- what was drawn of a table, labels and noisy counts: kept, because another draw would cost once more --------------


COUNTS_FORMAT, COUNTS_VERSION = "sfumato/counts", 1


class CountsRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Noisy counts with their labels and what they cost."""

    format: str
    version: int
    secret: list[records.ColumnRecord]
    useful: list[records.ColumnRecord]
    counts: list[list[int]] | None  # None: only labels and edges were paid for
    noise: records.NoiseRecord
    checksum: str = ""


def save_counts(joint: Joint, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write noisy counts, to be used again by every design for this table; they may be shown to anybody."""
    if joint.noise is None or (joint.counts is None) != (joint.noise.counts == 0):
        raise InputError("only noisy counts are kept in such a file; exact ones stay with the table.")
    noise = records.noise_record(replace(joint.noise, coverage=None))
    assert noise is not None
    record = CountsRecord(
        COUNTS_FORMAT, COUNTS_VERSION, records.column_records(joint.secret), records.column_records(joint.useful),
        None if joint.counts is None else joint.counts.tolist(), noise,
    )
    return _written(encoded(sealed(record)), path, force)


def load_counts(path: str | os.PathLike[str]) -> Joint:
    """The noisy counts in a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"the noisy counts {path} could not be read: {error.strerror}.") from None
    return decoded(data, path, CountsRecord, COUNTS_FORMAT, (COUNTS_VERSION,), counts_of)


def counts_of(record: CountsRecord) -> Joint:
    """The table of a file's content."""
    secret, useful = records.alphabet_of(record.secret), records.alphabet_of(record.useful)
    if record.counts is None:
        return Joint.uniform(secret, useful, records.noise_of(record.noise, False))
    return _counts(record.counts, secret, useful, record.noise)


def _counts(counts: list[list[int]], secret: Alphabet, useful: Alphabet, noise: records.NoiseRecord | None) -> Joint:
    return Joint.from_counts(counts, secret, useful, noise=records.noise_of(noise, True))
