"""Releasing: rows through a sealed mechanism into a table that may be given away. `session` has the steps in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.drawing.manifest import Manifest, manifest_path, read_manifest
    from sfumato.releasing.entrances import publish, release
    from sfumato.releasing.planning import Plan, plan
    from sfumato.releasing.session import Drawing, Release, Session
    from sfumato.releasing.wishes import Wishes

__all__ = [
    "Drawing", "Manifest", "Plan", "Release", "Session", "Wishes", "manifest_path", "plan", "publish", "read_manifest",
    "release",
]

on_demand(__name__, {
    "Drawing": ".session", "Manifest": "sfumato.drawing.manifest", "Plan": ".planning", "Release": ".session",
    "Session": ".session", "Wishes": ".wishes", "manifest_path": "sfumato.drawing.manifest", "plan": ".planning",
    "publish": ".entrances", "read_manifest": "sfumato.drawing.manifest", "release": ".entrances",
})
