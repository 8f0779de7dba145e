"""The file of what was drawn of a table, labels and noisy counts: kept, because another draw would cost once more."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec

from sfumato.atomic import check_target, write_all
from sfumato.errors import FileFormatError, InputError, SfumatoError
from sfumato.joint import Joint
from sfumato.mechanism.file import ColumnRecord, NoiseRecord, _alphabet, _columns, _noise, _noise_record, checksum

FORMAT, VERSION = "sfumato/counts", 1


class CountsRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Noisy counts with their labels and what they cost."""

    format: str
    version: int
    secret: list[ColumnRecord]
    useful: list[ColumnRecord]
    counts: list[list[int]] | None  # None: only labels and edges were paid for
    noise: NoiseRecord
    checksum: str = ""


def save_counts(joint: Joint, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write noisy counts, to be used again by every design for this table; they may be shown to anybody."""
    if joint.noise is None or (joint.counts is None) != (joint.noise.counts == 0):
        raise InputError("only noisy counts are kept in such a file; exact ones stay with the table.")
    noise = _noise_record(replace(joint.noise, coverage=None))
    assert noise is not None
    record = CountsRecord(
        FORMAT, VERSION, _columns(joint.secret), _columns(joint.useful),
        None if joint.counts is None else joint.counts.tolist(), noise,
    )
    record = msgspec.structs.replace(record, checksum=checksum(record))
    target = Path(path)
    check_target(target, None, force=force)
    write_all({target: msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"}, replace=force)
    return target


def load_counts(path: str | os.PathLike[str]) -> Joint:
    """The noisy counts in a file."""
    return counts_of(read_counts(path), path)


def read_counts(path: str | os.PathLike[str]) -> CountsRecord:
    try:
        record = msgspec.json.decode(Path(path).read_bytes(), type=CountsRecord)
    except OSError as error:
        raise InputError(f"the noisy counts {path} could not be read: {error.strerror}.") from None
    except msgspec.DecodeError as error:
        raise FileFormatError(f"is not a file of noisy counts: {error}", where=path) from None
    if record.format != FORMAT or record.version != VERSION or record.checksum != checksum(record):
        raise FileFormatError("is of another version, or was changed after it was written", where=path)
    return record


def counts_of(record: CountsRecord, path: str | os.PathLike[str]) -> Joint:
    try:
        secret, useful = _alphabet(record.secret), _alphabet(record.useful)
        joint = Joint.uniform(secret, useful) if record.counts is None else Joint.from_counts(
            record.counts, secret, useful)
        return replace(joint, noise=_noise(record.noise, record.counts is not None))
    except FileFormatError:
        raise
    except (SfumatoError, ValueError, OverflowError) as error:
        raise FileFormatError(f"does not describe noisy counts: {error}", where=path) from None
