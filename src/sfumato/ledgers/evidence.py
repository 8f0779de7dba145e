"""Evidence: what lies on the disk of a release that did not say how it ended."""

from __future__ import annotations

import enum
import os
from typing import Any

from sfumato.drawing.manifest import manifest_path, read_manifest
from sfumato.errors import SfumatoError
from sfumato.ledgers.entry import Entry
from sfumato.sources import Place, located
from sfumato.sources.places import whole_size


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
    try:
        table = located(entry.target)
        manifest = read_manifest(manifest_path(table))
        whole = table.exists() and manifest.size in (None, whole_size(table))
    except (SfumatoError, OSError):
        return Evidence.UNKNOWN
    return Evidence.DELIVERED if manifest.entry == entry.token and whole else Evidence.UNKNOWN


def named(target: Any) -> str | None:
    """How the ledger writes down where a release goes: a whole path, or the address in a store."""
    if target is None:
        return None
    where = located(target)
    return str(where) if isinstance(where, Place) else os.path.abspath(where)
