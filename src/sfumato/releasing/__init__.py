"""Releasing: rows through a sealed mechanism into a table that may be given away. `session` has the steps in order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.drawing.manifest import Manifest, manifest_path, read_manifest
    from sfumato.releasing.entrances import publish, release
    from sfumato.releasing.planning import Plan, plan
    from sfumato.releasing.session import Drawing, Release, Session
    from sfumato.releasing.wishes import Wishes

_HOME = {
    "Manifest": "drawing.manifest", "manifest_path": "drawing.manifest", "read_manifest": "drawing.manifest",
    "publish": "releasing.entrances", "release": "releasing.entrances", "Plan": "releasing.planning",
    "plan": "releasing.planning", "Drawing": "releasing.session", "Release": "releasing.session",
    "Session": "releasing.session", "Wishes": "releasing.wishes",
}
# Loaded on first use: the workers of a cluster import a module of this package, and need none of the designers.

__all__ = [
    "Drawing", "Manifest", "Plan", "Release", "Session", "Wishes", "manifest_path", "plan", "publish", "read_manifest",
    "release",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sfumato.releasing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sfumato.{_HOME[name]}"), name)
