"""Releasing: rows through a sealed mechanism into a table that may be given away. `session` has the steps in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.drawing.manifest import Manifest, manifest_path, read_manifest
    from sfumato.releasing.entrances import publish, release
    from sfumato.releasing.files import Files, synthesised
    from sfumato.releasing.flow import Account, DrawOptions
    from sfumato.releasing.planning import Plan, joint_of, plan, planned
    from sfumato.releasing.session import Drawing, Order, Release, Session
    from sfumato.releasing.spark import cluster_release
    from sfumato.releasing.wishes import EVERY, Wishes, completed, usual_cap

__all__ = on_demand(__name__)
