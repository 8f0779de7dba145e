"""Evidence: what lies on the disk of a release that did not say how it ended."""

from __future__ import annotations

import enum
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.ledgers.entry import Entry
from sfumato.releasing.manifest import manifest_path, read_manifest


class Evidence(enum.Enum):
    """What can be told."""

    NEVER = "it was stopped before its files could get their names"
    DELIVERED = "the table and the manifest of this release are there"
    UNKNOWN = "everything was written, but the table and its manifest are not there (not named in time, or moved away)"
    MEMORY = "everything was drawn for a program, which may have received it"


def evidence(entry: Entry) -> Evidence:
    """A release commits that it is ready before the first file gets its name, and the table gets its name last; its
    manifest bears the entry's random token. So nothing of one that was not ready is there, and a table beside the
    manifest with the token, of the size that the manifest says, is the release."""
    if not entry.ready:
        return Evidence.NEVER
    if entry.target is None:
        return Evidence.MEMORY
    table = Path(entry.target)
    try:
        manifest = read_manifest(manifest_path(table))
    except SfumatoError:
        return Evidence.UNKNOWN
    whole = table.is_dir() or (table.is_file() and manifest.size in (None, table.stat().st_size))
    return Evidence.DELIVERED if manifest.entry == entry.token and whole else Evidence.UNKNOWN
