"""Releasing: rows through a sealed mechanism into a table that may be given away."""

from sfumato.releasing.engine import Release, release
from sfumato.releasing.manifest import Manifest, manifest_path, read_manifest

__all__ = ["Manifest", "Release", "manifest_path", "read_manifest", "release"]
